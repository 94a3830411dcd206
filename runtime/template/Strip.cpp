//===- Strip.cpp - White space as Python sees it --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "template/Strip.h"
#include "tokenizer/Unicode.h"

using namespace poplar::runtime;

/// str.isspace() of Python: white space of Unicode, and the four separators of
/// ASCII.
static bool isSpace(char32_t C) {
  return (C >= 9 && C <= 13) || (C >= 0x1C && C <= 0x20) || C == 0x85 ||
         C == 0xA0 || C == 0x1680 || (C >= 0x2000 && C <= 0x200A) ||
         C == 0x2028 || C == 0x2029 || C == 0x202F || C == 0x205F ||
         C == 0x3000;
}

/// The character at `Pos`, also of text that is not UTF-8.
static char32_t getNext(std::string_view Text, size_t &Pos) {
  if (unicode::getLength(Text[Pos]) > Text.size() - Pos) {
    Pos = Text.size();
    return 0;
  }
  return unicode::next(Text, Pos);
}

/// Whether `Text` has the character `C`.
static bool has(const std::string &Text, char32_t C) {
  for (size_t Pos = 0; Pos < Text.size();)
    if (getNext(Text, Pos) == C)
      return true;
  return false;
}

std::string_view poplar::runtime::strip(std::string_view Text, bool AtBegin,
                                        bool AtEnd, const std::string *Chars) {
  auto IsStripped = [&](char32_t C) {
    return Chars ? has(*Chars, C) : isSpace(C);
  };
  while (AtBegin && !Text.empty()) {
    size_t Pos = 0;
    if (!IsStripped(getNext(Text, Pos)))
      break;
    Text.remove_prefix(Pos);
  }
  while (AtEnd && !Text.empty()) {
    size_t Begin = Text.size() - 1;
    while (Begin > 0 && unicode::isContinuation(Text[Begin]))
      --Begin;
    size_t Pos = Begin;
    if (!IsStripped(getNext(Text, Pos)))
      break;
    Text = Text.substr(0, Begin);
  }
  return Text;
}

size_t poplar::runtime::findSpace(std::string_view Text) {
  for (size_t Pos = 0; Pos < Text.size();) {
    size_t Begin = Pos;
    if (isSpace(getNext(Text, Pos)))
      return Begin;
  }
  return Text.size();
}
