//===- Optimizer.h - AdamW over the parameters of a program -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_OPTIMIZER_H
#define POPLAR_RUNTIME_OPTIMIZER_H

#include "Executor.h"

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
  /// Makes itself the optimizer of `Exec`.
  Optimizer(Executor &Exec, const AdamWSettings &Settings);

  /// Zeroes the rank's gradients, whole or sharded, before an iteration.
  void zeroGradients();
  /// Runs update number `Step`, counted from 0; returns the 2-norm of the
  /// gradients, before clipping. Nothing is changed if that is not finite.
  double update(int64_t Step, double Rate);

  // What the program's update calls.

  /// The norm of the gradients of all shards. Sums partial sums of fixed chunks
  /// in their order, so that it does not depend on the number of threads.
  void norm();
  /// Updates a shard.
  void adamw(int64_t Bucket);

private:
  Executor &Exec;
  AdamWSettings Settings;
  std::vector<double> Partial;
  /// Of the update under way. A clipping factor of 0 stands for no update.
  double Norm = 0;
  float Hyper[8] = {};
};

/// Fills the parameters by the initial distributions of the program, keyed by
/// (Seed, parameter, element).
void initializeParameters(Executor &Exec, uint64_t Seed);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_OPTIMIZER_H
