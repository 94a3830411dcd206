//===- BorrowedOptions.cpp - Options of other commands --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BorrowedOptions.h"
#include "job/Options.h"
#include "support/Error.h"
#include <algorithm>
#include <cctype>

using namespace poplar;

void BorrowedOptions::add(CLI::App *command, const std::string &name,
                          const std::string &text,
                          const std::string &placeholder,
                          const std::string &group) {
  CLI::Option *option =
      placeholder.empty()
          ? command->add_flag("--" + name, text)
          : command->add_option("--" + name, text)
                ->type_name(placeholder)
                ->expected(1)
                ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  options.push_back(option->group(group));
}

void BorrowedOptions::addOf(CLI::App *command, const CLI::App &lender,
                            const std::vector<std::string> &names,
                            const std::string &group) {
  for (const std::string &name : names) {
    const CLI::Option *option = lender.get_option("--" + name);
    bool isFlag = option->get_expected_max() == 0;
    add(command, name, option->get_description(),
        isFlag ? "" : option->get_type_name(), group);
    options.back()->default_str(option->get_default_str());
  }
}

static std::string capitalize(std::string text) {
  text[0] = static_cast<char>(std::toupper(text[0]));
  return text;
}

void BorrowedOptions::addOfTraining(CLI::App *command,
                                    const std::vector<std::string> &without) {
  for (const runtime::OptionText &text :
       runtime::describeOptions(runtime::Options::Train))
    if (text.Group != "Testing" && text.Group != "Ranks" &&
        std::count(without.begin(), without.end(), text.Name) == 0)
      add(command, text.Name, capitalize(text.Help), text.Placeholder,
          text.Group);
}

std::vector<std::string> BorrowedOptions::getWords() const {
  std::vector<std::string> words;
  for (const CLI::Option *option : options) {
    if (option->count() == 0)
      continue;
    std::string word = "--" + option->get_lnames().front();
    if (option->get_expected_max() == 0)
      words.push_back(word);
    else
      for (const std::string &value : option->results())
        words.insert(words.end(), {word, value});
  }
  return words;
}

const CLI::Option *BorrowedOptions::find(const std::string &name) const {
  auto found = std::find_if(
      options.begin(), options.end(), [&](const CLI::Option *option) {
        return option->get_lnames().front() == name && option->count() > 0;
      });
  return found == options.end() ? nullptr : *found;
}

bool BorrowedOptions::isGiven(const std::string &name) const {
  return find(name) != nullptr;
}

std::vector<std::string>
BorrowedOptions::getValues(const std::string &name) const {
  const CLI::Option *option = find(name);
  return option ? option->results() : std::vector<std::string>();
}

std::string checkTrainingWords(std::vector<std::string> words) {
  words.insert(words.begin(), {"poplar", "train"});
  std::vector<const char *> argv;
  for (const std::string &word : words)
    argv.push_back(word.c_str());
  try {
    runtime::parseOptions(static_cast<int>(argv.size()), argv.data());
  } catch (const runtime::Error &error) {
    return error.what();
  }
  return "";
}
