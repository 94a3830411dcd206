//===- ExamplesTest.cpp - Which tokens of examples count ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExampleTesting.h"

using namespace poplar::runtime;

namespace {

TEST(Examples, CountCompletionsAndAnswersAlone) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  ExampleEncoder Encoder(*T, T->find("<|endoftext|>"), {}, {});
  auto Encode = [&](const std::string &Text) {
    return Encoder.encode(json::parse(Text, "text"), "here");
  };
  Example E = Encode(R"({"text": "the model"})");
  EXPECT_EQ(decode(*T, E, true), "the model<|endoftext|>");
  EXPECT_EQ(decode(*T, E, false), "the model<|endoftext|>");

  E = Encode(R"({"prompt": "the model", "completion": " and tokens"})");
  EXPECT_EQ(decode(*T, E, true), "the model and tokens<|endoftext|>");
  EXPECT_EQ(decode(*T, E, false), " and tokens<|endoftext|>");

  E = Encode(R"({"instruction": "Add.", "input": "1 2", "output": "3"})");
  EXPECT_MENTIONS(decode(*T, E, true),
                  "### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### "
                  "Response:\n3<|endoftext|>");
  EXPECT_EQ(decode(*T, E, false), "3<|endoftext|>");

  E = Encode(R"({"messages": [{"role": "system", "content": "S"},
    {"role": "user", "content": "a"}, {"role": "assistant", "content": "b c"},
    {"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}]})");
  EXPECT_EQ(decode(*T, E, true),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\nb c<|im_end|>\n<|im_start|>user\n"
            "d<|im_end|>\n<|im_start|>assistant\ne<|im_end|>\n");
  EXPECT_EQ(decode(*T, E, false), "b c<|im_end|>e<|im_end|>");
  EXPECT_EQ(E.Ids, T->encode(decode(*T, E, true)));
}

/// str.strip() of Python takes more than white space of ASCII.
TEST(Examples, TrimmingIsPythons) {
  auto T = Tokenizer::load(Inputs + "/llama3.json");
  ExampleEncoder Encoder(*T, -1, {}, {});
  auto Encode = [&](const std::string &Space) {
    return Encoder
        .encode(
            json::parse(R"({"messages": [{"role": "user", "content": ")" +
                            Space + "a" + Space +
                            R"("}, {"role": "assistant", "content": "b"}]})",
                        "text"),
            "here")
        .Ids;
  };
  for (const char *Space : {" \\n\\t", "\\u3000", "\\u00a0", "\\u2003",
                            "\\u2028", "\\u0085", "\\u001c", "\\u205f"})
    EXPECT_EQ(Encode(Space), Encode("")) << Space;
  EXPECT_NE(Encode("\\u200b"), Encode(""));
}

/// Files of which all rows have the same columns have null in those that a row
/// does not use.
TEST(Examples, NullIsNoMember) {
  auto T = Tokenizer::load(Inputs + "/gpt2.json");
  ExampleEncoder Encoder(*T, 0, {}, {});
  auto Encode = [&](const char *Text) {
    return Encoder.encode(json::parse(Text, "text"), "here").Ids;
  };
  EXPECT_EQ(Encode(R"({"messages": null, "prompt": null, "text": "a b"})"),
            Encode(R"({"text": "a b"})"));
  EXPECT_EQ(Encode(R"({"instruction": "a", "input": null, "output": "b"})"),
            Encode(R"({"instruction": "a", "output": "b"})"));
}

struct Row {
  const char *Text;
  /// What counts, or a part of the error's message behind '!'.
  const char *Expected;
};
// ASK and SAY stand for messages.

