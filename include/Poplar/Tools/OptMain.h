//===- OptMain.h - poplar-opt, with more dialects ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_OPTMAIN_H
#define POPLAR_TOOLS_OPTMAIN_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace poplar {

/// The main function of a tool like poplar-opt, which knows the dialects in
/// `registry` besides Poplar's and those that its passes use. Returns the exit
/// status.
int runOptMain(int argc, char **argv, mlir::DialectRegistry &registry);

} // namespace poplar

#endif // POPLAR_TOOLS_OPTMAIN_H
