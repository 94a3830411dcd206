//===- BootstrapCaller.cpp - A rank that calls rank 0 ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Bootstrap.h"
#include "support/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

using Clock = BootstrapChannel::Clock;

/// How long an error at the only port has to last before it is final, and how
/// long a host does not answer before it counts as unreachable.
static constexpr double WrongSeconds = 4, UnreachableSeconds = 6;

static Clock::duration seconds(double Seconds) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(Seconds));
}

namespace {

class Caller : public Bootstrap {
public:
  explicit Caller(const Meeting &M);
  std::vector<Card> exchange(const Card &Own) override;
  void begin() override;
  void abandon(const std::string &Why, double Seconds) override;
  std::vector<int> takeSockets() override;

private:
  enum Outcome { Joined, Nobody, Unreachable, Stranger, OtherJob, WrongSecret };

  Outcome call(uint16_t Port);
  Outcome connect(uint16_t Port, Clock::time_point End);
  Outcome shakeHands(Clock::time_point End);
  bool receive(void *Data, size_t Bytes, Clock::time_point End);
  void judge(Outcome What, Clock::time_point RoundBegin);
  std::string describe(Outcome What) const;
  /// The next record that is more than a sign of life.
  void receive(Record &R, bool SendsAlive);

  Meeting M;
  BootstrapChannel Link{-1};
  bool HubHasSecret = false;
  int ErrorCode = 0;
  Clock::time_point Begin = Clock::now();
  /// Since when something is wrong all the time.
  std::optional<Clock::time_point> WrongSince, UnreachableSince;
};

} // namespace

std::string Caller::describe(Outcome What) const {
  switch (What) {
  case Nobody:
    return "nothing listens there";
  case Unreachable:
    return std::string(std::strerror(ErrorCode)) +
           "; check MASTER_ADDR, and that firewalls let ranks through";
  case Stranger:
    return "what listens there does not answer as rank 0 of a job does: "
           "another program holds the port, or rank 0 is stopped";
  case OtherJob:
    return "rank 0 of another job listens there";
  case WrongSecret:
    if (HubHasSecret == !M.Secret.empty())
      return "rank 0 and this rank have different secrets; check POPLAR_SECRET "
             "and POPLAR_SECRET_FILE";
    return HubHasSecret ? "rank 0 has a secret, and this rank none; give it "
                          "the same POPLAR_SECRET or POPLAR_SECRET_FILE"
                        : "this rank has a secret, and rank 0 none; give it "
                          "the same POPLAR_SECRET or POPLAR_SECRET_FILE";
  case Joined:
    break;
  }
  return "";
}

Caller::Caller(const Meeting &M) : M(M) {
  bool HasNoted = false;
  for (int Round = 0;; ++Round) {
    Clock::time_point RoundBegin = Clock::now();
    Outcome Worst = Nobody;
    for (uint16_t Port : M.Ports) {
      Outcome What = call(Port);
      if (What == Joined)
        return;
      Worst = std::max(Worst, What);
    }
    judge(Worst, RoundBegin);
    Clock::time_point Now = Clock::now();
    if (Now - Begin > seconds(M.StartSeconds))
      fail("rank 0 does not answer at ", M.getPlace(), " in ",
           int(M.StartSeconds), " s (POPLAR_START_SECONDS): ", describe(Worst));
    if (!HasNoted && Now - Begin > seconds(kNoteSeconds)) {
      HasNoted = true;
      std::fprintf(stderr,
                   "train: note: rank %d waits for rank 0 at %s, up to %d s "
                   "(POPLAR_START_SECONDS): %s\n",
                   M.Rank, M.getPlace().c_str(), int(M.StartSeconds),
                   describe(Worst).c_str());
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::min(20 * (Round + 1), 200)));
  }
}

