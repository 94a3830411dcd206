//===- Export.h - poplar export ---------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXPORT_H
#define POPLAR_RUNTIME_EXPORT_H

#include "Poplar/Runtime/ABI.h"
#include "job/Options.h"

namespace poplar::runtime {

/// Writes the model of a run, with its adapters added, its tokenizer and its
/// chat template, to the GGUF file O.Out, which llama.cpp can run.
void exportModel(const PoplarProgram &Program, const Options &O);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXPORT_H
