//===- TokenizerTest.cpp - Tokenizers against PyPI's packages -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Tokenizer.h"
#include "TestSupport.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"
#include "tokenizer/Regex.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

using namespace poplar::runtime;

namespace {

const std::string Inputs = POPLAR_TOKENIZER_INPUTS;

std::string fromHex(std::string_view Text) {
  std::string Result;
  for (size_t I = 0; I + 1 < Text.size(); I += 2)
    Result += static_cast<char>(
        std::stoi(std::string(Text.substr(I, 2)), nullptr, 16));
  return Result;
}

/// The message of the Error that loading a file with this content throws.
std::string refuse(const std::string &Content) {
  TempDir Dir;
  writeFile(Dir / "tokenizer.json", Content);
  try {
    Tokenizer::load(Dir / "tokenizer.json");
  } catch (const Error &E) {
    return E.what();
  }
  return "no error";
}

#define EXPECT_MENTIONS(Message, Part)                                         \
  EXPECT_NE(std::string(Message).find(Part), std::string::npos) << Message

/// What scripts/goldens/make_tokenizer_goldens.py saved from PyPI's packages.
class Goldens : public testing::TestWithParam<const char *> {};

TEST_P(Goldens, EncodeAndDecode) {
  MappedFile File(Inputs + "/goldens.json");
  json::Value All = json::parse(File.text(), "goldens.json");
  const auto &Texts = All.find("texts")->elements();
  const json::Value *Mine = All.find("tokenizers")->find(GetParam());
  ASSERT_TRUE(Mine);
  auto T = Tokenizer::load(Inputs + "/" + GetParam());
  auto Encoder = T->makeEncoder();
  ASSERT_GT(Texts.size(), 20u);
  for (size_t I = 0; I < Texts.size(); ++I) {
    std::vector<int32_t> Expected, Ids;
    for (const json::Value &Id : Mine->find("ids")->elements()[I].elements())
      Expected.push_back(static_cast<int32_t>(Id.asDouble()));
    std::string Text = fromHex(Texts[I].asString());
    Encoder->encode(Text, /*AddSpecial=*/true, Ids);
    EXPECT_EQ(Ids, Expected) << "text " << I << ": " << Text;
    // Again, from what is remembered.
    Ids.clear();
    Encoder->encode(Text, /*AddSpecial=*/true, Ids);
    EXPECT_EQ(Ids, Expected) << "text " << I << ", again";
    EXPECT_EQ(T->decode(Expected.data(), Expected.size(), false),
              Mine->find("decoded")->elements()[I].asString())
        << "text " << I;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Goldens,
                         testing::Values("bert.json", "gemma.json", "gpt2.json",
                                         "llama3.json", "mistral.json",
                                         "qwen.json", "t5.json", "albert.model",
                                         "llama2.model", "suffix.model",
                                         "tokenizer.model"),
                         [](const auto &Info) {
                           std::string Name = Info.param;
                           return Name.substr(0, Name.find('.'));
                         });

/// What scripts/goldens/make_added_goldens.py saved from transformers.
/// Seconds of the thread.
double getProcessorTime() {
  timespec Now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &Now);
  return static_cast<double>(Now.tv_sec) +
         1e-9 * static_cast<double>(Now.tv_nsec);
}

TEST(Tokenizer, PrefixesAreEncodedFromTheLastToken) {
  // Tokens that strip, are words, are normalized, or begin each other.
  TempDir Dir;
  std::string Kinds(MappedFile(Inputs + "/qwen.json").text());
  std::string Last = R"("</tool_call>","single_word":false,"lstrip":false,)"
                     R"("rstrip":false,"normalized":false,"special":false})";
  size_t At = Kinds.find(Last);
  ASSERT_NE(At, Kinds.npos);
  Kinds.insert(At + Last.size(),
               R"(,{"content":"<l>","lstrip":true,"normalized":false})"
               R"(,{"content":"<r>","rstrip":true,"normalized":false})"
               R"(,{"content":"word","single_word":true,"normalized":false})"
               R"(,{"content":"<r><r>","normalized":false})"
               R"(,{"content":"<n>"},{"content":"x<|im_end|>y"})");
  writeFile(Dir / "kinds.json", Kinds);
  std::mt19937 Numbers(1);
  auto Draw = [&](size_t Below) { return Numbers() % Below; };
  for (const std::string &File :
       {Dir / "kinds.json", Inputs + "/gemma.json", Inputs + "/llama3.json",
        Inputs + "/mistral.json", Inputs + "/llama2.model"}) {
    auto T = Tokenizer::load(File);
    auto Encoder = T->makeEncoder();
    std::vector<std::string> Words = {"the model",    " and", "x",
                                      "\n",           "  ",   "\xC3\xA9",
                                      "\xE2\x80\x83", "_9",   "<|"};
    for (int32_t Id = 0; Id < T->size(); ++Id)
      if (std::string Token = T->decode(&Id, 1, /*SkipSpecial=*/false);
          T->findAdded(Token) >= 0)
        Words.push_back(Token);
    for (int Round = 0; Round < 200; ++Round) {
      std::string Text;
      std::vector<size_t> Ends;
      for (size_t Count = Draw(30); Count-- > 0;) {
        Text += Words[Draw(Words.size())];
        Ends.push_back(Text.size());
      }
      std::vector<int32_t> Ids = {7}, Expected = {7};
      auto Counts = Encoder->encodePrefixes(Text, Ends, Ids);
      EXPECT_EQ(Counts, Encoder->Tokenizer::Encoder::encodePrefixes(Text, Ends,
                                                                    Expected))
          << File << ": " << Text;
      EXPECT_EQ(Ids, Expected);
    }
  }
}

TEST(Tokenizer, PrefixesTakeTimeThatIsLinear) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  auto Encoder = T->makeEncoder();
  auto Measure = [&](int Turns) {
    std::string Text;
    std::vector<size_t> Ends;
    for (int Turn = 0; Turn < Turns; ++Turn) {
      Text += "<|im_start|>user\nthe model and tokens<|im_end|>\n";
      Ends.push_back(Text.size());
    }
    double Least = 1e9;
    for (int Round = 0; Round < 3; ++Round) {
      double Begin = getProcessorTime();
      std::vector<int32_t> Ids;
      Encoder->encodePrefixes(Text, Ends, Ids);
      Least = std::min(Least, getProcessorTime() - Begin);
    }
    return Least;
  };
  // There are 32 times the turns: it would be 1024 times as much if each
  // encoded what is before.
  EXPECT_LT(Measure(3200), 200 * Measure(100));
}

