//===- Unicode.cpp - Characters of texts and what they are ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Unicode.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utf8proc.h>
#include <utility>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::unicode;

namespace {
struct Range {
  char32_t First, Last;
};
struct Lowercase {
  char32_t Upper;
  const char *Lower;
};
struct CategoryRange {
  const char *Category;
  char32_t First, Last;
};
#include "tokenizer/UnicodeDifferences.inc"
} // namespace

static constexpr char32_t NumCodePoints = 0x110000;

void unicode::append(std::string &Out, char32_t C) {
  auto Put = [&](char32_t Byte) { Out.push_back(static_cast<char>(Byte)); };
  if (C < 0x80)
    return Put(C);
  if (C < 0x800) {
    Put(0xC0 | C >> 6);
  } else {
    if (C < 0x10000) {
      Put(0xE0 | C >> 12);
    } else {
      Put(0xF0 | C >> 18);
      Put(0x80 | (C >> 12 & 0x3F));
    }
    Put(0x80 | (C >> 6 & 0x3F));
  }
  Put(0x80 | (C & 0x3F));
}

bool unicode::isASCII(std::string_view Text) {
  const char *Data = Text.data();
  size_t Size = Text.size(), I = 0;
  for (; I + 8 <= Size; I += 8) {
    uint64_t Word;
    std::memcpy(&Word, Data + I, 8);
    if (Word & 0x8080808080808080)
      return false;
  }
  for (; I < Size; ++I)
    if (Data[I] & 0x80)
      return false;
  return true;
}

/// Bytes of the character at the beginning of `Text`; if it is not valid, minus
/// the length of its longest part that could be the beginning of one.
static int measure(std::string_view Text) {
  auto Byte = [&](size_t I) { return static_cast<unsigned char>(Text[I]); };
  unsigned char Lead = Byte(0);
  if (Lead < 0x80)
    return 1;
  if (Lead < 0xC2 || Lead > 0xF4)
    return -1;
  // The second byte of some is limited: no surrogates, nothing too long.
  unsigned char Low = Lead == 0xE0 ? 0xA0 : Lead == 0xF0 ? 0x90 : 0x80;
  unsigned char High = Lead == 0xED ? 0x9F : Lead == 0xF4 ? 0x8F : 0xBF;
  int Length = Lead < 0xE0 ? 2 : Lead < 0xF0 ? 3 : 4;
  for (int I = 1; I < Length; ++I) {
    auto At = static_cast<size_t>(I);
    if (At >= Text.size() || Byte(At) < Low || Byte(At) > High)
      return -I;
    Low = 0x80;
    High = 0xBF;
  }
  return Length;
}

size_t unicode::findInvalid(std::string_view Text) {
  size_t Pos = 0;
  while (Pos < Text.size()) {
    if (Text.size() - Pos >= 8 && isASCII(Text.substr(Pos, 8))) {
      Pos += 8;
      continue;
    }
    int Length = measure(Text.substr(Pos));
    if (Length < 0)
      return Pos;
    Pos += static_cast<size_t>(Length);
  }
  return Pos;
}

std::string_view unicode::repair(std::string_view Text, std::string &Storage) {
  size_t Valid = findInvalid(Text);
  if (Valid == Text.size())
    return Text;
  Storage.clear();
  while (!Text.empty()) {
    Storage.append(Text.substr(0, Valid));
    Text.remove_prefix(Valid);
    if (Text.empty())
      break;
    Storage += "\xEF\xBF\xBD";
    Text.remove_prefix(static_cast<size_t>(-measure(Text)));
    Valid = findInvalid(Text);
  }
  return Storage;
}

template <size_t N>
static void toggle(std::vector<uint8_t> &Table, const Range (&Ranges)[N],
                   Property P) {
  for (const Range &R : Ranges)
    for (char32_t C = R.First; C <= R.Last; ++C)
      Table[C] ^= P;
}

