//===- Executor.h - A program with its memory and threads -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXECUTOR_H
#define POPLAR_RUNTIME_EXECUTOR_H

#include "Gemm.h"
#include "JSON.h"
#include "Poplar/Runtime/ABI.h"

#include <string>
#include <vector>

namespace poplar::runtime {

/// Page-aligned, zeroed memory straight from the kernel.
class Arena {
public:
  Arena() = default;
  explicit Arena(int64_t Bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  void allocate(int64_t Bytes);
  char *data() const { return Memory; }

private:
  char *Memory = nullptr;
  int64_t Bytes = 0;
};

/// What the description of a program says about its model.
struct ModelInfo {
  explicit ModelInfo(const PoplarProgram &Program);

  std::string Architecture, Config, Precision, DeviceType;
  bool Masked = false;
  int64_t VocabSize = 0, SeqLen = 0, MaskToken = 0;
};

/// Owns the arena of a rank and runs the functions of its program in it. This
/// is the `context` that generated code hands back to poplar_rt_*.
class Executor {
public:
  /// Prepares every GEMM for each of `Batches` (of which the largest decides
  /// the size of the arena). `Threads` of 0 means all of this process's cores.
  Executor(const PoplarProgram &Program, const std::vector<int64_t> &Batches,
           int Threads);

  const PoplarProgram &program() const { return Program; }
  const ModelInfo &model() const { return Model; }
  int threads() const { return Threads; }
  /// All memory allocated for the program.
  int64_t peakBytes() const { return PeakBytes; }

  template <typename T = float> T *fixed(int64_t Offset) const {
    return reinterpret_cast<T *>(Memory.data() + Offset);
  }
  template <typename T> T *sized(int64_t Offset, int64_t Batch) const {
    return reinterpret_cast<T *>(Memory.data() + Program.fixed_bytes +
                                 Batch * Offset);
  }

  void train(int64_t B) { Program.train(this, Memory.data(), B); }
  void evaluate(int64_t B) { Program.evaluate(this, Memory.data(), B); }
  void infer(int64_t B) { Program.infer(this, Memory.data(), B); }
  /// After infer(B): copies `Count` rows of logits, [B * SeqLen, VocabSize],
  /// from row `First` on, to `Out`.
  void readLogits(int64_t B, int64_t First, int64_t Count, float *Out) const;

  void dispatch(PoplarKernel Kernel, void *const *Args, int64_t Batch,
                int64_t Extent, int64_t Grain);
  GemmCache &gemms() { return Gemms; }

  /// Refreshes the working copies of all parameters from the masters.
  void convertWorking();

private:
  const PoplarProgram &Program;
  ModelInfo Model;
  int Threads;
  int64_t PeakBytes = 0;
  GemmCache Gemms;
  Arena Memory, ExtraScratch;
};

/// fixed_bytes + Batch * bytes_per_sample.
inline int64_t getPeakBytes(const PoplarProgram &Program, int64_t Batch) {
  return Program.fixed_bytes + Batch * Program.bytes_per_sample;
}

/// "1.23 GiB".
std::string formatBytes(int64_t Bytes);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXECUTOR_H
