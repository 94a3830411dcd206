//===- RowTypes.cpp - Rows with instructions, by axolotl's types ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar;

using Options = std::vector<std::pair<std::string, std::string>>;

namespace {
/// How a prompt is written: with input and without, and a system text.
struct PromptStyle {
  const char *name, *turn, *alone, *system;
};

/// A type of rows: what its members are called, and its prompts.
struct KnownType {
  const char *name;
  /// Null where the type has no input, which is then not read.
  const char *instruction, *input, *output;
  /// The style if the name has none behind a colon.
  const char *style;
  /// System texts with input and without; or that of the row, if it is null.
  const char *system, *systemAlone;
  /// The member with the system text of the row.
  const char *systemMember;
};
} // namespace

static constexpr PromptStyle kStyles[] = {
    {"instruct",
     "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### "
     "Response:\n",
     "### Instruction:\n{instruction}\n\n### Response:\n", "{system}\n\n"},
    {"chat", "USER: {instruction}\n{input}\nASSISTANT:",
     "USER: {instruction}\nASSISTANT:", "SYSTEM: {system}\n"},
    {"chatml",
     "<|im_start|>user\n{instruction}\n{input}<|im_end|>\n<|im_start|>"
     "assistant\n",
     "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n",
     "<|im_start|>system\n{system}<|im_end|>\n"},
    {"phi", "<|user|>\n{instruction}<|end|>{input}<|assistant|>",
     "<|user|>\n{instruction}<|end|>\n<|assistant|>\n",
     "<|system|>\n{system}<|end|>\n"},
    // These types have one style.
    {"summary",
     "USER: Summarize the following article as a "
     "TL;DR.\n{instruction}\n{input}\nASSISTANT:",
     "USER: Summarize the following article as a "
     "TL;DR.\n{instruction}\nASSISTANT:",
     "{system}"},
    {"orca",
     "### Human:\n{instruction}\n### Additional Context:\n{input}\n### "
     "Assistant:\n",
     "### Human:\n{instruction}\n### Assistant:\n", "### System:\n{system}\n"}};
/// Those that a name may ask for.
static constexpr size_t kNamedStyles = 4;

static constexpr const char *kAlpaca =
    "Below is an instruction that describes a task, paired with an input that "
    "provides further context. Write a response that appropriately completes "
    "the request.";
static constexpr const char *kAlpacaAlone =
    "Below is an instruction that describes a task. Write a response that "
    "appropriately completes the request.";
static constexpr const char *kConcise =
    "Below is an instruction from a USER that describes a task, paired with an "
    "input that provides further context. The ASSISTANT writes a response that "
    "concisely and appropriately completes the request.\n\n";
static constexpr const char *kConciseAlone =
    "Below is an instruction from a USER that describes a task. The ASSISTANT "
    "writes a response that appropriately and concisely completes the "
    "request.\n\n";

static constexpr KnownType kTypes[] = {
    {"alpaca", "instruction", "input", "output", "instruct", kAlpaca,
     kAlpacaAlone, nullptr},
    {"gpteacher", "instruction", "input", "response", "instruct", kAlpaca,
     kAlpacaAlone, nullptr},
    {"oasst", "INSTRUCTION", nullptr, "RESPONSE", "instruct", kAlpaca,
     kAlpacaAlone, nullptr},
    {"summarizetldr", "article", nullptr, "summary", "summary", "", "",
     nullptr},
    {"alpaca_instruct.load", "instruction", "input", "output", "instruct",
     kAlpaca, kAlpacaAlone, nullptr},
    {"alpaca_instruct.load_no_prompt", "instruction", "input", "output",
     "instruct", "", "", nullptr},
    {"alpaca_chat.load", "instruction", "input", "output", "chat", kAlpaca,
     kAlpacaAlone, nullptr},
    {"alpaca_chat.load_concise", "instruction", "input", "output", "chat",
     kConcise, kConciseAlone, nullptr},
    {"alpaca_chat.load_no_prompt", "instruction", "input", "output", "chat", "",
     "", nullptr},
    {"alpaca_chat.load_qa", "question", nullptr, "answer", "chat", kConcise,
     kConciseAlone, nullptr},
    {"alpaca_chat.load_camel_ai", "message_1", nullptr, "message_2", "chat",
     kConcise, kConciseAlone, nullptr},
    {"alpaca_w_system.load", "instruction", "input", "output", "chat", nullptr,
     nullptr, "system"},
    {"alpaca_w_system.load_chat", "instruction", "input", "output", "chat",
     nullptr, nullptr, "system"},
    {"alpaca_w_system.load_instruct", "instruction", "input", "output",
     "instruct", nullptr, nullptr, "system"},
    {"alpaca_w_system.load_open_orca", "question", nullptr, "response", "orca",
     nullptr, nullptr, "system_prompt"},
    {"alpaca_w_system.load_open_orca_chatml", "question", nullptr, "response",
     "chatml", nullptr, nullptr, "system_prompt"}};

/// A format as an option has it.
static std::string escape(llvm::StringRef format) {
  std::string text;
  for (char c : format) {
    if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c == '\\')
      text += "\\\\";
    else
      text += c;
  }
  return text;
}

void poplar::addMember(Options &options, const std::string &name,
                       llvm::StringRef member) {
  llvm::StringRef own = name;
  own.consume_front("messages.");
  if (own != member)
    options.emplace_back("--read-member", name + "=" + member.str());
}

