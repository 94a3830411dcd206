//===- PreTokenizer.cpp - How a tokenizer cuts a text into pieces ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/PreTokenizer.h"
#include "tokenizer/Pattern.h"
#include "tokenizer/Unicode.h"

#include <algorithm>

using namespace poplar::runtime;
using unicode::is;

namespace {

/// What happens to the matches, which are the delimiters.
enum class Behavior {
  Removed,
  Isolated,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous
};

} // namespace

static Behavior readBehavior(const Description &D, Behavior Default) {
  if (!D.find("behavior"))
    return Default;
  std::string Name = D.getString("behavior");
  if (Name == "Removed")
    return Behavior::Removed;
  if (Name == "Isolated")
    return Behavior::Isolated;
  if (Name == "MergedWithPrevious")
    return Behavior::MergedWithPrevious;
  if (Name == "MergedWithNext")
    return Behavior::MergedWithNext;
  if (Name == "Contiguous")
    return Behavior::Contiguous;
  D.refuse("the behavior '", Name, "' is not known");
}

static void apply(Behavior How, std::vector<Match> &M) {
  size_t Out = 0;
  bool Previous = false;
  switch (How) {
  case Behavior::Isolated:
    return;
  case Behavior::Removed:
    M.erase(std::remove_if(M.begin(), M.end(),
                           [](const Match &Each) { return Each.IsMatch; }),
            M.end());
    return;
  case Behavior::Contiguous:
  case Behavior::MergedWithPrevious:
    for (const Match &Each : M) {
      bool Joins = How == Behavior::Contiguous ? Each.IsMatch == Previous
                                               : Each.IsMatch && !Previous;
      Previous = Each.IsMatch;
      if (Joins && Out)
        M[Out - 1].End = Each.End;
      else
        M[Out++] = Each;
    }
    M.resize(Out);
    return;
  case Behavior::MergedWithNext:
    // From the end; `Out` counts what is kept there.
    for (size_t I = M.size(); I-- > 0;) {
      Match Each = M[I];
      bool Joins = Each.IsMatch && !Previous && Out;
      Previous = Each.IsMatch;
      if (Joins)
        M[M.size() - Out].Begin = Each.Begin;
      else
        M[M.size() - ++Out] = Each;
    }
    M.erase(M.begin(), M.end() - static_cast<ptrdiff_t>(Out));
    return;
  }
}