/// Whether there is hope. Of several ports, others may belong to anyone.
void Caller::judge(Outcome What, Clock::time_point RoundBegin) {
  Clock::time_point Now = Clock::now();
  auto Lasts = [&](bool Holds, std::optional<Clock::time_point> &Since,
                   double Seconds) {
    if (!Holds)
      Since.reset();
    else if (!Since)
      Since = RoundBegin;
    return Since && Now - *Since > seconds(Seconds);
  };
  bool IsOnly = M.Ports.size() == 1;
  if ((IsOnly && What == WrongSecret) ||
      Lasts(IsOnly && What == Stranger, WrongSince, WrongSeconds) ||
      Lasts(What == Unreachable, UnreachableSince, UnreachableSeconds))
    fail("rank ", M.Rank, " cannot join rank 0 at ", M.getPlace(), ": ",
         describe(What));
}

Caller::Outcome Caller::call(uint16_t Port) {
  // Other ports wait.
  double Seconds = M.Ports.size() == 1 ? kHandshakeSeconds : 2;
  Outcome What = connect(Port, Clock::now() + seconds(Seconds / 2));
  return What == Joined ? shakeHands(Clock::now() + seconds(Seconds)) : What;
}

Caller::Outcome Caller::connect(uint16_t Port, Clock::time_point End) {
  Link = BootstrapChannel(
      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in Address = {};
  Address.sin_family = AF_INET;
  Address.sin_addr = M.Address;
  Address.sin_port = htons(Port);
  ErrorCode = 0;
  if (!Link.isOpen() ||
      ::connect(Link.socket(), reinterpret_cast<sockaddr *>(&Address),
                sizeof Address) != 0)
    ErrorCode = errno;
  while (ErrorCode == EINPROGRESS) {
    pollfd P = {Link.socket(), POLLOUT, 0};
    if (poll(&P, 1, 50) > 0) {
      socklen_t Length = sizeof ErrorCode;
      getsockopt(Link.socket(), SOL_SOCKET, SO_ERROR, &ErrorCode, &Length);
    } else if (Clock::now() > End) {
      ErrorCode = ETIMEDOUT;
    }
  }
  if (!ErrorCode)
    return Joined;
  // A port that is taken from us in this moment is somebody else's.
  bool IsReset = ErrorCode == ECONNREFUSED || ErrorCode == ECONNRESET;
  return IsReset ? Nobody : Unreachable;
}

bool Caller::receive(void *Data, size_t Bytes, Clock::time_point End) {
  while (true) {
    BootstrapChannel::Status S = Link.receive(Data, Bytes);
    if (S != BootstrapChannel::Pending || Clock::now() > End)
      return S == BootstrapChannel::Done;
    waitToRead(Link.socket(), 50);
  }
}

Caller::Outcome Caller::shakeHands(Clock::time_point End) {
  Hello Greeting = {};
  fillMagic(Greeting.Magic);
  Greeting.Job = M.Job;
  Greeting.Version = kBootstrapVersion;
  Greeting.Rank = M.Rank;
  Greeting.World = M.World;
  Greeting.HasSecret = !M.Secret.empty();
  fillRandom(Greeting.Nonce);
  Answer Reply;
  if (!Link.send(&Greeting, sizeof Greeting) ||
      !receive(&Reply, sizeof Reply, End) || !hasMagic(Reply.Magic))
    return Stranger;
  if (Reply.TheKind == Answer::OtherJob)
    return OtherJob;
  if (Reply.TheKind != Answer::Challenge)
    return Stranger;
  HandshakeKeys Keys(M.Secret, Greeting, Reply);
  HubHasSecret = Reply.HasSecret;
  if (!Link.send(Keys.RankProof.data(), Keys.RankProof.size()) ||
      !receive(&Reply, sizeof Reply, End) || !hasMagic(Reply.Magic))
    return Stranger;
  if (Reply.TheKind != Answer::Welcome || !isEqual(Reply.Bytes, Keys.HubProof))
    return WrongSecret;
  Link.useKeys(Keys, /*IsHub=*/false);
  return Joined;
}

void Caller::receive(Record &R, bool SendsAlive) {
  Clock::time_point Seen = Clock::now(), NextAlive = Seen, LastTurn = Seen;
  while (true) {
    Clock::time_point Now = Clock::now();
    // This process was away, and not rank 0.
    if (Now - LastTurn > seconds(1))
      Seen = Now;
    LastTurn = Now;
    if (SendsAlive && Now > NextAlive) {
      Link.send(Record::Alive);
      NextAlive = Now + seconds(kAliveSeconds);
    }
    switch (Link.receive(R)) {
    case BootstrapChannel::Pending:
      if (Now - Seen > seconds(kSilenceSeconds))
        fail("rank 0 has sent nothing for ", int(kSilenceSeconds),
             " s: it is stopped, its host is lost, or the network between is "
             "cut, "
             "at either end");
      waitToRead(Link.socket(), 100);
      continue;
    case BootstrapChannel::Closed:
      fail("rank 0 has ended unexpectedly");
    case BootstrapChannel::Garbage:
      fail("rank 0 sent something that is not a message of this job");
    case BootstrapChannel::Done:
      break;
    }
    Seen = Now;
    if (R.Head.TheKind == Record::Error)
      fail("rank 0 has ended the job: ", R.getText());
    if (R.Head.TheKind != Record::Alive)
      return;
  }
}

std::vector<Card> Caller::exchange(const Card &Own) {
  // What rank 0 has to say is read, also where it reads no more.
  Link.send(Record::TheCard, &Own, Own.getBytes());
  std::vector<Card> Cards(static_cast<size_t>(M.World));
  for (int32_t Rank = 0; Rank < M.World; ++Rank) {
    Record R;
    receive(R, /*SendsAlive=*/true);
    Card &C = Cards[static_cast<size_t>(Rank)];
    if (R.Head.TheKind != Record::TheCard || !checkCard(R, M.World, C) ||
        C.Rank != Rank)
      fail("rank 0 sent something other than the card of rank ", Rank);
  }
  return Cards;
}

void Caller::begin() {
  Link.send(Record::Ready);
  Record R;
  receive(R, /*SendsAlive=*/false);
  if (R.Head.TheKind != Record::Go)
    fail("rank 0 sent something other than the message to begin");
}

void Caller::abandon(const std::string &Why, double) {
  Link.send(Record::Error, Why.data(),
            std::min<size_t>(Why.size(), Card::kMostAddress));
  shutdown(Link.socket(), SHUT_WR);
  // A connection that is closed with something left to read is reset, and what
  // it was sent may be lost.
  Clock::time_point End = Clock::now() + seconds(1);
  char Ignored[4096];
  while (Clock::now() < End) {
    waitToRead(Link.socket(), 10);
    ssize_t N = recv(Link.socket(), Ignored, sizeof Ignored, 0);
    if (N == 0 || (N < 0 && errno != EAGAIN && errno != EINTR))
      break;
  }
}

std::vector<int> Caller::takeSockets() {
  std::vector<int> Sockets(static_cast<size_t>(M.World), -1);
  Sockets[0] = Link.release();
  return Sockets;
}

std::unique_ptr<Bootstrap> comm::makeBootstrapCaller(const Meeting &M) {
  return std::make_unique<Caller>(M);
}

std::unique_ptr<Bootstrap> comm::makeBootstrap(const Meeting &M) {
  return M.Rank == 0 ? makeBootstrapHub(M) : makeBootstrapCaller(M);
}

bool comm::checkCard(const Record &R, int32_t World, Card &C) {
  if (R.Head.Bytes < Card::kLeastBytes || R.Head.Bytes > sizeof(Card))
    return false;
  std::memset(static_cast<void *>(&C), 0, sizeof C);
  std::memcpy(static_cast<void *>(&C), R.Data, R.Head.Bytes);
  C.Host[sizeof C.Host - 1] = C.Name[sizeof C.Name - 1] = 0;
  return C.Rank >= 0 && C.Rank < World && C.getBytes() == R.Head.Bytes;
}
