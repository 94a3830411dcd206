//===- Pipeline.h - Turns of a pipeline stage -------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank of a pipeline stage runs the turns of its program in the order of the
// plan. It posts a receive as soon as there is memory for the message, and its
// sends leave while it computes.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PIPELINE_H
#define POPLAR_RUNTIME_PIPELINE_H

#include "Poplar/Runtime/ABI.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace poplar::runtime {

class Executor;

/// The micro-batches that go through a pipeline, numbered from 0.
class MicroBatches {
public:
  virtual ~MicroBatches() = default;
  virtual int64_t count() const = 0;
  /// Samples of one.
  virtual int64_t size(int64_t Number) const = 0;
  /// Writes its inputs, from `Slot` + size * their offsets on; with those of
  /// the loss if `HasLoss`.
  virtual void fill(int64_t Number, char *Slot, bool HasLoss) = 0;
  /// Its last forward pass is done: takes what came of it.
  virtual void take(int64_t Number) = 0;
};

class Pipeline {
public:
  /// In `Memory`, getBytesPerSample() times the largest micro-batch.
  Pipeline(Executor &Exec, char *Memory);

  /// Memory of micro-batches in flight and messages, as Runtime/ABI.h counts
  /// it; 0 in a program that is no pipeline stage, or another than the rank's.
  static int64_t getBytesPerSample(const PoplarProgram &Program, int Rank);

  /// Forward and backward of all micro-batches of an iteration.
  void train(MicroBatches &Work);
  /// Forward only.
  void evaluate(MicroBatches &Work);
  void infer(MicroBatches &Work);
  /// Through PoplarProgram's decode, or prefill of a prompt.
  void decode(MicroBatches &Work, bool IsPrompt);

  // Functions that a turn calls.

  void send(int64_t Kind);
  void receive(int64_t Kind);

private:
  /// Buffers that micro-batches use one after the other. Buffers of messages
  /// also have the message under way from or to each (-1: none).
  struct Ring {
    char *Base = nullptr;
    int64_t Count = 0, Stride = 0, Bytes = 0;
    /// The ranks that send or receive rows of messages, the rows per sample,
    /// and the kind of the messages (see Collectives).
    const PoplarLink *Links = nullptr;
    int64_t NumLinks = 0, Rows = 1;
    int Kind = -1;
    bool IsSent = false;
    std::vector<int> Messages;

    bool exists() const { return Bytes > 0; }
    char *at(int64_t Number) const { return Base + Number % Count * Stride; }
    int &message(int64_t Number, int64_t Link) {
      return Messages[static_cast<std::size_t>(Number % Count * NumLinks +
                                               Link)];
    }
    /// Begin of the part of a message of `Samples` that goes over a link: with
    /// `Tokens` of a sample all of them, with 0 those of the link.
    char *at(int64_t Number, int64_t Link, int64_t Samples,
             int64_t Tokens) const {
      int64_t First = Tokens ? 0 : Links[Link].first;
      return at(Number) + Samples * First * (Bytes / Rows);
    }
    int64_t bytes(int64_t Link, int64_t Samples, int64_t Tokens) const {
      return Samples * (Tokens ? Tokens : Links[Link].count) * (Bytes / Rows);
    }
  };
  /// A range of units with its memory, and how far the run under way has come
  /// in it. The last one of the last stage has the loss.
  struct Chunk {
    const PoplarChunk *Program = nullptr;
    bool HasLoss = false;
    Ring Rings[POPLAR_NUM_PORTS];
    int64_t Forwards = 0, Backwards = 0;
    int64_t PostedActivations = 0, PostedGradients = 0;
  };

  void addRing(Chunk &C, int64_t Number, int Port);
  void begin(MicroBatches &NewWork, bool Trains);
  void end();
  void runForward(MicroBatches &Work, PoplarTurn PoplarChunk::*Function);
  void takeTurn(Chunk &C, PoplarTurn Function, bool IsBackward);
  bool isUsed(const Ring &R, int64_t Link) const;
  void postReceives(Chunk &C);
  void post(Ring &R, int64_t &Posted, int64_t Done, int64_t Free);
  void finish(Ring &R, int64_t Number);

  Executor &Exec;
  const PoplarPipeline &Stage;
  const PoplarRank &Rank;
  std::vector<Chunk> Chunks;

  // State of the run under way. Passes are numbered in their order, which is
  // that of all chunks of all stages.
  MicroBatches *Work = nullptr;
  bool HasBackward = false;
  /// Tokens of each sample in a message, if they are not all.
  int64_t Tokens = 0;
  /// The micro-batch of each pass.
  std::vector<int64_t> Order;
  /// The chunk whose turn it is.
  Chunk *Current = nullptr;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PIPELINE_H
