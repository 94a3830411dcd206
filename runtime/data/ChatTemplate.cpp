//===- ChatTemplate.cpp - How families write conversations ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ChatTemplate.h"
#include "data/Strip.h"
#include "support/Error.h"

using namespace poplar::runtime;

// The first whose tokens are there: those with more of their own come before.
const ChatTemplate::Roles ChatTemplate::Table[] = {
    {"Phi-4",
     "phi-4",
     {"<|im_start|>", "<|im_sep|>"},
     "",
     "<|im_start|>",
     "<|im_sep|>",
     "<|im_end|>",
     "",
     "assistant",
     true,
     false},
    // Qwen's and others'.
    {"ChatML",
     "chatml",
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
     "llama-3",
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
     "gemma",
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
     "phi-4-mini",
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
     "phi-3",
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
    : Name(Family.Name), First(Family.First), HasSystem(Family.HasSystem) {
  auto MakeTurn = [&](const char *Role) {
    return Turn{std::string(Family.BeforeRole) + Role + Family.BehindRole,
                Family.EndOfTurn, Family.BehindTurn, Family.Trims};
  };
  User = MakeTurn("user");
  Answer = MakeTurn(Family.Assistant);
  System = MakeTurn("system");
}

std::optional<ChatTemplate> ChatTemplate::find(const Tokenizer &Tok) {
  for (const Roles &Each : Table)
    if (Tok.find(Each.Needs[0]) >= 0 && Tok.find(Each.Needs[1]) >= 0)
      return ChatTemplate(Each);
  return std::nullopt;
}

std::optional<ChatTemplate> ChatTemplate::find(const std::string &Option) {
  for (const Roles &Each : Table)
    if (Option == Each.Option)
      return ChatTemplate(Each);
  return std::nullopt;
}

std::string ChatTemplate::listOptions() {
  std::string Names;
  for (const Roles &Each : Table)
    Names += (Names.empty() ? "" : ", ") + std::string(Each.Option);
  return Names;
}

std::string ChatTemplate::listNames() {
  std::string Names;
  for (const Roles &Each : Table)
    Names += (Names.empty() ? "" : ", ") + std::string(Each.Name);
  return Names;
}

size_t ChatTemplate::addTurn(std::string &Text, const Turn &Form,
                             std::string_view Content) const {
  Text += Form.Before;
  size_t Begin = Text.size();
  Text.append(Form.Trims ? strip(Content) : Content);
  return Begin;
}

RenderedChat ChatTemplate::render(const std::vector<ChatMessage> &Messages,
                                  const std::string &Where) const {
  RenderedChat Result;
  Result.Text = First;
  for (const ChatMessage &Message : Messages) {
    bool IsSystem = Message.Role == "system",
         IsAnswer = Message.Role == "assistant";
    if (IsSystem && !HasSystem)
      fail(Where, ": the chat template ", Name, " has no system role");
    const Turn &Form = IsAnswer ? Answer : IsSystem ? System : User;
    size_t Begin = addTurn(Result.Text, Form, Message.Content);
    Result.Text += Form.Behind;
    if (IsAnswer && Message.Counts)
      Result.Counted.emplace_back(Begin, Result.Text.size());
    Result.Text += Form.After;
  }
  return Result;
}

std::string ChatTemplate::renderPrompt(std::string_view Message) const {
  std::string Text = First;
  addTurn(Text, User, Message);
  (Text += User.Behind) += User.After;
  addTurn(Text, Answer, "");
  return Text;
}
