//===- JinjaLexer.cpp - Cutting a chat template into tokens ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaTree.h"
#include "template/Strip.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <cctype>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

namespace {

class Lexer {
public:
  explicit Lexer(std::string_view Source) : Source(Source) {}

  std::vector<Token> run() {
    if (unicode::findInvalid(Source) != Source.size())
      fail("line 1: the template is not UTF-8");
    // Jinja reads lines of all kinds, and drops the last line's end.
    std::string Lines;
    for (size_t I = 0; I < Source.size(); ++I)
      if (Source[I] != '\r')
        Lines += Source[I];
      else if (I + 1 == Source.size() || Source[I + 1] != '\n')
        Lines += '\n';
    if (!Lines.empty() && Lines.back() == '\n')
      Lines.pop_back();
    Source = Lines;
    while (Pos < Source.size())
      readPart();
    add(Token::EndOfFile, "");
    return std::move(Tokens);
  }

private:
  void add(Token::Kind Kind, std::string Word) {
    Tokens.push_back({Kind, std::move(Word), Line});
  }
  bool startsWith(std::string_view Word) const {
    return Source.substr(Pos, Word.size()) == Word;
  }
  void moveTo(size_t End) {
    Line += static_cast<int>(
        std::count(Source.begin() + static_cast<ptrdiff_t>(Pos),
                   Source.begin() + static_cast<ptrdiff_t>(End), '\n'));
    Pos = End;
  }

  /// Text up to a tag, and the tag.
  void readPart() {
    size_t Tag = findTag(Pos, "{%#");
    char Kind = Tag < Source.size() ? Source[Tag + 1] : ' ';
    addText(Tag, Kind);
    if (Tag == Source.size())
      return;
    char Mark = Tag + 2 < Source.size() ? Source[Tag + 2] : ' ';
    moveTo(Tag + 2 + (Mark == '-' || Mark == '+'));
    if (Kind == '#')
      return skipComment();
    if (Kind == '%' && takeTag("raw"))
      return readRaw();
    add(Kind == '{' ? Token::BeginPrint : Token::BeginBlock, "");
    readTag(Kind == '{' ? "}}" : "%}");
  }

  /// The next `{` that one of `Kinds` follows.
  size_t findTag(size_t From, std::string_view Kinds) const {
    for (; From + 1 < Source.size(); ++From)
      if (Source[From] == '{' && Kinds.find(Source[From + 1]) != Kinds.npos)
        return From;
    return Source.size();
  }

  /// Adds the text up to the tag at `Tag`, trimmed as that says.
  void addText(size_t Tag, char Kind) {
    std::string_view Text = Source.substr(Pos, Tag - Pos);
    char Mark = Tag + 2 < Source.size() ? Source[Tag + 2] : ' ';
    if (Tag < Source.size() && Mark == '-')
      Text = strip(Text, false, true);
    else if (Kind != ' ' && Kind != '{' && Mark != '+')
      Text = stripLine(Text);
    if (!Text.empty())
      add(Token::Text, std::string(Text));
    moveTo(Tag);
  }

  /// Takes the rest of the tag `{% Name %}` if this is one.
  bool takeTag(std::string_view Name) {
    size_t At = Pos;
    auto SkipSpace = [&] {
      while (At < Source.size() && isSpace(Source[At]))
        ++At;
    };
    SkipSpace();
    if (Source.substr(At, Name.size()) != Name)
      return false;
    At += Name.size();
    SkipSpace();
    char Mark = At < Source.size() ? Source[At] : ' ';
    At += Mark == '-' || Mark == '+';
    if (Source.substr(At, 2) != "%}")
      return false;
    moveTo(At + 2);
    trimBehind(Mark, true);
    return true;
  }

  /// Text up to {% endraw %}.
  void readRaw() {
    const size_t Begin = Pos;
    const int First = Line;
    for (size_t Tag = Pos; (Tag = findTag(Tag, "%")) < Source.size(); ++Tag) {
      char Mark = Tag + 2 < Source.size() ? Source[Tag + 2] : ' ';
      moveTo(Tag + 2 + (Mark == '-' || Mark == '+'));
      if (!takeTag("endraw"))
        continue;
      size_t End = Pos;
      Pos = Begin;
      Line = First;
      addText(Tag, '%');
      return moveTo(End);
    }
    fail("line ", First, ": {% raw %} does not end");
  }

  /// lstrip_blocks: spaces go if nothing else is in front of a tag's line.
  std::string_view stripLine(std::string_view Text) const {
    size_t Begin = Text.rfind('\n') + 1; // 0 if there is none
    bool IsLine = Begin > 0 || Pos == 0 || Source[Pos - 1] == '\n';
    bool IsBlank = strip(Text.substr(Begin)).empty();
    return IsLine && IsBlank ? Text.substr(0, Begin) : Text;
  }
  static bool isSpace(char C) {
    return std::isspace(static_cast<unsigned char>(C));
  }
  /// Skips white space after a tag that ends with the mark `Mark`.
  void trimBehind(char Mark, bool IsBlock) {
    size_t End = Pos;
    if (Mark == '-')
      End = Source.size() - strip(Source.substr(Pos), true, false).size();
    else if (IsBlock && Mark != '+' && End < Source.size() &&
             Source[End] == '\n')
      ++End;
    moveTo(End);
  }
  void skipComment() {
    size_t End = Source.find("#}", Pos);
    if (End == Source.npos)
      fail("line ", Line, ": a comment does not end");
    char Mark = Source[End - 1];
    moveTo(End + 2);
    trimBehind(Mark, true);
  }