TEST(Tokenizer, ReadsWhatIsBesideAModel) {
  json::Value All =
      json::parse(MappedFile(Inputs + "/added.json").text(), "added.json");
  const auto &Texts = All.find("texts")->elements();
  const auto &Cases = All.find("cases")->elements();
  ASSERT_GT(Cases.size(), 5u);
  for (size_t C = 0; C < Cases.size(); ++C) {
    TempDir Dir;
    std::filesystem::copy(Inputs + "/llama2.model", Dir / "tokenizer.model");
    for (const auto &[Name, Text] : Cases[C].find("files")->members())
      writeFile(Dir / Name, std::string(Text.asString()));
    auto T = Tokenizer::load(Dir / "tokenizer.model");
    for (size_t I = 0; I < Texts.size(); ++I) {
      std::vector<int32_t> Expected;
      for (const json::Value &Id :
           Cases[C].find("ids")->elements()[I].elements())
        Expected.push_back(static_cast<int32_t>(Id.asDouble()));
      EXPECT_EQ(T->encode(Texts[I].asString()), Expected)
          << "case " << C << ", text " << I;
      EXPECT_EQ(T->decode(Expected.data(), Expected.size(), false),
                Cases[C].find("decoded")->elements()[I].asString())
          << "case " << C << ", text " << I;
    }
  }
}

/// The message of the Error that loading llama2.model throws with this beside.
std::string refuseBeside(const std::string &Name, const std::string &Content) {
  TempDir Dir;
  std::filesystem::copy(Inputs + "/llama2.model", Dir / "tokenizer.model");
  writeFile(Dir / Name, Content);
  try {
    Tokenizer::load(Dir / "tokenizer.model");
  } catch (const Error &E) {
    return E.what();
  }
  return "no error";
}

