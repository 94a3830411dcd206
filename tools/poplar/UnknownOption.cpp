//===- UnknownOption.cpp - What a command did not take --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UnknownOption.h"
#include "support/OptionNames.h"
#include <algorithm>

/// Long names, without hyphens.
static std::vector<std::string> listOptions(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back(name);
  return names;
}

/// The options of `group`'s commands, and of theirs, each with the first
/// command that has it.
static void collectOptions(const CLI::App &group, const std::string &prefix,
                           poplar::runtime::OptionPlaces &places) {
  for (const CLI::App *command : group.get_subcommands(nullptr)) {
    std::string name = prefix + command->get_name();
    for (std::string &option : listOptions(*command))
      places.try_emplace(std::move(option), name);
    collectOptions(*command, name + " ", places);
  }
}

std::string describeExtras(const CLI::App &app) {
  const CLI::App *command = &app;
  std::string name = "poplar";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  std::vector<std::string> extras = command->remaining();
  // Programs that poplar build wrote take what is left.
  if (command == &app || command->get_prefix_command() || extras.empty())
    return "";
  auto unknown =
      std::find_if(extras.begin(), extras.end(), [](const std::string &word) {
        return word.size() > 1 && word[0] == '-' && !std::isdigit(word[1]);
      });
  if (unknown == extras.end())
    return "unexpected argument '" + extras.front() + "'; see " + name +
           " --help";
  poplar::runtime::OptionPlaces elsewhere;
  collectOptions(app, "", elsewhere);
  return poplar::runtime::explainUnknownOption(
      unknown->substr(0, unknown->find('=')), listOptions(*command),
      name + " --help", elsewhere);
}
