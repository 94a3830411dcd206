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
#include "Poplar/Workflow/StageRunner.h"
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

void printNext(llvm::ArrayRef<llvm::StringRef> words, llvm::StringRef label) {
  if (poplar::runsInWorkflow())
    return;
  llvm::outs() << label;
  for (llvm::StringRef word : words)
    llvm::outs() << " " << poplar::formatWord(word);
  llvm::outs() << "\n";
}
