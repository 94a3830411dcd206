//===- Optimizer.h - AdamW over the parameters of a program -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_OPTIMIZER_H
#define POPLAR_RUNTIME_OPTIMIZER_H

#include "program/Executor.h"

#include <vector>

namespace poplar::runtime {

struct AdamWSettings {
  double Beta1, Beta2, Epsilon, WeightDecay;
  /// Largest 2-norm of the gradient; 0: no clipping.
  double Clip;
};

/// The generated nn.adamw kernel with what surrounds it: zeroing, the global
/// norm, the decay mask and bias correction. Allocates only when constructed.
class Optimizer {
public:
  static constexpr double LargestScale = 1 << 24;
  static constexpr int64_t ScaleInterval = 1000;

  /// Makes itself the optimizer of `Exec`.
  Optimizer(Executor &Exec, const AdamWSettings &Settings);

  /// Zeroes the rank's gradients, whole or sharded, before an iteration.
  void zeroGradients();
  /// Runs update number `Step`, counted from 0; returns the 2-norm of the
  /// gradients, before clipping. Nothing is changed if that is not finite, nor,
  /// on any rank, after an overflow on one.
  double update(int64_t Step, double Rate);
  /// Whether the last update was skipped because gradients have overflowed in a
  /// program that keeps them in f16.
  bool hasOverflowed() const { return Overflowed; }

  /// The factor of the loss that keeps small gradients from vanishing in f16: 1
  /// if no gradients are stored in f16. An overflow of this rank, in pipelines
  /// of any rank, halves it, and ScaleInterval steps without one double it.
  double lossScale() const { return Scale; }
  /// Has no effect unless gradients are stored in f16. Rounds down to a power
  /// of two, so that scaling is exact.
  void setLossScale(double NewScale);

  // Functions that the program's update calls.

  /// The norm of the gradients of all shards. Sums partial sums of fixed chunks
  /// in their order, so that it does not depend on the number of threads.
  void norm();
  /// Updates a shard.
  void adamw(int64_t Bucket);
  /// Divides whole gradients of a bucket by the loss scale; notes overflows.
  void unscale(int64_t Bucket, float *Gradients);
  void unscaleShards();

private:
  Executor &Exec;
  AdamWSettings Settings;
  std::vector<ValueList> Gradients;
  std::vector<double> Partial;
  /// The norm of the update under way. A clipping factor of 0 stands for no
  /// update.
  double Norm = 0;
  double Scale = 1;
  int64_t StepsSinceOverflow = 0;
  /// Overflows of this rank, and of any rank.
  bool OverflowHere = false, Overflowed = false;
  void adaptScale();
  float Hyper[8] = {};
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_OPTIMIZER_H
