//===- Strip.h - White space as Python sees it ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_STRIP_H
#define POPLAR_RUNTIME_STRIP_H

#include <string>
#include <string_view>

namespace poplar::runtime {

/// `Text` without the characters at its ends that are white space, as Python's
/// str.strip() has it, or that are in `Chars`.
std::string_view strip(std::string_view Text, bool AtBegin = true,
                       bool AtEnd = true, const std::string *Chars = nullptr);

/// The position of the first white space in `Text`, or the size of `Text`.
size_t findSpace(std::string_view Text);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_STRIP_H