/// What becomes of each member of the formats that trl, axolotl, LLaMA-Factory
/// and OpenAI publish (docs/example-formats.md).
const Row Rows[] = {
    // Data that say whence they come.
    {R"({"text": "a", "id": 1, "url": "u", "dump": "d", "language": "en"})",
     "a<|endoftext|>"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "b", "id": "7"}],
         "source": "s", "prompt_id": "x", "metadata": {"a": 1}})",
     "b<|im_end|>"},
    // What says nothing.
    {R"({"messages": [ASK, {"role": "assistant", "content": "b",
         "tool_calls": null, "refusal": null, "annotations": []}],
         "tools": [], "system": "", "images": null})",
     "b<|im_end|>"},
    {R"({"text": "", "messages": [ASK, SAY]})", "b<|im_end|>"},
    // OpenAI.
    {R"({"messages": [ASK, {"role": "assistant", "content": "x", "weight": 0},
         ASK, {"role": "assistant", "content": "b", "weight": 1}]})",
     "b<|im_end|>"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "x", "weight": 0}]})",
     "!no message is of the assistant and counts"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "x",
         "weight": 0.5}]})",
     "!line 3, message 2: the 'weight' of a message is 0 or 1"},
    {R"({"messages": [{"role": "user", "content": "x", "weight": 1}, SAY]})",
     "!message 1: only what the assistant says counts"},
    {R"({"messages": [{"role": "user", "content": "x", "weight": 0}, SAY]})",
     "b<|im_end|>"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "",
         "tool_calls": [{"id": "c"}]}]})",
     "!message 2: the chat template does not write 'tool_calls'"},
    {R"({"messages": [ASK, {"role": "assistant", "content": null,
         "function_call": {"name": "f"}}]})",
     "!\"function_call\" (the older form of tools"},
    {R"({"messages": [ASK, {"role": "assistant"}]})",
     "!message 2: a message has neither content nor tool_calls"},
    {R"({"messages": [ASK, SAY], "tools": [{"type": "function"}]})",
     "!line 3: the chat template does not write 'tools'; remove it, or train "
     "as if it were not there by --ignore-member tools"},
    {R"({"messages": [ASK, SAY], "parallel_tool_calls": false})",
     "b<|im_end|>"},
    {R"({"messages": [{"role": "user", "content": [{"type": "text",
         "text": "q"}]}, SAY]})",
     "b<|im_end|>"},
    {R"({"messages": [{"role": "user", "content": [{"type": "text",
         "text": "q"}, {"type": "text", "text": "r"}]}, SAY]})",
     "!message 1: the chat template reads no list of parts"},
    {R"({"messages": [{"role": "user", "content": [{"type": "image_url",
         "image_url": {"url": "u"}}]}, SAY]})",
     "!images, audio and video are not supported"},
    {R"({"messages": [{"role": "developer", "content": "x"}, SAY]})",
     "!the chat template ChatML fails: line 1: the template says: there is no "
     "developer role"},
    {R"({"messages": [{"role": "user", "content": "x", "name": "Ann"}, SAY]})",
     "!--ignore-member messages.name"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "b",
         "refusal": "no"}]})",
     "!\"refusal\" may change what the example means"},
    {R"({"input": {}, "preferred_output": [], "non_preferred_output": []})",
     "!found one with \"input\", \"preferred_output\""},
    // trl.
    {R"({"prompt": "a", "completion": "b", "label": false})",
     "!\"label\" (data of preferences"},
    {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
     "!has 'chosen' and 'rejected': pairs of answers are for --preference"},
    {R"({"prompt": "a", "completions": ["b"], "labels": [true]})",
     "!found one with \"prompt\", \"completions\""},
    {R"({"prompt": "a"})", "!found one with \"prompt\""},
    {R"({"prompt": [ASK, {"role": "assistant", "content": "x"}, ASK],
         "completion": [SAY]})",
     "b<|im_end|>"},
    {R"({"prompt": [ASK], "completion": "b"})", "!'prompt' is a list"},
    {R"({"messages": [ASK, SAY], "images": ["i.png"]})",
     "!\"images\" (images, audio"},
    {R"({"messages": [ASK, SAY], "chat_template_kwargs": {"a": 1}})",
     "b<|im_end|>"},
    // axolotl and LLaMA-Factory.
    {R"({"messages": [ASK, {"role": "assistant", "content": "x", "train": false},
         ASK, {"role": "assistant", "content": "b", "training": true}]})",
     "b<|im_end|>"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "b", "weight": 0,
         "train": true}]})",
     "!contradict each other"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "b", "train": 1}]})",
     "!the 'train' of a message is true or false"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "b",
         "train_detail": [{"begin_offset": 0}]}]})",
     "!(a message counts whole or not"},
    {R"({"messages": [ASK, {"role": "assistant", "content": "b",
         "reasoning_content": "hm"}]})",
     "!the chat template does not write 'reasoning_content'"},
    {R"({"messages": [ASK, SAY], "system": "Be brief."})", "!\"system\""},
    {R"({"instruction": "a", "output": "b", "system": "Be brief."})",
     "b<|im_end|>"},
    {R"({"instruction": "a", "output": "b", "history": [["q", "x"]]})",
     "x<|im_end|>b<|im_end|>"},
    {R"({"instruction": "a", "output": "b", "history": ["q"]})",
     "!'history' is not a list of [question, answer]"},
    {R"({"instruction": "a", "output": "b", "category": "qa"})",
     "b<|endoftext|>"},
    {R"({"segments": [{"label": true, "text": "a"}]})", "a"},
    // ShareGPT.
    {R"({"conversations": [{"from": "human", "value": "a"},
         {"from": "gpt", "value": "b"}], "system": "Be brief.", "tools": "[]"})",
     "b<|im_end|>"},
    {R"({"conversations": [ASK, {"from": "gpt", "value": "x", "weight": 0},
         {"role": "assistant", "content": "b"}]})",
     "b<|im_end|>"},
    {R"({"conversations": [{"from": "ann", "value": "a"}]})",
     "!message 1: the role 'ann' is not one of system, human"},
    {R"({"conversations": [{"from": "function_call", "value": "{}"}]})",
     "!the chat template does not write 'tool_calls'"},
    {R"({"input_ids": [1], "labels": [1]})", "!found one with \"input_ids\""},
    // Two shapes.
    {R"({"text": "a", "prompt": "a", "completion": "b"})",
     "!has both 'prompt' and 'text'"},
    {R"({"messages": [ASK, SAY], "prompt": "a"})", "!--ignore-member prompt"},
    {R"({"messages": [ASK, SAY], "instruction": "a", "output": "b"})",
     "!has both 'messages' and 'instruction'"},
};

