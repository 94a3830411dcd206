//===- Watchdog.cpp - Ends the whole job when one rank fails --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Watchdog.h"
#include "comm/Bell.h"
#include "comm/Heartbeat.h"
#include "comm/Host.h"
#include "comm/Launcher.h"
#include "support/CommandName.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static constexpr auto SendInterval = std::chrono::milliseconds(200);
static constexpr int PollMilliseconds = 100;
/// How long rank 0 waits for connections of ranks that are all there, and how
/// long a rank tries one address.
static constexpr auto MeetSeconds = std::chrono::seconds(6);
static constexpr double ConnectSeconds = 2;
/// How long a rank retries all addresses if strangers occupy the port.
static constexpr auto RetrySeconds = std::chrono::seconds(4);
/// Callers that rank 0 does not know yet, beside the ranks it waits for.
static constexpr size_t MostStrangers = 64;
/// A thread that was away for longer was stopped, with its process.
static constexpr double AwaySeconds = 1;
/// How long a failure of communication waits for its cause: another rank's end,
/// or a report of this rank's own thread.
static constexpr double CauseSeconds = 1;
/// Predicted time of the transport's end; a rank that lives may take a multiple
/// of it (WatchdogOptions::StallFactor).
static constexpr double EndSeconds = 12;

/// A time span for output.
static std::string format(double Seconds) {
  char Text[32];
  std::snprintf(Text, sizeof Text, "%.1f s", Seconds);
  return Text;
}

struct Watchdog::Impl {
  /// The watchdog at the other end of a link.
  struct Peer {
    HeartbeatLink Link{-1};
    Heartbeat Last;
    Clock::time_point Seen;
    bool Left = false; // has said goodbye
    bool isGone() const { return Left && !Link.isOpen(); }
  };

  Impl(CommStream &Stream, const std::string &DeviceType,
       const WatchdogOptions &O);

  void start();
  bool adopt();
  bool isOneHost();
  void meet();
  void connect(const std::string &Contact);
  void loop();
  void accept();
  void admit();
  void wait();
  void receive(Clock::time_point Now);
  void send(const Heartbeat &Message);
  void judge(Clock::time_point Now);
  void judgeProgress();
  bool sayGoodbye();
  Heartbeat makeStatus();
  [[noreturn]] void end(const std::string &Message);
  [[noreturn]] void leave(const std::string &Message);
  void report(const std::string &Message);

  CommStream &Stream;
  WatchdogOptions Options;
  pid_t Parent;
  bool IsHub;
  std::string Name;
  Heartbeat Self; // what does not change
  HeartbeatLink Listening{-1};
  uint16_t Port = 0;
  /// Rank 0: all ranks, the own one without a link. Others: rank 0.
  std::vector<Peer> Peers;
  /// Rank 0: connections whose rank is not known yet.
  std::vector<HeartbeatLink> Strangers;
  std::vector<pollfd> Polled;
  /// Whether each rank says why the job ends: nobody collects what they say.
  bool TellsAll = false;
  /// How long this process was stopped, the last time.
  double Away = 0;

  std::mutex Mutex; // guards the following
  char Phase[sizeof Heartbeat::Phase] = "start";
  double Predicted = 0;
  Clock::time_point LastProgress = Clock::now();
  int64_t LastCompleted = 0;
  std::string Failure;

  /// The stream is closed: goodbye; or the rank gives up without one.
  std::atomic<bool> Closing{false}, IsAbandoned{false};
  /// Rung when the thread has something to do before its next turn.
  Bell Waker;
  /// Whether this rank has said goodbye; only the thread uses it.
  bool HasLeft = false;
  std::thread Thread;
};

Watchdog::Impl::Impl(CommStream &Stream, const std::string &DeviceType,
                     const WatchdogOptions &O)
    : Stream(Stream), Options(O), Parent(getppid()), IsHub(Stream.rank() == 0) {
  char Host[64] = "unknown host";
  gethostname(Host, sizeof Host - 1);
  Name = std::string(Host) + ", " + DeviceType;
  Self.Rank = Stream.rank();
  Self.Pid = getpid();
  std::strncpy(Self.Name, Name.c_str(), sizeof Self.Name - 1);
}