static uint8_t computeProperties(char32_t C) {
  uint8_t Result = 0;
  auto Put = [&](Property P, bool Has) { Result |= Has ? P : 0; };
  auto In = [&](char32_t First, char32_t Last) {
    return C >= First && C <= Last;
  };
  utf8proc_category_t Category =
      utf8proc_category(static_cast<utf8proc_int32_t>(C));
  Put(Whitespace, In(9, 13) || C == ' ' || C == 0x85 || C == 0xA0 ||
                      C == 0x1680 || In(0x2000, 0x200A) || C == 0x2028 ||
                      C == 0x2029 || C == 0x202F || C == 0x205F || C == 0x3000);
  Put(Control, C == 0xFFFD || (C != '\t' && C != '\n' && C != '\r' &&
                               (Category == UTF8PROC_CATEGORY_CC ||
                                Category == UTF8PROC_CATEGORY_CF ||
                                Category == UTF8PROC_CATEGORY_CO ||
                                Category == UTF8PROC_CATEGORY_CS)));
  bool IsPunctuation =
      Category >= UTF8PROC_CATEGORY_PC && Category <= UTF8PROC_CATEGORY_PO;
  bool IsSymbol =
      Category >= UTF8PROC_CATEGORY_SM && Category <= UTF8PROC_CATEGORY_SO;
  Put(Punctuation, IsPunctuation || (C < 128 && IsSymbol));
  Put(NonspacingMark, Category == UTF8PROC_CATEGORY_MN);
  bool IsMark =
      Category >= UTF8PROC_CATEGORY_MN && Category <= UTF8PROC_CATEGORY_ME;
  Put(Mark, IsMark);
  Put(Numeric,
      Category >= UTF8PROC_CATEGORY_ND && Category <= UTF8PROC_CATEGORY_NO);
  // Letters, marks, digits, connectors, joiners and what is alphabetic besides.
  bool IsLetter =
      Category >= UTF8PROC_CATEGORY_LU && Category <= UTF8PROC_CATEGORY_LO;
  Put(Word, IsLetter || IsMark || Category == UTF8PROC_CATEGORY_ND ||
                Category == UTF8PROC_CATEGORY_NL ||
                Category == UTF8PROC_CATEGORY_PC || In(0x200C, 0x200D) ||
                In(0x24B6, 0x24E9) || In(0x1F130, 0x1F149) ||
                In(0x1F150, 0x1F169) || In(0x1F170, 0x1F189));
  return Result;
}

const uint8_t *unicode::getProperties() {
  static const std::vector<uint8_t> Table = [] {
    std::vector<uint8_t> Result(NumCodePoints);
    for (char32_t C = 0; C < NumCodePoints; ++C)
      Result[C] = computeProperties(C);
    toggle(Result, ControlDifferences, Control);
    toggle(Result, PunctuationDifferences, Punctuation);
    toggle(Result, NonspacingDifferences, NonspacingMark);
    toggle(Result, MarkDifferences, Mark);
    toggle(Result, NumericDifferences, Numeric);
    toggle(Result, WordDifferences, Word);
    toggle(Result, NormalizationDifferences, Unnormalized);
    return Result;
  }();
  return Table.data();
}

void unicode::appendLowercase(std::string &Out, char32_t C) {
  if (C < 0x80) {
    Out.push_back(static_cast<char>(C >= 'A' && C <= 'Z' ? C + 32 : C));
    return;
  }
  const auto *End = std::end(LowercaseDifferences) - 1;
  const auto *Found = std::lower_bound(
      std::begin(LowercaseDifferences), End, C,
      [](const Lowercase &L, char32_t C) { return L.Upper < C; });
  if (Found != End && Found->Upper == C)
    Out += Found->Lower;
  else
    append(Out, static_cast<char32_t>(
                    utf8proc_tolower(static_cast<utf8proc_int32_t>(C))));
}

void unicode::appendUppercase(std::string &Out, char32_t C) {
  static constexpr std::pair<char32_t, char32_t> Several[] = {
      {0xDF, 0xDF},     {0x149, 0x149},  {0x1F0, 0x1F0},   {0x390, 0x390},
      {0x3B0, 0x3B0},   {0x587, 0x587},  {0x1E96, 0x1E9A}, {0x1F50, 0x1F56},
      {0x1F80, 0x1FFC}, {0xFB00, 0xFB17}};
  for (auto [First, Last] : Several)
    if (C >= First && C <= Last)
      fail("the upper case of U+", std::hex, std::uppercase,
           static_cast<unsigned>(C), " is not supported");
  append(Out, static_cast<char32_t>(
                  utf8proc_toupper(static_cast<utf8proc_int32_t>(C))));
}

bool unicode::isPrintable(char32_t C) {
  utf8proc_category_t Category =
      utf8proc_category(static_cast<utf8proc_int32_t>(C));
  bool IsSpace = Category == UTF8PROC_CATEGORY_ZS && C != ' ';
  return !IsSpace && Category != UTF8PROC_CATEGORY_CC &&
         Category != UTF8PROC_CATEGORY_CF && Category != UTF8PROC_CATEGORY_CN &&
         Category != UTF8PROC_CATEGORY_CO && Category != UTF8PROC_CATEGORY_CS &&
         Category != UTF8PROC_CATEGORY_ZL && Category != UTF8PROC_CATEGORY_ZP;
}

