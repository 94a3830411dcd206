//===- Cluster.h - Cluster files --------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between cluster files and ops of the cluster dialect. The format is described
// in docs/cluster-file.md. Every function that can fail sets `error` to one
// line that names the file, the place in it and what is expected:
//   lab.json: nodes[2].count: expected an integer, found a string
//   lab.json: links[0]: unknown node @gpu9 (known: @gpu0, @gpu1)
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_CLUSTER_H
#define POPLAR_IMPORT_CLUSTER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <utility>
#include <vector>

namespace poplar {

/// Reads a cluster file, JSON or MLIR as its content shows. The module holds
/// its cluster ops alone, with at least one node. Null on failure.
mlir::OwningOpRef<mlir::ModuleOp> importCluster(llvm::StringRef path,
                                                mlir::MLIRContext &context,
                                                std::string &error);

/// Puts the ops of a cluster file at the start of a module, which must not
/// describe a cluster yet. On failure the module is as it was.
llvm::LogicalResult applyClusterFile(mlir::ModuleOp module,
                                     llvm::StringRef path, std::string &error);

/// Adds what was measured, profiles and links in a file or in all *.json files
/// of a directory, to a module that describes a cluster. Links replace those
/// between the same nodes, or inside the same one. On failure the module is as
/// it was.
llvm::LogicalResult applyProfiles(mlir::ModuleOp module, llvm::StringRef path,
                                  std::string &error);

/// The cluster ops of a verified module as a cluster file in JSON. A module
/// with nothing but profiles gives a file of profiles.
std::string exportClusterJSON(mlir::ModuleOp module);

/// What a cluster file can say of a machine without measuring it.
struct HostMachine {
  /// Name of the processor and of its features, as LLVM has them.
  std::string processor;
  std::vector<std::string> features;
  int cores = 1;
  /// Bytes that programs may use without swapping.
  int64_t memory = 0;
};

/// The machine at hand. Fails where memory cannot be found out.
llvm::LogicalResult detectHost(HostMachine &machine, std::string &error);

/// Host targets that the processor has the instructions for, without the
/// prefix ("avx2-f32"), the fastest first.
std::vector<std::string> getHostTypes(const HostMachine &machine);

/// A cluster of one node with these ranks, by type: "host" or one of
/// getHostTypes. Cores and memory are shared equally by the ranks. All types
/// that the processor supports are declared. Null on failure.
mlir::OwningOpRef<mlir::ModuleOp>
describeHost(const HostMachine &machine,
             const std::vector<std::pair<std::string, int>> &ranks,
             mlir::MLIRContext &context, std::string &error);

} // namespace poplar

#endif // POPLAR_IMPORT_CLUSTER_H
