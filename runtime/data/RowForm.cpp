//===- RowForm.cpp - Rows of other names and formats ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/RowForm.h"
#include "support/Error.h"

#include <algorithm>

using namespace poplar::runtime;

/// Stanford's Alpaca.
static constexpr const char *AlpacaPrompt =
    "Below is an instruction that describes a task, paired with an input that "
    "provides further context. Write a response that appropriately completes "
    "the request.\n\n### Instruction:\n{instruction}\n\n### "
    "Input:\n{input}\n\n### Response:\n";
static constexpr const char *AlpacaAlone =
    "Below is an instruction that describes a task. Write a response that "
    "appropriately completes the request.\n\n### "
    "Instruction:\n{instruction}\n\n### Response:\n";

static constexpr std::string_view MessagePrefix = "messages.";

/// Members that are messages, or lists of them.
static constexpr std::string_view MessageLists[] = {
    "messages", "conversations", "prompt", "completion", "chosen", "rejected"};

using Map = std::map<std::string, std::string, std::less<>>;

/// Splits A=B, and adds A as what B is read as.
static void addPair(Map &Names, const std::string &Text, std::string_view Name,
                    std::string_view Other, const char *Option) {
  auto [At, IsNew] = Names.emplace(Other, Name);
  if (!IsNew && At->second != Name)
    fail(Option, " '", Text, "': '", Other, "' is read as '", At->second,
         "' already");
}

static std::pair<std::string_view, std::string_view>
split(const std::string &Text, const char *Option, const char *Form) {
  size_t Equals = Text.find('=');
  if (Equals == Text.npos || Equals == 0 || Equals + 1 == Text.size())
    fail(Option, " '", Text, "' is not ", Form);
  std::string_view View = Text;
  return {View.substr(0, Equals), View.substr(Equals + 1)};
}

/// \n, \t and \\ become the characters that they stand for.
static std::string unescape(const std::string &Text, const char *Option) {
  std::string Result;
  for (size_t I = 0; I < Text.size(); ++I) {
    if (Text[I] != '\\') {
      Result += Text[I];
      continue;
    }
    char Next = ++I < Text.size() ? Text[I] : ' ';
    if (Next != 'n' && Next != 't' && Next != '\\')
      fail(Option, ": a backslash is followed by n, t or a backslash");
    Result += Next == 'n' ? '\n' : Next == 't' ? '\t' : '\\';
  }
  return Result;
}

/// Puts members into a format as str.format of Python does.
static std::string format(const std::string &Format, const char *Option,
                          const Map &Members) {
  std::string Result;
  for (size_t I = 0; I < Format.size(); ++I) {
    char C = Format[I];
    if (C != '{' && C != '}') {
      Result += C;
      continue;
    }
    if (I + 1 < Format.size() && Format[I + 1] == C) {
      Result += C;
      ++I;
      continue;
    }
    size_t End = C == '{' ? Format.find('}', I) : Format.npos;
    if (End == Format.npos)
      fail(Option, ": a brace has no other; {{ and }} stand for braces");
    std::string Name = Format.substr(I + 1, End - I - 1);
    auto Member = Members.find(Name);
    if (Member == Members.end()) {
      std::string Known;
      for (const auto &[Each, Text] : Members)
        Known += (Known.empty() ? "" : " and ") + std::string("{") + Each + "}";
      fail(Option, ": {", Name, "} is not known; there is ", Known);
    }
    Result += Member->second;
    I = End;
  }
  return Result;
}

RowForm::RowForm(const RowOptions &Options,
                 const std::vector<std::string> &Ignored)
    : Asked(Options), Ignored(Ignored.begin(), Ignored.end()) {
  for (const std::string &Text : Asked.Members) {
    auto [Name, Member] = split(Text, "--read-member", "NAME=MEMBER");
    bool IsOfMessages = Name.substr(0, MessagePrefix.size()) == MessagePrefix;
    if (IsOfMessages)
      Name.remove_prefix(MessagePrefix.size());
    addPair(IsOfMessages ? OfMessages : Names, Text, Name, Member,
            "--read-member");
  }
  for (const std::string &Text : Asked.Roles) {
    auto [Role, Name] = split(Text, "--read-role", "ROLE=NAME");
    addPair(Roles, Text, Role, Name, "--read-role");
  }
  if (Asked.Prompt.empty() != Asked.PromptAlone.empty())
    fail("--prompt-format and --prompt-format-alone go together");
  Asked.Prompt = unescape(Asked.Prompt, "--prompt-format");
  Asked.PromptAlone = unescape(Asked.PromptAlone, "--prompt-format-alone");
  Asked.System = unescape(Asked.System, "--system-format");
  if (Asked.Prompt.empty()) {
    Asked.Prompt = AlpacaPrompt;
    Asked.PromptAlone = AlpacaAlone;
  }
  // Wrong formats fail before the first row.
  makePrompt("system", "instruction", "input");
  makePrompt("system", "instruction", "");
}

