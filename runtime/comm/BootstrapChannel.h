//===- BootstrapChannel.h - One connection between two ranks ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A TCP connection to rank 0. Both ends prove that they know the job's secret:
//
//   rank r  -- Hello: job, rank, world, nonce ------------------>  rank 0
//   rank r  <- Answer: nonce (Challenge) -----------------------  rank 0
//   rank r  -- Proof: HMAC(secret, "rank", Hello, nonce) ------->  rank 0
//   rank r  <- Answer: HMAC(secret, "rank 0", Hello, nonce) ----  rank 0
//
// The caller proves it first, so a stranger who calls learns nothing that
// depends on the secret. Nonces of both sides are in every HMAC, so an old
// handshake proves nothing. Then come records, each with its number and an HMAC
// whose key comes from the handshake. The handshake is the same in all
// versions; Version is that of what follows it.
//
// Everything is of fixed or bounded size, little-endian, and nothing blocks.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_BOOTSTRAPCHANNEL_H
#define POPLAR_RUNTIME_COMM_BOOTSTRAPCHANNEL_H

#include "comm/Meeting.h"

#include <chrono>
#include <string>
#include <utility>

namespace poplar::runtime::comm {

/// The version of records, and of the heartbeats that follow them.
constexpr uint32_t kBootstrapVersion = 2;

struct Hello {
  unsigned char Magic[8];
  Digest Job;
  uint32_t Version;
  int32_t Rank, World;
  uint32_t HasSecret;
  Digest Nonce;
};
static_assert(sizeof(Hello) == 88, "sent as it is");

struct Answer {
  enum Kind : uint32_t { Challenge, Welcome, OtherJob, WrongProof };
  unsigned char Magic[8];
  uint32_t TheKind, HasSecret;
  Digest Bytes; // the nonce, or the HMAC
};
static_assert(sizeof(Answer) == 48, "sent as it is");

/// What a rank tells of itself.
struct Card {
  static constexpr size_t kMostAddress = 4096;
  int32_t Rank;
  int32_t Pid;
  uint64_t Session; // rank 0's: the number of its heartbeats
  char Host[128];   // the kernel, and its network
  char Name[64];    // of the host
  uint32_t AddressBytes;
  uint32_t Reserved;
  char Address[kMostAddress];

  static constexpr size_t kLeastBytes = 4 + 4 + 8 + 128 + 64 + 4 + 4;
  size_t getBytes() const { return kLeastBytes + AddressBytes; }
  /// `rank 1 (vm, pid 123)`
  std::string describe() const;
};
static_assert(sizeof(Card) == Card::kLeastBytes + Card::kMostAddress,
              "sent as it is");

/// A message after the handshake.
struct Record {
  enum Kind : uint32_t { Alive, TheCard, Ready, Go, Error };
  struct Header {
    uint32_t Magic, TheKind;
    uint64_t Number;
    uint32_t Bytes, Reserved;
  } Head;
  char Data[sizeof(Card)];

  std::string getText() const { return {Data, Head.Bytes}; }
};
static_assert(sizeof(Record::Header) == 24, "sent as it is");

/// The keys of a connection, and the two proofs, from what both ends know.
struct HandshakeKeys {
  HandshakeKeys(const std::string &Secret, const Hello &H, const Answer &A);
  Digest RankProof, HubProof; // of the caller, and of rank 0
  Digest ToHub, FromHub;      // the keys of records
};

class BootstrapChannel {
public:
  using Clock = std::chrono::steady_clock;
  enum Status { Pending, Done, Closed, Garbage };

  explicit BootstrapChannel(int Socket);
  BootstrapChannel(BootstrapChannel &&Other) noexcept;
  BootstrapChannel &operator=(BootstrapChannel &&Other) noexcept;
  ~BootstrapChannel() { close(); }

  int socket() const { return Socket; }
  bool isOpen() const { return Socket >= 0; }
  void close();
  /// Gives up the socket, which stays open.
  int release() { return std::exchange(Socket, -1); }
  /// `10.0.0.1:4711`, of the other end.
  const std::string &getPeer() const { return Peer; }
  bool hasReceived() const { return Filled != 0; }

  /// Exactly so many bytes, over as many calls as it takes; never reads more.
  Status receive(void *Data, size_t Bytes);
  /// False if the connection is broken, or the other end reads nothing for
  /// `Seconds`.
  bool send(const void *Data, size_t Bytes, double Seconds = 4);

  /// Which end of the handshake this one is.
  void useKeys(const HandshakeKeys &Keys, bool IsHub);
  Status receive(Record &R);
  bool send(Record::Kind K, const void *Data = nullptr, size_t Bytes = 0);

private:
  Digest computeMac(const Digest &Key, const Record &R) const;

  int Socket;
  std::string Peer;
  size_t Filled = 0;
  char Buffer[sizeof(Record) + sizeof(Digest)];
  Digest SendKey = {}, ReceiveKey = {};
  uint64_t NumSent = 0, NumReceived = 0;
};

/// Waits until a socket has something to read or the time is over.
void waitToRead(int Socket, int Milliseconds);

void fillMagic(unsigned char (&Magic)[8]);
bool hasMagic(const unsigned char (&Magic)[8]);
void fillRandom(Digest &D);
bool isEqual(const Digest &A, const Digest &B);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_BOOTSTRAPCHANNEL_H
