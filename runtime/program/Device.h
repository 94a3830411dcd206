//===- Device.h - What a rank computes on -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There is one implementation per backend, runtime/host/ and runtime/cuda/, and
// an executable is linked with the one that its device type is compiled for.
// The rest of the runtime holds addresses of the device's memory and hands them
// back; it reads and writes there through copyIn() and copyOut() only, unless
// sharesMemory().
//
// Work is done in the order in which it is given. What is not said to wait may
// return before it is done.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_DEVICE_H
#define POPLAR_RUNTIME_DEVICE_H

#include "Poplar/Runtime/ABI.h"
#include "program/Quantized.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace poplar::runtime {

struct ValueList {
  const float *Values;
  int64_t Count;
};

/// Sums of squares of `Count` values: one for each POPLAR_SUM_CHUNK of them.
inline int64_t countSumChunks(int64_t Count) {
  return (Count + POPLAR_SUM_CHUNK - 1) / POPLAR_SUM_CHUNK;
}

class Device {
public:
  /// The device on which `Rank` runs `Program`, with `Threads` threads of the
  /// host. Throws an Error with the remedy if there is no such device.
  Device(const PoplarProgram &Program, int Rank, int Threads);
  ~Device();

  /// Whether its memory is the host's.
  bool sharesMemory() const;
  /// Zeroed memory that lives as long as the device.
  char *allocate(int64_t Bytes);
  /// Bytes that the device uses itself, besides those that were allocated.
  int64_t getOwnBytes() const;

  /// Addresses and sizes of the allocated memory.
  std::vector<std::pair<void *, int64_t>> getMemory() const;

  /// Copies from the host's memory, which may be reused on return.
  void copyIn(void *To, const void *From, int64_t Bytes);
  /// Copies to the host's memory, and waits for the copy.
  void copyOut(void *To, const void *From, int64_t Bytes);
  /// Copies between two ranges of the device's memory that do not overlap.
  void copy(void *To, const void *From, int64_t Bytes);
  void zero(void *Memory, int64_t Bytes);
  /// Fills with NaN, in all formats.
  void poison(void *Memory, int64_t Bytes);
  /// Waits until everything is done.
  void synchronize();
  /// A point behind all work given so far, for communicators of the device's
  /// memory to wait for (comm::Collective::After); null where nothing returns
  /// before it is done. `Number` may be given again once nobody waits any more.
  void *recordPoint(int64_t Number);
  /// Lets all later work wait for a point of a communicator
  /// (comm::DeviceOrder); the host goes on.
  void waitFor(void *Point);

  /// Prepares `Gemm` for `Batch`, unless it is prepared. Throws an Error if the
  /// device cannot run it.
  void prepareGemm(const PoplarGemm &Gemm, int64_t Batch);
  /// Bytes of scratch that the prepared products need...
  int64_t getScratchBytes() const;
  /// ...and the scratch it gets, of at least as many.
  void setScratch(void *Memory, int64_t Bytes);
  void runGemm(const PoplarGemm &Gemm, const void *A, const void *B,
               const void *Bias, void *Aux, void *C, int64_t Batch);

  /// See poplar_rt_attention.
  void runAttention(const PoplarLibraryAttention &What, void *const *Args,
                    int64_t Batch);

  /// Runs a function of the program. What it gives the device to do, apart from
  /// copies and waits, is the same whenever it is run for `Batch`: a device may
  /// keep that and start it as a whole.
  void run(PoplarFunction Function, void *Context, char *Arena, int64_t Batch);

  /// See poplar_rt_launch.
  void launch(int64_t Kernel, void *const *Args, int64_t Batch, int64_t Extent);

  /// Sums of squares of every POPLAR_SUM_CHUNK values of each list, in f64 and
  /// in an order that depends on nothing else, to the host's memory; waits
  /// once. A list has at most as many values as its bucket.
  void sumSquares(const std::vector<ValueList> &Lists, double *Sums);
  /// Multiplies by a power of two. Whether any product is not finite is known
  /// by the next takeOverflow(), which waits and forgets.
  void scale(float *Values, int64_t Count, float Factor);
  bool takeOverflow();
  /// nn.adamw of the program; `Hyper` is the host's.
  void updateAdamW(float *Values, float *Gradients, float *Moment1,
                   float *Moment2, const float (&Hyper)[8], int64_t Count);
  /// The same with moments in blocks, the first of which begin at the
  /// first element. Moments are rounded after the update.
  void updateAdamW(float *Values, float *Gradients, const MomentBlocks &Moment1,
                   const MomentBlocks &Moment2, const float (&Hyper)[8],
                   int64_t Count);
  /// Rounds f32 to the working type, which is another.
  void convertWorking(const float *From, char *To, int64_t Count);

  /// FLOP/s of square matrix products, the best of several short runs: what
  /// MFU is measured against. Takes under half a second.
  double measurePeakFlops(PoplarType Type);
  /// Computes on one core, as a rank would, piece by piece while `GoesOn`;
  /// returns at once where ranks do not compute on cores.
  static void occupyCore(const std::function<bool()> &GoesOn);

private:
  struct Impl;
  std::unique_ptr<Impl> Data;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_DEVICE_H
