//===- OptionNames.h - Options by the names others give them ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Suggestions for options that a command does not have. Generated programs and
// `poplar` share the table of names, so it depends on the standard library
// alone.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_OPTIONNAMES_H
#define POPLAR_RUNTIME_OPTIONNAMES_H

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

/// Names by which other trainers, and users, call one option of Poplar.
struct OtherNames {
  /// Separated by spaces, in small letters, words joined by hyphens.
  const char *Names;
  /// The option to give instead, "seq-len" or "precision bf16"; "" if none.
  const char *Option;
  /// The command of `poplar` that has the option.
  const char *Command;
  /// A further note, or "".
  const char *Note;
};

/// The table. Of several rows with a name, the first one whose option the
/// command has counts, or the first of all.
const std::vector<OtherNames> &getOtherNames();

/// Options, and for each a command that has it.
using OptionPlaces = std::map<std::string, std::string>;

/// "unknown option --learning-rate; did you mean --lr?" `Given` is the word as
/// it was typed, without its value; `Known` are the command's own options and
/// `Elsewhere` those of others, all without hyphens; `Help` is what lists the
/// former, such as "--help".
std::string explainUnknownOption(std::string_view Given,
                                 const std::vector<std::string> &Known,
                                 std::string_view Help,
                                 const OptionPlaces &Elsewhere = {});

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_OPTIONNAMES_H
