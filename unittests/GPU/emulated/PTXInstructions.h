//===- PTXInstructions.h - An instruction of PTX as C++ ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_PTXINSTRUCTIONS_H
#define POPLAR_UNITTESTS_GPU_EMULATED_PTXINSTRUCTIONS_H

#include "PTX.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace poplar::emulated {

using Words = std::vector<std::string>;

std::string trim(const std::string &text);
/// Cuts at a character, but not inside braces or brackets.
Words cut(const std::string &text, char at);
/// A name of PTX as one of C++.
std::string mangle(const std::string &name);
/// The type of C++ that a type of PTX stands for, such as "b32".
std::string typeOf(const std::string &type);

/// Instructions become statements that use Prelude.h. What is not known is
/// thrown as a std::runtime_error.
class PTXInstructions {
public:
  /// Translates an instruction with its guard, if any, and its semicolon.
  std::string translate(const std::string &line);

  /// Expressions for the addresses of variables, by name; numbers of
  /// parameters.
  std::map<std::string, std::string> variables;
  /// Those that the kernel names.
  std::set<std::string> used;
  std::map<std::string, int> parameters;
  int64_t parameterBytes = 0;
  /// The line of the instruction; where memory is accessed, and the least bytes
  /// that this is done to at a time.
  int line = 0;
  std::vector<PTXSite> sites;
  uint64_t granuleBytes = 16;
  /// Set by instructions with which threads wait for each other.
  bool waits = false;

private:
  std::string operation(const Words &opcode, const Words &operands);
  std::string arithmetic(const Words &opcode, const Words &operands);
  std::string convert(const Words &opcode, const Words &operands);
  std::string compare(const Words &opcode, const Words &operands);
  std::string move(const Words &opcode, const Words &operands);
  std::string access(const Words &opcode, const Words &operands);
  std::string exchange(const Words &opcode, const Words &operands);
  /// mma.sync and ldmatrix.
  std::string matrix(const Words &opcode, const Words &operands);
  /// atom and red.
  std::string atomic(const Words &opcode, const Words &operands);
  std::string copyLater(const Words &opcode, const Words &operands);
  std::string address(const std::string &space, const std::string &operand,
                      const std::string &bytes, const std::string &kind);
  /// What all lanes of a warp execute as one.
  std::string together(const std::string &statement) const;
  /// Notes the instruction at hand; returns its number.
  std::string addSite(uint64_t granule);
  std::string text;
  /// An operand as a value of a type.
  std::string value(const std::string &operand, const std::string &type);
  std::string assign(const std::string &target, const std::string &value) {
    return "set(" + mangle(target) + ", " + value + ");";
  }
};

} // namespace poplar::emulated

#endif // POPLAR_UNITTESTS_GPU_EMULATED_PTXINSTRUCTIONS_H
