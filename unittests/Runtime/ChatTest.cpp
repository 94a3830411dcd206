//===- ChatTest.cpp - Conversations by chat templates ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExampleTesting.h"

using namespace poplar::runtime;

namespace {

TEST(Chat, ChatTemplatesOfTokenizers) {
  auto Render = [](const char *File, const char *Part) {
    auto T = Tokenizer::load(Inputs + "/" + File);
    ExampleEncoder Encoder(*T, -1, {}, {});
    Example E = Encoder.encode(json::parse(R"({"messages": [
      {"role": "user", "content": " a "},
      {"role": "assistant", "content": "b"}]})",
                                           "text"),
                               "here");
    EXPECT_EQ(decode(*T, E, false), Part);
    return decode(*T, E, true);
  };
  EXPECT_EQ(Render("llama3.json", "b<|eot_id|>"),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
            "a<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
            "b<|eot_id|>");
  EXPECT_EQ(Render("gemma.json", "b<end_of_turn>"),
            "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n"
            "b<end_of_turn>\n");
}

TEST(Chat, PromptsEndWhereTheAnswerBegins) {
  for (const char *File : {"qwen.json", "llama3.json", "gemma.json"}) {
    auto T = Tokenizer::load(Inputs + "/" + File);
    ChatFormat Format(*T, {}, {});
    json::Value Row = json::parse(R"({"messages": [
      {"role": "user", "content": "a b"},
      {"role": "assistant", "content": "c"}]})",
                                  "text");
    RenderedChat Whole =
        Format.render(Row, ExampleShape::Messages, ExampleMembers({}), "here");
    ASSERT_EQ(Whole.Counted.size(), 1u);
    auto [Begin, End] = Whole.Counted.front();
    EXPECT_EQ(Format.renderPrompt("a b"), Whole.Text.substr(0, Begin));
    int32_t EndOfTurn = Format.getEndOfTurn();
    ASSERT_GE(EndOfTurn, 0);
    EXPECT_EQ(Whole.Text.substr(Begin, End - Begin),
              "c" + T->decode(&EndOfTurn, 1, /*SkipSpecial=*/false));
  }
}

/// A tokenizer with more special tokens.
std::unique_ptr<Tokenizer> loadWith(const std::string &File,
                                    const std::vector<std::string> &Tokens) {
  std::string Text = readFile(Inputs + "/" + File);
  std::string Added;
  for (const std::string &Token : Tokens)
    Added += ",{\"content\":\"" + Token +
             "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
             "\"normalized\":false,\"special\":true}";
  Text.insert(Text.find("}],", Text.find("\"added_tokens\":[")) + 1, Added);
  return readTokenizerJSON(Text, File);
}

TEST(Chat, Phi) {
  auto Render = [](const std::vector<std::string> &Tokens) {
    auto T = loadWith("gpt2.json", Tokens);
    json::Value Row = json::parse(R"({"messages": [
      {"role": "user", "content": "A"},
      {"role": "assistant", "content": " b "},
      {"role": "user", "content": "C"},
      {"role": "assistant", "content": "d"}]})",
                                  "text");
    return ChatFormat(*T, {}, {})
        .render(Row, ExampleShape::Messages, ExampleMembers({}), "here")
        .Text;
  };
  EXPECT_EQ(Render({"<|user|>", "<|assistant|>", "<|end|>"}),
            "<|user|>\nA<|end|>\n<|assistant|>\n b <|end|>\n<|user|>\nC<|end|>"
            "\n<|assistant|>\nd<|end|>\n");
  EXPECT_EQ(Render({"<|user|>", "<|assistant|>", "<|end|>", "<|tool_call|>"}),
            "<|user|>A<|end|><|assistant|> b <|end|><|user|>C<|end|>"
            "<|assistant|>d<|end|>");
  EXPECT_EQ(
      Render({"<|im_start|>", "<|im_end|>", "<|im_sep|>"}),
      "<|im_start|>user<|im_sep|>A<|im_end|><|im_start|>assistant<|im_sep|>"
      " b <|im_end|><|im_start|>user<|im_sep|>C<|im_end|><|im_start|>"
      "assistant<|im_sep|>d<|im_end|>");
}

/// What an encoder with a template makes of messages: the text, and what
/// counts.
std::pair<std::string, std::string> encodeBy(const Tokenizer &T,
                                             const std::string &Template,
                                             const std::string &Messages,
                                             const ChatOptions &Asked = {}) {
  ShippedTemplate Shipped;
  Shipped.Path = "chat_template.jinja";
  Shipped.Source = Template;
  Shipped.Tokens = {{"eos_token", "<|im_end|>"}, {"bos_token", ""}};
  ExampleEncoder Encoder(T, -1, Shipped, {{}, Asked});
  try {
    Example E = Encoder.encode(
        json::parse("{\"messages\": [" + Messages + "]}", "text"), "line 3");
    return {decode(T, E, true), decode(T, E, false)};
  } catch (const Error &Failure) {
    return {"", Failure.what()};
  }
}

