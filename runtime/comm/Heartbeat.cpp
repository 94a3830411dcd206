//===- Heartbeat.cpp - What watchdogs tell each other ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Heartbeat.h"
#include "support/Error.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static_assert(std::is_trivially_copyable_v<Heartbeat>, "sent as it is");

static void prepareSocket(int Socket) {
  fcntl(Socket, F_SETFL, fcntl(Socket, F_GETFL) | O_NONBLOCK);
  int On = 1;
  setsockopt(Socket, IPPROTO_TCP, TCP_NODELAY, &On, sizeof On);
}

void Heartbeat::setText(const std::string &Message) {
  std::strncpy(Text, Message.c_str(), sizeof Text - 1);
}

std::string Heartbeat::getRankName() const {
  if (!Name[0]) // has not said anything yet
    return "rank " + std::to_string(Rank);
  return "rank " + std::to_string(Rank) + " (" + Name + ", pid " +
         std::to_string(Pid) + ")";
}

static std::string nameCollective(int32_t Kind, int32_t Bucket) {
  std::string Result =
      std::string("(") + comm::getName(static_cast<Collective::Kind>(Kind));
  if (Bucket >= 0)
    Result += ", bucket " + std::to_string(Bucket);
  return Result + ")";
}

std::string Heartbeat::getLastCollective() const {
  if (Started == 0)
    return "no collective yet";
  std::string Result = "last collective: " + std::to_string(Started) + " " +
                       nameCollective(LastKind, LastBucket) + ", ";
  if (Completed == Started)
    return Result + "complete";
  Result += std::to_string(Completed) + " complete";
  if (OldestKind < 0)
    return Result;
  char Seconds[32];
  std::snprintf(Seconds, sizeof Seconds, "%.1f s", OldestSeconds);
  return Result + ", the next one " + nameCollective(OldestKind, OldestBucket) +
         " for " + Seconds + " not";
}

bool Heartbeat::check() {
  auto IsCollective = [](int32_t Number) {
    return Number >= -1 && Number < Collective::NumKinds;
  };
  Phase[sizeof Phase - 1] = Name[sizeof Name - 1] = Text[sizeof Text - 1] = 0;
  return TheKind >= Alive && TheKind <= Goodbye && IsCollective(LastKind) &&
         IsCollective(OldestKind);
}

HeartbeatLink::HeartbeatLink(int Socket) : Socket(Socket) {
  if (Socket >= 0)
    prepareSocket(Socket);
}

HeartbeatLink::HeartbeatLink(HeartbeatLink &&Other) noexcept
    : Socket(std::exchange(Other.Socket, -1)), Filled(Other.Filled) {
  std::memcpy(Buffer, Other.Buffer, sizeof Buffer);
}

HeartbeatLink &HeartbeatLink::operator=(HeartbeatLink &&Other) noexcept {
  std::swap(Socket, Other.Socket);
  std::swap(Buffer, Other.Buffer);
  std::swap(Filled, Other.Filled);
  return *this;
}

HeartbeatLink::~HeartbeatLink() { close(); }

void HeartbeatLink::close() {
  if (Socket >= 0)
    ::close(Socket);
  Socket = -1;
}

