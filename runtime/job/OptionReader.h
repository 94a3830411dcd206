//===- OptionReader.h - Assigning options -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_OPTIONREADER_H
#define POPLAR_RUNTIME_OPTIONREADER_H

#include "job/Options.h"

#include <variant>

namespace poplar::runtime {

/// One option. `Help` says what it does and its default; `Least` bounds
/// numbers.
struct Spec {
  using Target = std::variant<std::string *, int64_t *, double *, bool *,
                              std::vector<std::string> *>;

  const char *Name;
  Target Where;
  double Least;
  const char *Placeholder, *Help;
  /// Starts a group in --help.
  const char *Group = nullptr;
  /// Whoever adds an option decides nothing here unless ranks may differ in it.
  Agreement Rule = Agreement::Same;
};

/// Assigns what words and files say.
class OptionReader {
public:
  /// `Listed` are the options that the command has, to suggest one of them.
  OptionReader(const std::vector<Spec> &Specs, std::vector<std::string> Listed)
      : Specs(Specs), Listed(std::move(Listed)) {}

  /// The words after the command; only --config if `OnlyConfig`.
  void arguments(const std::vector<std::string> &Words, bool OnlyConfig);
  /// A --config file: lines `option = value`, or an object of JSON.
  void file(const std::string &Path);

private:
  class ListReset;

  const Spec &find(const std::string &Word, const std::string &Place) const;
  void lines(const std::string &Text, const std::string &Path);
  void object(const std::string &Text, const std::string &Path);

  const std::vector<Spec> &Specs;
  const std::vector<std::string> Listed;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_OPTIONREADER_H
