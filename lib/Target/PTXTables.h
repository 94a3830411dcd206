//===- PTXTables.h - Tables of constants in PTX -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TARGET_PTXTABLES_H
#define POPLAR_LIB_TARGET_PTXTABLES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace poplar {

/// Writes PTX with its tables in words of four bytes. LLVM writes them byte by
/// byte, which takes half as much text again.
///
///   .global .align 64 .b8 table[8] = {0, 0, 128, 63, 0, 0, 0, 64};
///   .global .align 64 .b32 table[2] = {1065353216,1073741824};
void writePTXTables(llvm::StringRef ptx, llvm::raw_ostream &out);

} // namespace poplar

#endif // POPLAR_LIB_TARGET_PTXTABLES_H
