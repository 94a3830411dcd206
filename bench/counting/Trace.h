//===- Trace.h - What a program asks of CUDA, as lines of text --*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_BENCH_COUNTING_TRACE_H
#define POPLAR_BENCH_COUNTING_TRACE_H

#include <string>

namespace poplar::counting {

/// The file that POPLAR_COUNTING_TRACE names; images are beside it.
std::string getTracePath();

/// Appends a line to the trace.
void note(const std::string &line);

} // namespace poplar::counting

#endif // POPLAR_BENCH_COUNTING_TRACE_H
