//===- Text.h - Ends of texts -----------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SUPPORT_TEXT_H
#define POPLAR_RUNTIME_SUPPORT_TEXT_H

#include <string_view>

namespace poplar::runtime {

/// Whether a text ends with another.
inline bool endsWith(std::string_view Text, std::string_view End) {
  return Text.size() >= End.size() &&
         Text.substr(Text.size() - End.size()) == End;
}

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SUPPORT_TEXT_H
