//===- Normalizer.cpp - What a tokenizer does to a text first -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Normalizer.h"
#include "tokenizer/CharsMap.h"
#include "tokenizer/Unicode.h"

using namespace poplar::runtime;
using unicode::is;

namespace {

class UnicodeForm : public Normalizer {
public:
  explicit UnicodeForm(unicode::Form To) : To(To) {}
  void run(std::string &Text, NormalizerScratch &S) const override {
    if (unicode::isASCII(Text))
      return;
    S.Text.clear();
    unicode::normalize(Text, To, S.Text);
    Text.swap(S.Text);
  }

private:
  unicode::Form To;
};

/// Calls `Take(C, Out)` for every character; what it appends replaces it.
template <typename Callback>
void mapChars(std::string &Text, NormalizerScratch &S, const Callback &Take) {
  S.Text.clear();
  for (size_t Pos = 0; Pos < Text.size();)
    Take(unicode::next(Text, Pos), S.Text);
  Text.swap(S.Text);
}

class Lowercase : public Normalizer {
public:
  void run(std::string &Text, NormalizerScratch &S) const override {
    mapChars(Text, S, [](char32_t C, std::string &Out) {
      unicode::appendLowercase(Out, C);
    });
  }
};

class Strip : public Normalizer {
public:
  Strip(bool Left, bool Right) : Left(Left), Right(Right) {}
  void run(std::string &Text, NormalizerScratch &) const override {
    size_t Begin = 0, End = Text.size();
    while (Left && Begin < End) {
      size_t After = Begin;
      if (!is(unicode::next(Text, After), unicode::Whitespace))
        break;
      Begin = After;
    }
    while (Right && Begin < End) {
      size_t Before = End - 1;
      while (unicode::isContinuation(Text[Before]))
        --Before;
      size_t Pos = Before;
      if (!is(unicode::next(Text, Pos), unicode::Whitespace))
        break;
      End = Before;
    }
    Text.erase(End);
    Text.erase(0, Begin);
  }

private:
  bool Left, Right;
};

class StripAccents : public Normalizer {
public:
  void run(std::string &Text, NormalizerScratch &S) const override {
    mapChars(Text, S, [](char32_t C, std::string &Out) {
      if (!is(C, unicode::Mark))
        unicode::append(Out, C);
    });
  }
};

class Prepend : public Normalizer {
public:
  explicit Prepend(std::string Prefix) : Prefix(std::move(Prefix)) {}
  void run(std::string &Text, NormalizerScratch &) const override {
    if (!Text.empty())
      Text.insert(0, Prefix);
  }

private:
  std::string Prefix;
};

class Replace : public Normalizer {
public:
  explicit Replace(const Description &D) : R(D) {}
  void run(std::string &Text, NormalizerScratch &S) const override {
    R.run(Text, S);
  }

private:
  Replacement R;
};

/// Every byte as the character that stands for it.
class ByteLevel : public Normalizer {
public:
  void run(std::string &Text, NormalizerScratch &S) const override {
    S.Text.clear();
    for (char Byte : Text)
      unicode::append(S.Text,
                      unicode::getCharOfByte(static_cast<unsigned char>(Byte)));
    Text.swap(S.Text);
  }
};

class Nmt : public Normalizer {
public:
  void run(std::string &Text, NormalizerScratch &S) const override {
    mapChars(Text, S, [](char32_t C, std::string &Out) {
      bool IsRemoved = (C >= 1 && C <= 8) || C == 0xB ||
                       (C >= 0xE && C <= 0x1F) || C == 0x7F || C == 0x8F ||
                       C == 0x9F;
      if (IsRemoved)
        return;
      bool IsSpace = C == 9 || C == 0xA || C == 0xC || C == 0xD ||
                     C == 0x1680 || (C >= 0x200B && C <= 0x200F) ||
                     C == 0x2028 || C == 0x2029 || C == 0x2581 || C == 0xFEFF ||
                     C == 0xFFFD;
      unicode::append(Out, IsSpace ? U' ' : C);
    });
  }
};

class Bert : public Normalizer {
public:
  explicit Bert(const Description &D)
      : Cleans(D.getBool("clean_text", true)),
        SpacesChinese(D.getBool("handle_chinese_chars", true)),
        Lowers(D.getBool("lowercase", true)),
        StripsAccents(D.getBool("strip_accents", Lowers)) {}

