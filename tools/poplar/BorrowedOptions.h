//===- BorrowedOptions.h - Options of other commands ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_BORROWEDOPTIONS_H
#define POPLAR_TOOLS_BORROWEDOPTIONS_H

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// Options that a command has from another one, to which it gives them on. The
/// other one's texts describe them.
class BorrowedOptions {
public:
  /// Those of a command of `poplar`, in a group of --help.
  void addOf(CLI::App *command, const CLI::App &lender,
             const std::vector<std::string> &names, const std::string &group);
  /// Those of a program's `train`, but for those of tests and ranks and for
  /// those named in `without`.
  void addOfTraining(CLI::App *command,
                     const std::vector<std::string> &without);

  /// The given ones, as words: "--lr", "1e-4".
  std::vector<std::string> getWords() const;
  bool isGiven(const std::string &name) const;
  /// The values of one.
  std::vector<std::string> getValues(const std::string &name) const;

private:
  void add(CLI::App *command, const std::string &name, const std::string &text,
           const std::string &placeholder, const std::string &group);
  const CLI::Option *find(const std::string &name) const;

  std::vector<CLI::Option *> options;
};

/// What a program's `train` would say of the words; empty if nothing.
std::string checkTrainingWords(std::vector<std::string> words);

#endif // POPLAR_TOOLS_BORROWEDOPTIONS_H