static int getOptions(Form To) {
  switch (To) {
  case Form::NFC:
    return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  case Form::NFD:
    return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  case Form::NFKC:
    return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
  case Form::NFKD:
    return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

/// Normalises a part in which there is a normal form of every character.
static void normalizeKnown(std::string_view Text, Form To, std::string &Out) {
  if (Text.empty())
    return;
  utf8proc_uint8_t *Result = nullptr;
  auto Options = static_cast<utf8proc_option_t>(getOptions(To));
  utf8proc_ssize_t Size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t *>(Text.data()),
      static_cast<utf8proc_ssize_t>(Text.size()), &Result, Options);
  if (Size < 0)
    fail("a text cannot be normalized: ", utf8proc_errmsg(Size));
  Out.append(reinterpret_cast<char *>(Result), static_cast<size_t>(Size));
  std::free(Result);
}

void unicode::normalize(std::string_view Text, Form To, std::string &Out) {
  // Below these, every character is its own normal form, and no character of
  // the ASCII range but the last before it can change with what follows.
  char32_t Limit = To == Form::NFC ? 0x300 : To == Form::NFD ? 0xC0 : 0xA0;
  size_t Begin = 0, Pos = 0;
  size_t Safe = 0; // up to here the text is copied or unchanged
  while (Pos < Text.size()) {
    size_t At = Pos;
    char32_t C = next(Text, Pos);
    if (C < Limit)
      continue;
    // The run of other characters, with the one before it.
    Begin = At;
    while (Begin > Safe && isContinuation(Text[Begin - 1]))
      --Begin;
    if (Begin > Safe)
      --Begin;
    Out.append(Text.substr(Safe, Begin - Safe));
    size_t RunBegin = Begin, End = Pos;
    bool Unknown = is(C, Unnormalized);
    if (Unknown) {
      normalizeKnown(Text.substr(RunBegin, At - RunBegin), To, Out);
      Out.append(Text.substr(At, Pos - At));
      RunBegin = Pos;
    }
    while (End < Text.size()) {
      size_t After = End;
      C = next(Text, After);
      if (C < Limit)
        break;
      if (is(C, Unnormalized)) {
        normalizeKnown(Text.substr(RunBegin, End - RunBegin), To, Out);
        Out.append(Text.substr(End, After - End));
        RunBegin = After;
      }
      End = After;
    }
    normalizeKnown(Text.substr(RunBegin, End - RunBegin), To, Out);
    Safe = Pos = End;
  }
  Out.append(Text.substr(Safe));
}

size_t unicode::getGraphemeLength(std::string_view Text) {
  if (Text.empty())
    return 0;
  size_t Pos = 0;
  auto Previous = static_cast<utf8proc_int32_t>(next(Text, Pos));
  utf8proc_int32_t State = 0;
  while (Pos < Text.size()) {
    size_t After = Pos;
    auto C = static_cast<utf8proc_int32_t>(next(Text, After));
    if (utf8proc_grapheme_break_stateful(Previous, C, &State))
      break;
    Previous = C;
    Pos = After;
  }
  return Pos;
}

std::string unicode::listNewCodePoints(std::string_view Category) {
  std::string Result;
  for (const CategoryRange &R : NewCategories) {
    if (R.First > R.Last ||
        std::string_view(R.Category).substr(0, Category.size()) != Category)
      continue;
    char Buffer[40];
    std::snprintf(Buffer, sizeof Buffer, "\\x{%X}-\\x{%X}",
                  static_cast<unsigned>(R.First),
                  static_cast<unsigned>(R.Last));
    Result += Buffer;
  }
  return Result;
}

static bool standsForItself(unsigned Byte) {
  return (Byte >= '!' && Byte <= '~') || (Byte >= 0xA1 && Byte <= 0xAC) ||
         Byte >= 0xAE;
}

namespace {
struct ByteChars {
  std::array<char32_t, 256> Chars;
  std::array<int, 0x180> Bytes;
  ByteChars() {
    Bytes.fill(-1);
    char32_t Next = 256;
    for (unsigned Byte = 0; Byte < 256; ++Byte) {
      Chars[Byte] = standsForItself(Byte) ? Byte : Next++;
      Bytes[Chars[Byte]] = static_cast<int>(Byte);
    }
  }
};
} // namespace

static const ByteChars &getByteChars() {
  static const ByteChars Table;
  return Table;
}

char32_t unicode::getCharOfByte(unsigned char Byte) {
  return getByteChars().Chars[Byte];
}

int unicode::getByteOfChar(char32_t C) {
  const ByteChars &Table = getByteChars();
  return C < Table.Bytes.size() ? Table.Bytes[C] : -1;
}
