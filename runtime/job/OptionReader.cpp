//===- OptionReader.cpp - Assigning options -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/OptionReader.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"
#include "support/OptionNames.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

using namespace poplar::runtime;

template <typename T>
static void parseNumber(const Spec &S, const std::string &Text, T &Result,
                        const std::string &Place) {
  const char *End = Text.data() + Text.size();
  T Value{};
  auto [Stop, Code] = std::from_chars(Text.data(), End, Value);
  bool Finite = true;
  if constexpr (std::is_floating_point_v<T>)
    Finite = std::isfinite(Value);
  if (Code != std::errc() || Stop != End || !Finite)
    fail(Place, "--", S.Name, " expects ",
         std::is_integral_v<T> ? "an integer" : "a number", ", not '", Text,
         "'",
         std::string_view(S.Name) == "warmup"
             ? "; --warmup-ratio takes a part of the steps"
             : "");
  if (static_cast<double>(Value) < S.Least)
    fail(Place, "--", S.Name, " must be at least ", S.Least, ", not ", Text);
  Result = Value;
}

static void assign(const Spec &S, const std::string &Text,
                   const std::string &Place) {
  if (auto *const *String = std::get_if<std::string *>(&S.Where))
    **String = Text;
  else if (auto *const *List =
               std::get_if<std::vector<std::string> *>(&S.Where))
    (*List)->push_back(Text);
  else if (auto *const *Integer = std::get_if<int64_t *>(&S.Where))
    parseNumber(S, Text, **Integer, Place);
  else if (auto *const *Real = std::get_if<double *>(&S.Where))
    parseNumber(S, Text, **Real, Place);
  else if (Text == "true" || Text == "false")
    *std::get<bool *>(S.Where) = Text == "true";
  else
    fail(Place, "--", S.Name, " expects true or false, not '", Text, "'");
}

static bool isList(const Spec &S) {
  return std::holds_alternative<std::vector<std::string> *>(S.Where);
}

/// Empties lists when they are given anew: options of the command line replace
/// those of a file.
class OptionReader::ListReset {
public:
  void operator()(const Spec &S) {
    auto *const *List = std::get_if<std::vector<std::string> *>(&S.Where);
    if (!List || std::find(Seen.begin(), Seen.end(), *List) != Seen.end())
      return;
    Seen.push_back(*List);
    (*List)->clear();
  }

private:
  std::vector<const void *> Seen;
};

/// An option by the word that gives it, which is --NAME where it counts.
const Spec &OptionReader::find(const std::string &Word,
                               const std::string &Place) const {
  for (const Spec &S : Specs)
    if (Word.compare(0, 2, "--") == 0 &&
        Word.compare(2, Word.npos, S.Name) == 0)
      return S;
  fail(Place, explainUnknownOption(Word, Listed, "--help"));
}

void OptionReader::arguments(const std::vector<std::string> &Words,
                             bool OnlyConfig) {
  ListReset Reset;
  for (size_t I = 0; I < Words.size(); ++I) {
    std::string Word = Words[I], Text;
    if (Word.size() < 2 || Word[0] != '-' ||
        std::isdigit(static_cast<unsigned char>(Word[1])))
      fail("unexpected argument '", Word, "'; see --help");
    size_t Equals = Word.find('=');
    bool HasText = Equals != std::string::npos;
    if (HasText) {
      Text = Word.substr(Equals + 1);
      Word.resize(Equals);
    }
    const Spec &S = find(Word, "");
    if (!HasText) {
      if (std::holds_alternative<bool *>(S.Where))
        Text = "true";
      else if (I + 1 < Words.size())
        Text = Words[++I];
      else
        fail(Word, " expects a value");
    }
    if (OnlyConfig && std::string_view(S.Name) != "config")
      continue;
    Reset(S);
    assign(S, Text, "");
  }
}

static std::string trim(const std::string &Text) {
  size_t Begin = Text.find_first_not_of(" \t\r");
  if (Begin == std::string::npos)
    return "";
  return Text.substr(Begin, Text.find_last_not_of(" \t\r") - Begin + 1);
}

void OptionReader::file(const std::string &Path) {
  MappedFile File(Path);
  std::string Text(File.text());
  size_t First = Text.find_first_not_of(" \t\r\n");
  if (First != std::string::npos && Text[First] == '{')
    return object(Text, Path);
  lines(Text, Path);
}

static void refuseConfig(const Spec &S, const std::string &Place) {
  if (std::string_view(S.Name) == "config")
    fail(Place, "a file of options cannot name another file of options");
}

void OptionReader::lines(const std::string &Text, const std::string &Path) {
  ListReset Reset;
  std::istringstream Lines(Text);
  std::string Line;
  for (int Number = 1; std::getline(Lines, Line); ++Number) {
    std::string Place = Path + ":" + std::to_string(Number) + ": ";
    Line = trim(Line.substr(0, Line.find('#')));
    if (Line.empty())
      continue;
    size_t Equals = Line.find('=');
    if (Equals == std::string::npos)
      fail(Place, "expected `option = value`");
    const Spec &S = find("--" + trim(Line.substr(0, Equals)), Place);
    refuseConfig(S, Place);
    Reset(S);
    assign(S, trim(Line.substr(Equals + 1)), Place);
  }
}

/// The words that would give the value of a member on the command line.
static std::vector<std::string>
getWords(const json::Value &Value, const Spec &S, const std::string &Place) {
  switch (Value.kind()) {
  case json::Value::String:
    return {std::string(Value.asString())};
  case json::Value::Number:
    return {std::string(Value.getSpelling())};
  case json::Value::Boolean:
    return {Value.asBool() ? "true" : "false"};
  case json::Value::Array:
    if (isList(S)) {
      std::vector<std::string> Words;
      for (const json::Value &Element : Value.elements()) {
        if (Element.kind() != json::Value::String)
          fail(Place, "--", S.Name, " expects texts in its list");
        Words.emplace_back(Element.asString());
      }
      return Words;
    }
    [[fallthrough]];
  default:
    fail(Place, "--", S.Name, " expects ",
         isList(S) ? "a text or a list of them" : "one value",
         "; leave the member out for the default");
  }
}

void OptionReader::object(const std::string &Text, const std::string &Path) {
  ListReset Reset;
  std::string Place = Path + ": ";
  json::Value Root = json::parse(Text, "'" + Path + "'");
  for (const auto &[Name, Value] : Root.members()) {
    const Spec &S = find("--" + Name, Place);
    refuseConfig(S, Place);
    Reset(S);
    for (const std::string &Word : getWords(Value, S, Place))
      assign(S, Word, Place);
  }
}
