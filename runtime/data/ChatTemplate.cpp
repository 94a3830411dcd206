//===- ChatTemplate.cpp - How families write conversations ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ChatTemplate.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <filesystem>
#include <utility>

using namespace poplar::runtime;

// The first whose tokens are there: those with more of their own come before.
const ChatTemplate::Roles ChatTemplate::Table[] = {
    {"Phi-4",
     {"<|im_start|>", "<|im_sep|>"},
     "",
     "<|im_start|>",
     "<|im_sep|>",
     "<|im_end|>",
     "",
     "assistant",
     true,
     false},
    // Of Qwen and others.
    {"ChatML",
     {"<|im_start|>", "<|im_end|>"},
     "",
     "<|im_start|>",
     "\n",
     "<|im_end|>",
     "\n",
     "assistant",
     true,
     false},
    {"Llama 3",
     {"<|start_header_id|>", "<|eot_id|>"},
     "<|begin_of_text|>",
     "<|start_header_id|>",
     "<|end_header_id|>\n\n",
     "<|eot_id|>",
     "",
     "assistant",
     true,
     true},
    {"Gemma",
     {"<start_of_turn>", "<end_of_turn>"},
     "<bos>",
     "<start_of_turn>",
     "\n",
     "<end_of_turn>",
     "\n",
     "model",
     false,
     true},
    {"Phi-4-mini",
     {"<|end|>", "<|tool_call|>"},
     "",
     "<|",
     "|>",
     "<|end|>",
     "",
     "assistant",
     true,
     false},
    {"Phi-3",
     {"<|assistant|>", "<|end|>"},
     "",
     "<|",
     "|>\n",
     "<|end|>",
     "\n",
     "assistant",
     true,
     false}};

ChatTemplate::ChatTemplate(const Roles &Family)
    : Name(Family.Name), First(Family.First),
      Place(Family.HasSystem ? SystemPlace::Turn : SystemPlace::Nowhere) {
  auto MakeTurn = [&](const char *Role) {
    return Turn{std::string(Family.BeforeRole) + Role + Family.BehindRole,
                Family.EndOfTurn, Family.BehindTurn, Family.Trims};
  };
  User = MakeTurn("user");
  Answer = MakeTurn(Family.Assistant);
  System = MakeTurn("system");
}

/// `Word` with the spaces that it has around it in a literal of a template:
/// "' [INST] '" gives " [INST] ". Empty if there is no such literal.
static std::string findLiteral(const std::string &Source,
                               const std::string &Word) {
  for (size_t At = Source.find(Word); At != Source.npos;
       At = Source.find(Word, At + 1)) {
    size_t Begin = At, End = At + Word.size();
    while (Begin > 0 && Source[Begin - 1] == ' ')
      --Begin;
    while (End < Source.size() && Source[End] == ' ')
      ++End;
    char Quote = Begin > 0 ? Source[Begin - 1] : 0;
    if ((Quote == '\'' || Quote == '"') && End < Source.size() &&
        Source[End] == Quote)
      return Source.substr(Begin, End - Begin);
  }
  return "";
}

static bool contains(const std::string &Text, std::string_view Part) {
  return Text.find(Part) != Text.npos;
}

ChatTemplate::ChatTemplate(const std::string &Source)
    : Name("Mistral"), First("<s>") {
  User.Before = findLiteral(Source, "[INST]");
  User.Behind = findLiteral(Source, "[/INST]");
  Answer.Behind = "</s>";
  bool IsKnown = false;
  for (const char *Quote : {"'", "\""}) {
    std::string Content =
                    std::string("message[") + Quote + "content" + Quote + "]",
                Space = std::string(Quote) + " " + Quote;
    for (bool Trims : {false, true}) {
      std::string Words = Content + (Trims ? "|trim" : "") + " + eos_token";
      if (!contains(Source, Words))
        continue;
      IsKnown = true;
      Answer.Trims = Trims;
      if (contains(Source, Space + " + " + Words))
        Answer.Before = " ";
      if (contains(Source, Words + " + " + Space))
        Answer.After = " ";
    }
  }
  if (contains(Source, "[SYSTEM_PROMPT]")) {
    System.Before = findLiteral(Source, "[SYSTEM_PROMPT]");
    System.Behind = findLiteral(Source, "[/SYSTEM_PROMPT]");
    IsKnown &= !System.Before.empty() && !System.Behind.empty();
  } else if (contains(Source, "system_message is defined")) {
    Place = contains(Source, "loop.last and") ? SystemPlace::LastUser
                                              : SystemPlace::FirstUser;
  } else {
    Place = SystemPlace::Nowhere;
  }
  if (!IsKnown || User.Before.empty() || User.Behind.empty() ||
      contains(Source, "<<SYS>>"))
    fail(
        Source.empty()
            ? "the tokenizer has [INST], and no chat_template in a "
              "tokenizer_config.json beside it, which tells in which of its "
              "forms Mistral writes conversations"
            : "the chat_template of the tokenizer writes [INST] in a form that "
              "is none of Mistral's",
        "; give prompt and completion instead of messages");
}

