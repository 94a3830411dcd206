//===- FuzzDataTest.cpp - Readers of data and tokenizers survive damage ---===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every damaged file ends in ids of the vocabulary or in an Error of one line
// that names the file.
//
//===----------------------------------------------------------------------===//

#include "../Support/Mutator.h"
#include "TestProgram.h"
#include "TestSupport.h"
#include "data/ExampleFile.h"
#include "data/Examples.h"
#include "data/Tokens.h"
#include "job/Options.h"
#include "program/Executor.h"
#include "support/Error.h"

#include <cstring>
#include <filesystem>
#include <functional>

using namespace poplar::runtime;

namespace {

const std::string Inputs = POPLAR_TOKENIZER_INPUTS;

/// Whether a file was read, by an action that throws if it is refused.
bool isRead(const std::string &Path, const std::function<void()> &Read) {
  try {
    Read();
    return true;
  } catch (const Error &E) {
    std::string Message = E.what();
    EXPECT_NE(Message.find(Path), std::string::npos) << Message;
    EXPECT_EQ(Message.find('\n'), std::string::npos) << Message;
    return false;
  }
}

template <typename T> std::string toBytes(const std::vector<T> &Values) {
  return {reinterpret_cast<const char *>(Values.data()),
          Values.size() * sizeof(T)};
}

/// Files of ids in every format, by the ends of their names.
std::vector<std::pair<std::string, std::string>> makeTokenFiles() {
  std::vector<uint16_t> Ids;
  for (uint16_t I = 0; I < 64; ++I)
    Ids.push_back(static_cast<uint16_t>(I * 37 % 200));
  std::vector<int32_t> Header(256);
  Header[0] = 20240520;
  Header[1] = 1;
  Header[2] = static_cast<int32_t>(Ids.size());
  std::string Description = "{'descr': '<u2', 'fortran_order': False, "
                            "'shape': (64,), }";
  Description.resize(117, ' ');
  Description += '\n';
  std::string Npy("\x93NUMPY\x01\x00", 8);
  Npy += static_cast<char>(Description.size());
  Npy += '\0';
  return {{"npy", Npy + Description + toBytes(Ids)},
          {"llmc.bin", toBytes(Header) + toBytes(Ids)},
          {"u16.bin", toBytes(Ids)},
          {"txt", makeText(128)}};
}

TEST(FuzzData, TokenFiles) {
  constexpr int64_t Vocab = 256;
  const TokenFormat Formats[] = {TokenFormat::Auto, TokenFormat::Auto,
                                 TokenFormat::Npy,  TokenFormat::LLMC,
                                 TokenFormat::U16,  TokenFormat::I64,
                                 TokenFormat::Text, TokenFormat::Bytes};
  TempDir Dir;
  Mutator Mutate(11);
  int Read = 0, Refused = 0;
  for (const auto &[End, Good] : makeTokenFiles()) {
    MemoryFile File;
    std::string Path = Dir / ("ids." + End);
    std::filesystem::create_symlink(File.path(), Path);
    for (size_t I = 0; I < 1000; ++I) {
      // Headers are short beside what they describe.
      size_t Head = I % 2 ? Good.size() : std::min<size_t>(Good.size(), 64);
      File.write(Mutate(Good.substr(0, Head)) + Good.substr(Head));
      bool Was = isRead(Path, [&] {
        Corpus C(Path, Formats[I % std::size(Formats)], Vocab);
        std::vector<int32_t> Ids(static_cast<size_t>(C.size()));
        C.read(0, C.size(), Ids.data());
        for (int32_t Id : Ids)
          EXPECT_TRUE(Id >= 0 && Id < Vocab) << Id;
      });
      ++(Was ? Read : Refused);
    }
  }
  // Both ends are reached, or the damage says nothing.
  EXPECT_GT(Read, 500);
  EXPECT_GT(Refused, 500);
}

TEST(FuzzData, Examples) {
  const std::string Lines[] = {
      R"({"text": "the model"})",
      R"({"prompt": "the model", "completion": " and tokens"})",
      R"({"instruction": "Add.", "input": "1 2", "output": "3"})",
      R"({"messages": [{"role": "system", "content": "S"},)"
      R"( {"role": "user", "content": "a"},)"
      R"( {"role": "assistant", "content": "b c"}]})"};
  TempDir Dir;
  setenv("POPLAR_CACHE", (Dir / "cache").c_str(), 1);
  Options O;
  O.Tokenizer = Inputs + "/qwen.json";
  ModelInfo Model(testprogram::Program);
  Model.vocab_size = 100000;
  TextEncoding Encoding(O, Model);
  std::string Config = "{\"eos_token_id\": " +
                       std::to_string(Encoding.get()->find("<|endoftext|>")) +
                       "}";
  Model.config = Config.c_str();
  MemoryFile Memory;
  std::string Path = Memory.path();
  Mutator Mutate(12);
  int Read = 0, Refused = 0;
  for (int I = 0; I < 400; ++I) {
    std::string Good;
    bool IsList = I % 5 == 4;
    for (const std::string &Line : Lines)
      Good += (Good.empty() ? IsList ? "[" : "" : IsList ? "," : "\n") + Line;
    Good += IsList ? "]" : "\n";
    Memory.write(I < 5 ? Good : Mutate(Good));
    bool Was = isRead(Path, [&] {
      ExampleFile File(Path, Encoding, Model, {}, /*Reports=*/false);
      ASSERT_GT(File.size(), 0);
      for (int64_t E = 0; E < File.size(); ++E) {
        std::vector<int32_t> Ids(64), Targets(64);
        int64_t Count = File.read(E, 0, 64, Ids.data(), Targets.data());
        for (auto P = Ids.begin(); P != Ids.begin() + Count; ++P)
          EXPECT_TRUE(*P >= 0 && *P < Encoding.get()->size()) << *P;
      }
    });
    ++(Was ? Read : Refused);
  }
  EXPECT_GT(Read, 20);
  EXPECT_GT(Refused, 100);
  // Nothing half-written is kept.
  for (const auto &Entry : std::filesystem::directory_iterator(Dir / "cache"))
    EXPECT_NE(Entry.path().extension(), ".tmp");
}

/// A damaged template ends in a text or in an Error of one line with its line.
TEST(FuzzData, ChatTemplates) {
  const std::string Good = readFile(Inputs + "/../Templates/tools.jinja");
  json::Value Row = json::parse(R"({"eos_token": "<|im_end|>", "messages": [
    {"role": "user", "content": [{"type": "text", "text": "q"}]},
    {"role": "assistant", "content": "", "tool_calls": [
      {"function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]}],
    "tools": [{"name": "f"}], "add_generation_prompt": true})",
                                "text");
  jinja::JinjaValue Variables = jinja::JinjaValue::fromJSON(Row);
  Mutator Mutate(14);
  int Written = 0, Refused = 0;
  for (int I = 0; I < 2000; ++I) {
    try {
      jinja::Template(Mutate(Good)).render(Variables.members(), 0);
      ++Written;
    } catch (const Error &E) {
      EXPECT_EQ(std::string_view(E.what()).substr(0, 5), "line ") << E.what();
      ++Refused;
    }
  }
  EXPECT_GT(Written, 200);
  EXPECT_GT(Refused, 500);
}

class FuzzTokenizer : public testing::TestWithParam<const char *> {};

TEST_P(FuzzTokenizer, SurvivesDamage) {
  std::string Good = readFile(Inputs + "/" + GetParam());
  ASSERT_FALSE(Good.empty());
  // What is not a vocabulary would seldom be hit.
  size_t Head = Good.find("\"vocab\"");
  MemoryFile File;
  std::string Path = File.path();
  const std::string Text = "The model\tisn't 3.14 tokens: \xC3\xA9t\xC3\xA9, "
                           "\xE6\xA8\xA1\xE5\x9E\x8B \xF0\x9F\x98\x80 \xFF<s>";
  Mutator Mutate(13);
  int Loaded = 0, Refused = 0;
  for (int I = 0; I < 150; ++I) {
    bool IsWhole = I % 3 == 0 || Head == std::string::npos;
    File.write(IsWhole ? Mutate(Good)
                       : Mutate(Good.substr(0, Head)) + Good.substr(Head));
    bool Was = isRead(Path, [&] {
      std::unique_ptr<Tokenizer> T = Tokenizer::load(Path);
      std::vector<int32_t> Ids = T->encode(Text);
      for (int32_t Id : Ids)
        EXPECT_TRUE(Id >= 0 && Id < T->size()) << Id;
      T->decode(Ids.data(), Ids.size(), /*SkipSpecial=*/I % 2);
    });
    ++(Was ? Loaded : Refused);
  }
  EXPECT_GT(Loaded, 3);
  EXPECT_GT(Refused, 20);
}

INSTANTIATE_TEST_SUITE_P(Files, FuzzTokenizer,
                         testing::Values("albert.model", "bert.json",
                                         "gemma.json", "gpt2.json",
                                         "llama2.model", "llama3.json",
                                         "mistral.json", "qwen.json",
                                         "suffix.model", "t5.json"),
                         [](const testing::TestParamInfo<const char *> &Info) {
                           std::string Name = Info.param;
                           return Name.substr(0, Name.find('.'));
                         });

} // namespace
