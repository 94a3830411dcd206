//===- RowsTest.cpp - Rows of other names and formats ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExampleTesting.h"
#include "data/ChatTemplate.h"
#include "support/MappedFile.h"
#include "template/Jinja.h"

#include <set>

using namespace poplar::runtime;

namespace {

RowOptions readOptions(const json::Value &Object) {
  auto List = [&](const char *Name) {
    std::vector<std::string> All;
    if (const json::Value *Texts = Object.find(Name))
      for (const json::Value &Each : Texts->elements())
        All.emplace_back(Each.asString());
    return All;
  };
  auto Has = [&](const char *Name) { return Object.find(Name) != nullptr; };
  RowOptions Options;
  Options.Members = List("read-member");
  Options.Roles = List("read-role");
  Options.DropSystem = Has("drop-system");
  Options.Prompt = Object.string("prompt-format", "");
  Options.PromptAlone = Object.string("prompt-format-alone", "");
  Options.System = Object.string("system-format", "");
  Options.Apart = Has("encode-apart");
  Options.CountsPrompts = Has("count-prompts");
  return Options;
}

/// scripts/goldens/make_row_goldens.py has let axolotl encode the rows. Their
/// options are those that a recipe with the type becomes.
TEST(RowsTest, TokensAreThoseOfAxolotl) {
  MappedFile File(Inputs + "/../RowGoldens.json");
  json::Value Goldens = json::parse(File.text(), "RowGoldens.json");
  EXPECT_GE(Goldens.elements().size(), 20u);
  for (auto [Name, End] : {std::pair("llama3.json", "<|end_of_text|>"),
                           std::pair("qwen.json", "<|im_end|>")}) {
    auto T = Tokenizer::load(Inputs + "/" + Name);
    for (const json::Value &Case : Goldens.elements()) {
      const json::Value *Expected = Case.find(Name);
      if (!Expected)
        continue;
      ExampleRules Rules;
      Rules.Form = readOptions(*Case.find("options"));
      ExampleEncoder Encoder(*T, T->find(End), {}, Rules);
      std::vector<Example> Found;
      const json::Value *Window = Case.find("options")->find("window");
      for (const json::Value &Row : Case.find("rows")->elements())
        if (Window)
          for (Example &Each : Encoder.encodeWindows(
                   Row, static_cast<int64_t>(Window->asDouble()), "here"))
            Found.push_back(std::move(Each));
        else
          Found.push_back(Encoder.encode(Row, "here"));
      ASSERT_EQ(Found.size(), Expected->elements().size());
      for (size_t Row = 0; Row < Found.size(); ++Row) {
        const Example &E = Found[Row];
        const std::vector<json::Value> &Both =
            Expected->elements()[Row].elements();
        std::vector<int32_t> Ids;
        std::vector<bool> Counts;
        for (const json::Value &Each : Both[0].elements())
          Ids.push_back(static_cast<int32_t>(Each.asDouble()));
        for (const json::Value &Each : Both[1].elements())
          Counts.push_back(Each.asDouble() != -100);
        std::string Type(Case.string("type", "a map or null"));
        EXPECT_EQ(E.Ids, Ids) << Type << " " << decode(*T, E, true);
        EXPECT_EQ(E.Counts, Counts) << Type << " " << decode(*T, E, false);
      }
    }
  }
}

class RowFormTest : public testing::Test {
protected:
  RowFormTest() : Tok(Tokenizer::load(Inputs + "/qwen.json")) {}

  /// What counts of a row, or the error.
  std::string describe(const RowOptions &Form, const std::string &Text,
                       const std::vector<std::string> &Ignored = {}) {
    try {
      ExampleRules Rules;
      Rules.IgnoredMembers = Ignored;
      Rules.Form = Form;
      ExampleEncoder Encoder(*Tok, Tok->find("<|endoftext|>"), {}, Rules);
      return decode(*Tok, Encoder.encode(json::parse(Text, "text"), "here"),
                    false);
    } catch (const Error &E) {
      return E.what();
    }
  }

  std::unique_ptr<Tokenizer> Tok;
};

TEST_F(RowFormTest, SeveralMembersAreReadAsOne) {
  RowOptions Form;
  Form.Members = {"text=body", "text=chapter"};
  EXPECT_EQ(describe(Form, R"({"body": "a"})"), "a<|endoftext|>");
  EXPECT_EQ(describe(Form, R"({"chapter": "a"})"), "a<|endoftext|>");
  EXPECT_EQ(describe(Form, R"({"text": "a", "body": null})"), "a<|endoftext|>");
  EXPECT_EQ(describe(Form, R"({"text": "a", "body": "b"})"),
            "here: 'text' and 'body' are both read as 'text'; remove one, or "
            "ignore it by --ignore-member text");
  EXPECT_EQ(describe(Form, R"({"text": "a", "body": "b"})", {"text"}),
            "b<|endoftext|>");
  EXPECT_MENTIONS(describe(Form, R"({"body": "a", "other": 1})"),
                  "\"other\" may change what the example means");
  Form.Members = {"text=body", "prompt=body"};
  EXPECT_EQ(describe(Form, "{}"),
            "--read-member 'prompt=body': 'body' is read as 'text' already");
  Form.Members = {"text"};
  EXPECT_EQ(describe(Form, "{}"), "--read-member 'text' is not NAME=MEMBER");
}

TEST_F(RowFormTest, MembersOfMessagesAreIgnoredByTheirNamesInTheFile) {
  RowOptions Form;
  Form.Members = {"messages.content=says"};
  EXPECT_EQ(describe(Form, R"({"messages": [{"role": "assistant", "says": "a",
                             "content": "b", "name": "c"}]})",
                     {"messages.content", "messages.name"}),
            "a<|im_end|>");
}

