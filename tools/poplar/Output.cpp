//===- Output.cpp - What commands print -----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Output.h"
#include "Commands.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

int reportError(const std::string &message) {
  llvm::errs() << "poplar: error: " << message << "\n";
  return 1;
}

bool writeFile(const std::string &path, const std::string &contents) {
  std::string error;
  if (poplar::writeFile(path, contents, error))
    return true;
  reportError(error);
  return false;
}

std::string formatWord(llvm::StringRef word) {
  bool isPlain = !word.empty() && llvm::all_of(word, [](char c) {
    return llvm::isAlnum(c) || llvm::StringRef("_./:=,+-").contains(c);
  });
  return isPlain ? word.str() : poplar::quoteForShell(word);
}

void printNext(llvm::ArrayRef<llvm::StringRef> words, llvm::StringRef label) {
  llvm::outs() << label;
  for (llvm::StringRef word : words)
    llvm::outs() << " " << formatWord(word);
  llvm::outs() << "\n";
}
