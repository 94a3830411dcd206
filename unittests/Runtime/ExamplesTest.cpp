//===- ExamplesTest.cpp - Which tokens of examples count ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Examples.h"
#include "TestSupport.h"
#include "support/Error.h"

using namespace poplar::runtime;

namespace {

const std::string Inputs = POPLAR_TOKENIZER_INPUTS;

std::string messageOf(ExampleEncoder &Encoder, const std::string &Text) {
  try {
    Encoder.encode(json::parse(Text, "text"), "here");
  } catch (const Error &E) {
    return E.what();
  }
  return "no error";
}

#define EXPECT_MENTIONS(Message, Part)                                         \
  EXPECT_NE(std::string(Message).find(Part), std::string::npos) << Message

/// The text of the tokens that count, or of all.
std::string decode(const Tokenizer &T, const Example &E, bool All) {
  std::vector<int32_t> Ids;
  for (size_t I = 0; I < E.Ids.size(); ++I)
    if (All || E.Counts[I])
      Ids.push_back(E.Ids[I]);
  return T.decode(Ids.data(), Ids.size(), /*SkipSpecial=*/false);
}

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

TEST(Examples, ChatTemplatesOfTokenizers) {
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

TEST(Examples, PromptsEndWhereTheAnswerBegins) {
  for (const char *File : {"qwen.json", "llama3.json", "gemma.json"}) {
    auto T = Tokenizer::load(Inputs + "/" + File);
    std::optional<ChatTemplate> Template = ChatTemplate::find(*T);
    ASSERT_TRUE(Template.has_value()) << File;
    RenderedChat Whole = Template->render(
        {{"user", "a b", "", true}, {"assistant", "c", "", true}}, "here");
    ASSERT_EQ(Whole.Counted.size(), 1u);
    auto [Begin, End] = Whole.Counted.front();
    EXPECT_EQ(Template->renderPrompt("a b"), Whole.Text.substr(0, Begin));
    EXPECT_EQ(Whole.Text.substr(Begin, End - Begin),
              "c" + Template->getEndOfTurn());
    EXPECT_GE(T->find(Template->getEndOfTurn()), 0);
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

const std::vector<ChatMessage> Conversation = {{"user", "A", "", true},
                                               {"assistant", " b ", "", true},
                                               {"user", "C", "", true},
                                               {"assistant", "d", "", true}};

TEST(Examples, Phi) {
  auto Render = [](const std::vector<std::string> &Tokens) {
    auto T = loadWith("gpt2.json", Tokens);
    return ChatTemplate::find(*T)->render(Conversation, "here").Text;
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
TEST(Examples, TheModelsOwnTemplateIsTrained) {
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
  // What is cut out of a content cannot be placed.
  EXPECT_MENTIONS(
      encodeBy(*T, Think,
               std::string(Question) +
                   R"({"role": "assistant",
                                   "content": "<think>a</think>b"})")
          .second,
      "does more than to write the content of message 2 (assistant); "
      "give the part up to </think> as reasoning_content of the "
      "message; --chat-template");
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

TEST(Examples, TemplatesThatCannotBeTrainedAreRefused) {
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
      Refusal("{% set n = namespace() %}{% set n.a = [n] %}{{ n }}"),
      "nested too deeply");
  EXPECT_MENTIONS(Refusal("", {"llama", ""}), "neither a file nor one of");
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
     "!message 2: \"tool_calls\" (calls of tools are not supported)"},
    {R"({"messages": [ASK, {"role": "assistant", "content": null,
         "function_call": {"name": "f"}}]})",
     "!\"function_call\" (calls of tools are not supported)"},
    {R"({"messages": [ASK, SAY], "tools": [{"type": "function"}]})",
     "!line 3: \"tools\" (calls of tools"},
    {R"({"messages": [ASK, SAY], "parallel_tool_calls": false})",
     "!\"parallel_tool_calls\" (calls of tools"},
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
     "!found one with \"prompt\", \"chosen\""},
    {R"({"prompt": "a", "completions": ["b"], "labels": [true]})",
     "!found one with \"prompt\", \"completions\""},
    {R"({"prompt": "a"})", "!found one with \"prompt\""},
    {R"({"prompt": [ASK], "completion": [SAY]})", "!'prompt' is a list"},
    {R"({"messages": [ASK, SAY], "images": ["i.png"]})",
     "!\"images\" (images, audio"},
    {R"({"messages": [ASK, SAY], "chat_template_kwargs": {"a": 1}})",
     "!\"chat_template_kwargs\" may change"},
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
     "!\"reasoning_content\" (the chat template does not write it"},
    {R"({"messages": [ASK, SAY], "system": "Be brief."})", "!\"system\""},
    {R"({"instruction": "a", "output": "b", "system": "Be brief."})",
     "!\"system\" (Alpaca's prompt has no place for it"},
    {R"({"instruction": "a", "output": "b", "history": [["a", "b"]]})",
     "!\"history\" (Alpaca's prompt has no place"},
    {R"({"instruction": "a", "output": "b", "category": "qa"})",
     "b<|endoftext|>"},
    {R"({"segments": [{"label": true, "text": "a"}]})",
     "!found one with \"segments\""},
    {R"({"conversations": [{"from": "human", "value": "a"}]})",
     "!found one with \"conversations\""},
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
  EXPECT_MENTIONS(messageOf(Encoder, R"({"prompt": [], "completion": []})"),
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
      "has no system role");
  EXPECT_MENTIONS(
      messageOf(Strict, R"({"messages": [{"role": "tool", "content": "a"}]})"),
      "the role 'tool' of a message is not supported");
}

} // namespace
