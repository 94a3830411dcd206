//===- JSON.cpp - A small, strict JSON reader -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/JSON.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

using namespace poplar::runtime;
using namespace poplar::runtime::json;

const Value *Value::find(std::string_view Key) const {
  for (const auto &[Name, Member] : Members)
    if (Name == Key)
      return &Member;
  return nullptr;
}

double Value::asDouble(double Default) const {
  if (TheKind != Number)
    return Default;
  double Result = Default;
  std::from_chars(Text.data(), Text.data() + Text.size(), Result);
  return Result;
}

bool Value::asInteger(int64_t &Result) const {
  if (TheKind != Number)
    return false;
  const char *End = Text.data() + Text.size();
  auto [Stop, Code] = std::from_chars(Text.data(), End, Result);
  return Code == std::errc() && Stop == End;
}

int64_t Value::integer(std::string_view Key, int64_t Default) const {
  const Value *Member = find(Key);
  int64_t Result;
  return Member && Member->asInteger(Result) ? Result : Default;
}

double Value::number(std::string_view Key, double Default) const {
  const Value *Member = find(Key);
  return Member ? Member->asDouble(Default) : Default;
}

std::string Value::string(std::string_view Key,
                          std::string_view Default) const {
  const Value *Member = find(Key);
  return std::string(Member ? Member->asString(Default) : Default);
}

namespace poplar::runtime::json {

class Parser {
public:
  Parser(std::string_view Text, const std::string &Source)
      : Text(Text), Source(Source) {}

  Value parseAll() {
    Value Result = parseValue(0);
    skipSpace();
    if (Pos != Text.size())
      error("text after the end of the JSON value");
    return Result;
  }

private:
  static constexpr unsigned MaxDepth = 64;

  [[noreturn]] void error(const char *What) {
    fail(Source, ": byte ", Pos, ": ", What);
  }
  void skipSpace() {
    while (Pos < Text.size() && (Text[Pos] == ' ' || Text[Pos] == '\n' ||
                                 Text[Pos] == '\t' || Text[Pos] == '\r'))
      ++Pos;
  }
  bool consume(char C) {
    skipSpace();
    if (Pos >= Text.size() || Text[Pos] != C)
      return false;
    ++Pos;
    return true;
  }
  void expect(char C, const char *What) {
    if (!consume(C))
      error(What);
  }
  bool consumeWord(std::string_view Word) {
    if (Text.substr(Pos, Word.size()) != Word)
      return false;
    Pos += Word.size();
    return true;
  }

  Value parseValue(unsigned Depth) {
    if (Depth > MaxDepth)
      error("JSON nested too deeply");
    skipSpace();
    if (Pos >= Text.size())
      error("unexpected end of JSON");
    Value Result;
    char C = Text[Pos];
    if (C == '{') {
      parseObject(Result, Depth);
    } else if (C == '[') {
      parseArray(Result, Depth);
    } else if (C == '"') {
      Result.TheKind = Value::String;
      Result.Text = parseString();
    } else if (consumeWord("null")) {
      Result.TheKind = Value::Null;
    } else if (consumeWord("true")) {
      Result.TheKind = Value::Boolean;
      Result.Text = "true";
    } else if (consumeWord("false")) {
      Result.TheKind = Value::Boolean;
      Result.Text = "false";
    } else {
      Result.TheKind = Value::Number;
      Result.Text = parseNumber();
    }
    return Result;
  }

  void parseObject(Value &Result, unsigned Depth) {
    Result.TheKind = Value::Object;
    ++Pos;
    if (consume('}'))
      return;
    do {
      skipSpace();
      if (Pos >= Text.size() || Text[Pos] != '"')
        error("expected a string as the key");
      std::string Key = parseString();
      expect(':', "expected ':'");
      Result.Members.emplace_back(std::move(Key), parseValue(Depth + 1));
    } while (consume(','));
    expect('}', "expected ',' or '}'");
    checkUnique(Result);
  }

  void checkUnique(const Value &Object) {
    std::vector<std::string_view> Keys;
    for (const auto &Member : Object.Members)
      Keys.push_back(Member.first);
    std::sort(Keys.begin(), Keys.end());
    if (std::adjacent_find(Keys.begin(), Keys.end()) != Keys.end())
      error("a key occurs twice in the object that ends here");
  }

  void parseArray(Value &Result, unsigned Depth) {
    Result.TheKind = Value::Array;
    ++Pos;
    if (consume(']'))
      return;
    do
      Result.Elements.push_back(parseValue(Depth + 1));
    while (consume(','));
    expect(']', "expected ',' or ']'");
  }

