//===- ProgramCosts.h - What a step of a model takes ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counted in the program of one device that trains the model alone, as the
// pipelines make it. Programs of deep models are not made: a model of few
// layers of each kind and one of one less of a kind tell what such a layer
// adds, and all layers of a kind add the same.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_SIMULATION_PROGRAMCOSTS_H
#define POPLAR_LIB_SIMULATION_PROGRAMCOSTS_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Cluster/Roofline.h"
#include "Poplar/Target/Build.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/MapVector.h"
#include <limits>

namespace poplar {

struct ProgramCosts {
  /// The ops of a micro-step: forward, backward, and what is computed again.
  std::vector<RooflineOp> ops;
  /// Elements of all buckets that are trained, padding included.
  int64_t trained = 0;
  /// peak_bytes(b) = fixedBytes + b * bytesPerSample
  int64_t fixedBytes = 0, bytesPerSample = 0;
};

/// What a device type compiles: in its precision, with its recomputation.
struct ProgramChoice {
  zero::ProgramInfo info;
  BuildOptions options;

  explicit ProgramChoice(const DeviceType &type);
  /// Device types whose programs are alike have the same.
  std::vector<std::string> getKey() const;
};

/// A program before and after its buffers are placed.
struct ShortProgram {
  mlir::OwningOpRef<mlir::ModuleOp> tensors, buffers;
};

/// Numbers of layers, by the function that all layers of a kind call.
using LayerCounts = llvm::MapVector<llvm::StringRef, int64_t>;

/// The layers of @model, at most so many of a kind.
LayerCounts countLayers(mlir::func::FuncOp model,
                        int64_t most = std::numeric_limits<int64_t>::max());

/// The program of the model with the first layers of each kind, as many as are
/// `kept`, or that of the first of `sharers` devices of a type that share
/// units. Fails with a diagnostic where it cannot be made.
llvm::FailureOr<ShortProgram> makeShortProgram(mlir::ModuleOp module,
                                               const LayerCounts &kept,
                                               const ProgramChoice &choice,
                                               int sharers = 1);

/// The same before its buffers are placed.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
makeShortTensors(mlir::ModuleOp module, const LayerCounts &kept,
                 const ProgramChoice &choice, int sharers = 1);

/// The ops of a function on tensors and of those that it calls.
std::vector<RooflineOp> countOps(mlir::ModuleOp program,
                                 mlir::func::FuncOp function);

/// Costs of the model in `module` as such a program. Fails with a
/// diagnostic where the program cannot be made.
llvm::FailureOr<ProgramCosts> getProgramCosts(mlir::ModuleOp module,
                                              const ProgramChoice &choice);

} // namespace poplar

#endif // POPLAR_LIB_SIMULATION_PROGRAMCOSTS_H
