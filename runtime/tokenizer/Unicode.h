//===- Unicode.h - Characters of texts and what they are --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_UNICODE_H
#define POPLAR_RUNTIME_TOKENIZER_UNICODE_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace poplar::runtime::unicode {

/// The code point at `Pos`, which moves behind it. `Text` is valid UTF-8.
inline char32_t next(std::string_view Text, size_t &Pos) {
  auto Byte = [&](size_t I) {
    return static_cast<char32_t>(static_cast<unsigned char>(Text[Pos + I]));
  };
  char32_t C = Byte(0);
  if (C < 0x80)
    return ++Pos, C;
  if (C < 0xE0) {
    C = (C & 0x1F) << 6 | (Byte(1) & 0x3F);
    return Pos += 2, C;
  }
  if (C < 0xF0) {
    C = (C & 0xF) << 12 | (Byte(1) & 0x3F) << 6 | (Byte(2) & 0x3F);
    return Pos += 3, C;
  }
  C = (C & 7) << 18 | (Byte(1) & 0x3F) << 12 | (Byte(2) & 0x3F) << 6 |
      (Byte(3) & 0x3F);
  return Pos += 4, C;
}

/// Bytes of the character that begins with `Lead`.
inline size_t getLength(char Lead) {
  auto C = static_cast<unsigned char>(Lead);
  return C < 0x80 ? 1 : C < 0xE0 ? 2 : C < 0xF0 ? 3 : 4;
}

/// Whether a byte is not the first of its character.
inline bool isContinuation(char Byte) {
  return (static_cast<unsigned char>(Byte) & 0xC0) == 0x80;
}

void append(std::string &Out, char32_t C);

/// Length of the longest part of `Text`, from its beginning, that is valid.
size_t findInvalid(std::string_view Text);
/// `Text`, or, if it is not valid UTF-8, a copy in `Storage` in which U+FFFD
/// stands for every maximal part of a character, as Python's
/// decode(errors="replace") and Rust's from_utf8_lossy put it.
std::string_view repair(std::string_view Text, std::string &Storage);

bool isASCII(std::string_view Text);

/// Properties of a code point that the parts of PyPI's `tokenizers` use.
enum Property : uint8_t {
  Whitespace = 1,
  /// To be removed by BertNormalizer.
  Control = 2,
  Punctuation = 4,
  NonspacingMark = 8,
  Mark = 16,
  Numeric = 32,
  /// \w of regular expressions.
  Word = 64,
  /// Unknown to the tables of its normal forms.
  Unnormalized = 128,
};

/// The properties of all code points, computed when first used.
const uint8_t *getProperties();

inline bool is(char32_t C, Property P) {
  static const uint8_t *const Table = getProperties();
  return Table[C] & P;
}

/// Appends the lower case of a character.
void appendLowercase(std::string &Out, char32_t C);
/// Appends the upper case of a character; an Error for those of which the upper
/// case is several characters.
void appendUppercase(std::string &Out, char32_t C);
/// Whether Python's repr() writes a character as it is.
bool isPrintable(char32_t C);

enum class Form { NFC, NFD, NFKC, NFKD };
/// The normal form of a text, appended to `Out`.
void normalize(std::string_view Text, Form To, std::string &Out);

/// Length in bytes of the first extended grapheme cluster of a text.
size_t getGraphemeLength(std::string_view Text);

/// Inside a character class of a regular expression: the code points that
/// Unicode 16 adds to a general category, or to all that begin with a letter.
std::string listNewCodePoints(std::string_view Category);

/// The character that stands for a byte in vocabularies of bytes, and back;
/// the latter is -1 for any other character.
char32_t getCharOfByte(unsigned char Byte);
int getByteOfChar(char32_t C);

} // namespace poplar::runtime::unicode

#endif // POPLAR_RUNTIME_TOKENIZER_UNICODE_H