  std::string parseNumber() {
    size_t Begin = Pos;
    auto Digits = [&] {
      size_t First = Pos;
      while (Pos < Text.size() && Text[Pos] >= '0' && Text[Pos] <= '9')
        ++Pos;
      if (Pos == First)
        error("expected a JSON value");
    };
    if (Text[Pos] == '-')
      ++Pos;
    size_t Leading = Pos;
    Digits();
    if (Text[Leading] == '0' && Pos - Leading > 1)
      error("a number starts with 0");
    if (Pos < Text.size() && Text[Pos] == '.') {
      ++Pos;
      Digits();
    }
    if (Pos < Text.size() && (Text[Pos] == 'e' || Text[Pos] == 'E')) {
      ++Pos;
      if (Pos < Text.size() && (Text[Pos] == '+' || Text[Pos] == '-'))
        ++Pos;
      Digits();
    }
    return std::string(Text.substr(Begin, Pos - Begin));
  }

  unsigned parseHex4() {
    unsigned Code = 0;
    if (Text.size() - Pos < 4)
      error("truncated \\u escape");
    auto [Stop, Status] =
        std::from_chars(&Text[Pos], Text.data() + Pos + 4, Code, 16);
    if (Status != std::errc() || Stop != Text.data() + Pos + 4)
      error("malformed \\u escape");
    Pos += 4;
    return Code;
  }

  void appendUTF8(std::string &Out, unsigned Code) {
    auto Put = [&](unsigned Byte) { Out.push_back(static_cast<char>(Byte)); };
    if (Code < 0x80) {
      Put(Code);
    } else if (Code < 0x800) {
      Put(0xC0 | Code >> 6);
      Put(0x80 | (Code & 0x3F));
    } else if (Code < 0x10000) {
      Put(0xE0 | Code >> 12);
      Put(0x80 | (Code >> 6 & 0x3F));
      Put(0x80 | (Code & 0x3F));
    } else {
      Put(0xF0 | Code >> 18);
      Put(0x80 | (Code >> 12 & 0x3F));
      Put(0x80 | (Code >> 6 & 0x3F));
      Put(0x80 | (Code & 0x3F));
    }
  }

  void parseEscape(std::string &Out) {
    if (Pos >= Text.size())
      error("unterminated string");
    char C = Text[Pos++];
    static constexpr char Names[] = "\"\\/bfnrt", Chars[] = "\"\\/\b\f\n\r\t";
    if (C != 'u') {
      size_t Which = std::string_view(Names).find(C);
      if (Which == std::string_view::npos)
        error("unknown escape in a string");
      Out.push_back(Chars[Which]);
      return;
    }
    unsigned Code = parseHex4();
    if (Code >= 0xDC00 && Code < 0xE000)
      error("unpaired surrogate");
    if (Code >= 0xD800 && Code < 0xDC00) {
      if (!consumeWord("\\u"))
        error("unpaired surrogate");
      unsigned Low = parseHex4();
      if (Low < 0xDC00 || Low >= 0xE000)
        error("unpaired surrogate");
      Code = 0x10000 + ((Code - 0xD800) << 10) + (Low - 0xDC00);
    }
    appendUTF8(Out, Code);
  }

  std::string parseString() {
    std::string Result;
    ++Pos;
    while (true) {
      if (Pos >= Text.size())
        error("unterminated string");
      char C = Text[Pos++];
      if (C == '"')
        return Result;
      if (static_cast<unsigned char>(C) < 0x20)
        error("control character in a string");
      if (C == '\\')
        parseEscape(Result);
      else
        Result.push_back(C);
    }
  }

  std::string_view Text;
  const std::string &Source;
  size_t Pos = 0;
};

} // namespace poplar::runtime::json

Value json::parse(std::string_view Text, const std::string &Source) {
  return Parser(Text, Source).parseAll();
}

std::string json::quote(std::string_view Text) {
  std::string Result = "\"";
  for (char C : Text) {
    if (C == '"' || C == '\\') {
      Result += '\\';
      Result += C;
    } else if (C == '\n') {
      Result += "\\n";
    } else if (static_cast<unsigned char>(C) < 0x20) {
      char Buffer[8];
      std::snprintf(Buffer, sizeof(Buffer), "\\u%04x", C);
      Result += Buffer;
    } else {
      Result += C;
    }
  }
  return Result + '"';
}
