//===- JoinMachines.h - One cluster of several machines ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_JOINMACHINES_H
#define POPLAR_IMPORT_JOINMACHINES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace poplar {

/// A cluster of one node, as it was detected on a machine.
struct DetectedMachine {
  /// What the other machines call it.
  std::string name;
  mlir::OwningOpRef<mlir::ModuleOp> cluster;
};

/// Latency in seconds and bandwidth in bytes per second, in each direction.
struct NetworkSpeed {
  double latency, bandwidth;
  std::string source;
};

/// A cluster with a node of each machine and the same link between every two.
/// Device types that differ in nothing but memory are one, with the least
/// memory; others of one name are renamed after their machine. Null on failure:
/// two machines of one name, or a CPU for which a program can only be built on
/// its own machine.
mlir::OwningOpRef<mlir::ModuleOp>
joinMachines(const std::vector<DetectedMachine> &machines,
             const NetworkSpeed &network, mlir::MLIRContext &context,
             std::string &error);

} // namespace poplar

#endif // POPLAR_IMPORT_JOINMACHINES_H