  void readTag(std::string_view End) {
    int Depth = 0;
    while (true) {
      while (Pos < Source.size() && isSpace(Source[Pos]))
        moveTo(Pos + 1);
      if (Pos == Source.size())
        fail("line ", Line, ": a tag does not end");
      char Mark = Source[Pos];
      bool HasMark =
          (Mark == '-' || Mark == '+') && Source.substr(Pos + 1, 2) == End;
      if (Depth == 0 && (HasMark || startsWith(End))) {
        add(Token::End, "");
        moveTo(Pos + 2 + HasMark);
        return trimBehind(HasMark ? Mark : ' ', End[0] == '%');
      }
      readWord(Depth);
    }
  }

  void readWord(int &Depth) {
    char C = Source[Pos];
    size_t End = Pos;
    auto IsWord = [&](size_t At) {
      return At < Source.size() &&
             (std::isalnum(static_cast<unsigned char>(Source[At])) ||
              Source[At] == '_');
    };
    if (C == '\'' || C == '"')
      return readString(C);
    if (std::isdigit(static_cast<unsigned char>(C))) {
      while (IsWord(End))
        ++End;
      bool IsFloat = End + 1 < Source.size() && Source[End] == '.' &&
                     std::isdigit(static_cast<unsigned char>(Source[End + 1]));
      if (IsFloat)
        for (++End; IsWord(End);)
          ++End;
      IsFloat |= Source.substr(Pos, End - Pos).find('e') != Source.npos;
      add(IsFloat ? Token::Float : Token::Integer,
          std::string(Source.substr(Pos, End - Pos)));
      return moveTo(End);
    }
    if (IsWord(Pos)) {
      while (IsWord(End))
        ++End;
      add(Token::Name, std::string(Source.substr(Pos, End - Pos)));
      return moveTo(End);
    }
    for (std::string_view Word : {"==", "!=", "<=", ">=", "//", "**"})
      if (startsWith(Word)) {
        add(Token::Operator, std::string(Word));
        return moveTo(Pos + 2);
      }
    if (std::string_view("+-*/%~<>=|.,:()[]{}").find(C) ==
        std::string_view::npos)
      fail("line ", Line, ": the character ", json::quote({&C, 1}),
           " is not expected");
    Depth += C == '(' || C == '[' || C == '{';
    Depth -= C == ')' || C == ']' || C == '}';
    add(Token::Operator, {C});
    moveTo(Pos + 1);
  }

  void readString(char Quote) {
    std::string Text;
    size_t At = Pos + 1;
    for (; At < Source.size() && Source[At] != Quote; ++At) {
      if (Source[At] != '\\' || At + 1 == Source.size()) {
        Text += Source[At];
        continue;
      }
      At = readEscape(At + 1, Text);
    }
    if (At >= Source.size())
      fail("line ", Line, ": a string does not end");
    add(Token::Literal, std::move(Text));
    moveTo(At + 1);
  }
  /// Returns the place of the last character.
  size_t readEscape(size_t At, std::string &Text) const {
    static constexpr std::string_view From = "ntr\\'\"abfv0",
                                      To("\n\t\r\\'\"\a\b\f\v\0", 11);
    char C = Source[At];
    if (C == '\n')
      return At;
    if (size_t Which = From.find(C); Which != From.npos) {
      Text += To[Which];
      return At;
    }
    size_t Digits = C == 'x' ? 2 : C == 'u' ? 4 : C == 'U' ? 8 : 0;
    if (!Digits || At + Digits >= Source.size()) {
      (Text += '\\') += C;
      return At;
    }
    char32_t Code = 0;
    for (size_t I = 1; I <= Digits; ++I) {
      auto Digit = static_cast<unsigned char>(Source[At + I]);
      if (!std::isxdigit(Digit))
        fail("line ", Line, ": a string has a damaged escape");
      Code = Code * 16 + static_cast<char32_t>(std::isdigit(Digit)
                                                   ? Digit - '0'
                                                   : (Digit | 32) - 'a' + 10);
    }
    if (Code > 0x10FFFF || (Code >= 0xD800 && Code < 0xE000))
      fail("line ", Line, ": a string has a damaged escape");
    unicode::append(Text, Code);
    return At + Digits;
  }

  std::string_view Source;
  size_t Pos = 0;
  int Line = 1;
  std::vector<Token> Tokens;
};

} // namespace

std::vector<Token> jinja::tokenize(std::string_view Source) {
  return Lexer(Source).run();
}