const char *const Question = R"({"role": "user", "content": "q"},)";
const char *const Answer = R"({"role": "assistant", "content": "b"})";

// The texts are those of transformers' apply_chat_template.
TEST(Chat, TheModelsOwnTemplateIsTrained) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  std::string Think = readFile(Inputs + "/../Templates/think.jinja");
  auto [Text, Counted] = encodeBy(
      *T, Think, std::string(Question) + Answer + "," + Question + Answer);
  EXPECT_EQ(Text, "<|im_start|>system\nHelp.<|im_end|>\n<|im_start|>user\nq"
                  "<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
                  "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
                  "<think>\n\n</think>\n\nb<|im_end|>\n");
  // The thoughts are the model's to write.
  EXPECT_EQ(Counted, "b<|im_end|><think>\n\n</think>\n\nb<|im_end|>");
  Counted = encodeBy(*T, Think,
                     std::string(Question) +
                         R"({"role": "assistant", "content": "b",
                             "reasoning_content": "hm"})")
                .second;
  EXPECT_EQ(Counted, "<think>\nhm\n</think>\n\nb<|im_end|>");
  // What a template does with a content, it does in training, too.
  EXPECT_EQ(encodeBy(*T, Think, std::string(Question) + R"({"role": "assistant",
                         "content": "<think>a</think>b"})")
                .second,
            "<think>\n\n</think>\n\nb<|im_end|>");
  // A system message of the template's own, in the turn of an answer, is none.
  const std::string Helped =
      "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
      "<|im_start|>system\nHelp.<|im_end|>\n{% endif %}<|im_start|>"
      "{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  EXPECT_EQ(encodeBy(*T, Helped, std::string(Answer) + "," + Question + Answer)
                .second,
            "b<|im_end|>b<|im_end|>");
  // {% generation %} decides where it is.
  const std::string Marked =
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}"
      "{% generation %} {{ m.content | trim }}{{ eos_token }}"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(encodeBy(*T, Marked, std::string(Question) + Answer),
            std::pair(std::string("user:qassistant: b<|im_end|>"),
                      std::string(" b<|im_end|>")));
  EXPECT_EQ(encodeBy(*T, Marked,
                     std::string(Question) +
                         R"({"role": "assistant", "content": "x", "weight": 0},
                            )" +
                         Question + Answer)
                .second,
            " b<|im_end|>");
  // Another template, and a family by name.
  EXPECT_EQ(encodeBy(*T, Marked, std::string(Question) + Answer, {"chatml", ""})
                .first,
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nb<|im_end|>"
            "\n");
}

TEST(Chat, TemplatesThatCannotBeTrainedAreRefused) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  auto Refusal = [&](const std::string &Template,
                     const ChatOptions &Asked = {}) {
    return encodeBy(*T, Template,
                    R"({"role": "system", "content": "s"},)" +
                        std::string(Question) + Answer,
                    Asked)
        .second;
  };
  const std::string Rest =
      "{% for m in messages[1:] %}{{ m.content + eos_token "
      "}}{% endfor %}";
  EXPECT_MENTIONS(Refusal(Rest), "does not write the content of message 1");
  EXPECT_MENTIONS(Refusal("{{ strftime_now('%Y') }}" + Rest), "--chat-date");
  EXPECT_MENTIONS(
      Refusal("{{ messages[0].content }}{{ strftime_now('%Y-%m-%d') "
              "}}" +
                  Rest,
              {"", "2024-07-26"}),
      "b<|im_end|>");
  EXPECT_MENTIONS(Refusal("\n{{ raise_exception('no system') }}"),
                  "fails: line 2: the template says: no system");
  EXPECT_MENTIONS(Refusal("{% include 'x' %}"),
                  "cannot be run: line 1: {% include %} is not supported");
  EXPECT_MENTIONS(Refusal("{% for m in messages %}{{ m.content }}{% endfor %}"),
                  "puts no special token behind the content of message 3");
  // A template is not trusted.
  EXPECT_MENTIONS(Refusal("{% for i in range(1000000000) %}{% endfor %}"),
                  "takes too many steps");
  EXPECT_MENTIONS(Refusal("{{ 'aaaaaaaa' * 1000000000 }}"), "takes too many");
  EXPECT_MENTIONS(Refusal("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
                  "nested too deeply");
  EXPECT_MENTIONS(Refusal("{{ " + std::string(5000, '-') + "1 }}"),
                  "nested too deeply");
  EXPECT_MENTIONS(
      Refusal("{% set n = namespace(a=[]) %}{% for i in range(1000) %}"
              "{% set n.a = [n.a] %}{% endfor %}"),
      "nested too deeply");
  EXPECT_MENTIONS(Refusal("", {"llama", ""}), "neither a file nor one of");
}