TEST(Tokenizer, RefusesWhatIsBesideAModelByName) {
  std::string Class = R"({"tokenizer_class":"LlamaTokenizer",)",
              Config = "tokenizer_config.json";
  EXPECT_MENTIONS(refuseBeside("added_tokens.json", R"({"<x>":560})"),
                  "name no class");
  EXPECT_MENTIONS(refuseBeside(Config, R"({"tokenizer_class":"T5Tokenizer"})"),
                  "the class T5Tokenizer, and of a tokenizer.model with "
                  "settings only LlamaTokenizer is supported; convert it");
  EXPECT_MENTIONS(
      refuseBeside(Config, Class + R"("split_special_tokens":true})"),
      "'split_special_tokens' is not supported");
  EXPECT_MENTIONS(
      refuseBeside(
          Config, Class + R"("added_tokens_decoder":{"9":{"content":"<x>"}}})"),
      "the added token \"<x>\" has the id 9, but its position gives 560");
  EXPECT_MENTIONS(refuseBeside(Config, Class + R"("add_bos_token":1})"),
                  "expected true or false as 'add_bos_token'");
  EXPECT_MENTIONS(refuseBeside(Config, "{"), "tokenizer_config.json'");
}

TEST(Tokenizer, NamesPointersOfGitLFS) {
  EXPECT_MENTIONS(refuse("version https://git-lfs.github.com/spec/v1\noid "
                         "sha256:00\nsize 9\n"),
                  "is a pointer of Git LFS and not the file itself; run 'git "
                  "lfs pull'");
}

TEST(Tokenizer, Sizes) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  EXPECT_EQ(T->size(), 562);
  EXPECT_EQ(T->find("<tool_call>"), 560);
  EXPECT_EQ(T->find("no such token"), -1);
  EXPECT_EQ(T->describe(), "BPE, 562 tokens");
  // Ids without a token are left out, special ones if asked for.
  int32_t Ids[] = {T->find("<|im_start|>"), 100000, T->find("a"), -1};
  EXPECT_EQ(T->decode(Ids, 4, false), "<|im_start|>a");
  EXPECT_EQ(T->decode(Ids, 4, true), "a");
}

TEST(Tokenizer, RefusesByName) {
  std::string Model = R"("model":{"type":"BPE","vocab":{"a":0},"merges":[]})";
  EXPECT_EQ(refuse("{" + Model + "}"), "no error");
  EXPECT_MENTIONS(refuse(R"({"normalizer":{"type":"Unheard"},)" + Model + "}"),
                  "normalizer (Unheard): this normalizer is not supported");
  EXPECT_MENTIONS(
      refuse(R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
             R"({"type":"Digits"},{"type":"UnicodeScripts"}]},)" +
             Model + "}"),
      "pretokenizers[1] (UnicodeScripts): this pre-tokenizer is not supported");
  EXPECT_MENTIONS(refuse(R"({"decoder":{"type":"CTC"},)" + Model + "}"),
                  "decoder (CTC): this decoder is not supported");
  EXPECT_MENTIONS(refuse(R"({"post_processor":{"type":"Odd"},)" + Model + "}"),
                  "post_processor (Odd): this post-processor is not supported");
  EXPECT_MENTIONS(refuse(R"({"model":{"type":"WordLevel","vocab":{}}})"),
                  "model (WordLevel): this model is not supported");
  EXPECT_MENTIONS(refuse("{}"), "expected an object as 'model'");
  EXPECT_MENTIONS(
      refuse(
          R"({"model":{"type":"BPE","dropout":0.1,"vocab":{},"merges":[]}})"),
      "dropout of merges is not supported");
  EXPECT_MENTIONS(
      refuse(
          R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}})"),
      "the vocabulary lacks \"ab\"");
  EXPECT_MENTIONS(
      refuse(R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})"),
      "have the same id 0");
  EXPECT_MENTIONS(
      refuse(R"({"added_tokens":[{"id":7,"content":"<x>"}],)" + Model + "}"),
      "the token \"<x>\" has the id 7, but its position gives 1");
}

/// A field of a message of Protocol Buffers that holds text or a message.
std::string makeField(int Number, const std::string &Content) {
  return std::string({static_cast<char>(Number << 3 | 2),
                      static_cast<char>(Content.size())}) +
         Content;
}