std::string RowForm::makePrompt(const std::string &System,
                                const std::string &Instruction,
                                const std::string &Input) const {
  std::string Text;
  if (!System.empty() && writesSystem())
    Text = format(Asked.System, "--system-format", {{"system", System}});
  if (Input.empty())
    return Text + format(Asked.PromptAlone, "--prompt-format-alone",
                         {{"instruction", Instruction}});
  return Text + format(Asked.Prompt, "--prompt-format",
                       {{"instruction", Instruction}, {"input", Input}});
}

void RowForm::rename(json::Value &Object, const Map &Others, const char *Prefix,
                     const std::string &Where) const {
  auto &Members = Object.members();
  auto IsOut = [&](const auto &Member) {
    // Null stands for no member, see ExampleMembers::find.
    return Member.second.kind() == json::Value::Null ||
           Ignored.count(Prefix + Member.first);
  };
  Members.erase(std::remove_if(Members.begin(), Members.end(), IsOut),
                Members.end());
  Map Given;
  for (auto &[Name, Member] : Members) {
    auto Other = Others.find(Name);
    const std::string &Read = Other == Others.end() ? Name : Other->second;
    auto [First, IsNew] = Given.emplace(Read, Name);
    if (!IsNew)
      fail(Where, ": '", First->second, "' and '", Name, "' are both read as '",
           Read, "'; remove one, or ignore it by --ignore-member ", Prefix,
           First->second == Read ? First->second : Name);
  }
  for (auto &[Name, Member] : Members)
    if (auto Other = Others.find(Name); Other != Others.end())
      Name = Other->second;
}

void RowForm::readMessages(json::Value &Row, const std::string &Where) const {
  auto Translate = [&](json::Value &Message) {
    if (Message.kind() != json::Value::Object)
      return;
    rename(Message, OfMessages, "messages.", Where);
    for (auto &[Name, Member] : Message.members())
      if (Name == "role" || Name == "from")
        if (auto Role = Roles.find(Member.asString()); Role != Roles.end())
          Member.setText(Role->second);
  };
  for (auto &[Name, Member] : Row.members()) {
    if (std::find(std::begin(MessageLists), std::end(MessageLists), Name) ==
        std::end(MessageLists))
      continue;
    Translate(Member);
    for (json::Value &Message : Member.elements())
      Translate(Message);
    bool IsList = Name == "messages" || Name == "conversations";
    auto &List = Member.elements();
    if (Asked.DropSystem && IsList && !List.empty() &&
        (List[0].string("role", "") == "system" ||
         List[0].string("from", "") == "system"))
      List.erase(List.begin());
  }
}

json::Value RowForm::read(const json::Value &Row,
                          const std::string &Where) const {
  json::Value Result = Row;
  if (Result.kind() != json::Value::Object)
    return Result;
  rename(Result, Names, "", Where);
  readMessages(Result, Where);
  // The system text of a conversation becomes its first message.
  auto &Members = Result.members();
  if (Asked.DropSystem && Result.find("conversations"))
    Members.erase(std::remove_if(Members.begin(), Members.end(),
                                 [](const auto &Member) {
                                   return Member.first == "system";
                                 }),
                  Members.end());
  return Result;
}

std::string RowForm::describe() const {
  std::string Text;
  auto Add = [&](const Map &Others, std::string_view Prefix) {
    for (const auto &[Name, Read] : Others)
      if (Name != Read)
        Text += (Text.empty() ? ", with " : ", ") + Name + " read as " +
                std::string(Prefix) + Read;
  };
  Add(Names, "");
  Add(OfMessages, MessagePrefix);
  Add(Roles, "the role ");
  if (Asked.DropSystem)
    Text += ", without system messages";
  return Text;
}

std::string RowForm::getKey() const {
  std::string Key = describe();
  if (Asked.Prompt != AlpacaPrompt || Asked.PromptAlone != AlpacaAlone ||
      !Asked.System.empty())
    Key += "\n" + Asked.Prompt + "\n" + Asked.PromptAlone + "\n" + Asked.System;
  if (Asked.Apart)
    Key += "\napart";
  if (Asked.CountsPrompts)
    Key += "\nprompts";
  return Key;
}
