//===- ProgramDescription.h - The PoplarProgram of a module -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_PROGRAMDESCRIPTION_H
#define POPLAR_TARGET_PROGRAMDESCRIPTION_H

#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace llvm {
class Module;
} // namespace llvm

namespace poplar {

struct HostOptions;

/// What the runtime must know of a program: taken from a module that is
/// planned but not yet lowered, and emitted as `poplar_program` into its
/// translation.
class ProgramDescription {
public:
  /// Fails with a diagnostic if something is missing.
  llvm::LogicalResult take(mlir::ModuleOp module, const HostOptions &options);

  /// Adds the constant to the translated module.
  void emit(llvm::Module &module) const;

private:
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    int64_t elements;
    int32_t init, decay;
    double stdDev;
    /// Offsets of master, gradient, moments, working copy; its type.
    std::vector<int64_t> places;
  };
  std::vector<Parameter> parameters;
  std::string json;
  int64_t fixedBytes = 0, bytesPerSample = 0, scratchOffset = 0,
          scratchBytes = 0;
  std::vector<int64_t> inputs;
  int64_t trainLoss = 0, evaluateLoss = 0, logits = 0;
  int32_t logitsType = 0;
  double flopsPerSample = 0;
  std::string adamwKernel, convertKernel;
};

} // namespace poplar

#endif // POPLAR_TARGET_PROGRAMDESCRIPTION_H
