//===- ChatTemplate.cpp - How families write conversations ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ChatTemplate.h"

using namespace poplar::runtime;

namespace {
/// Families whose turns are alike but for the name of the role.
struct Roles {
  const char *Name;
  /// Its name in --chat-template.
  const char *Option;
  /// The tokens that identify the template.
  const char *Needs[2];
  const char *First, *BeforeRole, *BehindRole, *EndOfTurn, *BehindTurn;
  const char *Assistant;
  bool HasSystem, Trims;
};
} // namespace

// The first whose tokens are there: those with more of their own come before.
static constexpr Roles Table[] = {{"Phi-4",
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

namespace {
/// A template in a file of its own, and what --chat-template calls it.
struct Carried {
  const char *Name, *Source;
};
} // namespace

/// Those in template/axolotl write what axolotl's of the same names write, and
/// those in template/mistral-common what that library encodes.
static constexpr Carried CarriedTable[] = {
#include "CarriedTemplates.inc"
};

/// `Text`, which has no quotes, as a string of Jinja.
static std::string quote(const std::string &Text) {
  std::string Result = "'";
  for (char C : Text)
    Result += C == '\n' ? std::string("\\n") : std::string(1, C);
  return Result + "'";
}

/// The template of a family, in which an answer is marked with its end.
static std::string makeSource(const Roles &Family) {
  std::string Content = std::string("message.content") +
                        (Family.Trims ? " | trim" : ""),
              End = "{{ " + quote(Family.EndOfTurn) + " }}",
              Known = Family.HasSystem ? "['system', 'user', 'assistant']"
                                       : "['user', 'assistant']";
  auto Header = [&](const std::string &Role) {
    return "{{ " + quote(Family.BeforeRole) + " + " + Role + " + " +
           quote(Family.BehindRole) + " }}";
  };
  return "{{ " + quote(Family.First) +
         " }}{% for message in messages %}{% if message.role not in " + Known +
         " %}{{ raise_exception('there is no ' + message.role + ' role') }}"
         "{% elif message.role == 'assistant' %}" +
         Header(quote(Family.Assistant)) + "{% generation %}{{ " + Content +
         " }}" + End + "{% endgeneration %}{% else %}" +
         Header("message.role") + "{{ " + Content + " }}" + End +
         "{% endif %}{{ " + quote(Family.BehindTurn) +
         " }}{% endfor %}{% if add_generation_prompt %}" +
         Header(quote(Family.Assistant)) + "{% endif %}";
}

std::optional<ChatTemplate> ChatTemplate::find(const Tokenizer &Tok) {
  for (const Roles &Each : Table)
    if (Tok.find(Each.Needs[0]) >= 0 && Tok.find(Each.Needs[1]) >= 0)
      return ChatTemplate{Each.Name, makeSource(Each)};
  return std::nullopt;
}

std::optional<ChatTemplate> ChatTemplate::find(const std::string &Option) {
  for (const Roles &Each : Table)
    if (Option == Each.Option)
      return ChatTemplate{Each.Name, makeSource(Each)};
  for (const Carried &Each : CarriedTable)
    if (Option == Each.Name)
      return ChatTemplate{Option, Each.Source};
  return std::nullopt;
}

std::string ChatTemplate::listOptions() {
  std::string Names;
  for (const Roles &Each : Table)
    Names += (Names.empty() ? "" : ", ") + std::string(Each.Option);
  for (const Carried &Each : CarriedTable)
    Names += ", " + std::string(Each.Name);
  return Names;
}

std::string ChatTemplate::listNames() {
  std::string Names;
  for (const Roles &Each : Table)
    Names += (Names.empty() ? "" : ", ") + std::string(Each.Name);
  return Names;
}
