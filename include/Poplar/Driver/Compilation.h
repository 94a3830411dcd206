//===- Compilation.h - A module on its way to executables -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_COMPILATION_H
#define POPLAR_DRIVER_COMPILATION_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Target/Build.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

namespace poplar {

/// A module with everything it needs alive. Functions return false on failure,
/// with one line for the user in `error`.
class Compilation {
public:
  /// With `timed`, prints on stderr, at its end, what took how long.
  explicit Compilation(bool timed = false);

  /// Parses a file of any of the project's dialects.
  bool load(const std::string &path);
  mlir::ModuleOp getModule() { return *module; }
  /// Takes a module made from this one.
  void setModule(mlir::OwningOpRef<mlir::ModuleOp> made) {
    module = std::move(made);
  }

  /// Runs a pipeline on the module or on one inside it.
  bool run(mlir::ModuleOp target,
           llvm::function_ref<void(mlir::OpPassManager &)> build);

  /// Replaces the plan of a module by the programs of its device types, modules
  /// inside that one, at the scheduled level and checked against each other; at
  /// `last` and unchecked if that comes earlier.
  bool schedule(mlir::ModuleOp target, const OverlapOptions &options,
                IRLevel last = IRLevel::Zero);

  /// Writes `directory`/train, or nothing at all, from a planned program; what
  /// there is to say about a GPU's kernels goes to `report`.
  bool emit(mlir::ModuleOp program, const BuildOptions &options,
            const std::string &directory, std::string &report);

  std::string error;

private:
  std::string describe(mlir::Location location) const;

  mlir::DefaultTimingManager timingManager;
  mlir::TimingScope timing;
  mlir::MLIRContext context;
  /// The file that was loaded.
  std::string source;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace poplar

#endif // POPLAR_DRIVER_COMPILATION_H
