//===- Names.cpp - Names of devices and nodes -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace poplar;

bool poplar::isName(llvm::StringRef name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         llvm::isAlnum(name.front()) && llvm::all_of(name, [](char c) {
           return llvm::isAlnum(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string poplar::describeNameRule() {
  return "a name starts with a letter or a digit, holds letters, digits, '.', "
         "'_' and '-', and has " +
         std::to_string(kMaxNameLength) + " characters at most";
}

std::string poplar::showName(llvm::StringRef name) {
  // Enough to recognize it by.
  constexpr size_t shown = 2 * kMaxNameLength;
  std::string text = "'";
  llvm::raw_string_ostream stream(text);
  llvm::printEscapedString(name.take_front(shown), stream);
  return text + (name.size() > shown ? "...'" : "'");
}

std::string poplar::quoteForShell(llvm::StringRef text) {
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string poplar::formatWord(llvm::StringRef word) {
  bool isPlain = !word.empty() && llvm::all_of(word, [](char c) {
    return llvm::isAlnum(c) || llvm::StringRef("_./:=,+-").contains(c);
  });
  return isPlain ? word.str() : quoteForShell(word);
}
