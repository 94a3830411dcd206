//===- RowForm.h - Rows of other names and formats --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row that names its members in its own way is turned into one that
// ExampleEncoder reads. With messages=conversation and messages.role=speaker,
//
//   {"conversation": [{"speaker": "user", "content": "a"}]}
//   {"messages":     [{"role": "user",    "content": "a"}]}
//
// mean the same.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ROWFORM_H
#define POPLAR_RUNTIME_ROWFORM_H

#include "support/JSON.h"
#include "support/RowOptions.h"

#include <map>
#include <set>
#include <string>

namespace poplar::runtime {

class RowForm {
public:
  /// `Ignored` are the members that are left out, by their names in the file,
  /// see ExampleMembers. Fails if an option is none, or if two contradict each
  /// other.
  RowForm(const RowOptions &Options, const std::vector<std::string> &Ignored);

  /// Whether rows are changed at all. If so, this leaves out ignored members.
  bool changesRows() const {
    return !Names.empty() || !OfMessages.empty() || !Roles.empty() ||
           Asked.DropSystem;
  }
  /// A row with the names that are known. `Where` names it in errors.
  json::Value read(const json::Value &Row, const std::string &Where) const;

  /// Whether rows with a system text have a prompt, and are no conversation.
  bool writesSystem() const { return !Asked.System.empty(); }
  /// The text of a prompt.
  std::string makePrompt(const std::string &System,
                         const std::string &Instruction,
                         const std::string &Input) const;
  bool encodesApart() const { return Asked.Apart; }
  bool countsPrompts() const { return Asked.CountsPrompts; }

  /// ", with conversation read as messages", or nothing.
  std::string describe() const;
  /// A text that differs between forms that read rows differently; empty for
  /// the form without options.
  std::string getKey() const;

private:
  using Map = std::map<std::string, std::string, std::less<>>;
  void rename(json::Value &Object, const Map &Others, const char *Prefix,
              const std::string &Where) const;
  void readMessages(json::Value &Row, const std::string &Where) const;

  RowOptions Asked;
  /// The names that are read, by those in the file.
  Map Names, OfMessages, Roles;
  std::set<std::string, std::less<>> Ignored;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ROWFORM_H