/// Takes the connections over which the ranks met, if there are any: then
/// nothing has to be said before the first heartbeat.
bool Watchdog::Impl::adopt() {
  HeartbeatSockets Sockets;
  Stream.run([&](Communicator &C) { Sockets = C.takeSockets(); });
  if (Sockets.ByRank.empty())
    return false;
  Self.Session = Sockets.Session;
  TellsAll = true;
  for (size_t R = 0; R < Peers.size(); ++R)
    Peers[R].Link = HeartbeatLink(Sockets.ByRank[R]);
  return true;
}

/// Whether rank 0 finds all ranks on its host; on others, no.
bool Watchdog::Impl::isOneHost() {
  std::vector<std::string> Hosts;
  Stream.run(
      [&](Communicator &C) { Hosts = C.gatherStrings(getHostIdentity(), 0); });
  return IsHub && std::all_of(Hosts.begin(), Hosts.end(),
                              [&](const auto &H) { return H == Hosts[0]; });
}

/// Rank 0: waits until all others have connected, or time is over.
void Watchdog::Impl::meet() {
  Clock::time_point End = Clock::now() + MeetSeconds;
  auto AllHere = [&] {
    return std::all_of(Peers.begin() + 1, Peers.end(),
                       [](const Peer &P) { return P.Link.isOpen(); });
  };
  while (!AllHere() && Clock::now() < End) {
    wait();
    accept();
  }
  // All ranks are connected: other callers would only end wait() early.
  Listening.close();
  Strangers.clear();
}

/// Rank 0 says where it listens; the others connect. All throw if one fails.
void Watchdog::Impl::start() {
  Peers.resize(IsHub ? Stream.size() : 1);
  for (size_t R = 0; R < Peers.size(); ++R)
    Peers[R].Last.Rank = static_cast<int32_t>(R);
  Polled.reserve(Peers.size() + 2);
  if (!adopt()) {
    std::string Contact;
    int64_t Number = 0;
    bool OnLoopback = isOneHost();
    if (IsHub) {
      std::random_device Random;
      Self.Session = (static_cast<uint64_t>(Random()) << 32) | Random();
      Listening = HeartbeatLink(listenForHeartbeats(Port, OnLoopback));
      Contact = std::to_string(Port) + " " +
                (OnLoopback ? "127.0.0.1" : getAddresses());
      Number = static_cast<int64_t>(Self.Session);
    }
    auto Length = static_cast<int64_t>(Contact.size());
    Stream.run([&](Communicator &C) {
      C.broadcast(&Number, sizeof Number, 0);
      C.broadcast(&Length, sizeof Length, 0);
      Contact.resize(Length);
      C.broadcast(&Contact[0], Length, 0);
    });
    Self.Session = static_cast<uint64_t>(Number);
    std::string Error;
    int64_t NumFailed = 0;
    Stream.run([&](Communicator &C) { C.barrier(); });
    if (IsHub) {
      // Rank 0 answers while the others connect.
      meet();
    } else {
      try {
        connect(Contact);
      } catch (const std::exception &E) {
        Error = E.what();
        NumFailed = 1;
      }
    }
    Stream.run([&](Communicator &C) { C.allReduceSum(&NumFailed, 1); });
    if (!Error.empty())
      throw runtime::Error(Error);
    if (NumFailed)
      runtime::fail(NumFailed, " ranks cannot send heartbeats to rank 0");
  }
  LastProgress = Clock::now();
  for (Peer &P : Peers)
    P.Seen = LastProgress;
  // Signals are for the rank's own thread.
  sigset_t All, Before;
  sigfillset(&All);
  pthread_sigmask(SIG_SETMASK, &All, &Before);
  Thread = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &Before, nullptr);
}

