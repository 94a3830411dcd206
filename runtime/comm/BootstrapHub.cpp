//===- BootstrapHub.cpp - Rank 0, which the others call -------------------===//
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
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

using Clock = BootstrapChannel::Clock;

/// Strangers of which rank 0 prints the address, and callers it serves at once
/// beside those it waits for.
static constexpr int MostReports = 10;
static constexpr size_t MostStrangers = 64;
/// Names in a message.
static constexpr int MostNames = 8;

static Clock::duration seconds(double Seconds) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(Seconds));
}

namespace {

/// A caller that has not proved to belong to the job.
struct Guest {
  BootstrapChannel Link;
  Clock::time_point Deadline;
  bool HasGreeted = false;
  Hello Greeting;
  Answer Challenge;
};

struct Member {
  BootstrapChannel Link{-1};
  Card TheCard;
  int NumCards = 0;
  bool IsReady = false;
  Clock::time_point Seen;
};

class Hub : public Bootstrap {
public:
  explicit Hub(const Meeting &M);
  ~Hub() override { closeListener(); }
  std::vector<Card> exchange(const Card &Own) override;
  void begin() override;
  void abandon(const std::string &Why, double Seconds) override;
  std::vector<int> takeSockets() override;

private:
  void closeListener();
  void serveGuests();
  void tell(BootstrapChannel &Link, const std::string &Why);
  template <typename Function> void serveUntil(Function IsDone);
  void wait();
  void accept();
  bool serve(Guest &G);
  bool admit(Guest &G);
  void refuse(Guest &G, const std::string &Why);
  void join(BootstrapChannel Link, const Hello &H);
  void receive(int32_t Rank);
  void sendAlive();
  void judge();
  std::string listMissing() const;
  std::string describe(int32_t Rank) const;
  [[noreturn]] void end(const std::string &Why);

  Meeting M;
  int Listener = -1;
  uint16_t Port = 0;
  std::vector<Guest> Guests;
  std::vector<Member> Members; // by rank; the first one is this one
  std::vector<pollfd> Polled;
  Clock::time_point Begin, NextAlive, LastTurn;
  /// Why the job ends, once it does, and who has heard of it.
  std::string Farewell;
  std::vector<BootstrapChannel> Told;
  int NumRefused = 0;
  std::string LastRefusal;
  bool HasNoted = false;
};

} // namespace

Hub::Hub(const Meeting &M) : M(M), Members(static_cast<size_t>(M.World)) {
  int Code = 0;
  for (uint16_t Candidate : M.Ports) {
    int Socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int On = 1;
    setsockopt(Socket, SOL_SOCKET, SO_REUSEADDR, &On, sizeof On);
    sockaddr_in Address = {};
    Address.sin_family = AF_INET;
    Address.sin_addr = M.Address;
    Address.sin_port = htons(Candidate);
    if (Socket >= 0 &&
        bind(Socket, reinterpret_cast<sockaddr *>(&Address), sizeof Address) ==
            0 &&
        listen(Socket, SOMAXCONN) == 0) {
      Listener = Socket;
      Port = Candidate;
      break;
    }
    Code = errno;
    if (Socket >= 0)
      ::close(Socket);
    if (Code != EADDRINUSE)
      break;
  }
  if (Listener < 0)
    fail("rank 0 cannot listen at ", M.getPlace(), ": ", std::strerror(Code),
         Code == EADDRINUSE ? "; choose another MASTER_PORT"
         : Code == EADDRNOTAVAIL
             ? "; MASTER_ADDR is an address of the host of rank 0"
             : "");
  Begin = LastTurn = NextAlive = Clock::now();
}

void Hub::closeListener() {
  if (Listener >= 0)
    ::close(Listener);
  Listener = -1;
  Guests.clear();
}

std::string Hub::describe(int32_t Rank) const {
  const Member &Who = Members[static_cast<size_t>(Rank)];
  return Who.NumCards ? Who.TheCard.describe()
                      : "rank " + std::to_string(Rank) + " (at " +
                            Who.Link.getPeer() + ")";
}

/// Tells all members, and fails.
void Hub::end(const std::string &Why) {
  abandon(Why, kFarewellSeconds);
  throw Error(Why);
}

void Hub::tell(BootstrapChannel &Link, const std::string &Why) {
  Link.send(Record::Error, Why.data(),
            std::min<size_t>(Why.size(), Card::kMostAddress));
  shutdown(Link.socket(), SHUT_WR);
  Told.push_back(std::move(Link));
}

