//===- Jinja.h - Running a chat template ------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of Jinja that chat templates are written in, with the settings of
// transformers: trim_blocks, lstrip_blocks, `{% generation %}`, `break` and
// `continue`, and values that do not change. Statements, filters, tests and
// methods that are not known are errors. A template has bounded time, memory
// and depth.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JINJA_H
#define POPLAR_RUNTIME_JINJA_H

#include "template/JinjaValue.h"

#include <ctime>

namespace poplar::runtime::jinja {

struct Block;

class Template {
public:
  /// Throws an Error with the line of what is not understood.
  explicit Template(const std::string &Source);
  ~Template();
  Template(const Template &) = delete;
  Template &operator=(const Template &) = delete;

  struct Result {
    std::string Text;
    /// Whether the text depends on the time.
    bool IsDated = false;
    /// The ranges inside {% generation %} blocks.
    std::vector<std::pair<size_t, size_t>> Generated;
    /// What the body of a loop wrote for an element of the variable `messages`.
    struct Turn {
      size_t Message, Begin, End;
    };
    /// Turns that are not empty, in the order of their ends.
    std::vector<Turn> Turns;
  };
  /// Throws an Error with the line at which it fails, also if the template
  /// itself raises one.
  /// `Date` is the time that the template finds, in seconds.
  Result render(const Entries &Variables, std::time_t Date) const;

private:
  std::unique_ptr<Block> Root;
};

} // namespace poplar::runtime::jinja

#endif // POPLAR_RUNTIME_JINJA_H
