//===- TextTest.cpp - Encoded text that is kept ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Text.h"
#include "TestProgram.h"
#include "TestSupport.h"
#include "job/Options.h"
#include "program/Executor.h"
#include "support/CommandName.h"

#include <filesystem>
#include <functional>

using namespace poplar::runtime;
namespace fs = std::filesystem;

namespace {

class TextCache : public testing::Test {
protected:
  TextCache() : Model(testprogram::Program) {
    setenv("POPLAR_CACHE", (Dir / "cache").c_str(), 1);
    O.Tokenizer = POPLAR_TOKENIZER_INPUTS "/qwen.json";
    Model.vocab_size = 100000;
    writeFile(Dir / "text.txt", "the model and the tokens of the model\n");
  }

  std::string encode() {
    TextEncoding Encoding(O, Model);
    MappedFile Text(Dir / "text.txt");
    return std::string(Encoding.prepare(Text, /*Reports=*/false).text());
  }
  std::string find(const std::string &Extension) {
    for (const auto &Entry : fs::directory_iterator(Dir / "cache"))
      if (Entry.path().extension() == Extension)
        return Entry.path().string();
    return "";
  }

  TempDir Dir;
  Options O;
  ModelInfo Model;
};

// What is kept is taken as it is if it is as it was written, and made again
// otherwise.
TEST_F(TextCache, MakesDamagedFilesAgain) {
  std::string Good = encode(), Path = find(".ids"), Sum = find(".sum");
  ASSERT_GT(Good.size(), 8u);
  ASSERT_FALSE(Sum.empty());
  auto GetTime = [&] { return fs::last_write_time(Path); };
  auto Written = GetTime();
  EXPECT_EQ(encode(), Good);
  EXPECT_EQ(GetTime(), Written) << "was made twice";
  std::string Altered = Good;
  Altered[2] = static_cast<char>(Altered[2] ^ 1);
  // All but the last are worth a note.
  std::vector<std::function<void()>> Damages = {
      [&] { writeFile(Path, Altered); },
      [&] { writeFile(Path, Good.substr(0, Good.size() - 2)); },
      [&] { writeFile(Path, Good + "xx"); },
      [&] { writeFile(Path, ""); },
      [&] { writeFile(Sum, ""); },
      [&] { fs::remove(Sum); },
      [&] { fs::remove(Path); }};
  for (const std::function<void()> &Damage : Damages) {
    Damage();
    testing::internal::CaptureStdout();
    EXPECT_EQ(encode(), Good);
    std::fflush(Notes);
    std::string Out = testing::internal::GetCapturedStdout();
    EXPECT_EQ(Out.find("is not as it was written") != std::string::npos,
              &Damage != &Damages.back());
    EXPECT_EQ(readFile(Path), Good);
    EXPECT_EQ(encode(), Good);
  }
}

} // namespace
