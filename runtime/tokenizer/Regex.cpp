//===- Regex.cpp - Regular expressions of tokenizers ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Regex.h"
#include "support/Error.h"
#include "tokenizer/Unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

using namespace poplar::runtime;

static constexpr std::string_view Spaces =
    R"(\x{9}-\x{D} \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

namespace {

/// Rewrites an expression, character by character.
class Translator {
public:
  Translator(std::string_view Pattern, const std::string &Where)
      : Pattern(Pattern), Where(Where) {}

  std::string run() {
    while (Pos < Pattern.size()) {
      char C = Pattern[Pos++];
      if (C == '\\')
        translateEscape(/*InClass=*/false);
      else if (C == '[')
        translateClass();
      else if (C == '(')
        translateGroup();
      else if (C == '{')
        translateInterval();
      else if (C == '^' || C == '$')
        // At the beginnings and ends of lines, to Ruby.
        Out += C == '^' ? "(?m:^)" : "(?m:$)";
      else
        Out += C;
    }
    return std::move(Out);
  }

private:
  [[noreturn]] void refuse(std::string_view What) {
    fail(Where, ": '", What, "' in the regular expression '", Pattern,
         "' is not supported");
  }
  char take() {
    if (Pos == Pattern.size())
      refuse("an expression that ends early");
    return Pattern[Pos++];
  }

  /// The members of a class that an escape stands for.
  std::string getMembers(char Kind) {
    using unicode::listNewCodePoints;
    if (Kind == 's')
      return std::string(Spaces);
    if (Kind == 'd')
      return "\\p{Nd}" + listNewCodePoints("Nd");
    return "\\p{L}\\p{M}\\p{Nd}\\p{Pc}" + listNewCodePoints("L") +
           listNewCodePoints("M") + listNewCodePoints("Nd");
  }
  void put(const std::string &Members, bool IsNegated, bool InClass) {
    if (!InClass)
      Out += (IsNegated ? "[^" : "[") + Members + "]";
    else if (!IsNegated)
      Out += Members;
    else
      refuse("a negated set inside a class");
  }

  void translateEscape(bool InClass) {
    char C = take();
    switch (C) {
    case 's':
    case 'd':
    case 'w':
      return put(getMembers(C), false, InClass);
    case 'S':
    case 'D':
    case 'W':
      return put(getMembers(static_cast<char>(C - 'A' + 'a')), true, InClass);
    case 'p':
    case 'P':
      return translateProperty(C == 'P', InClass);
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'v':
      // \v is the one character, not PCRE2's vertical space.
      Out += C == 'v' ? std::string("\\x{B}") : std::string("\\") + C;
      return;
    case 'x':
      return translateCode(Pos < Pattern.size() && Pattern[Pos] == '{' ? 0 : 2);
    case 'u':
      return translateCode(4);
    default:
      break;
    }
    bool IsLetter = (C >= 'a' && C <= 'z') || (C >= 'A' && C <= 'Z') ||
                    (C >= '0' && C <= '9');
    if (IsLetter)
      refuse(std::string("\\") + C);
    // PCRE2 takes an escaped space or '#' for the character, too.
    if (C & 0x80)
      Out += C;
    else
      (Out += '\\') += C;
  }

