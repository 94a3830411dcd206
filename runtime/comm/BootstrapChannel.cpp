//===- BootstrapChannel.cpp - One connection between two ranks ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/BootstrapChannel.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static_assert(sizeof(Digest) == crypto_auth_hmacsha256_BYTES, "HMAC-SHA256");
static_assert(sizeof(Digest) == crypto_hash_sha256_BYTES, "SHA-256");
static_assert(offsetof(Card, Address) == Card::kLeastBytes, "no padding");

static constexpr uint32_t RecordMagic = 0x43525450; // "PTRC"

void comm::fillMagic(unsigned char (&Magic)[8]) {
  std::memcpy(Magic, "POPLARTR", 8);
}
bool comm::hasMagic(const unsigned char (&Magic)[8]) {
  return std::memcmp(Magic, "POPLARTR", 8) == 0;
}
void comm::fillRandom(Digest &D) { randombytes_buf(D.data(), D.size()); }
bool comm::isEqual(const Digest &A, const Digest &B) {
  return sodium_memcmp(A.data(), B.data(), A.size()) == 0;
}

std::string Card::describe() const {
  return "rank " + std::to_string(Rank) + " (" + Name + ", pid " +
         std::to_string(Pid) + ")";
}

namespace {
/// HMAC-SHA256 of several pieces.
class Mac {
public:
  explicit Mac(const void *Key, size_t Bytes) {
    crypto_auth_hmacsha256_init(&State, static_cast<const unsigned char *>(Key),
                                Bytes);
  }
  Mac &add(const void *Data, size_t Bytes) {
    crypto_auth_hmacsha256_update(
        &State, static_cast<const unsigned char *>(Data), Bytes);
    return *this;
  }
  Digest get() {
    Digest Result;
    crypto_auth_hmacsha256_final(&State, Result.data());
    return Result;
  }

private:
  crypto_auth_hmacsha256_state State;
};
} // namespace

HandshakeKeys::HandshakeKeys(const std::string &Secret, const Hello &H,
                             const Answer &A) {
  auto Derive = [&](const char *Use) {
    char Label[32] = {};
    std::strncpy(Label, Use, sizeof Label - 1);
    return Mac(Secret.data(), Secret.size())
        .add(Label, sizeof Label)
        .add(&H, sizeof H)
        .add(A.Bytes.data(), A.Bytes.size())
        .get();
  };
  RankProof = Derive("poplar rank's proof");
  HubProof = Derive("poplar rank 0's proof");
  ToHub = Derive("poplar records to rank 0");
  FromHub = Derive("poplar records from rank 0");
}

BootstrapChannel::BootstrapChannel(int Socket) : Socket(Socket) {
  if (Socket < 0)
    return;
  fcntl(Socket, F_SETFL, fcntl(Socket, F_GETFL) | O_NONBLOCK);
  int On = 1;
  setsockopt(Socket, IPPROTO_TCP, TCP_NODELAY, &On, sizeof On);
  sockaddr_in Address = {};
  socklen_t Length = sizeof Address;
  if (getpeername(Socket, reinterpret_cast<sockaddr *>(&Address), &Length) == 0)
    Peer = formatAddress(Address.sin_addr) + ":" +
           std::to_string(ntohs(Address.sin_port));
}

BootstrapChannel::BootstrapChannel(BootstrapChannel &&Other) noexcept
    : Socket(-1) {
  *this = std::move(Other);
}

BootstrapChannel &
BootstrapChannel::operator=(BootstrapChannel &&Other) noexcept {
  std::swap(Socket, Other.Socket);
  std::swap(Peer, Other.Peer);
  std::swap(Filled, Other.Filled);
  std::swap(Buffer, Other.Buffer);
  std::swap(SendKey, Other.SendKey);
  std::swap(ReceiveKey, Other.ReceiveKey);
  std::swap(NumSent, Other.NumSent);
  std::swap(NumReceived, Other.NumReceived);
  return *this;
}

