//===- Decoder.cpp - How a tokenizer joins tokens into a text -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Decoder.h"
#include "tokenizer/Normalizer.h"
#include "tokenizer/Unicode.h"

#include <charconv>

using namespace poplar::runtime;

using Strings = std::vector<std::string>;

static std::string join(const Strings &Tokens) {
  std::string Result;
  for (const std::string &Token : Tokens)
    Result += Token;
  return Result;
}

static void replaceAll(std::string &Text, std::string_view From,
                       std::string_view To) {
  for (size_t At = Text.find(From); At != Text.npos;
       At = Text.find(From, At + To.size()))
    Text.replace(At, From.size(), To);
}

namespace {

class ByteLevel : public Decoder {
public:
  void run(Strings &Tokens, NormalizerScratch &) const override {
    std::string Bytes, Storage;
    for (const std::string &Token : Tokens) {
      size_t Before = Bytes.size();
      for (size_t Pos = 0; Pos < Token.size();) {
        int Byte = unicode::getByteOfChar(unicode::next(Token, Pos));
        if (Byte < 0) {
          // A token that is not made of bytes stands for itself.
          Bytes.resize(Before);
          Bytes += Token;
          break;
        }
        Bytes += static_cast<char>(Byte);
      }
    }
    Tokens.assign(1, std::string(unicode::repair(Bytes, Storage)));
  }
};

class ByteFallback : public Decoder {
public:
  void run(Strings &Tokens, NormalizerScratch &) const override {
    Strings Result;
    std::string Bytes;
    auto Flush = [&] {
      if (Bytes.empty())
        return;
      if (unicode::findInvalid(Bytes) == Bytes.size())
        Result.push_back(Bytes);
      else
        Result.insert(Result.end(), Bytes.size(), "\xEF\xBF\xBD");
      Bytes.clear();
    };
    for (std::string &Token : Tokens) {
      unsigned Byte = 0;
      if (isByte(Token, Byte)) {
        Bytes += static_cast<char>(Byte);
        continue;
      }
      Flush();
      Result.push_back(std::move(Token));
    }
    Flush();
    Tokens = std::move(Result);
  }

private:
  static bool isByte(const std::string &Token, unsigned &Byte) {
    if (Token.size() != 6 || Token.compare(0, 3, "<0x") != 0 || Token[5] != '>')
      return false;
    const char *First = Token.data() + 3;
    // Rust takes a sign before a number.
    if (*First == '+')
      ++First;
    auto [Stop, Code] = std::from_chars(First, Token.data() + 5, Byte, 16);
    return Code == std::errc() && Stop == Token.data() + 5;
  }
};

class Fuse : public Decoder {
public:
  void run(Strings &Tokens, NormalizerScratch &) const override {
    Tokens.assign(1, join(Tokens));
  }
};

class Strip : public Decoder {
public:
  explicit Strip(const Description &D)
      : Content(D.getString("content")), Start(D.getInteger("start", 0)),
        Stop(D.getInteger("stop", 0)) {
    if (Content.empty() || unicode::getLength(Content[0]) != Content.size())
      D.refuse("the content is not one character");
  }
  void run(Strings &Tokens, NormalizerScratch &) const override {
    size_t Size = Content.size();
    for (std::string &Token : Tokens) {
      size_t Begin = 0, End = Token.size();
      for (int64_t I = 0; I < Start && Token.compare(Begin, Size, Content) == 0;
           ++I)
        Begin += Size;
      for (int64_t I = 0; I < Stop && End >= Begin + Size &&
                          Token.compare(End - Size, Size, Content) == 0;
           ++I)
        End -= Size;
      Token.erase(End);
      Token.erase(0, Begin);
    }
  }

private:
  std::string Content;
  int64_t Start, Stop;
};

class Replace : public Decoder {
public:
  explicit Replace(const Description &D) : R(D) {}
  void run(Strings &Tokens, NormalizerScratch &S) const override {
    for (std::string &Token : Tokens)
      R.run(Token, S);
  }

private:
  Replacement R;
};

class Metaspace : public Decoder {
public:
  explicit Metaspace(const Description &D)
      : Mark(D.getString("replacement", "\xE2\x96\x81")) {
    Prepends = D.getString("prepend_scheme", "always") != "never" &&
               D.getBool("add_prefix_space", true);
  }
  void run(Strings &Tokens, NormalizerScratch &) const override {
    bool IsFirst = true;
    for (std::string &Token : Tokens) {
      replaceAll(Token, Mark, IsFirst && Prepends ? "" : " ");
      IsFirst = false;
    }
  }

private:
  std::string Mark;
  bool Prepends;
};

class WordPiece : public Decoder {
public:
  explicit WordPiece(const Description &D)
      : Prefix(D.getString("prefix", "##")),
        CleansUp(D.getBool("cleanup", true)) {}
  void run(Strings &Tokens, NormalizerScratch &) const override {
    bool IsFirst = true;
    for (std::string &Token : Tokens) {
      if (!IsFirst) {
        if (Token.compare(0, Prefix.size(), Prefix) == 0)
          Token.erase(0, Prefix.size());
        else
          Token.insert(0, 1, ' ');
      }
      IsFirst = false;
      if (CleansUp && Token.find(' ') != Token.npos)
        cleanUp(Token);
    }
  }

private:
  static void cleanUp(std::string &Token) {
    static constexpr std::string_view Changes[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto &[From, To] : Changes)
      replaceAll(Token, From, To);
  }

  std::string Prefix;
  bool CleansUp;
};

} // namespace

void poplar::runtime::readDecoders(const Description &D,
                                   std::vector<std::unique_ptr<Decoder>> &Out) {
  const std::string &Type = D.type();
  auto Add = [&](auto *Step) { Out.emplace_back(Step); };
  if (Type == "Sequence")
    D.forEach("decoders",
              [&](const Description &Each) { readDecoders(Each, Out); });
  else if (Type == "ByteLevel")
    Add(new ByteLevel);
  else if (Type == "ByteFallback")
    Add(new ByteFallback);
  else if (Type == "Fuse")
    Add(new Fuse);
  else if (Type == "Strip")
    Add(new Strip(D));
  else if (Type == "Replace")
    Add(new Replace(D));
  else if (Type == "Metaspace")
    Add(new Metaspace(D));
  else if (Type == "WordPiece")
    Add(new WordPiece(D));
  else
    D.refuse("this decoder is not supported; there are ByteFallback, "
             "ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip and "
             "WordPiece");
}