namespace {

class Split : public PreTokenizer {
public:
  explicit Split(const Description &D)
      : What(D), How(readBehavior(D, Behavior::Isolated)),
        IsInverted(D.getBool("invert", false)) {}
  bool split(std::string_view Text, Regex::Scratch &S,
             std::vector<Match> &Pieces) const override {
    What.findAll(Text, S, Pieces);
    if (IsInverted)
      for (Match &M : Pieces)
        M.IsMatch = !M.IsMatch;
    apply(How, Pieces);
    return true;
  }

private:
  Pattern What;
  Behavior How;
  bool IsInverted;
};

/// ByteLevel without its mapping of bytes.
class Words : public PreTokenizer {
public:
  Words(bool AddsSpace, bool Splits, const std::string &Where)
      : AddsSpace(AddsSpace) {
    if (Splits)
      Pattern = std::make_unique<Regex>(
          R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
          Where);
  }
  std::string_view change(std::string_view Text, bool,
                          std::string &Storage) const override {
    if (!AddsSpace || Text[0] == ' ')
      return Text;
    (Storage = ' ') += Text;
    return Storage;
  }
  bool split(std::string_view Text, Regex::Scratch &S,
             std::vector<Match> &Pieces) const override {
    if (Pattern)
      Pattern->findAll(Text, S, Pieces);
    return Pattern != nullptr;
  }

private:
  bool AddsSpace;
  std::unique_ptr<Regex> Pattern;
};

/// Every byte as the character that stands for it.
class MapBytes : public PreTokenizer {
public:
  std::string_view change(std::string_view Text, bool,
                          std::string &Storage) const override {
    Storage.clear();
    for (char Byte : Text)
      unicode::append(Storage,
                      unicode::getCharOfByte(static_cast<unsigned char>(Byte)));
    return Storage;
  }
};

class Metaspace : public PreTokenizer {
public:
  explicit Metaspace(const Description &D)
      : Mark(D.getString("replacement", "\xE2\x96\x81")),
        Splits(D.getBool("split", true)) {
    std::string Scheme = D.getString("prepend_scheme", "always");
    if (!D.getBool("add_prefix_space", true))
      Scheme = "never";
    if (Scheme != "always" && Scheme != "first" && Scheme != "never")
      D.refuse("the prepend_scheme '", Scheme, "' is not known");
    Prepends = Scheme != "never";
    OnlyFirst = Scheme == "first";
    if (Mark.empty() || unicode::getLength(Mark[0]) != Mark.size())
      D.refuse("the replacement is not one character");
  }
  std::string_view change(std::string_view Text, bool IsFirst,
                          std::string &Storage) const override {
    Storage.clear();
    if (Prepends && (IsFirst || !OnlyFirst) && Text[0] != ' ' &&
        Text.substr(0, Mark.size()) != Mark)
      Storage += Mark;
    for (size_t Begin = 0; Begin < Text.size();) {
      size_t Space = std::min(Text.find(' ', Begin), Text.size());
      Storage += Text.substr(Begin, Space - Begin);
      if (Space < Text.size())
        Storage += Mark;
      Begin = Space + 1;
    }
    return Storage;
  }
  bool split(std::string_view Text, Regex::Scratch &,
             std::vector<Match> &Pieces) const override {
    if (!Splits)
      return false;
    findString(Text, Mark, Pieces);
    apply(Behavior::MergedWithNext, Pieces);
    return true;
  }

private:
  std::string Mark;
  bool Prepends, OnlyFirst, Splits;
};

/// Cuts around every character with a property.
class SplitChars : public PreTokenizer {
public:
  SplitChars(unicode::Property P, Behavior How) : P(P), How(How) {}
  bool split(std::string_view Text, Regex::Scratch &,
             std::vector<Match> &Pieces) const override {
    Pieces.clear();
    size_t Previous = 0;
    for (size_t Pos = 0; Pos < Text.size();) {
      size_t Begin = Pos;
      if (!is(unicode::next(Text, Pos), P))
        continue;
      if (Previous != Begin)
        Pieces.push_back({Previous, Begin, false});
      Pieces.push_back({Begin, Pos, true});
      Previous = Pos;
    }
    if (Previous != Text.size())
      Pieces.push_back({Previous, Text.size(), false});
    apply(How, Pieces);
    return true;
  }

private:
  unicode::Property P;
  Behavior How;
};

/// Runs of \w, and runs of what is neither that nor white space.
class Whitespace : public PreTokenizer {
public:
  bool split(std::string_view Text, Regex::Scratch &,
             std::vector<Match> &Pieces) const override {
    Pieces.clear();
    int Previous = 0;
    for (size_t Pos = 0; Pos < Text.size();) {
      size_t Begin = Pos;
      char32_t C = unicode::next(Text, Pos);
      int Kind = is(C, unicode::Word) ? 1 : is(C, unicode::Whitespace) ? 0 : 2;
      if (Kind && Kind == Previous)
        Pieces.back().End = Pos;
      else if (Kind)
        Pieces.push_back({Begin, Pos, true});
      Previous = Kind;
    }
    return true;
  }
};

} // namespace

void poplar::runtime::readPreTokenizers(const Description &D,
                                        PreTokenizers &Out) {
  const std::string &Type = D.type();
  auto Add = [&](auto *Step) { Out.Steps.emplace_back(Step); };
  if (Type == "Sequence") {
    D.forEach("pretokenizers",
              [&](const Description &Each) { readPreTokenizers(Each, Out); });
    return;
  }
  // Later steps work on characters that stand for bytes.
  if (Out.EndsInBytes)
    Add(new MapBytes);
  Out.EndsInBytes = Type == "ByteLevel";
  if (Type == "ByteLevel")
    Add(new Words(D.getBool("add_prefix_space", true),
                  D.getBool("use_regex", true), D.path()));
  else if (Type == "Split")
    Add(new Split(D));
  else if (Type == "Metaspace")
    Add(new Metaspace(D));
  else if (Type == "Whitespace")
    Add(new Whitespace);
  else if (Type == "WhitespaceSplit")
    Add(new SplitChars(unicode::Whitespace, Behavior::Removed));
  else if (Type == "BertPreTokenizer") {
    Add(new SplitChars(unicode::Whitespace, Behavior::Removed));
    Add(new SplitChars(unicode::Punctuation, Behavior::Isolated));
  } else if (Type == "Punctuation")
    Add(new SplitChars(unicode::Punctuation,
                       readBehavior(D, Behavior::Isolated)));
  else if (Type == "Digits")
    Add(new SplitChars(unicode::Numeric, D.getBool("individual_digits", false)
                                             ? Behavior::Isolated
                                             : Behavior::Contiguous));
  else
    D.refuse("this pre-tokenizer is not supported; there are "
             "BertPreTokenizer, ByteLevel, Digits, Metaspace, Punctuation, "
             "Sequence, Split, Whitespace and WhitespaceSplit");
}