void Hub::abandon(const std::string &Why, double Seconds) {
  Farewell = Why;
  for (Member &Who : Members)
    if (Who.Link.isOpen())
      tell(Who.Link, Why);
  // Members that are about to call would wait for long.
  Clock::time_point End = Clock::now() + seconds(Seconds);
  while (Listener >= 0 && Clock::now() < End &&
         Told.size() + 1 < static_cast<size_t>(M.World)) {
    wait();
    serveGuests();
  }
  // A connection that is closed with something left to read is reset, and what
  // it was sent may be lost: read until the others have gone.
  End = Clock::now() + seconds(0.5);
  for (BootstrapChannel &Link : Told) {
    char Ignored[4096];
    while (Link.isOpen() && Clock::now() < End) {
      waitToRead(Link.socket(), 10);
      ssize_t N = recv(Link.socket(), Ignored, sizeof Ignored, 0);
      if (N == 0 || (N < 0 && errno != EAGAIN && errno != EINTR))
        Link.close();
    }
  }
  Told.clear();
  closeListener();
}

template <typename Function> void Hub::serveUntil(Function IsDone) {
  while (!IsDone()) {
    wait();
    serveGuests();
    for (int32_t Rank = 1; Rank < M.World; ++Rank)
      receive(Rank);
    sendAlive();
    judge();
  }
}

void Hub::serveGuests() {
  if (Listener >= 0)
    accept();
  // Whoever joins leaves the list.
  for (size_t I = 0; I < Guests.size();)
    if (serve(Guests[I]))
      ++I;
    else
      Guests.erase(Guests.begin() + static_cast<ptrdiff_t>(I));
}

void Hub::wait() {
  Polled.clear();
  if (Listener >= 0)
    Polled.push_back({Listener, POLLIN, 0});
  for (const Guest &G : Guests)
    Polled.push_back({G.Link.socket(), POLLIN, 0});
  for (const Member &Who : Members)
    if (Who.Link.isOpen())
      Polled.push_back({Who.Link.socket(), POLLIN, 0});
  poll(Polled.data(), Polled.size(), 100);
}

