//===- Executor.h - A program with its memory and threads -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXECUTOR_H
#define POPLAR_RUNTIME_EXECUTOR_H

#include "Poplar/Runtime/ABI.h"
#include "comm/IslandLibrary.h"
#include "program/Device.h"
#include "program/ModelInfo.h"
#include "program/Pipeline.h"
#include "program/State.h"

#include <memory>
#include <string>
#include <vector>

namespace poplar::runtime {

class Collectives;
class Optimizer;

class ProductTrace;

/// Rounds of an exchange that are under way, or a piece of one: messages, those
/// that it receives first, or an exchange of the devices' library.
struct StartedExchange {
  const PoplarExchange *What = nullptr;
  int64_t Round = 0, Piece = 0, Number = -1;
  bool IsReceived = false;
  int Messages[2 * POPLAR_MAX_SHARERS], NumReceived = 0, NumMessages = 0;
  std::vector<comm::IslandLibrary::Transfer> Transfers;
};

/// Owns the arena of a rank and runs the functions of its program in it. This
/// is the `context` that generated code hands back to poplar_rt_*.
class Executor {
public:
  /// Prepares every GEMM for each of `Batches` (of which the largest decides
  /// the size of the arena). `Threads` of 0 means all of this process's cores.
  /// With `Samples`, there is room for caches and for all logits of a sample:
  /// decode() and infer() can be called.
  Executor(const PoplarProgram &Program, const std::vector<int64_t> &Batches,
           int Threads, int Rank = 0, bool Samples = false);

  const PoplarProgram &program() const { return Program; }
  const ModelInfo &model() const { return Model; }
  int threads() const { return Threads; }
  const State &state() const { return TheState; }
  /// The device whose memory holds the arena and all addresses below.
  Device &device() const { return Dev; }
  /// All memory allocated for the program.
  int64_t peakBytes() const { return PeakBytes; }
  /// Bytes of the arena in it, which has room for micro-batches of
  /// largestBatch().
  int64_t arenaBytes() const { return ArenaBytes; }
  int64_t largestBatch() const { return LargestBatch; }

  template <typename T = float> T *fixed(int64_t Offset) const {
    return reinterpret_cast<T *>(Memory + Offset);
  }
  template <typename T> T *sized(int64_t Offset, int64_t Batch) const {
    return reinterpret_cast<T *>(Memory + Program.fixed_bytes + Batch * Offset);
  }

  /// A micro-step; `Last` of its iteration.
  void train(int64_t B, bool Last) {
    Dev.run(Last ? Program.train_last : Program.train, this, Memory, B);
    products = nullptr;
  }
  void update() { Program.update(this, Memory, 0); }
  /// A turn of a pipeline stage, see Pipeline.
  void turn(PoplarTurn Function, char *const *Ports, int64_t B) {
    Function(this, Memory, Ports, B);
  }
  /// Whether another rank, with which this one shares units, counts the samples
  /// and the loss of both.
  bool isFollower() const {
    return Program.ranks && Program.ranks[TheState.rank()].position > 0;
  }
  /// Null in a program that is no pipeline stage.
  Pipeline *pipeline() const { return Turns.get(); }
  void evaluate(int64_t B) { Dev.run(Program.evaluate, this, Memory, B); }
  void infer(int64_t B) { Dev.run(Program.infer, this, Memory, B); }
  void decode(const PoplarDecoding &Function, int64_t B) {
    Dev.run(Function.run, this, Memory, B);
  }
  /// After a function of B samples that leaves logits at `Offset`: copies
  /// `Count` rows of them, [B * tokens, LogitsColumns], from row `First` on, to
  /// `Out`.
  void readLogits(int64_t Offset, int64_t B, int64_t First, int64_t Count,
                  float *Out) const;

  /// See poplar_rt_start_exchange and poplar_rt_wait_exchange.
  void startExchange(const PoplarExchange &What, void *const *Buffers,
                     int64_t Batch, int64_t Round, int64_t Piece);
  void waitExchange(const PoplarExchange &What, int64_t Round, int64_t Piece);
  /// On the host's threads, whatever the device.
  void dispatch(PoplarKernel Kernel, void *const *Args, int64_t Batch,
                int64_t Extent, int64_t Grain);

  /// The implementations of poplar_rt_norm and poplar_rt_adamw, and of
  /// poplar_rt_start and poplar_rt_wait. Set before either is called;
  /// collectives are null where the rank is alone.
  Optimizer *optimizer = nullptr;
  Collectives *collectives = nullptr;
  /// The record of the products of the next micro-step, if they are recorded.
  ProductTrace *products = nullptr;

private:
  const PoplarProgram &Program;
  ModelInfo Model;
  int Threads;
  int64_t PeakBytes = 0, ArenaBytes = 0, LargestBatch = 0;
  mutable Device Dev;
  State TheState;
  char *Memory = nullptr;
  std::unique_ptr<Pipeline> Turns;
  /// Room for all rounds and pieces under way of a scatter and of the gather
  /// that is chained to it.
  std::vector<StartedExchange> Exchanges =
      std::vector<StartedExchange>(2 * POPLAR_MAX_SHARERS * POPLAR_MAX_PIECES);
};

/// fixed_bytes + Batch * bytes_per_sample + the rank's shards, and what a stage
/// of a pipeline has for micro-batches in flight.
int64_t getPeakBytes(const PoplarProgram &Program, int64_t Batch, int Rank = 0);

/// "1.23 GiB".
std::string formatBytes(int64_t Bytes);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXECUTOR_H
