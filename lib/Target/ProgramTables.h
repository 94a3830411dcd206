//===- ProgramTables.h - exec.program as constants of LLVM IR ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TARGET_PROGRAMTABLES_H
#define POPLAR_LIB_TARGET_PROGRAMTABLES_H

#include "Poplar/Dialect/Exec/Exec.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringRef.h"

namespace llvm {
class Constant;
class Module;
} // namespace llvm

namespace poplar {

/// The constant that the runtime looks for: a PoplarProgram.
inline constexpr llvm::StringLiteral kProgramSymbol = "poplar_program";

/// The constant that a record stands for. The module has to have the data
/// layout of the target.
llvm::Constant *writeRecord(exec::RecordAttr record, llvm::Module &module);

/// Lets exec.program be translated to LLVM IR. The module has to have the data
/// layout of the target.
void registerProgramTranslation(mlir::MLIRContext &context);

} // namespace poplar

#endif // POPLAR_LIB_TARGET_PROGRAMTABLES_H