/// A template with tools and thoughts, in the style of those that are shipped.
TEST(Chat, ToolsAndThoughts) {
  auto T = Tokenizer::load(Inputs + "/qwen.json");
  std::string Source = readFile(Inputs + "/../Templates/tools.jinja");
  auto Encode = [&](const std::string &Row, const std::string &More = "") {
    ShippedTemplate Shipped;
    Shipped.Path = "chat_template.jinja";
    Shipped.Source = Source;
    Shipped.ToolSource = More;
    Shipped.Tokens = {{"eos_token", "<|im_end|>"}};
    ExampleEncoder Encoder(*T, -1, Shipped, {});
    try {
      Example E = Encoder.encode(json::parse(Row, "text"), "line 3");
      return std::pair(decode(*T, E, true), decode(*T, E, false));
    } catch (const Error &Failure) {
      return std::pair(std::string(), std::string(Failure.what()));
    }
  };
  const std::string Tools =
      R"("tools": [{"type": "function", "function": {"name": "add"}}])";
  auto [Text, Counted] = Encode(R"({"messages": [
    {"role": "user", "content": [{"type": "text", "text": "q"}]},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "1",
      "type": "function",
      "function": {"name": "add", "arguments": "{\"b\":1,\"a\":\"\u00e9\"}"}}]},
    {"role": "tool", "tool_call_id": "1", "name": "add", "content": "2"},
    {"role": "assistant", "reasoning_content": "hm", "content": "b"}],)" +
                                Tools + "}");
  EXPECT_EQ(Text,
            "<|im_start|>system\n{\"type\": \"function\", \"function\": "
            "{\"name\": \"add\"}}<|im_end|>\n<|im_start|>user\nq<|im_end|>\n"
            "<|im_start|>assistant\n<call>\n{\"name\": \"add\", "
            "\"arguments\": {\"b\": 1, \"a\": \"\u00e9\"}}\n</call><|im_end|>\n"
            "<|im_start|>tool\n2<|im_end|>\n<|im_start|>assistant\n<think>\n"
            "hm\n</think>\n\nb<|im_end|>\n");
  EXPECT_EQ(Counted, "<call>\n{\"name\": \"add\", \"arguments\": {\"b\": 1, "
                     "\"a\": \"\u00e9\"}}\n</call><|im_end|>"
                     "<think>\nhm\n</think>\n\nb<|im_end|>");
  // ShareGPT as LLaMA-Factory has it: a call, what came of it, and tools as
  // text.
  EXPECT_EQ(Encode(R"({"conversations": [{"from": "human", "value": "q"},
    {"from": "function_call",
     "value": "{\"name\": \"add\", \"arguments\": {}}"},
    {"from": "observation", "value": "2"}, {"from": "gpt", "value": "b"}],
    "tools": "[{\"name\": \"add\"}]"})")
                .second,
            "<call>\n{\"name\": \"add\", \"arguments\": {}}\n</call><|im_end|>"
            "<think>\n\n</think>\n\nb<|im_end|>");
  // A template of its own for tools.
  const std::string Short = "{% for m in messages %}T{{ tools | length }}"
                            "{{ m.content + eos_token }}{% endfor %}";
  std::string Row = std::string(R"({"messages": [)") + Question + Answer + "]";
  EXPECT_EQ(Encode(Row + ", " + Tools + "}", Short).first,
            "T1q<|im_end|>T1b<|im_end|>");
  EXPECT_EQ(Encode(Row + "}", Short).second,
            "<think>\n\n</think>\n\nb<|im_end|>");
  // chat_template_kwargs.
  EXPECT_EQ(
      Encode(Row + R"(, "chat_template_kwargs": {"thinks": false}})").second,
      "b<|im_end|>");
  EXPECT_MENTIONS(Encode(Row + R"(, "tools": "a"})").second, "line 3: 'tools'");
  EXPECT_MENTIONS(Encode(Row + R"(, "tools": [1]})").second,
                  "line 3: 'tools' has an element that is no object");
  EXPECT_MENTIONS(
      Encode(R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})")
          .second,
      "message 1: a call of 'tool_calls' has no function with name");
}

} // namespace
