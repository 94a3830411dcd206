//===- PairsTest.cpp - Pairs of answers as trl reads them -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExampleTesting.h"
#include "support/MappedFile.h"

#include <sstream>

using namespace poplar::runtime;

namespace {

const std::string Pairs = POPLAR_PAIR_INPUTS;

class PairsTest : public testing::Test {
protected:
  PairsTest()
      : Tok(Tokenizer::load(Pairs + "/model/tokenizer.json")),
        Encoder(*Tok, Tok->find("<|im_end|>"),
                ShippedTemplate::read(Pairs + "/model/tokenizer.json"), Rules) {
  }

  std::pair<Example, Example> encode(const std::string &Text) {
    return Encoder.encodePair(json::parse(Text, "text"), "here");
  }
  /// What counts of both, or the error.
  std::string describe(const std::string &Text) {
    try {
      auto [Chosen, Rejected] = encode(Text);
      return decode(*Tok, Chosen, false) + "|" + decode(*Tok, Rejected, false);
    } catch (const Error &E) {
      return E.what();
    }
  }

  std::unique_ptr<Tokenizer> Tok;
  ExampleRules Rules;
  ExampleEncoder Encoder;
};

std::vector<int32_t> readIds(const json::Value &List) {
  std::vector<int32_t> Ids;
  for (const json::Value &Each : List.elements())
    Ids.push_back(static_cast<int32_t>(Each.asDouble()));
  return Ids;
}

/// scripts/goldens/make_preference_goldens.py has let DPOTrainer encode the
/// rows.
TEST_F(PairsTest, TokensAreThoseOfTrl) {
  MappedFile File(Pairs + "/tokens.json");
  json::Value Golden = json::parse(File.text(), "tokens.json");
  for (std::string Form : {"texts", "implicit", "chats", "whole", "answers"}) {
    // axolotl's form of what trl reads as chats.
    const json::Value &Expected =
        *Golden.find(Form == "answers" ? "chats" : Form);
    MappedFile Rows(Pairs + "/" + Form + ".jsonl");
    std::istringstream Lines{std::string(Rows.text())};
    size_t Number = 0;
    for (std::string Line; std::getline(Lines, Line); ++Number) {
      const json::Value &Row = Expected.elements()[Number];
      std::vector<int32_t> Prompt = readIds(Row.elements()[0]);
      auto [Chosen, Rejected] = encode(Line);
      for (auto [E, Answer] :
           {std::pair(&Chosen, 1), std::pair(&Rejected, 2)}) {
        std::vector<int32_t> Ids = Prompt,
                             Own = readIds(Row.elements()[Answer]);
        Ids.insert(Ids.end(), Own.begin(), Own.end());
        EXPECT_EQ(E->Ids, Ids) << Form << " " << Line;
        std::vector<bool> Counts(Prompt.size(), false);
        Counts.insert(Counts.end(), Own.size(), true);
        EXPECT_EQ(E->Counts, Counts) << Form << " " << Line;
      }
    }
    EXPECT_EQ(Number, Expected.elements().size()) << Form;
  }
}

TEST_F(PairsTest, MembersAreReadOrRefused) {
  // An answer may be a text behind messages, and have several messages.
  EXPECT_EQ(describe(R"({"messages": [{"role": "user", "content": "a"}],
    "chosen": "b", "rejected": "c", "score_chosen": 5.0, "id": 3})"),
            "b<|im_end|>\n|c<|im_end|>\n");
  EXPECT_EQ(describe(R"({"prompt": [{"role": "user", "content": "a"}],
    "chosen": [{"role": "assistant", "content": "b"},
               {"role": "user", "content": "x"},
               {"role": "assistant", "content": "y"}],
    "rejected": [{"role": "assistant", "content": "c"}]})"),
            "b<|im_end|>\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant"
            "\ny<|im_end|>\n|c<|im_end|>\n");
  const std::pair<const char *, const char *> Refused[] = {
      {R"({"prompt": "a", "completion": "b"})",
       "expected an object with chosen and rejected, found one with "
       "\"prompt\""},
      {R"({"prompt": "a", "chosen": "b", "rejected": null})",
       "expected an object with chosen and rejected"},
      {R"({"prompt": "a", "chosen": "b", "rejected": ["c"]})",
       "'chosen' and 'rejected' are not of one kind"},
      {R"({"prompt": "a", "chosen": 1, "rejected": 2})",
       "'chosen' is neither a string, nor a list of messages, nor a message"},
      {R"({"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}],
         "rejected": [{"role": "assistant", "content": "c"}]})",
       "leave it out by --ignore-member prompt"},
      {R"({"chosen": "same", "rejected": "same"})",
       "'chosen' and 'rejected' are the same, and there is no 'prompt'"},
      {R"({"chosen": "a", "rejected": "b"})", "begin with different texts"},
      {R"({"chosen": [{"role": "user", "content": "a"}],
         "rejected": [{"role": "user", "content": "b"}]})",
       "begin with different messages, and there is no 'prompt'"},
      {R"({"chosen": [{"role": "user", "content": "a"}],
         "rejected": [{"role": "user", "content": "a"}]})",
       "'chosen' has no message behind the prompt"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": 1})",
       "\"margin\" may change what the example means"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "images": ["i"]})",
       "\"images\" (images, audio and video are not supported)"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "tools": [{}]})",
       "\"tools\" (tools are read beside messages"}};
  for (auto [Text, Message] : Refused)
    EXPECT_MENTIONS(describe(Text), Message) << Text;
}

} // namespace
