//===- HelpFormatter.cpp - The texts of --help ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HelpFormatter.h"
#include <sstream>

/// Breaks lines between words, so that they have at most `width` characters.
static std::string wrap(const std::string &text, size_t width) {
  std::istringstream words(text);
  std::string result, word;
  size_t column = 0;
  while (words >> word) {
    if (column > 0 && column + 1 + word.size() > width) {
      result += '\n';
      column = 0;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string HelpFormatter::make_option_name(const CLI::Option *option,
                                            bool isPositional) const {
  std::string name = CLI::Formatter::make_option_name(option, isPositional);
  // The library names what a flag sets: --synchronous{false}.
  return name.substr(0, name.find('{'));
}

std::string HelpFormatter::make_option_opts(const CLI::Option *option) const {
  if (option->get_type_size() == 0)
    return "";
  // What is allowed follows a colon: "TEXT:{a,b}", "INT:INT in [1 - 64]". One
  // in brackets is part of the value: "TYPE=PARTITION[:GPU]".
  std::string type = option->get_type_name(), allowed;
  if (size_t colon = type.find(':');
      colon != std::string::npos && type[colon - (colon > 0)] != '[') {
    allowed = type.substr(colon + 1);
    type.resize(colon);
  }
  if (allowed.rfind('{', 0) == 0)
    type = allowed;
  else if (type == "INT" || type == "UINT")
    type = "N";
  return " " + type + (option->get_required() ? " (required)" : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option *option) const {
  std::string text = option->get_description();
  std::string value = option->get_default_str();
  // Where 0 stands for what is chosen otherwise, the text says what.
  if (option->get_type_size() != 0 && !value.empty() && value != "0" &&
      value != "-1" && value != "[]" &&
      text.find("default") == std::string::npos)
    text += " (default: " + value + ")";
  return wrap(text, 68);
}
