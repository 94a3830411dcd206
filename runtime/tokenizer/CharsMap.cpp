//===- CharsMap.cpp - The character map of a SentencePiece model ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/CharsMap.h"
#include "support/Error.h"
#include "tokenizer/Unicode.h"

#include <cstring>

using namespace poplar::runtime;

std::string poplar::runtime::decodeBase64(std::string_view Text,
                                          const std::string &Where) {
  static constexpr std::string_view Digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (!Text.empty() && Text.back() == '=')
    Text.remove_suffix(1);
  std::string Result;
  uint32_t Bits = 0;
  int Count = 0;
  for (char C : Text) {
    size_t Digit = Digits.find(C);
    if (Digit == Digits.npos)
      fail(Where, ": the character map is not base64");
    Bits = Bits << 6 | static_cast<uint32_t>(Digit);
    Count += 6;
    if (Count >= 8) {
      Count -= 8;
      Result += static_cast<char>(Bits >> Count & 0xFF);
    }
  }
  return Result;
}

CharsMap::CharsMap(std::string_view Data, const std::string &Where) {
  uint32_t TrieBytes = 0;
  if (Data.size() >= 4)
    std::memcpy(&TrieBytes, Data.data(), 4);
  if (Data.size() < 4 || TrieBytes % 4 != 0 || TrieBytes == 0 ||
      TrieBytes > Data.size() - 4)
    fail(Where, ": the character map is damaged");
  Units.resize(TrieBytes / 4);
  std::memcpy(Units.data(), Data.data() + 4, TrieBytes);
  Strings = Data.substr(4 + TrieBytes);
  if (unicode::findInvalid(Strings) != Strings.size())
    fail(Where, ": the character map is damaged");
  for (int C = 0; C < 128; ++C) {
    char Char = static_cast<char>(C);
    std::string_view Ignored;
    Stays[C] = !find({&Char, 1}, Ignored);
  }
}

template <typename Callback>
void CharsMap::visitPrefixes(std::string_view Text,
                             const Callback &Visit) const {
  auto GetOffset = [](uint32_t Unit) {
    return Unit >> 10 << ((Unit & 1 << 9) >> 6);
  };
  size_t At = GetOffset(Units[0]);
  for (size_t I = 0; I < Text.size(); ++I) {
    uint32_t C = static_cast<unsigned char>(Text[I]);
    At ^= C;
    if (C == 0 || At >= Units.size())
      return;
    uint32_t Unit = Units[At];
    if ((Unit & (1u << 31 | 0xFF)) != C)
      return;
    At ^= GetOffset(Unit);
    if (!(Unit >> 8 & 1))
      continue;
    size_t Begin = At < Units.size() ? Units[At] & ~(1u << 31) : Strings.size();
    if (Begin >= Strings.size() ||
        !Visit(I + 1, std::string_view(Strings.data() + Begin)))
      return;
  }
}

bool CharsMap::find(std::string_view Text, std::string_view &Result) const {
  bool Found = false;
  visitPrefixes(Text, [&](size_t, std::string_view Value) {
    Result = Value;
    Found = true;
    return false;
  });
  return Found;
}

size_t CharsMap::findLongest(std::string_view Text,
                             std::string_view &Result) const {
  size_t Longest = 0;
  visitPrefixes(Text, [&](size_t Length, std::string_view Value) {
    Result = Value;
    Longest = Length;
    return true;
  });
  return Longest;
}

void CharsMap::run(std::string_view Text, std::string &Out) const {
  auto IsASCII = [&](size_t At) { return !(Text[At] & 0x80); };
  for (size_t Pos = 0; Pos < Text.size();) {
    // Between two characters of ASCII is a boundary, but in "\r\n".
    if (IsASCII(Pos) && Stays[static_cast<int>(Text[Pos])] &&
        (Pos + 1 == Text.size() || IsASCII(Pos + 1)) && Text[Pos] != '\r') {
      Out += Text[Pos++];
      continue;
    }
    size_t Length = unicode::getGraphemeLength(Text.substr(Pos));
    std::string_view Grapheme = Text.substr(Pos, Length), Result;
    Pos += Length;
    if (Length < 6 && find(Grapheme, Result)) {
      Out += Result;
      continue;
    }
    for (size_t I = 0; I < Length;) {
      size_t Begin = I;
      unicode::next(Grapheme, I);
      std::string_view Char = Grapheme.substr(Begin, I - Begin);
      Out += find(Char, Result) ? Result : Char;
    }
  }
}
