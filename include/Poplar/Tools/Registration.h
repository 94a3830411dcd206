//===- Registration.h - All dialects and passes --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_REGISTRATION_H
#define POPLAR_TOOLS_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace poplar {

/// Adds Poplar's dialects and those that its passes use to `registry`, and
/// registers the passes and pipelines by their flags.
void registerDialectsAndPasses(mlir::DialectRegistry &registry);

} // namespace poplar

#endif // POPLAR_TOOLS_REGISTRATION_H