void Watchdog::Impl::connect(const std::string &Contact) {
  Clock::time_point End = Clock::now() + RetrySeconds;
  do {
    std::istringstream Words(Contact);
    Words >> Port;
    // Addresses that do not answer may belong to networks of rank 0 that this
    // host does not see.
    for (std::string Address; Words >> Address;) {
      int Socket = connectForHeartbeats(Address, Port, makeStatus(),
                                        Peers[0].Last, ConnectSeconds);
      if (Socket >= 0) {
        Peers[0].Link = HeartbeatLink(Socket);
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < End);
  runtime::fail(
      "rank ", Self.Rank, " (", Name,
      ") cannot send heartbeats to rank 0, which listens at (port first) ",
      Contact, ": a firewall?");
}

Heartbeat Watchdog::Impl::makeStatus() {
  CommStatus Status = Stream.getStatus();
  Heartbeat H = Self;
  H.Waiting = Status.Waiting;
  H.LastKind = Status.Kind;
  H.LastBucket = Status.Bucket;
  H.OldestKind = Status.OldestKind;
  H.OldestBucket = Status.OldestBucket;
  H.OldestSeconds = Status.OldestSeconds;
  H.Started = Status.Started;
  H.Completed = Status.Completed;
  std::lock_guard<std::mutex> Lock(Mutex);
  Clock::time_point Now = Clock::now();
  if (Status.Completed != LastCompleted)
    LastProgress = Now;
  LastCompleted = Status.Completed;
  H.IdleSeconds = toSeconds(Now - LastProgress);
  H.PredictedSeconds = Predicted;
  H.AllowedSeconds =
      std::max(Options.MinStall, Options.StallFactor * Predicted);
  std::memcpy(H.Phase, Phase, sizeof Phase);
  return H;
}

/// Waits for something to read, a short time.
void Watchdog::Impl::wait() {
  Polled.clear();
  Polled.push_back({Waker.getDescriptor(), POLLIN, 0});
  if (Listening.isOpen())
    Polled.push_back({Listening.socket(), POLLIN, 0});
  for (const HeartbeatLink &L : Strangers)
    Polled.push_back({L.socket(), POLLIN, 0});
  for (const Peer &P : Peers)
    if (P.Link.isOpen())
      Polled.push_back({P.Link.socket(), POLLIN, 0});
  poll(Polled.data(), Polled.size(), PollMilliseconds);
  Waker.silence();
}

/// Rank 0: accepts callers that know the session.
void Watchdog::Impl::accept() {
  while (true) {
    int Socket = accept4(Listening.socket(), nullptr, nullptr,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (Socket < 0)
      break;
    Strangers.emplace_back(Socket);
    // Silent callers make room for others.
    if (Strangers.size() > MostStrangers + Peers.size()) {
      admit();
      if (Strangers.size() > MostStrangers)
        Strangers.erase(Strangers.begin());
    }
  }
  admit();
}

void Watchdog::Impl::admit() {
  for (HeartbeatLink &L : Strangers) {
    Heartbeat Greeting;
    if (!L.receive(Greeting, Self.Session))
      continue;
    if (Greeting.Rank <= 0 || Greeting.Rank >= Stream.size()) {
      L.close();
      continue;
    }
    L.send(makeStatus());
    Peer &P = Peers[Greeting.Rank];
    P.Link.close();
    P.Link = std::move(L);
    P.Last = Greeting;
    P.Seen = Clock::now();
  }
  Strangers.erase(
      std::remove_if(Strangers.begin(), Strangers.end(),
                     [](const HeartbeatLink &L) { return !L.isOpen(); }),
      Strangers.end());
}

void Watchdog::Impl::send(const Heartbeat &Message) {
  for (Peer &P : Peers)
    P.Link.send(Message);
}

void Watchdog::Impl::receive(Clock::time_point Now) {
  for (Peer &P : Peers) {
    Heartbeat Message;
    while (P.Link.receive(Message, Self.Session)) {
      P.Seen = Now;
      switch (Message.TheKind) {
      case Heartbeat::Alive:
        P.Last = Message;
        break;
      case Heartbeat::Failed:
        end(Message.getRankName() + ": " + Message.Text);
      case Heartbeat::Verdict:
        // Rank 0 has printed it, perhaps on another terminal.
        if (TellsAll)
          leave(std::string("rank 0 has ended the job: ") + Message.Text);
        _exit(1);
      case Heartbeat::Goodbye:
        P.Left = true;
        // Rank 0 is the last to say it.
        if (!IsHub)
          P.Link.close();
        break;
      }
    }
  }
}

/// Whether someone is missing, or makes no progress.
void Watchdog::Impl::judge(Clock::time_point Now) {
  for (Peer &P : Peers) {
    if (P.isGone() || P.Last.Rank == Self.Rank)
      continue;
    std::string What = P.Last.getRankName();
    if (!P.Link.isOpen() && Away > Options.LostAfter)
      leave(Self.getRankName() + " was stopped for " + format(Away) +
            ", and the others have given up");
    if (!P.Link.isOpen())
      What += " has ended unexpectedly";
    else if (toSeconds(Now - P.Seen) > Options.LostAfter)
      What += " has sent nothing for " + format(toSeconds(Now - P.Seen)) +
              ": it is stopped, its host is lost, or the network between is "
              "cut, at "
              "either end";
    else
      continue;
    // What it said last is not quite up to date.
    What += "; " + P.Last.getLastCollective() + "; here, " +
            makeStatus().getLastCollective();
    if (IsHub)
      end(What);
    leave(What);
  }
  if (IsHub)
    judgeProgress();
}

void Watchdog::Impl::judgeProgress() {
  Peers[0].Last = makeStatus();
  auto IsLate = [](const Peer &P) {
    return !P.Left && P.Last.IdleSeconds > P.Last.AllowedSeconds;
  };
  if (std::none_of(Peers.begin(), Peers.end(), IsLate))
    return;
  // Who waits for others is not to blame, unless all do: then it is who has
  // come least far.
  bool AllWait = true;
  int64_t Least = INT64_MAX;
  for (const Peer &P : Peers) {
    AllWait &= P.Left || P.Last.Waiting;
    if (!P.Left)
      Least = std::min(Least, P.Last.Started);
  }
  std::string Culprits;
  const Heartbeat *First = nullptr;
  for (const Peer &P : Peers) {
    if (!IsLate(P) || (AllWait ? P.Last.Started != Least : P.Last.Waiting))
      continue;
    if (!First)
      First = &P.Last;
    Culprits += (Culprits.empty() ? "" : "; ") + P.Last.getRankName() + ", " +
                P.Last.getLastCollective();
  }
  // Otherwise the ranks that do not wait still have time.
  if (First)
    end("no progress for " + format(First->IdleSeconds) + " in phase '" +
        First->Phase + "', predicted to take " +
        format(First->PredictedSeconds) + ": " + Culprits);
}

void comm::reportFailure(const std::string &Message,
                         const std::string &ReportPath) {
  std::string Line = std::string(CommandName) + ": error: " + Message + "\n";
  bool IsSaid = false;
  if (!ReportPath.empty()) {
    int File =
        open(ReportPath.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    // One account is enough: that of another rank, or this one, which the
    // launcher prints when all else has been printed.
    IsSaid = File < 0 ? errno == EEXIST
                      : write(File, Line.data(), Line.size()) ==
                            static_cast<ssize_t>(Line.size());
    if (File >= 0)
      ::close(File);
  }
  if (!IsSaid && write(STDERR_FILENO, Line.data(), Line.size()) < 0)
    _exit(2);
}

void comm::reportFailure(const std::string &Message) {
  const char *Path = std::getenv("POPLAR_FAILURE_REPORT");
  reportFailure(Message, Path ? Path : "");
}

void Watchdog::Impl::report(const std::string &Message) {
  reportFailure(Message, Options.ReportPath);
}

/// Ends this rank; the others see the connection break.
void Watchdog::Impl::leave(const std::string &Message) {
  report(Message);
  _exit(1);
}

/// Rank 0: ends the job.
void Watchdog::Impl::end(const std::string &Message) {
  report(Message);
  Heartbeat Verdict = Self;
  Verdict.TheKind = Heartbeat::Verdict;
  Verdict.setText(Message);
  send(Verdict);
  // A connection that is closed with something left to read is reset, and what
  // it was sent may be lost: read until the others have gone.
  Clock::time_point End = Clock::now() + std::chrono::milliseconds(200);
  for (Peer &P : Peers) {
    Heartbeat Ignored;
    while (P.Link.isOpen() && Clock::now() < End) {
      pollfd Poll = {P.Link.socket(), POLLIN, 0};
      poll(&Poll, 1, 10);
      P.Link.receive(Ignored, Self.Session);
    }
  }
  _exit(1);
}

void Watchdog::Impl::loop() {
  Clock::time_point LastTick = Clock::now(), NextSend = LastTick, FailedAt;
  Clock::time_point SoundAt = LastTick;
  bool HasFailed = false;
  // Whoever is missed later can then be named.
  send(makeStatus());
  while (!sayGoodbye()) {
    wait();
    Clock::time_point Now = Clock::now();
    double Gap = toSeconds(Now - LastTick);
    if (Gap > AwaySeconds) {
      // Not the others but this process was away; their messages wait.
      Away = Gap;
      std::lock_guard<std::mutex> Lock(Mutex);
      LastProgress += Now - LastTick;
      for (Peer &P : Peers)
        P.Seen = Now;
    }
    LastTick = Now;
    if (isStartedByMpi() && getppid() != Parent)
      leave("the launcher has ended");
    receive(Now);
    std::string Message;
    {
      std::lock_guard<std::mutex> Lock(Mutex);
      Message = Failure;
    }
    // Communication fails also where another rank ends, and the transport may
    // see that first. The rank's own thread reports a failure of its own,
    // unless it waits for its device.
    std::string Broken = Stream.getFailure();
    if (Broken.empty())
      SoundAt = Now;
    else if (Message.empty())
      Message = Broken;
    bool AwaitsCause =
        !Broken.empty() && toSeconds(Now - SoundAt) <= CauseSeconds;
    if (!Message.empty() && !AwaitsCause) {
      if (IsHub)
        end(Self.getRankName() + ": " + Message);
      if (!HasFailed) {
        Heartbeat Failed = makeStatus();
        Failed.TheKind = Heartbeat::Failed;
        Failed.setText(Message);
        send(Failed);
        FailedAt = Now;
        HasFailed = true;
      } else if (Now - FailedAt > std::chrono::seconds(2) ||
                 !Peers[0].Link.isOpen()) {
        leave(Self.getRankName() + ": " + Message);
      }
    } else {
      judge(Now);
    }
    if (Now >= NextSend) {
      send(makeStatus());
      NextSend = Now + SendInterval;
    }
  }
}

/// Whether this rank, which closes, may leave: rank 0 when all others have
/// closed their connections, and another rank when rank 0 has let it go.
bool Watchdog::Impl::sayGoodbye() {
  if (!Closing)
    return IsAbandoned;
  auto IsFirst = Peers.begin() + (IsHub ? 1 : 0);
  bool AllLeft =
      std::all_of(IsFirst, Peers.end(), [](const Peer &P) { return P.Left; });
  if (!HasLeft && (AllLeft || !IsHub)) {
    HasLeft = true;
    Heartbeat Goodbye = Self;
    Goodbye.TheKind = Heartbeat::Goodbye;
    send(Goodbye);
  }
  return HasLeft && std::all_of(IsFirst, Peers.end(),
                                [](const Peer &P) { return P.isGone(); });
}

Watchdog::Watchdog(CommStream &Stream, const std::string &DeviceType,
                   const WatchdogOptions &O)
    : I(std::make_unique<Impl>(Stream, DeviceType, O)) {
  I->start();
}

Watchdog::~Watchdog() {
  I->IsAbandoned = true;
  I->Waker.ring();
  if (I->Thread.joinable())
    I->Thread.join();
}

void Watchdog::setPhase(const char *Name, double PredictedSeconds) {
  std::lock_guard<std::mutex> Lock(I->Mutex);
  std::strncpy(I->Phase, Name, sizeof I->Phase - 1);
  I->Predicted = PredictedSeconds;
  I->LastProgress = Clock::now();
}

void Watchdog::progress() {
  std::lock_guard<std::mutex> Lock(I->Mutex);
  I->LastProgress = Clock::now();
}

void Watchdog::fail(const std::string &Message) {
  // After close(), nobody is left to be told.
  if (!I->Thread.joinable())
    I->leave(I->Self.getRankName() + ": " + Message);
  {
    std::lock_guard<std::mutex> Lock(I->Mutex);
    I->Failure = Message.empty() ? "unknown error" : Message;
  }
  I->Waker.ring();
  // The watchdog's thread ends the process.
  while (true)
    pause();
}

void Watchdog::close() {
  I->Stream.run([](Communicator &C) { C.barrier(); });
  setPhase("ending", EndSeconds);
  I->Stream.close();
  I->Closing = true;
  I->Waker.ring();
  I->Thread.join();
}

const std::string &Watchdog::getName() const { return I->Name; }
