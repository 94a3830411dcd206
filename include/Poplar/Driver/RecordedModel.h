//===- RecordedModel.h - A module against its configuration -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_RECORDEDMODEL_H
#define POPLAR_DRIVER_RECORDEDMODEL_H

#include "mlir/IR/BuiltinOps.h"

namespace poplar {

/// Checks that a module computes what the configuration in its nn.model says,
/// which its checkpoints get as config.json.
///
/// - The configuration is imported again, with the options that nn.model has
///   (seq_len, dropout, packing, adapters, the format of frozen weights).
/// - Every nn.parameter and function of the import is in the module, and the
///   module has no others.
/// - Functions have the same ops in the same order, with the same attributes,
///   types and operands.
/// - nn.model has the facts of the import.
///
/// A module without `config` is as its author wrote it: its checkpoints have
/// no configuration that could disagree.
mlir::LogicalResult verifyRecordedModel(mlir::ModuleOp module);

} // namespace poplar

#endif // POPLAR_DRIVER_RECORDEDMODEL_H