/// The system text in front of a prompt.
static std::string writeSystem(const PromptStyle &style, llvm::StringRef text) {
  auto [before, behind] = llvm::StringRef(style.system).split("{system}");
  return text.empty() ? "" : before.str() + text.str() + behind.str();
}

static void addFormats(Options &options, llvm::StringRef turn,
                       llvm::StringRef alone) {
  options.emplace_back("--prompt-format", escape(turn));
  options.emplace_back("--prompt-format-alone", escape(alone));
}

std::optional<RowType> poplar::findRowType(llvm::StringRef name) {
  auto [base, style] = name.split(':');
  // Types that are functions have no styles.
  bool isStyled = !base.contains('.');
  // A module has a function `load`.
  std::string full = base.str();
  if (llvm::is_contained({"alpaca_chat", "alpaca_instruct", "alpaca_w_system"},
                         base))
    full += ".load";
  const KnownType *known = llvm::find_if(
      kTypes, [&](const KnownType &it) { return full == it.name; });
  if (known == std::end(kTypes) || (!style.empty() && !isStyled))
    return std::nullopt;
  llvm::StringRef asked = style.empty() || known->style == kStyles[4].name
                              ? llvm::StringRef(known->style)
                              : style;
  const PromptStyle *written = llvm::find_if(
      kStyles, [&](const PromptStyle &it) { return asked == it.name; });
  if (written == std::end(kStyles) ||
      (!style.empty() && written >= kStyles + kNamedStyles))
    return std::nullopt;
  RowType type;
  addMember(type.options, "instruction", known->instruction);
  addMember(type.options, "output", known->output);
  if (known->systemMember) {
    addMember(type.options, "system", known->systemMember);
    addFormats(type.options, known->input ? written->turn : written->alone,
               written->alone);
    type.options.emplace_back("--system-format", escape(written->system));
    return type;
  }
  std::string alone =
                  writeSystem(*written, known->systemAlone) + written->alone,
              turn = writeSystem(*written, known->system) + written->turn;
  // Alpaca's own are the default.
  bool isDefault =
      written == kStyles && known->system == llvm::StringRef(kAlpaca);
  if (!isDefault || !known->input)
    addFormats(type.options, known->input ? turn : alone, alone);
  return type;
}

/// Why a format is not one of str.format with these names; empty if it is.
static std::string checkFormat(llvm::StringRef format,
                               llvm::ArrayRef<llvm::StringRef> names) {
  while (!format.empty()) {
    size_t brace = format.find_first_of("{}");
    if (brace == llvm::StringRef::npos)
      return "";
    format = format.drop_front(brace);
    if (format.starts_with("{{") || format.starts_with("}}")) {
      format = format.drop_front(2);
      continue;
    }
    size_t end = format.find('}');
    if (format[0] == '}' || end == llvm::StringRef::npos)
      return "has a brace without another";
    llvm::StringRef name = format.slice(1, end);
    if (!llvm::is_contained(names, name))
      return "has {" + name.str() + "}, which is not known here";
    format = format.drop_front(end + 1);
  }
  return "";
}

RowType poplar::readRowType(const yaml::Content &map) {
  std::pair<llvm::StringRef, std::string> members[] = {
      {"system_prompt", ""},
      {"field_system", "system"},
      {"field_instruction", "instruction"},
      {"field_input", "input"},
      {"field_output", "output"},
      {"format", "{instruction} {input} "},
      {"no_input_format", "{instruction} "},
      {"system_format", "{system}"}};
  RowType type;
  for (const yaml::Member &member : map.members) {
    auto known = llvm::find_if(
        members, [&](const auto &it) { return it.first == member.key; });
    if (known == std::end(members))
      type.remedy = "unknown member " + member.key + "; remove it";
    else if (member.value.kind == yaml::Content::Null)
      continue;
    else if (member.value.kind != yaml::Content::Scalar)
      type.remedy = member.key + " is no text";
    else
      known->second = member.value.text;
  }
  const auto &[prompt, system, instruction, input, output, turn, alone,
               systemFormat] = members;
  if (!prompt.second.empty())
    type.remedy = "system_prompt is for rows without " + system.second +
                  "; write it into format and no_input_format, and remove it";
  else if (systemFormat.second.empty())
    type.remedy = "system_format is empty; remove the member " + system.second +
                  " from the rows, and system_format";
  else if (turn.second.empty() || alone.second.empty())
    type.remedy = "the format of prompts is empty";
  for (const auto &[name, format] : {turn, alone})
    if (std::string why = checkFormat(format, {"instruction", "input"});
        !why.empty())
      type.remedy = name.str() + " " + why;
  if (std::string why = checkFormat(systemFormat.second, {"system"});
      !why.empty())
    type.remedy = "system_format " + why;
  if (llvm::StringRef(alone.second).contains("{input}"))
    type.remedy = "no_input_format has {input}, which it does not get";
  if (!type.remedy.empty())
    return type;
  addMember(type.options, "instruction", instruction.second);
  addMember(type.options, "input", input.second);
  addMember(type.options, "output", output.second);
  addMember(type.options, "system", system.second);
  addFormats(type.options, turn.second, alone.second);
  type.options.emplace_back("--system-format", escape(systemFormat.second));
  return type;
}