  void run(std::string &Text, NormalizerScratch &S) const override {
    mapChars(Text, S, [this](char32_t C, std::string &Out) { clean(C, Out); });
    if (StripsAccents && !unicode::isASCII(Text)) {
      S.Text.clear();
      unicode::normalize(Text, unicode::Form::NFD, S.Text);
      Text.swap(S.Text);
      mapChars(Text, S, [](char32_t C, std::string &Out) {
        if (!is(C, unicode::NonspacingMark))
          unicode::append(Out, C);
      });
    }
    if (Lowers)
      mapChars(Text, S, [](char32_t C, std::string &Out) {
        unicode::appendLowercase(Out, C);
      });
  }

private:
  void clean(char32_t C, std::string &Out) const {
    if (Cleans) {
      if (C == 0 || is(C, unicode::Control))
        return;
      if (is(C, unicode::Whitespace))
        C = ' ';
    }
    bool IsChinese = SpacesChinese && isChinese(C);
    if (IsChinese)
      Out += ' ';
    unicode::append(Out, C);
    if (IsChinese)
      Out += ' ';
  }
  static bool isChinese(char32_t C) {
    if (C < 0x3400)
      return false;
    auto In = [&](char32_t First, char32_t Last) {
      return C >= First && C <= Last;
    };
    return In(0x4E00, 0x9FFF) || In(0x3400, 0x4DBF) || In(0x20000, 0x2A6DF) ||
           In(0x2A700, 0x2B73F) || In(0x2B740, 0x2B81F) ||
           In(0x2B920, 0x2CEAF) || In(0xF900, 0xFAFF) || In(0x2F800, 0x2FA1F);
  }

  bool Cleans, SpacesChinese, Lowers, StripsAccents;
};

class Precompiled : public Normalizer {
public:
  explicit Precompiled(const Description &D)
      : Map(decodeBase64(D.getString("precompiled_charsmap"), D.path()),
            D.path()) {}
  void run(std::string &Text, NormalizerScratch &S) const override {
    S.Text.clear();
    Map.run(Text, S.Text);
    Text.swap(S.Text);
  }

private:
  CharsMap Map;
};

} // namespace

Replacement::Replacement(const Description &D)
    : What(D), Content(D.getString("content")) {}

void Replacement::run(std::string &Text, NormalizerScratch &S) const {
  What.findAll(Text, S.Regexes, S.Matches);
  if (S.Matches.empty() || (S.Matches.size() == 1 && !S.Matches[0].IsMatch))
    return;
  S.Text.clear();
  for (const Match &M : S.Matches)
    S.Text += M.IsMatch
                  ? std::string_view(Content)
                  : std::string_view(Text).substr(M.Begin, M.End - M.Begin);
  Text.swap(S.Text);
}

void poplar::runtime::readNormalizers(
    const Description &D, std::vector<std::unique_ptr<Normalizer>> &Out) {
  const std::string &Type = D.type();
  auto Add = [&](auto *N) { Out.emplace_back(N); };
  if (Type == "Sequence")
    D.forEach("normalizers",
              [&](const Description &Each) { readNormalizers(Each, Out); });
  else if (Type == "NFC")
    Add(new UnicodeForm(unicode::Form::NFC));
  else if (Type == "NFD")
    Add(new UnicodeForm(unicode::Form::NFD));
  else if (Type == "NFKC")
    Add(new UnicodeForm(unicode::Form::NFKC));
  else if (Type == "NFKD")
    Add(new UnicodeForm(unicode::Form::NFKD));
  else if (Type == "Lowercase")
    Add(new Lowercase);
  else if (Type == "Strip")
    Add(new Strip(D.getBool("strip_left", true),
                  D.getBool("strip_right", true)));
  else if (Type == "StripAccents")
    Add(new StripAccents);
  else if (Type == "Prepend")
    Add(new Prepend(D.getString("prepend")));
  else if (Type == "Replace")
    Add(new Replace(D));
  else if (Type == "ByteLevel")
    Add(new ByteLevel);
  else if (Type == "Nmt")
    Add(new Nmt);
  else if (Type == "BertNormalizer" || Type == "Bert")
    Add(new Bert(D));
  else if (Type == "Precompiled")
    Add(new Precompiled(D));
  else
    D.refuse("this normalizer is not supported; there are BertNormalizer, "
             "ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, "
             "Prepend, Replace, Sequence, Strip and StripAccents");
}
