//===- BuildOptions.h - Options of build and plan ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_BUILDOPTIONS_H
#define POPLAR_TOOLS_BUILDOPTIONS_H

#include "Poplar/Target/Build.h"
#include <CLI/CLI.hpp>

/// An option whose value is one of `words`.
template <typename Word, typename Range>
CLI::Option *addWordOption(CLI::App *command, const char *name, Word &value,
                           const Range &words, const char *description) {
  std::vector<std::string> names;
  for (Word word : words)
    names.push_back(poplar::toString(word));
  auto take = [&value](const std::string &text) {
    value = *poplar::parseWord<Word>(text);
  };
  return command->add_option_function<std::string>(name, take, description)
      ->default_str(poplar::toString(value))
      ->check(CLI::IsMember(std::move(names)));
}

/// Options that say how one device, the machine at hand, is compiled for.
void addBuildOptions(CLI::App *command, poplar::BuildOptions &options);

/// Options of these that are given but say nothing of a plan or a cluster,
/// which has its own answer for each device type: why the first of them is
/// refused. Empty if none is given. They are for `machine`.
std::string explainMachineOption(const CLI::App &command,
                                 const std::string &machine);

/// Options that say when collectives are started and waited for.
void addScheduleOptions(CLI::App *command, poplar::OverlapOptions &options);

/// Why one of these is refused where another leaves it nothing to do; empty if
/// none is.
std::string explainIdleScheduleOption(const CLI::App &command);

#endif // POPLAR_TOOLS_BUILDOPTIONS_H
