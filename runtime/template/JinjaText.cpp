//===- JinjaText.cpp - Values of chat templates as text -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaCalls.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

//===-- Python's str() and repr() -----------------------------------------===//

/// Python's repr() of a float.
static std::string printFloat(double Number) {
  if (!std::isfinite(Number))
    return std::isnan(Number) ? "nan" : Number < 0 ? "-inf" : "inf";
  char Text[40];
  double Size = std::fabs(Number);
  bool IsPlain = Size == 0 || (Size >= 1e-4 && Size < 1e16);
  auto Format =
      IsPlain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string Result(
      Text, std::to_chars(Text, Text + sizeof Text, Number, Format).ptr);
  if (IsPlain && Result.find('.') == Result.npos)
    Result += ".0";
  return Result;
}

/// Appends `Code` in `Digits` hexadecimal digits behind `Prefix`.
static void addEscape(std::string &Out, const char *Prefix, int Digits,
                      char32_t Code) {
  char Escape[16];
  std::snprintf(Escape, sizeof Escape, "%s%0*x", Prefix, Digits,
                static_cast<unsigned>(Code));
  Out += Escape;
}

/// A string as Python writes it.
static std::string quoteAsPython(const std::string &Text) {
  bool HasSingle = Text.find('\'') != Text.npos,
       HasDouble = Text.find('"') != Text.npos;
  char Quote = HasSingle && !HasDouble ? '"' : '\'';
  std::string Result(1, Quote);
  for (size_t Pos = 0; Pos < Text.size();) {
    char32_t C = unicode::next(Text, Pos);
    if (C == '\\' || C == static_cast<char32_t>(Quote))
      (Result += '\\') += static_cast<char>(C);
    else if (C == '\n')
      Result += "\\n";
    else if (C == '\r')
      Result += "\\r";
    else if (C == '\t')
      Result += "\\t";
    else if (C < 0x100 && !unicode::isPrintable(C))
      addEscape(Result, "\\x", 2, C);
    else if (!unicode::isPrintable(C))
      addEscape(Result, C < 0x10000 ? "\\u" : "\\U", C < 0x10000 ? 4 : 8, C);
    else
      unicode::append(Result, C);
  }
  return Result + Quote;
}

std::string JinjaValue::print(Budget &B) const {
  return TheKind == String ? *Text : TheKind == Undefined ? "" : repr(B);
}

std::string JinjaValue::repr(Budget &B) const {
  B.step();
  Budget::Deeper Guard(B);
  std::string Result;
  switch (TheKind) {
  case Undefined:
    return "Undefined";
  case None:
    return "None";
  case Boolean:
    return Number ? "True" : "False";
  case Integer:
    return std::to_string(Number);
  case Float:
    return printFloat(Real);
  case String:
    B.bytes(Text->size());
    return isMarkup() ? "Markup(" + quoteAsPython(*Text) + ")"
                      : quoteAsPython(*Text);
  case Sequence:
    if (isView())
      fail("a ", typeName(), " cannot be printed");
    for (const JinjaValue &Each : *Elements)
      Result += (Result.empty() ? "" : ", ") + Each.repr(B);
    if (isTuple())
      return "(" + Result + (Elements->size() == 1 ? ",)" : ")");
    return "[" + Result + "]";
  case Mapping:
    for (const auto &[Key, Each] : *Members)
      Result += (Result.empty() ? "" : ", ") + fromKey(Key).repr(B) + ": " +
                Each.repr(B);
    return "{" + Result + "}";
  case Iterator:
  case Namespace:
  case Callable:
    fail("a ", typeName(), " cannot be printed");
  }
  return Result;
}

static void replaceCharacter(std::string &Text, char From, const char *To) {
  std::string Result;
  for (char C : Text)
    if (C == From)
      Result += To;
    else
      Result += C;
  Text.swap(Result);
}

std::string jinja::escape(std::string Text) {
  for (auto [From, To] : {std::pair('&', "&amp;"),
                          {'>', "&gt;"},
                          {'<', "&lt;"},
                          {'\'', "&#39;"},
                          {'"', "&#34;"}})
    replaceCharacter(Text, From, To);
  return Text;
}

