//===- PTXTables.cpp - Tables of constants in PTX -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PTXTables.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>

/// The table of a line, `.global .align A .b8 NAME[BYTES] = {BYTE, ...};`, in
/// words; none if it is no table of whole words.
static std::optional<std::string> widenTable(llvm::StringRef line) {
  constexpr llvm::StringLiteral type = ".b8 ";
  auto [head, values] = line.split("] = {");
  auto [declared, size] = head.rsplit('[');
  auto [space, name] = declared.split(type);
  int64_t bytes = 0, alignment = 0;
  llvm::StringRef given = space.split(".align ").second.rtrim();
  if (!line.contains(".global ") || name.empty() ||
      !values.consume_back("};") || size.getAsInteger(10, bytes) ||
      given.getAsInteger(10, alignment) || bytes % 4 || alignment % 4)
    return std::nullopt;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << space << ".b32 " << name << '[' << bytes / 4 << "] = {";
  uint32_t word = 0;
  int64_t count = 0;
  for (llvm::StringRef value : llvm::split(values, ',')) {
    uint8_t byte = 0;
    if (value.trim().getAsInteger(10, byte))
      return std::nullopt;
    word |= uint32_t(byte) << 8 * (count % 4);
    if (++count % 4)
      continue;
    out << (count > 4 ? "," : "") << word;
    word = 0;
  }
  out << "};";
  if (count != bytes)
    return std::nullopt;
  return text;
}

void poplar::writePTXTables(llvm::StringRef ptx, llvm::raw_ostream &out) {
  while (!ptx.empty()) {
    auto [line, rest] = ptx.split('\n');
    if (std::optional<std::string> table = widenTable(line))
      out << *table;
    else
      out << line;
    if (line.size() < ptx.size())
      out << '\n';
    ptx = rest;
  }
}