  void translateCode(size_t Digits) {
    std::string Code;
    if (Digits == 0) {
      ++Pos;
      for (char C = take(); C != '}'; C = take())
        Code += C;
    }
    for (; Digits; --Digits)
      Code += take();
    if (Code.empty() ||
        Code.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      refuse("\\x" + Code);
    Out += "\\x{" + Code + "}";
  }

  void translateProperty(bool IsNegated, bool InClass) {
    if (take() != '{')
      refuse("\\p without braces");
    std::string Name;
    for (char C = take(); C != '}'; C = take())
      Name += C;
    if (!Name.empty() && Name[0] == '^') {
      IsNegated = !IsNegated;
      Name.erase(0, 1);
    }
    static constexpr std::string_view Categories[] = {
        "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",
        "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
        "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf"};
    for (std::string_view Known : Categories)
      if (Name == Known)
        return put("\\p{" + Name + "}" + unicode::listNewCodePoints(Name),
                   IsNegated, InClass);
    refuse("\\p{" + Name + "}");
  }

  void translateClass() {
    Out += '[';
    if (Pos < Pattern.size() && Pattern[Pos] == '^') {
      Out += '^';
      ++Pos;
    }
    if (Pos < Pattern.size() && Pattern[Pos] == ']')
      refuse("[]");
    for (char C = take(); C != ']'; C = take()) {
      if (C == '\\')
        translateEscape(/*InClass=*/true);
      else if (C == '[')
        refuse("a class inside a class");
      else if (C == '&' && Pos < Pattern.size() && Pattern[Pos] == '&')
        refuse("&&");
      else
        Out += C;
    }
    Out += ']';
  }

  void translateGroup() {
    Out += '(';
    if (Pos == Pattern.size() || Pattern[Pos] != '?')
      return;
    static constexpr std::string_view Known[] = {"?:",  "?=",  "?!",  "?>",
                                                 "?<=", "?<!", "?i:", "?i)"};
    for (std::string_view Kind : Known)
      if (Pattern.substr(Pos, Kind.size()) == Kind) {
        Out += Kind;
        Pos += Kind.size();
        return;
      }
    refuse("(" + std::string(Pattern.substr(Pos, 3)));
  }

  void translateInterval() {
    size_t End = Pattern.find('}', Pos);
    std::string_view Inside =
        Pattern.substr(Pos, End == std::string_view::npos ? End : End - Pos);
    if (End == std::string_view::npos || Inside.empty() ||
        Inside.find_first_not_of("0123456789,") != std::string_view::npos)
      refuse("{");
    Pos = End + 1;
    // "{,n}" is from 0 to Ruby, and "{n}+" is not possessive.
    Out += Inside[0] == ',' ? "{0" : "{";
    (Out += Inside) += '}';
    if (Pos < Pattern.size() && (Pattern[Pos] == '+' || Pattern[Pos] == '?'))
      refuse("a quantifier after an interval");
  }

  std::string_view Pattern;
  const std::string &Where;
  size_t Pos = 0;
  std::string Out;
};

} // namespace

std::string poplar::runtime::translateRegex(std::string_view Pattern,
                                            const std::string &Where) {
  return Translator(Pattern, Where).run();
}

Regex::Regex(std::string_view Pattern, const std::string &Where)
    : Where(Where) {
  std::string Translated = translateRegex(Pattern, Where);
  int Error = 0;
  PCRE2_SIZE At = 0;
  Code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(Translated.data()), Translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_DOLLAR_ENDONLY, &Error,
      &At, nullptr);
  if (!Code) {
    PCRE2_UCHAR Message[256];
    pcre2_get_error_message(Error, Message, sizeof Message);
    fail(Where, ": the regular expression '", Pattern,
         "' is not valid: ", reinterpret_cast<const char *>(Message));
  }
  // Without the compiler, which some systems forbid, it is interpreted.
  (void)pcre2_jit_compile(Code, PCRE2_JIT_COMPLETE);
}

Regex::Regex(Regex &&Other) noexcept
    : Code(Other.Code), Where(std::move(Other.Where)) {
  Other.Code = nullptr;
}

Regex::~Regex() { pcre2_code_free(Code); }

Regex::Scratch::Scratch()
    : Data(pcre2_match_data_create(8, nullptr)),
      Stack(pcre2_jit_stack_create(32 << 10, 64 << 20, nullptr)),
      Context(pcre2_match_context_create(nullptr)) {
  pcre2_jit_stack_assign(Context, nullptr, Stack);
}

Regex::Scratch::Scratch(Scratch &&Other) noexcept
    : Data(Other.Data), Stack(Other.Stack), Context(Other.Context) {
  Other.Data = nullptr;
  Other.Stack = nullptr;
  Other.Context = nullptr;
}

Regex::Scratch::~Scratch() {
  pcre2_match_data_free(Data);
  pcre2_match_context_free(Context);
  pcre2_jit_stack_free(Stack);
}

void Regex::findAll(std::string_view Text, Scratch &S,
                    std::vector<Match> &Out) const {
  Out.clear();
  if (Text.empty())
    return;
  const auto *Subject = reinterpret_cast<PCRE2_SPTR>(Text.data());
  const PCRE2_SIZE *Found = pcre2_get_ovector_pointer(S.Data);
  size_t Previous = 0, At = 0;
  bool HasLast = false;
  size_t LastEnd = 0;
  while (At <= Text.size()) {
    int Status = pcre2_match(Code, Subject, Text.size(), At, PCRE2_NO_UTF_CHECK,
                             S.Data, S.Context);
    if (Status == PCRE2_ERROR_NOMATCH)
      break;
    if (Status < 0) {
      PCRE2_UCHAR Message[256];
      pcre2_get_error_message(Status, Message, sizeof Message);
      fail(Where, ": a match of a text of ", Text.size(),
           " bytes failed: ", reinterpret_cast<const char *>(Message));
    }
    size_t Begin = Found[0], End = Found[1];
    // An empty match moves on by a character, and does not count right behind
    // another match.
    if (Begin == End) {
      At = End < Text.size() ? End + unicode::getLength(Text[End]) : End + 1;
      if (HasLast && LastEnd == End)
        continue;
    } else {
      At = End;
    }
    HasLast = true;
    LastEnd = End;
    if (Previous != Begin)
      Out.push_back({Previous, Begin, false});
    Out.push_back({Begin, End, true});
    Previous = End;
  }
  if (Previous != Text.size())
    Out.push_back({Previous, Text.size(), false});
}