//===-- json.dumps --------------------------------------------------------===//

/// A string as json.dumps writes it.
static std::string quoteAsJSON(const std::string &Text, bool IsASCII) {
  static constexpr std::string_view From = "\"\\\n\r\t\b\f", To = "\"\\nrtbf";
  std::string Result = "\"";
  for (size_t Pos = 0; Pos < Text.size();) {
    char32_t C = unicode::next(Text, Pos);
    size_t Which =
        C < 0x80 ? From.find(static_cast<char>(C)) : std::string_view::npos;
    if (Which != std::string_view::npos) {
      (Result += '\\') += To[Which];
    } else if (C < 0x20 || (IsASCII && C >= 0x7F && C < 0x10000)) {
      if (C == 0x7F)
        Result += '\x7F';
      else
        addEscape(Result, "\\u", 4, C);
    } else if (IsASCII && C >= 0x10000) {
      addEscape(Result, "\\u", 4, 0xD800 + ((C - 0x10000) >> 10));
      addEscape(Result, "\\u", 4, 0xDC00 + ((C - 0x10000) & 0x3FF));
    } else {
      unicode::append(Result, C);
    }
  }
  return Result + '"';
}

namespace {
class JSONWriter {
public:
  JSONWriter(const JSONStyle &Style, Budget &B) : Style(Style), B(B) {}

  void write(const JinjaValue &V, int Level) {
    B.step();
    Budget::Deeper Guard(B);
    switch (V.kind()) {
    case JinjaValue::None:
      return add("null");
    case JinjaValue::Boolean:
      return add(V.integer() ? "true" : "false");
    case JinjaValue::Float:
      if (!std::isfinite(V.real()))
        return add(std::isnan(V.real()) ? "NaN"
                   : V.real() < 0       ? "-Infinity"
                                        : "Infinity");
      return add(V.repr(B));
    case JinjaValue::Integer:
      return add(V.repr(B));
    case JinjaValue::String:
      return add(quoteAsJSON(V.string(), Style.IsASCII));
    case JinjaValue::Sequence:
      if (V.isView())
        break;
      return writeAll(
          V.list(), "[]", Level,
          [this, Level](const JinjaValue &Each) { write(Each, Level + 1); });
    case JinjaValue::Mapping: {
      Entries Members = V.members();
      if (Style.IsSorted)
        std::sort(
            Members.begin(), Members.end(),
            [](const auto &X, const auto &Y) { return X.first < Y.first; });
      return writeAll(Members, "{}", Level, [this, Level](const auto &Each) {
        std::string Key = JinjaValue::fromKey(Each.first).print(B);
        add(quoteAsJSON(Key, Style.IsASCII) + Style.KeySeparator);
        write(Each.second, Level + 1);
      });
    }
    default:
      break;
    }
    fail("a ", V.typeName(), " cannot be written as JSON");
  }

  std::string Text;

private:
  void add(const std::string &Part) {
    B.bytes(Part.size());
    Text += Part;
  }
  void addLine(int Level) {
    if (Style.Indent >= 0)
      add("\n" + std::string(static_cast<size_t>(Style.Indent) *
                                 static_cast<size_t>(Level),
                             ' '));
  }
  template <typename Parts, typename Callback>
  void writeAll(const Parts &All, const char *Brackets, int Level,
                const Callback &Write) {
    add({Brackets[0]});
    bool IsFirst = true;
    for (const auto &Each : All) {
      if (!std::exchange(IsFirst, false))
        add(Style.ItemSeparator);
      addLine(Level + 1);
      Write(Each);
    }
    if (!IsFirst)
      addLine(Level);
    add({Brackets[1]});
  }

  const JSONStyle &Style;
  Budget &B;
};
} // namespace

std::string JinjaValue::toJSON(const JSONStyle &Style, Budget &B) const {
  JSONWriter Writer(Style, B);
  Writer.write(*this, 0);
  return std::move(Writer.Text);
}
