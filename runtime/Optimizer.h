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
  Optimizer(Executor &Exec, const AdamWSettings &Settings);

  void zeroGradients();
  /// The 2-norm of all gradients. Sums partial sums of fixed chunks in their
  /// order, so that it does not depend on the number of threads.
  double getGradientNorm();
  /// Update number `Step`, counted from 0, after clipping by `Norm`.
  void update(int64_t Step, double Rate, double Norm);

private:
  Executor &Exec;
  AdamWSettings Settings;
  std::vector<double> Partial;
};

/// Fills the masters by the initial distributions of the program, keyed by
/// (Seed, parameter, element).
void initializeParameters(Executor &Exec, uint64_t Seed);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_OPTIMIZER_H