std::optional<ChatTemplate> ChatTemplate::find(const Tokenizer &Tok,
                                               const std::string &Source) {
  for (const Roles &Each : Table)
    if (Tok.find(Each.Needs[0]) >= 0 && Tok.find(Each.Needs[1]) >= 0)
      return ChatTemplate(Each);
  // In the first versions [INST] is no token.
  if ((Tok.find("[INST]") >= 0 || contains(Source, "[INST]")) &&
      Tok.find("<s>") >= 0 && Tok.find("</s>") >= 0)
    return ChatTemplate(Source);
  return std::nullopt;
}

std::string ChatTemplate::listNames() {
  std::string Names;
  for (const Roles &Each : Table)
    Names += std::string(Each.Name) + ", ";
  return Names + "Mistral";
}

static std::string_view trim(std::string_view Text) {
  static constexpr const char *Space = " \t\r\n\v\f";
  size_t Begin = Text.find_first_not_of(Space);
  if (Begin == Text.npos)
    return "";
  return Text.substr(Begin, Text.find_last_not_of(Space) + 1 - Begin);
}

size_t ChatTemplate::addTurn(std::string &Text, const Turn &Form,
                             std::string_view Content) const {
  Text += Form.Before;
  size_t Begin = Text.size();
  Text.append(Form.Trims ? trim(Content) : Content);
  return Begin;
}

RenderedChat ChatTemplate::render(const json::Value &Messages,
                                  const ExampleMembers &Members,
                                  const std::string &Where) const {
  RenderedChat Result;
  Result.Text = First;
  if (Messages.kind() != json::Value::Array || Messages.elements().empty())
    fail(Where, ": 'messages' is not a list of messages");
  bool IsInUsers = Place == SystemPlace::FirstUser;
  std::string ForUser;
  int64_t Number = 0;
  for (const json::Value &Message : Messages.elements()) {
    bool Counts = Members.checkMessage(Message, Where + ", message " +
                                                    std::to_string(++Number));
    const json::Value *Content = Message.find("content");
    std::string Role = Message.string("role", "");
    if (!Content || Content->kind() != json::Value::String)
      fail(Where, ": the 'content' of a message is not a string; lists of "
                  "parts and calls of tools are not supported");
    if (Role != "user" && Role != "assistant" && Role != "system")
      fail(Where, ": the role '", Role,
           "' of a message is not supported; there are system, user and "
           "assistant");
    bool IsSystem = Role == "system";
    if (IsSystem && Place == SystemPlace::Nowhere)
      fail(Where, ": the chat template of this tokenizer has no system role");
    if (IsSystem && Place == SystemPlace::LastUser)
      fail(Where, ": the chat template of this tokenizer has a system message "
                  "only in front of a user's that nothing follows; put it into "
                  "the first user's");
    if (IsSystem && IsInUsers) {
      if (&Message != &Messages.elements().front())
        fail(Where, ": the system message is not the first");
      ForUser = std::string(Content->asString()) + "\n\n";
      continue;
    }
    bool IsAnswer = Role == "assistant";
    const Turn &Form = IsAnswer ? Answer : IsSystem ? System : User;
    std::string Said(Content->asString());
    if (!IsAnswer && !IsSystem)
      Said = std::exchange(ForUser, "") + Said;
    size_t Begin = addTurn(Result.Text, Form, Said);
    Result.Text += Form.Behind;
    if (IsAnswer && Counts)
      Result.Counted.emplace_back(Begin, Result.Text.size());
    Result.Text += Form.After;
  }
  if (!ForUser.empty())
    fail(Where, ": no user's message follows the system message");
  return Result;
}

std::string ChatTemplate::renderPrompt(std::string_view Message) const {
  std::string Text = First;
  addTurn(Text, User, Message);
  (Text += User.Behind) += User.After;
  addTurn(Text, Answer, "");
  return Text;
}

std::string
poplar::runtime::readChatTemplate(const std::string &TokenizerPath) {
  namespace fs = std::filesystem;
  std::error_code Code;
  fs::path Directory = fs::path(TokenizerPath).parent_path();
  if (fs::path File = Directory / "chat_template.jinja"; fs::exists(File, Code))
    return std::string(MappedFile(File).text());
  fs::path File = Directory / "tokenizer_config.json";
  if (!fs::exists(File, Code))
    return "";
  json::Value Config =
      json::parse(MappedFile(File).text(), "'" + File.string() + "'");
  const json::Value *Template = Config.find("chat_template");
  if (!Template)
    return "";
  // Several have names.
  if (Template->kind() == json::Value::Array)
    for (const json::Value &Each : Template->elements())
      if (Each.string("name", "") == "default")
        return Each.string("template", "");
  return Config.string("chat_template", "");
}
