//===- Output.h - What commands print ---------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_OUTPUT_H
#define POPLAR_TOOLS_OUTPUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

/// Prints the command that goes on from what this one wrote, behind `label`;
/// nothing in a workflow, which says itself what is next.
/// Words in capitals are for the user to fill in; all others are quoted for a
/// shell.
void printNext(llvm::ArrayRef<llvm::StringRef> words,
               llvm::StringRef label = "next:");

#endif // POPLAR_TOOLS_OUTPUT_H