TEST(Tokenizer, RefusesSentencePieceByName) {
  std::string Unknown = makeField(1, makeField(1, "<unk>") + "\x18\x02"),
              A = makeField(1, makeField(1, "a"));
  EXPECT_EQ(refuse(Unknown + A), "no error");
  EXPECT_MENTIONS(refuse("a text"), "nor a model of SentencePiece");
  EXPECT_MENTIONS(refuse((Unknown + A).substr(0, 9)), "or is damaged");
  EXPECT_MENTIONS(refuse(""), "has 0 unknown pieces; expected one");
  EXPECT_MENTIONS(refuse(Unknown + A + A), "piece 2 is there twice");
  EXPECT_MENTIONS(refuse(Unknown + makeField(1, "")), "piece 1 is damaged");
  EXPECT_MENTIONS(
      refuse(Unknown + makeField(1, makeField(1, "b") + "\x18\x05")),
      "pieces of type UNUSED, as piece 1, are not supported");
  EXPECT_MENTIONS(refuse(Unknown + A + makeField(2, "\x18\x03")),
                  "models of type WORD are not supported");
  // 35: byte_fallback
  EXPECT_MENTIONS(refuse(Unknown + A + makeField(2, "\x98\x02\x01")),
                  "has byte fallback, but no piece <0x00>");
  EXPECT_MENTIONS(refuse(Unknown + A + makeField(3, makeField(2, "abc"))),
                  "the character map is damaged");
  EXPECT_MENTIONS(refuse(Unknown + A + makeField(5, makeField(2, "abc"))),
                  "(denormalizer_spec) is not supported");
}

TEST(Tokenizer, RefusesExpressions) {
  auto Refuse = [](const char *Pattern) {
    try {
      Regex(Pattern, "here");
    } catch (const Error &E) {
      return std::string(E.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(Refuse(R"((?i:'s)|[^\r\n\p{L}]?+\p{Lu}{1,3}(?!\S)|\x{4e00})"),
            "no error");
  for (const char *Pattern :
       {R"([a-z&&[^b]])", R"(\p{Arabic})", R"(\bword)", R"((?<name>a))",
        R"(a{1,3}+)", R"([^\P{L}])", R"(\k<a>)"})
    EXPECT_MENTIONS(Refuse(Pattern), "is not supported") << Pattern;
  EXPECT_MENTIONS(Refuse("(a"), "is not valid");
}

TEST(Tokenizer, RepairsTextAsPythonDoes) {
  std::string Storage;
  auto Repair = [&](std::string_view Text) {
    return std::string(unicode::repair(Text, Storage));
  };
  const std::string R = "\xEF\xBF\xBD";
  EXPECT_EQ(Repair("abc\xC3\xA9"), "abc\xC3\xA9");
  EXPECT_EQ(Repair("\xC3"), R);
  EXPECT_EQ(Repair("\xF0\x9F\x98x"), R + "x");
  EXPECT_EQ(Repair("\xED\xA0\x80"), R + R + R); // a surrogate
  EXPECT_EQ(Repair("\xC0\xAF\xFF"), R + R + R);
  EXPECT_EQ(Repair("12345678\x80"), "12345678" + R);
}

/// A field of Protocol Buffers that is a string or a message.
std::string getField(int Number, const std::string &Content) {
  return std::string(1, static_cast<char>(Number << 3 | 2)) +
         static_cast<char>(Content.size()) + Content;
}

std::string getPiece(const std::string &Text, float Score, int Type) {
  std::string Bytes(sizeof Score, 0);
  std::memcpy(Bytes.data(), &Score, sizeof Score);
  return getField(1, getField(1, Text) + '\x15' + Bytes + '\x18' +
                         static_cast<char>(Type));
}

/// sentencepiece 0.2.3 chooses between a symbol of the user and its parts as if
/// each byte but the first had 0.1, whatever its score is.
TEST(TokenizerTest, scoresSymbolsOfTheUser) {
  for (float Score : {0.04f, 0.06f}) {
    TempDir Dir;
    writeFile(Dir / "tokenizer.model",
              getPiece("<unk>", 0, 2) + getPiece("ab", -7, 4) +
                  getPiece("a", Score, 1) + getPiece("b", Score, 1) +
                  getField(2, {0x18, 1}) + getField(3, {0x18, 0, 0x20, 0}));
    std::vector<int32_t> Ids;
    Tokenizer::load(Dir / "tokenizer.model")
        ->makeEncoder()
        ->encode("ab", false, Ids);
    EXPECT_EQ(Ids, 2 * Score < 0.1f ? std::vector<int32_t>({1})
                                    : std::vector<int32_t>({2, 3}));
  }
}

} // namespace
