//===- ChatTemplate.cpp - How families write conversations ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ChatTemplate.h"
#include "support/Error.h"

using namespace poplar::runtime;

static constexpr ChatTemplate Templates[] = {
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

const ChatTemplate *ChatTemplate::find(const Tokenizer &Tok) {
  for (const ChatTemplate &Each : Templates)
    if (Tok.find(Each.Needs[0]) >= 0 && Tok.find(Each.Needs[1]) >= 0)
      return &Each;
  return nullptr;
}

std::string ChatTemplate::listNames() {
  std::string Names;
  for (const ChatTemplate &Each : Templates)
    Names += (Names.empty() ? "" : ", ") + std::string(Each.Name);
  return Names;
}

static std::string_view trim(std::string_view Text) {
  static constexpr const char *Space = " \t\r\n\v\f";
  size_t Begin = Text.find_first_not_of(Space);
  if (Begin == Text.npos)
    return "";
  return Text.substr(Begin, Text.find_last_not_of(Space) + 1 - Begin);
}

size_t ChatTemplate::addTurn(std::string &Text, std::string_view Role,
                             std::string_view Content) const {
  (Text += BeforeRole).append(Role) += BehindRole;
  size_t Begin = Text.size();
  Text.append(Trims ? trim(Content) : Content);
  return Begin;
}

RenderedChat ChatTemplate::render(const json::Value &Messages,
                                  const std::string &Where) const {
  RenderedChat Result;
  Result.Text = First;
  if (Messages.kind() != json::Value::Array || Messages.elements().empty())
    fail(Where, ": 'messages' is not a list of messages");
  for (const json::Value &Message : Messages.elements()) {
    const json::Value *Content = Message.find("content");
    std::string Role = Message.string("role", "");
    if (!Content || Content->kind() != json::Value::String)
      fail(Where, ": a message has no text as its 'content'");
    if (Role != "user" && Role != "assistant" && Role != "system")
      fail(Where, ": the role '", Role,
           "' of a message is not supported; there are system, user and "
           "assistant");
    if (Role == "system" && !HasSystem)
      fail(Where, ": the chat template of this tokenizer has no system role");
    bool IsAnswer = Role == "assistant";
    size_t Begin = addTurn(Result.Text, IsAnswer ? Assistant : Role,
                           Content->asString());
    Result.Text += EndOfTurn;
    if (IsAnswer)
      Result.Counted.emplace_back(Begin, Result.Text.size());
    Result.Text += BehindTurn;
  }
  return Result;
}

std::string ChatTemplate::renderPrompt(std::string_view Message) const {
  std::string Text = First;
  addTurn(Text, "user", Message);
  (Text += EndOfTurn) += BehindTurn;
  addTurn(Text, Assistant, "");
  return Text;
}
