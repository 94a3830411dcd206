//===- Exchange.cpp - Between ranks that share units ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Collectives.h"
#include "program/Executor.h"
#include "support/Error.h"

#include <algorithm>

using namespace poplar::runtime;

namespace {
/// Part of a buffer.
struct Range {
  char *Data;
  int64_t Bytes;
};

/// What a rank sends to each rank that shares its units, and receives from it.
class Exchange {
public:
  Exchange(const Executor &Exec, const PoplarExchange &What,
           void *const *Buffers, int64_t Batch, int64_t Piece)
      : Exec(Exec), What(What), Buffers(Buffers), Batch(Batch), Piece(Piece),
        Own(Exec.program().ranks[Exec.state().rank()]) {
    if (Own.num_sharers != What.count)
      fail("the program exchanges values among ", What.count,
           " ranks, but the plan has ", Own.num_sharers, "; build it again");
  }

  /// Begins round `Round`, or all of them if that is negative.
  void start(int64_t Round, StartedExchange &Started) {
    int64_t First = std::max<int64_t>(Round, 1),
            End = Round < 0 ? What.count : Round + 1;
    if (Exec.collectives->hasExchanges())
      startTransfers(First, End, Started);
    else
      startMessages(First, End, Started);
    if (Round > 0)
      return;
    Range From = getSent(Own.position), To = getReceived(Own.position);
    if (To.Bytes)
      Exec.device().copy(To.Data, From.Data, To.Bytes);
  }

private:
  int64_t getReceiver(int64_t Round) const {
    return (Own.position + Round) % What.count;
  }
  int64_t getSender(int64_t Round) const {
    return (Own.position + What.count - Round) % What.count;
  }

  void startTransfers(int64_t First, int64_t End, StartedExchange &Started) {
    Started.Transfers.clear();
    for (int64_t R = First; R < End; ++R) {
      Range From = getSent(getReceiver(R)), To = getReceived(getSender(R));
      Started.Transfers.push_back({From.Data, To.Data, From.Bytes, To.Bytes,
                                   static_cast<int>(getReceiver(R)),
                                   static_cast<int>(getSender(R))});
    }
    Started.Number =
        First < End ? Exec.collectives->startExchange(Started.Transfers) : -1;
  }

  /// Messages from one rank arrive in the order in which they were sent.
  void startMessages(int64_t First, int64_t End, StartedExchange &Started) {
    Started.NumMessages = 0;
    for (bool Sends : {false, true}) {
      for (int64_t R = First; R < End; ++R) {
        int64_t P = Sends ? getReceiver(R) : getSender(R);
        int Peer = static_cast<int>(Own.sharers[P]);
        Range Part = Sends ? getSent(P) : getReceived(P);
        if (Part.Bytes)
          Started.Messages[Started.NumMessages++] =
              Sends ? Exec.collectives->send(Peer, getKind(), Part.Data,
                                             Part.Bytes)
                    : Exec.collectives->receive(Peer, getKind(), Part.Data,
                                                Part.Bytes);
      }
      if (!Sends)
        Started.NumReceived = Started.NumMessages;
    }
  }

  /// The kind of exchanges: the first after those of a pipeline's messages.
  int getKind() const {
    const PoplarPipeline *Stage = Exec.program().pipeline;
    return 2 * static_cast<int>(Stage ? Stage->num_chunks : 1);
  }
  /// The piece of a rank's tokens, of a buffer that begins with token `First`.
  Range getTokens(void *Buffer, int64_t P, int64_t First) const {
    int64_t Begin = What.bounds[P], Tokens = What.bounds[P + 1] - Begin,
            From = Tokens * Piece / What.pieces,
            To = Tokens * (Piece + 1) / What.pieces,
            RowBytes = Batch * What.row_bytes;
    return {static_cast<char *>(Buffer) + (Begin - First + From) * RowBytes,
            (To - From) * RowBytes};
  }
  Range getOwnTokens(void *Buffer) const {
    return getTokens(Buffer, Own.position, What.bounds[Own.position]);
  }
  Range getSent(int64_t P) const {
    char *Value = static_cast<char *>(Buffers[0]);
    switch (What.kind) {
    case POPLAR_GATHER_TOKENS:
      return getOwnTokens(Value);
    case POPLAR_SCATTER_TOKENS:
      return getTokens(Value, P, 0);
    default:
      return {Value, Batch * What.row_bytes};
    }
  }
  Range getReceived(int64_t P) const {
    switch (What.kind) {
    case POPLAR_GATHER_TOKENS:
      return getTokens(Buffers[1], P, 0);
    case POPLAR_SCATTER_TOKENS:
      return getOwnTokens(Buffers[1 + P]);
    default:
      return {static_cast<char *>(Buffers[1 + P]), Batch * What.row_bytes};
    }
  }

  const Executor &Exec;
  const PoplarExchange &What;
  void *const *Buffers;
  int64_t Batch, Piece;
  const PoplarRank &Own;
};
} // namespace

void Executor::startExchange(const PoplarExchange &What, void *const *Buffers,
                             int64_t Batch, int64_t Round, int64_t Piece) {
  Exchange E(*this, What, Buffers, Batch, Piece);
  StartedExchange *Free = nullptr;
  for (StartedExchange &S : Exchanges) {
    if (S.What == &What && S.Round == Round && S.Piece == Piece)
      fail("round ", Round, " of an exchange begins before it is waited for");
    if (!S.What)
      Free = &S;
  }
  if (!Free)
    fail("more than ", Exchanges.size(), " pieces of exchanges are under way");
  Free->What = &What;
  Free->Round = Round;
  Free->Piece = Piece;
  Free->IsReceived = false;
  E.start(Round, *Free);
}

/// A send is complete when its receiver takes the message, and the receiver may
/// be computing. So each piece is waited for until it is received, and only the
/// last one until all pieces are sent.
void Executor::waitExchange(const PoplarExchange &What, int64_t Round,
                            int64_t Piece) {
  bool IsFound = false, IsLast = true;
  for (StartedExchange &S : Exchanges) {
    if (S.What != &What || S.IsReceived)
      continue;
    if (S.Round != Round || S.Piece != Piece) {
      IsLast = false;
      continue;
    }
    IsFound = S.IsReceived = true;
    if (collectives->hasExchanges()) {
      if (S.Number >= 0)
        collectives->waitExchange(S.Number);
      continue;
    }
    for (int I = 0; I < S.NumReceived; ++I)
      collectives->waitMessage(S.Messages[I]);
  }
  if (!IsFound)
    fail("round ", Round, " of an exchange is waited for, but has not begun");
  if (!IsLast)
    return;
  for (StartedExchange &S : Exchanges) {
    if (S.What != &What)
      continue;
    if (!collectives->hasExchanges())
      for (int I = S.NumReceived; I < S.NumMessages; ++I)
        collectives->waitMessage(S.Messages[I]);
    S.What = nullptr;
  }
}
