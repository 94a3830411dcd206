//===- Names.h - Names of devices and nodes ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names of device types and nodes become names of directories and hosts,
// and words of scripts. One rule holds for all of them, wherever they come
// from.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_NAMES_H
#define POPLAR_SUPPORT_NAMES_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace poplar {

inline constexpr size_t kMaxNameLength = 64;

/// Whether `name` matches [A-Za-z0-9][A-Za-z0-9._-]* and is short enough.
bool isName(llvm::StringRef name);

/// The rule of isName in words, for errors.
std::string describeNameRule();

/// `name` in quotation marks, with control characters and the like escaped: an
/// error stays one line whatever it names.
std::string showName(llvm::StringRef name);

/// One word of a POSIX shell script, whatever `text` holds.
std::string quoteForShell(llvm::StringRef text);

/// A word as a shell takes it: in quotes, unless it needs none.
std::string formatWord(llvm::StringRef word);

} // namespace poplar

#endif // POPLAR_SUPPORT_NAMES_H