TEST_F(RowFormTest, FormatsAreThoseOfPython) {
  RowOptions Form;
  auto Fail = [&](const char *Format) {
    Form.Prompt = Form.PromptAlone = Format;
    return describe(Form, "{}");
  };
  EXPECT_EQ(Fail("{instruction} {output}"),
            "--prompt-format: {output} is not known; there is {input} and "
            "{instruction}");
  EXPECT_EQ(Fail("{instruction"), "--prompt-format: a brace has no other; {{ "
                                  "and }} stand for braces");
  EXPECT_EQ(Fail("a}"), "--prompt-format: a brace has no other; {{ and }} "
                        "stand for braces");
  EXPECT_EQ(Fail("\\x"), "--prompt-format: a backslash is followed by n, t or "
                         "a backslash");
  Form.PromptAlone = "";
  EXPECT_EQ(describe(Form, "{}"),
            "--prompt-format and --prompt-format-alone go together");
}

TEST_F(RowFormTest, IdsAndSegmentsAreCheckedRowByRow) {
  EXPECT_MENTIONS(
      describe({}, R"({"segments": [{"label": 1, "text": "a"}]})"),
      "here: a segment has a label, which is true or false, and a text");
  auto Ids = [&](const std::string &Ids, const std::string &Labels,
                 const std::string &Mask) {
    return describe({}, "{\"input_ids\": " + Ids + ", \"labels\": " + Labels +
                            ", \"attention_mask\": " + Mask + "}");
  };
  std::string The = Ids("[10, 11, 0]", "[-100, 11, -100]", "[1, 1, 0]");
  EXPECT_EQ(The, Ids("[10, 11]", "[-100, 11]", "[1, 1]"));
  EXPECT_EQ(Ids("[1, 2]", "[1, 3]", "[1, 1]"),
            "here: a label is neither -100 nor the token at its place");
  EXPECT_EQ(Ids("[1, 2]", "[1, 2]", "[0, 1]"),
            "here: attention_mask is not 1 in front of a token that it shows");
  EXPECT_EQ(Ids("[1]", "[1, 2]", "[1]"),
            "here: input_ids, labels and attention_mask are not of one length");
  EXPECT_EQ(Ids("[1, 0.5]", "[1, 2]", "[1, 1]"),
            "here: 'input_ids' is not a list of integers");
  EXPECT_EQ(Ids("[-1, 2]", "[-100, 2]", "[1, 1]"),
            "here: -1 in input_ids is no token");
}

TEST_F(RowFormTest, PromptsOfConversationsDoNotCount) {
  RowOptions Form;
  Form.CountsPrompts = true;
  EXPECT_MENTIONS(
      describe(Form,
               R"({"messages": [{"role": "assistant", "content": "a"}]})"),
      "here: --count-prompts is for prompts and completions");
}

/// scripts/goldens/make_template_goldens.py has let axolotl's own templates
/// write the conversations.
TEST(ChatTemplateTest, WritesWhatThoseOfAxolotlWrite) {
  MappedFile File(Inputs + "/../TemplateGoldens.json");
  json::Value Goldens = json::parse(File.text(), "TemplateGoldens.json");
  std::set<std::string> Names;
  for (const json::Value &Each : Goldens.find("conversations")->elements()) {
    std::string Name = Each.string("template", "");
    Names.insert(Name);
    auto Found = ChatTemplate::find(Name);
    ASSERT_TRUE(Found) << Name;
    auto Render = [&] {
      return jinja::Template(Found->Source)
          .render(
              jinja::JinjaValue::fromJSON(*Each.find("variables")).members(),
              Goldens.integer("time", 0));
    };
    const json::Value *Text = Each.find("text");
    if (!Text) {
      EXPECT_THROW(Render(), Error) << Name;
      continue;
    }
    jinja::Template::Result Result = Render();
    EXPECT_EQ(Result.Text, Text->asString()) << Name;
    std::vector<std::pair<size_t, size_t>> Generated;
    for (const json::Value &Range : Each.find("generated")->elements()) {
      int64_t Begin = 0, End = 0;
      EXPECT_TRUE(Range.elements()[0].asInteger(Begin) &&
                  Range.elements()[1].asInteger(End));
      Generated.emplace_back(Begin, End);
    }
    EXPECT_EQ(Result.Generated, Generated) << Name;
  }
  EXPECT_EQ(Names.size(), 20U);
  for (const std::string &Name : Names)
    EXPECT_MENTIONS(ChatTemplate::listOptions(), Name);
  EXPECT_FALSE(ChatTemplate::find("axolotl:none"));
  EXPECT_FALSE(ChatTemplate::find("qwen3"));
}

} // namespace