void Hub::accept() {
  while (true) {
    int Socket = accept4(Listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (Socket < 0) {
      // Without a descriptor left, strangers must not keep us from anything
      // else.
      if (errno == EMFILE || errno == ENFILE)
        usleep(10000);
      return;
    }
    Guests.push_back({BootstrapChannel(Socket),
                      Clock::now() + seconds(kHandshakeSeconds), false, Hello(),
                      Answer()});
    if (Guests.size() > MostStrangers + Members.size()) {
      refuse(Guests.front(), "too many callers at once");
      Guests.erase(Guests.begin());
    }
  }
}

void Hub::refuse(Guest &G, const std::string &Why) {
  LastRefusal = G.Link.getPeer() + ": " + Why;
  if (++NumRefused <= MostReports)
    std::fprintf(stderr, "train: warning: rank 0 refused a caller, %s%s\n",
                 LastRefusal.c_str(),
                 NumRefused == MostReports ? "; no more of them are reported"
                                           : "");
  G.Link.close();
}

/// Whether the caller is still a guest.
bool Hub::serve(Guest &G) {
  if (!G.HasGreeted) {
    switch (G.Link.receive(&G.Greeting, sizeof G.Greeting)) {
    case BootstrapChannel::Done:
      break;
    case BootstrapChannel::Pending:
      // Nobody need wait for 88 bytes to see that these are none of ours.
      if (Clock::now() > G.Deadline) {
        refuse(G, "has not identified itself as a rank for " +
                      std::to_string(int(kHandshakeSeconds)) + " s");
        return false;
      }
      return true;
    default:
      refuse(G, "closed the connection before it identified itself");
      return false;
    }
    if (!hasMagic(G.Greeting.Magic)) {
      refuse(G, "does not speak the protocol of ranks");
      return false;
    }
    G.HasGreeted = true;
    fillMagic(G.Challenge.Magic);
    G.Challenge.HasSecret = !M.Secret.empty();
    G.Challenge.TheKind =
        G.Greeting.Job == M.Job ? Answer::Challenge : Answer::OtherJob;
    fillRandom(G.Challenge.Bytes);
    G.Link.send(&G.Challenge, sizeof G.Challenge, 0.1);
    if (G.Greeting.Job != M.Job) {
      refuse(G, "is a rank of another job");
      return false;
    }
  }
  return admit(G);
}

/// The second half of the handshake; whether the caller is still a guest.
bool Hub::admit(Guest &G) {
  std::string Claim = "claims to be rank " + std::to_string(G.Greeting.Rank);
  Digest Proof;
  switch (G.Link.receive(&Proof, sizeof Proof)) {
  case BootstrapChannel::Done:
    break;
  case BootstrapChannel::Pending:
    if (Clock::now() <= G.Deadline)
      return true;
    refuse(G, Claim + ", and did not prove it in " +
                  std::to_string(int(kHandshakeSeconds)) + " s");
    return false;
  default:
    refuse(G, Claim + ", and closed the connection before it proved it");
    return false;
  }
  HandshakeKeys Keys(M.Secret, G.Greeting, G.Challenge);
  Answer Reply = G.Challenge;
  bool IsRight = isEqual(Proof, Keys.RankProof);
  Reply.TheKind = IsRight ? Answer::Welcome : Answer::WrongProof;
  if (IsRight)
    Reply.Bytes = Keys.HubProof;
  G.Link.send(&Reply, sizeof Reply, 0.1);
  if (!IsRight) {
    refuse(G, Claim + (bool(G.Greeting.HasSecret) == !M.Secret.empty()
                           ? ", and does not know the secret of this job"
                       : M.Secret.empty()
                           ? ", and has a secret, but rank 0 has none"
                           : ", and has no secret, but rank 0 has one"));
    return false;
  }
  G.Link.useKeys(Keys, /*IsHub=*/true);
  join(std::move(G.Link), G.Greeting);
  return false;
}

/// A caller belongs to the job: whether it is the one that is missing.
void Hub::join(BootstrapChannel Link, const Hello &H) {
  if (!Farewell.empty())
    return tell(Link, Farewell);
  std::string Who = "rank " + std::to_string(H.Rank) + " (at " +
                    Link.getPeer() + ")",
              Why;
  if (H.Version != kBootstrapVersion)
    Why = Who + " has version " + std::to_string(H.Version) +
          " of the protocol between ranks, rank 0 has version " +
          std::to_string(kBootstrapVersion) +
          ": build all executables from the same sources";
  else if (H.World != M.World)
    Why = Who + " was started with WORLD_SIZE=" + std::to_string(H.World) +
          ", rank 0 with WORLD_SIZE=" + std::to_string(M.World);
  else if (H.Rank == 0 || H.Rank < 0 || H.Rank >= M.World)
    Why = Who + " called rank 0, but a job of " + std::to_string(M.World) +
          " has ranks 0 to " + std::to_string(M.World - 1) +
          ", and this is another process with RANK=" + std::to_string(H.Rank);
  else if (Members[static_cast<size_t>(H.Rank)].Link.isOpen())
    Why = "two processes were started with RANK=" + std::to_string(H.Rank) +
          ": " + describe(H.Rank) + ", and one at " + Link.getPeer();
  if (!Why.empty()) {
    Farewell = Why;
    return tell(Link, Why);
  }
  Member &New = Members[static_cast<size_t>(H.Rank)];
  New.Link = std::move(Link);
  New.Seen = Clock::now();
}

void Hub::receive(int32_t Rank) {
  Member &Who = Members[static_cast<size_t>(Rank)];
  Record R;
  while (Who.Link.isOpen() && !Who.IsReady) {
    switch (Who.Link.receive(R)) {
    case BootstrapChannel::Pending:
      return;
    case BootstrapChannel::Closed:
      end(describe(Rank) + " has ended unexpectedly");
    case BootstrapChannel::Garbage:
      end(describe(Rank) + " sent something that is not a message of this job");
    case BootstrapChannel::Done:
      break;
    }
    Who.Seen = Clock::now();
    if (R.Head.TheKind == Record::Error)
      end(describe(Rank) + ": " + R.getText());
    if (R.Head.TheKind == Record::TheCard) {
      if (!checkCard(R, M.World, Who.TheCard) || Who.TheCard.Rank != Rank)
        end(describe(Rank) + " sent something other than the card of a rank");
      ++Who.NumCards;
    }
    // What follows is for others to read.
    Who.IsReady = R.Head.TheKind == Record::Ready;
  }
  // Its end would be seen above: look without reading.
  char Next;
  if (Who.IsReady && recv(Who.Link.socket(), &Next, 1, MSG_PEEK) == 0)
    end(describe(Rank) + " has ended unexpectedly");
}

void Hub::sendAlive() {
  Clock::time_point Now = Clock::now();
  if (Now < NextAlive)
    return;
  NextAlive = Now + seconds(kAliveSeconds);
  for (Member &Who : Members)
    if (Who.Link.isOpen())
      Who.Link.send(Record::Alive);
}

std::string Hub::listMissing() const {
  std::string Text;
  int Count = 0;
  for (int32_t Rank = 1; Rank < M.World; ++Rank)
    if (!Members[static_cast<size_t>(Rank)].NumCards && ++Count <= MostNames)
      Text += (Count == 1 ? "" : ", ") + std::to_string(Rank);
  if (Count > MostNames)
    Text += " and " + std::to_string(Count - MostNames) + " more";
  return "rank " + Text;
}

/// Whether a member is missing for too long.
void Hub::judge() {
  if (!Farewell.empty())
    end(Farewell);
  Clock::time_point Now = Clock::now();
  // Not the others but this process was away; their messages wait.
  if (Now - LastTurn > seconds(1))
    for (Member &Who : Members)
      Who.Seen = Now;
  LastTurn = Now;
  for (int32_t Rank = 1; Rank < M.World; ++Rank) {
    const Member &Who = Members[static_cast<size_t>(Rank)];
    if (Who.Link.isOpen() && !Who.IsReady &&
        Now - Who.Seen > seconds(kSilenceSeconds))
      end(describe(Rank) + " has sent nothing for " +
          std::to_string(int(kSilenceSeconds)) +
          " s: it is stopped, its host is lost, or the network between is cut, "
          "at either end");
  }
  if (Listener < 0)
    return;
  std::string Place = M.Host + " (" + formatAddress(M.Address) + "), port " +
                      std::to_string(Port);
  if (Now - Begin > seconds(M.StartSeconds)) {
    std::string Refused;
    if (NumRefused)
      Refused = "; " + std::to_string(NumRefused) +
                " callers were refused, the last one " + LastRefusal;
    end("no word from " + listMissing() + " in " +
        std::to_string(int(M.StartSeconds)) +
        " s (POPLAR_START_SECONDS); rank 0 listens at " + Place + Refused);
  }
  if (!HasNoted && Now - Begin > seconds(kNoteSeconds)) {
    HasNoted = true;
    std::fprintf(stderr,
                 "train: note: rank 0 waits at %s for %s, up to %d s "
                 "(POPLAR_START_SECONDS)\n",
                 Place.c_str(), listMissing().c_str(), int(M.StartSeconds));
  }
}

std::vector<Card> Hub::exchange(const Card &Own) {
  Members[0].TheCard = Own;
  int Number = ++Members[0].NumCards;
  serveUntil([&] {
    return std::all_of(Members.begin(), Members.end(), [&](const Member &Who) {
      return Who.NumCards >= Number;
    });
  });
  closeListener();
  std::vector<Card> Cards;
  // Card by card, so that nobody waits long for the next word.
  for (const Member &About : Members) {
    Cards.push_back(About.TheCard);
    for (int32_t Rank = 1; Rank < M.World; ++Rank)
      if (!Members[static_cast<size_t>(Rank)].Link.send(
              Record::TheCard, &About.TheCard, About.TheCard.getBytes()))
        end(describe(Rank) + " does not read its messages: it has ended, or "
                             "it is stopped");
  }
  LastTurn = Clock::now();
  for (Member &Who : Members)
    Who.Seen = LastTurn;
  return Cards;
}

void Hub::begin() {
  Members[0].IsReady = true;
  serveUntil([&] {
    return std::all_of(Members.begin(), Members.end(),
                       [](const Member &Who) { return Who.IsReady; });
  });
  for (Member &Who : Members)
    if (Who.Link.isOpen())
      Who.Link.send(Record::Go);
}

std::vector<int> Hub::takeSockets() {
  std::vector<int> Sockets;
  for (Member &Who : Members)
    Sockets.push_back(Who.Link.release());
  return Sockets;
}

std::unique_ptr<Bootstrap> comm::makeBootstrapHub(const Meeting &M) {
  return std::make_unique<Hub>(M);
}
