//===- Exchange.cpp - Between ranks that share units
//--------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Collectives.h"
#include "support/Error.h"
#include "training/Executor.h"

using namespace poplar::runtime;

namespace {
/// Part of a buffer.
struct Range {
  char *Data;
  int64_t Bytes;
};

/// What a rank gives to each of those that share its units, and gets from them.
class Exchange {
public:
  Exchange(const Executor &Exec, const PoplarExchange &What,
           void *const *Buffers, int64_t Batch)
      : Exec(Exec), What(What), Buffers(Buffers), Batch(Batch),
        Own(Exec.program().ranks[Exec.state().rank()]) {}

  void run() {
    if (Own.num_sharers != What.count)
      fail("the program exchanges values among ", What.count,
           " ranks, but the plan has ", Own.num_sharers, "; build it again");
    // Messages from one rank arrive in the order in which they were sent.
    int Kind = getKind(), Messages[2 * POPLAR_MAX_SHARERS], Count = 0;
    for (bool Sends : {false, true})
      for (int64_t P = 0; P < What.count; ++P) {
        int Peer = static_cast<int>(Own.sharers[P]);
        Range R = Sends ? getSent(P) : getReceived(P);
        if (P != Own.position && R.Bytes)
          Messages[Count++] =
              Sends ? Exec.collectives->send(Peer, Kind, R.Data, R.Bytes)
                    : Exec.collectives->receive(Peer, Kind, R.Data, R.Bytes);
      }
    Range From = getSent(Own.position), To = getReceived(Own.position);
    if (To.Bytes)
      Exec.device().copy(To.Data, From.Data, To.Bytes);
    for (int I = 0; I < Count; ++I)
      Exec.collectives->waitMessage(Messages[I]);
  }

private:
  /// Behind those of a pipeline's messages.
  int getKind() const {
    const PoplarPipeline *Stage = Exec.program().pipeline;
    return 2 * static_cast<int>(Stage ? Stage->num_chunks : 1);
  }
  /// Tokens of a rank, of a buffer of all.
  Range getTokens(void *Buffer, int64_t P) const {
    return {static_cast<char *>(Buffer) +
                Batch * What.bounds[P] * What.row_bytes,
            countBytes(P)};
  }
  int64_t countBytes(int64_t P) const {
    return Batch * (What.bounds[P + 1] - What.bounds[P]) * What.row_bytes;
  }
  Range getSent(int64_t P) const {
    char *Value = static_cast<char *>(Buffers[0]);
    switch (What.kind) {
    case POPLAR_GATHER_TOKENS:
      return {Value, countBytes(Own.position)};
    case POPLAR_SCATTER_TOKENS:
      return getTokens(Value, P);
    default:
      return {Value, Batch * What.row_bytes};
    }
  }
  Range getReceived(int64_t P) const {
    switch (What.kind) {
    case POPLAR_GATHER_TOKENS:
      return getTokens(Buffers[1], P);
    case POPLAR_SCATTER_TOKENS:
      return {static_cast<char *>(Buffers[1 + P]), countBytes(Own.position)};
    default:
      return {static_cast<char *>(Buffers[1 + P]), Batch * What.row_bytes};
    }
  }

  const Executor &Exec;
  const PoplarExchange &What;
  void *const *Buffers;
  int64_t Batch;
  const PoplarRank &Own;
};
} // namespace

void Executor::exchange(const PoplarExchange &What, void *const *Buffers,
                        int64_t Batch) const {
  Exchange(*this, What, Buffers, Batch).run();
}