TEST(Examples, MembersAreReadOrRefused) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  ExampleEncoder Encoder(*T, T->find("<|endoftext|>"), {}, {});
  auto Fill = [](std::string Text) {
    for (auto [Short, Long] :
         {std::pair("ASK", R"({"role": "user", "content": "q"})"),
          std::pair("SAY", R"({"role": "assistant", "content": "b"})")})
      for (size_t At; (At = Text.find(Short)) != Text.npos;)
        Text.replace(At, 3, Long);
    return Text;
  };
  for (const Row &Each : Rows) {
    std::string Text = Fill(Each.Text), Result;
    try {
      Example E = Encoder.encode(json::parse(Text, Text), "line 3");
      Result = decode(*T, E, false);
    } catch (const Error &Failure) {
      Result = Failure.what();
      ASSERT_EQ(Each.Expected[0], '!') << Text << "\n" << Result;
      EXPECT_MENTIONS(Result, Each.Expected + 1);
      continue;
    }
    EXPECT_EQ(Result, Each.Expected) << Text;
  }
}

TEST(Examples, MembersAreIgnoredByName) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  ExampleEncoder Encoder(
      *T, T->find("<|endoftext|>"), {},
      {{"text", "label", "messages.name", "messages.weight"}, {}});
  auto Encode = [&](const char *Text) {
    return decode(*T, Encoder.encode(json::parse(Text, "text"), "here"), false);
  };
  EXPECT_EQ(Encode(R"({"instruction": "a", "output": "b", "text": "c"})"),
            "b<|endoftext|>");
  EXPECT_EQ(Encode(R"({"prompt": "a", "completion": " b", "label": false})"),
            " b<|endoftext|>");
  EXPECT_EQ(Encode(R"({"messages": [{"role": "assistant", "content": "b",
                       "name": "Ann", "weight": 0}]})"),
            "b<|im_end|>");
  EXPECT_MENTIONS(messageOf(Encoder, R"({"text": "a"})"), "expected an object");
  EXPECT_MENTIONS(messageOf(Encoder, R"({"prompt": "a", "completion": "b",
                                         "name": "c"})"),
                  "--ignore-member name");
}

TEST(Examples, Refused) {
  auto T = Tokenizer::load(Inputs + "/gpt2.json");
  ExampleEncoder Encoder(*T, 0, {}, {});
  EXPECT_MENTIONS(messageOf(Encoder, R"({"messages": []})"),
                  "ships no chat_template");
  EXPECT_MENTIONS(messageOf(Encoder, R"({"words": "a"})"),
                  "here: expected an object with text");
  EXPECT_MENTIONS(messageOf(Encoder, R"({"prompt": "a", "completion": null})"),
                  "found one with \"prompt\", \"completion\" (null)");
  EXPECT_MENTIONS(messageOf(Encoder, R"(["a"])"), "found no object");
  EXPECT_MENTIONS(messageOf(Encoder, R"({"prompt": [], "completion": ""})"),
                  "' is a list, and a string is expected");
  EXPECT_MENTIONS(messageOf(Encoder, R"({"text": 1})"),
                  "'text' is not a string");
  ExampleEncoder Endless(*T, -1, {}, {});
  EXPECT_MENTIONS(messageOf(Endless, R"({"text": "a"})"), "no eos_token_id");
  auto Gemma = Tokenizer::load(Inputs + "/gemma.json");
  ExampleEncoder Strict(*Gemma, -1, {}, {});
  EXPECT_MENTIONS(
      messageOf(Strict,
                R"({"messages": [{"role": "system", "content": "a"}]})"),
      "there is no system role");
  EXPECT_MENTIONS(
      messageOf(Strict, R"({"messages": [{"role": "tool", "content": "a"}]})"),
      "there is no tool role");
}

} // namespace