void HeartbeatLink::send(const Heartbeat &Message) {
  if (Socket < 0)
    return;
  auto *Bytes = reinterpret_cast<const char *>(&Message);
  for (size_t Sent = 0; Sent < sizeof Message;) {
    ssize_t N =
        ::send(Socket, Bytes + Sent, sizeof Message - Sent, MSG_NOSIGNAL);
    if (N < 0 && errno == EINTR)
      continue;
    // Half a message cannot be followed by another one.
    if (N <= 0) {
      if (Sent != 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        shutdown(Socket, SHUT_WR);
      return;
    }
    Sent += static_cast<size_t>(N);
  }
}

bool HeartbeatLink::receive(Heartbeat &Message, uint64_t Session) {
  while (Socket >= 0) {
    ssize_t N = recv(Socket, Buffer + Filled, sizeof Buffer - Filled, 0);
    if (N < 0 && errno == EINTR)
      continue;
    if (N < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return false;
    if (N <= 0) {
      close();
      return false;
    }
    Filled += static_cast<size_t>(N);
    if (Filled < sizeof Buffer)
      continue;
    Filled = 0;
    std::memcpy(static_cast<void *>(&Message), Buffer, sizeof Message);
    if (Message.Session == Session && Message.check())
      return true;
    close();
  }
  return false;
}

int comm::listenForHeartbeats(uint16_t &Port, bool OnLoopback) {
  HeartbeatLink Owner(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in Address = {};
  Address.sin_family = AF_INET;
  Address.sin_addr.s_addr = htonl(OnLoopback ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t Length = sizeof Address;
  auto *Generic = reinterpret_cast<sockaddr *>(&Address);
  if (!Owner.isOpen() || bind(Owner.socket(), Generic, Length) != 0 ||
      listen(Owner.socket(), SOMAXCONN) != 0 ||
      getsockname(Owner.socket(), Generic, &Length) != 0)
    fail("cannot listen for heartbeats: ", std::strerror(errno));
  prepareSocket(Owner.socket());
  Port = ntohs(Address.sin_port);
  return Owner.release();
}

std::string comm::getAddresses() {
  std::string Result;
  ifaddrs *First = nullptr;
  if (getifaddrs(&First) == 0) {
    for (ifaddrs *A = First; A; A = A->ifa_next) {
      if (!A->ifa_addr || A->ifa_addr->sa_family != AF_INET ||
          (A->ifa_flags & IFF_LOOPBACK) || !(A->ifa_flags & IFF_UP))
        continue;
      char Text[INET_ADDRSTRLEN];
      auto *In = reinterpret_cast<const sockaddr_in *>(A->ifa_addr);
      if (inet_ntop(AF_INET, &In->sin_addr, Text, sizeof Text))
        Result += std::string(Text) + " ";
    }
    freeifaddrs(First);
  }
  return Result + "127.0.0.1";
}

/// Waits for events on a socket; whether there were any in time.
static bool pollUntil(int Socket, short Events, Clock::time_point End) {
  while (true) {
    auto Left = std::chrono::duration_cast<std::chrono::milliseconds>(
        End - Clock::now());
    if (Left.count() <= 0)
      return false;
    pollfd P = {Socket, Events, 0};
    int N = poll(&P, 1, static_cast<int>(Left.count()));
    if (N > 0)
      return true;
    if (N == 0 || errno != EINTR)
      return false;
  }
}

int comm::connectForHeartbeats(const std::string &Text, uint16_t Port,
                               const Heartbeat &Greeting, Heartbeat &Answer,
                               double Seconds) {
  Clock::time_point End =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(Seconds));
  sockaddr_in Address = {};
  Address.sin_family = AF_INET;
  Address.sin_port = htons(Port);
  if (inet_pton(AF_INET, Text.c_str(), &Address.sin_addr) != 1)
    return -1;
  HeartbeatLink Link(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!Link.isOpen())
    return -1;
  prepareSocket(Link.socket());
  int Error = 0;
  socklen_t Length = sizeof Error;
  if (connect(Link.socket(), reinterpret_cast<sockaddr *>(&Address),
              sizeof Address) != 0 &&
      (errno != EINPROGRESS || !pollUntil(Link.socket(), POLLOUT, End) ||
       getsockopt(Link.socket(), SOL_SOCKET, SO_ERROR, &Error, &Length) != 0 ||
       Error != 0))
    return -1;
  // Rank 0 answers a greeting of its session.
  Link.send(Greeting);
  while (Link.isOpen() && pollUntil(Link.socket(), POLLIN, End))
    if (Link.receive(Answer, Greeting.Session))
      return Link.release();
  return -1;
}