void BootstrapChannel::close() {
  if (Socket >= 0)
    ::close(Socket);
  Socket = -1;
}

/// Fills the buffer up to `Bytes`.
BootstrapChannel::Status BootstrapChannel::receive(void *Data, size_t Bytes) {
  while (Filled < Bytes) {
    if (Socket < 0)
      return Closed;
    ssize_t N = recv(Socket, Buffer + Filled, Bytes - Filled, 0);
    if (N < 0 && errno == EINTR)
      continue;
    if (N < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return Pending;
    if (N <= 0) {
      close();
      return Closed;
    }
    Filled += static_cast<size_t>(N);
  }
  if (Data) {
    std::memcpy(Data, Buffer, Bytes);
    Filled = 0;
  }
  return Done;
}

bool BootstrapChannel::send(const void *Data, size_t Bytes, double Seconds) {
  auto *Next = static_cast<const char *>(Data);
  auto End = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(Seconds));
  while (Bytes > 0) {
    if (Socket < 0 || Clock::now() > End)
      return false;
    ssize_t N = ::send(Socket, Next, Bytes, MSG_NOSIGNAL);
    if (N < 0 && errno == EINTR)
      continue;
    if (N < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd P = {Socket, POLLOUT, 0};
      poll(&P, 1, 100);
      continue;
    }
    // What the other end has sent before it closed is still to be read.
    if (N <= 0)
      return false;
    Next += N;
    Bytes -= static_cast<size_t>(N);
  }
  return true;
}

void BootstrapChannel::useKeys(const HandshakeKeys &Keys, bool IsHub) {
  SendKey = IsHub ? Keys.FromHub : Keys.ToHub;
  ReceiveKey = IsHub ? Keys.ToHub : Keys.FromHub;
}

Digest BootstrapChannel::computeMac(const Digest &Key, const Record &R) const {
  return Mac(Key.data(), Key.size())
      .add(&R.Head, sizeof R.Head)
      .add(R.Data, R.Head.Bytes)
      .get();
}

BootstrapChannel::Status BootstrapChannel::receive(Record &R) {
  Status S = receive(nullptr, sizeof R.Head);
  if (S != Done)
    return S;
  std::memcpy(&R.Head, Buffer, sizeof R.Head);
  if (R.Head.Magic != RecordMagic || R.Head.Bytes > sizeof R.Data ||
      R.Head.Number != NumReceived)
    return Garbage;
  size_t Bytes = sizeof R.Head + R.Head.Bytes;
  S = receive(nullptr, Bytes + sizeof(Digest));
  if (S != Done)
    return S;
  std::memcpy(R.Data, Buffer + sizeof R.Head, R.Head.Bytes);
  Digest Mac;
  std::memcpy(Mac.data(), Buffer + Bytes, sizeof Mac);
  Filled = 0;
  ++NumReceived;
  return isEqual(Mac, computeMac(ReceiveKey, R)) ? Done : Garbage;
}

bool BootstrapChannel::send(Record::Kind K, const void *Data, size_t Bytes) {
  Record R;
  R.Head = {RecordMagic, K, NumSent++, static_cast<uint32_t>(Bytes), 0};
  if (Bytes)
    std::memcpy(R.Data, Data, Bytes);
  Digest Mac = computeMac(SendKey, R);
  char All[sizeof(Record) + sizeof(Digest)];
  std::memcpy(All, &R.Head, sizeof R.Head);
  std::memcpy(All + sizeof R.Head, R.Data, Bytes);
  std::memcpy(All + sizeof R.Head + Bytes, Mac.data(), sizeof Mac);
  return send(All, sizeof R.Head + Bytes + sizeof Mac);
}

void comm::waitToRead(int Socket, int Milliseconds) {
  pollfd P = {Socket, POLLIN, 0};
  poll(&P, 1, Milliseconds);
}
