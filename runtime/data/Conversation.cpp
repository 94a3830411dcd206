//===- Conversation.cpp - Conversations as chat templates see them --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Conversation.h"
#include "support/Error.h"

#include <algorithm>
#include <cctype>

using namespace poplar::runtime;
using jinja::JinjaValue;

Conversation::Conversation(
    std::initializer_list<std::pair<const char *, std::string>> Texts) {
  for (const auto &[Role, Content] : Texts)
    add(Role, Content);
}

void Conversation::add(const std::string &Role, const std::string &Content) {
  Messages.push_back({Role, {{"role", Role}, {"content", Content}}, true});
}

JinjaValue ChatMessage::getContent() const {
  for (const auto &[Name, Content] : Members)
    if (Name == "content")
      return Content;
  return JinjaValue();
}

bool TemplateTraits::readsMember(const std::string &Name) const {
  for (const char *Form : {".", "'", "\""})
    for (size_t At = 0; (At = Source.find(Form + Name, At)) != Source.npos;) {
      size_t End = ++At + Name.size();
      char Next = End < Source.size() ? Source[End] : ' ';
      bool IsQuoted = *Form != '.';
      if (IsQuoted ? Next == *Form : !std::isalnum(Next) && Next != '_')
        return true;
    }
  return false;
}

namespace {

/// JSON that may be given as a string, as files of columns need it.
JinjaValue parseIfString(const json::Value &Member, const std::string &Where) {
  return JinjaValue::fromJSON(Member.kind() == json::Value::String
                                  ? json::parse(Member.asString(), Where)
                                  : Member);
}

class Reader {
public:
  Reader(const json::Value &Row, const ExampleMembers &Members,
         const TemplateTraits &Traits, const std::string &Where)
      : Row(Row), Members(Members), Traits(Traits), Where(Where) {}

  Conversation read(ExampleShape Shape) {
    switch (Shape) {
    case ExampleShape::ShareGPT:
      addSystem();
      readAll("conversations", true);
      break;
    case ExampleShape::Alpaca:
      readAlpaca();
      break;
    case ExampleShape::Completion:
      readAll("prompt", false);
      readAll("completion", true);
      break;
    default:
      readAll("messages", true);
    }
    readVariables();
    return std::move(Result);
  }
  PairOfConversations readPair(PairShape Shape);

private:
  // Members of the row.
  void addSystem();
  void readAlpaca();
  void readVariables();
  void readAll(const char *Key, bool Counts);
  void readElement(const json::Value &Element, bool Counts);

  // Members of a message.
  void readMessage(const json::Value &Message, bool Counts);
  void readShareGPT(const json::Value &Message, bool Counts);
  JinjaValue readContent(const json::Value &Content);
  JinjaValue readCalls(const json::Value &Calls);
  void keepArguments(JinjaValue &Call);
  void needsTemplate(bool IsRead, const char *Name) {
    if (!IsRead)
      fail(Place, ": the chat template does not write '", Name,
           "'; remove it, or train as if it were not there by --ignore-member "
           "messages.",
           Name);
  }

  const json::Value &Row;
  const ExampleMembers &Members;
  const TemplateTraits &Traits;
  const std::string &Where;
  /// Names the message in errors.
  std::string Place;
  Conversation Result;
};

} // namespace

//===-- Rows --------------------------------------------------------------===//

static const std::string getText(const json::Value &Member, const char *Name,
                                 const std::string &Where) {
  if (Member.kind() != json::Value::String)
    fail(Where, ": '", Name, "' is not a string");
  return std::string(Member.asString());
}

void Reader::addSystem() {
  const json::Value *System = Members.find(Row, "system");
  if (std::string Text = System ? getText(*System, "system", Where) : "";
      !Text.empty())
    Result.add("system", Text);
}

/// As LLaMA-Factory reads it.
void Reader::readAlpaca() {
  addSystem();
  if (const json::Value *History = Members.find(Row, "history"))
    for (const json::Value &Each : History->elements()) {
      if (Each.elements().size() != 2)
        fail(Where, ": 'history' is not a list of [question, answer]");
      Result.add("user", getText(Each.elements()[0], "history", Where));
      Result.add("assistant", getText(Each.elements()[1], "history", Where));
    }
  auto Get = [&](const char *Name) {
    const json::Value *Member = Members.find(Row, Name);
    return Member ? getText(*Member, Name, Where) : "";
  };
  std::string Question = Get("instruction"), Input = Get("input");
  Result.add("user", Question +
                         (Question.empty() || Input.empty() ? "" : "\n") +
                         Input);
  Result.add("assistant", Get("output"));
}

void Reader::readVariables() {
  for (auto [Name, Target] : {std::pair("tools", &Result.Tools),
                              std::pair("documents", &Result.Documents)}) {
    const json::Value *Member = Members.find(Row, Name);
    if (!Member)
      continue;
    JinjaValue All = parseIfString(*Member, Where + ": '" + Name + "'");
    if (!All.is(JinjaValue::Sequence))
      fail(Where, ": '", Name, "' is not a list");
    if (All.list().empty())
      continue;
    for (const JinjaValue &Each : All.list())
      if (!Each.is(JinjaValue::Mapping))
        fail(Where, ": '", Name, "' has an element that is no object");
    if (!Traits.readsVariable(Name))
      fail(Where, ": the chat template does not write '", Name,
           "'; remove it, or train as if it were not there by --ignore-member ",
           Name);
    *Target = std::move(All);
  }
  if (const json::Value *More = Members.find(Row, "chat_template_kwargs"))
    Result.Variables = parseIfString(*More, Where).members();
}

void Reader::readAll(const char *Key, bool Counts) {
  const json::Value *List = Members.find(Row, Key);
  if (!List || List->kind() != json::Value::Array || List->elements().empty())
    fail(Where, ": '", Key, "' is not a list of messages");
  for (const json::Value &Each : List->elements())
    readElement(Each, Counts);
}

void Reader::readElement(const json::Value &Element, bool Counts) {
  Place = Where + ", message " + std::to_string(Result.Messages.size() + 1);
  if (Element.kind() != json::Value::Object)
    fail(Place, ": a message is an object with role and content");
  if (Element.find("from"))
    readShareGPT(Element, Counts);
  else
    readMessage(Element, Counts);
}

static bool isSame(const json::Value &A, const json::Value &B) {
  if (A.kind() != B.kind() || A.asString() != B.asString() ||
      A.getSpelling() != B.getSpelling() || A.asBool() != B.asBool())
    return false;
  return std::equal(A.elements().begin(), A.elements().end(),
                    B.elements().begin(), B.elements().end(), isSame) &&
         std::equal(A.members().begin(), A.members().end(), B.members().begin(),
                    B.members().end(), [](const auto &X, const auto &Y) {
                      return X.first == Y.first && isSame(X.second, Y.second);
                    });
}

PairOfConversations Reader::readPair(PairShape Shape) {
  const json::Value &Chosen = *Members.find(Row, "chosen"),
                    &Rejected = *Members.find(Row, "rejected");
  auto List = [&](const json::Value &Answer) {
    std::vector<const json::Value *> All;
    if (Shape == PairShape::Messages)
      All.push_back(&Answer);
    for (const json::Value &Each : Answer.elements())
      All.push_back(&Each);
    return All;
  };
  std::vector<const json::Value *> Answers[] = {List(Chosen), List(Rejected)};
  size_t Same = 0;
  if (Shape == PairShape::Messages) {
    readAll("messages", true);
  } else if (Members.find(Row, "prompt")) {
    readAll("prompt", true);
  } else {
    while (Same < Answers[0].size() && Same < Answers[1].size() &&
           isSame(*Answers[0][Same], *Answers[1][Same]))
      readElement(*Answers[0][Same++], true);
    if (Same == 0)
      fail(Where,
           ": 'chosen' and 'rejected' begin with different messages, and "
           "there is no 'prompt'");
  }
  for (const auto &Answer : Answers)
    if (Same == Answer.size())
      fail(Where, ": '", &Answer == Answers ? "chosen" : "rejected",
           "' has no message behind the prompt");
  readVariables();
  Conversation Prompt = Result;
  PairOfConversations Pair;
  for (auto [Target, Answer] :
       {std::pair(&Pair.Chosen, 0), std::pair(&Pair.Rejected, 1)}) {
    Result = Prompt;
    for (size_t I = Same; I < Answers[Answer].size(); ++I) {
      const json::Value &Each = *Answers[Answer][I];
      if (Each.kind() == json::Value::String)
        Result.add("assistant", std::string(Each.asString()));
      else
        readElement(Each, true);
    }
    *Target = std::move(Result);
  }
  Pair.Prompt = std::move(Prompt);
  return Pair;
}

//===-- Messages ----------------------------------------------------------===//

void Reader::readMessage(const json::Value &Message, bool Counts) {
  std::string Role = Message.string("role", "");
  std::vector<std::string_view> Read = {
      "role",     "content",   "weight",
      "train",    "training",  "reasoning_content",
      "thinking", "reasoning", "tool_calls"};
  bool IsTool = Role == "tool";
  if (IsTool)
    Read.insert(Read.end(), {"name", "tool_call_id"});
  else if (Traits.readsMember("message.name") ||
           Traits.Source.find("message['name']") != std::string::npos)
    Read.push_back("name");
  Members.checkMembers(Message, Read, "messages.", Place);
  if (Role.empty())
    fail(Place, ": a message is an object with role and content");
  bool MayCount = Members.readWeight(Message, Role == "assistant", Place);
  ChatMessage M = {Role, {{"role", Role}}, Counts && MayCount};
  auto Get = [&](const char *Name) {
    return Members.findInMessage(Message, Name);
  };
  if (const json::Value *Content = Get("content"))
    M.Members.emplace_back("content", readContent(*Content));
  for (const char *Name : {"name", "tool_call_id"})
    if (const json::Value *Member = Get(Name);
        Member && std::find(Read.begin(), Read.end(), Name) != Read.end())
      M.Members.emplace_back(Name, getText(*Member, Name, Place));
  // As transformers, which gives the thoughts by two names.
  for (const char *Name : {"reasoning_content", "thinking", "reasoning"})
    if (const json::Value *Member = Get(Name)) {
      std::string Thoughts = getText(*Member, Name, Place);
      needsTemplate(Thoughts.empty() ||
                        Traits.readsMember("reasoning_content") ||
                        Traits.readsMember("thinking"),
                    Name);
      M.Members.emplace_back("reasoning_content", Thoughts);
      M.Members.emplace_back("thinking", Thoughts);
      break;
    }
  const json::Value *Calls = Get("tool_calls");
  if (Calls && !Calls->elements().empty()) {
    needsTemplate(Traits.readsMember("tool_calls"), "tool_calls");
    M.Members.emplace_back("tool_calls", readCalls(*Calls));
  } else if (!Get("content")) {
    fail(Place, ": a message has neither content nor tool_calls");
  }
  Result.Messages.push_back(std::move(M));
}

/// {from, value}, in which LLaMA-Factory has calls of functions, too.
void Reader::readShareGPT(const json::Value &Message, bool Counts) {
  static constexpr std::pair<std::string_view, const char *> Roles[] = {
      {"system", "system"},       {"human", "user"},
      {"user", "user"},           {"gpt", "assistant"},
      {"assistant", "assistant"}, {"chatgpt", "assistant"},
      {"model", "assistant"},     {"tool", "tool"},
      {"observation", "tool"},    {"function_call", "assistant"}};
  Members.checkMembers(Message,
                       {"from", "value", "weight", "train", "training"},
                       "messages.", Place);
  std::string From = Message.string("from", "");
  const char *Role = nullptr;
  for (auto [Name, Each] : Roles)
    if (From == Name)
      Role = Each;
  if (!Role)
    fail(Place, ": the role '", From,
         "' is not one of system, human, gpt, tool, observation and "
         "function_call");
  const json::Value *Value = Message.find("value");
  if (!Value)
    fail(Place, ": a message has no value");
  std::string Text = getText(*Value, "value", Place);
  bool IsAnswer = std::string_view(Role) == "assistant";
  bool MayCount = Members.readWeight(Message, IsAnswer, Place);
  Result.add(Role, Text);
  ChatMessage &M = Result.Messages.back();
  M.Counts = Counts && MayCount;
  if (From != "function_call")
    return;
  needsTemplate(Traits.readsMember("tool_calls"), "tool_calls");
  JinjaValue Called = JinjaValue::fromJSON(json::parse(Text, Place));
  jinja::List All = Called.is(JinjaValue::Sequence) ? Called.list()
                                                    : jinja::List{Called},
              Calls;
  for (const JinjaValue &Each : All)
    Calls.push_back(
        JinjaValue(jinja::Entries{{"type", "function"}, {"function", Each}}));
  M.Members = {{"role", Role}, {"content", ""}, {"tool_calls", Calls}};
}

JinjaValue Reader::readContent(const json::Value &Content) {
  if (Content.kind() == json::Value::String)
    return JinjaValue::fromJSON(Content);
  bool IsText = Content.kind() == json::Value::Array;
  for (const json::Value &Part : Content.elements()) {
    const json::Value *Text = Part.find("text");
    IsText &= Part.string("type", "text") == "text" && Text &&
              Text->kind() == json::Value::String;
  }
  if (!IsText)
    fail(Place, ": 'content' is neither a string nor a list of parts with "
                "text; images, audio and video are not supported");
  if (Traits.ReadsParts)
    return JinjaValue::fromJSON(Content);
  if (Content.elements().size() != 1)
    fail(Place, ": the chat template reads no list of parts; give 'content' "
                "as a string");
  return Content.elements()[0].string("text", "");
}

JinjaValue Reader::readCalls(const json::Value &Calls) {
  if (Calls.kind() != json::Value::Array)
    fail(Place, ": 'tool_calls' is not a list");
  jinja::List Read;
  for (const json::Value &Each : Calls.elements()) {
    JinjaValue Call = JinjaValue::fromJSON(Each);
    const JinjaValue *Function = Call.find("function");
    const JinjaValue &Named = Function ? *Function : Call;
    if (!Named.find("name") || !Named.find("arguments"))
      fail(Place, ": a call of 'tool_calls' has no function with name and "
                  "arguments");
    keepArguments(Call);
    Read.push_back(std::move(Call));
  }
  return Read;
}

/// Reads arguments that are a string, as OpenAI has them, unless the template
/// writes the string as it is.
void Reader::keepArguments(JinjaValue &Call) {
  if (Traits.KeepsArguments)
    return;
  for (auto &[Name, Member] : Call.changeMembers()) {
    if (Name == "function" && Member.is(JinjaValue::Mapping))
      keepArguments(Member);
    if (Name == "arguments" && Member.is(JinjaValue::String))
      Member = JinjaValue::fromJSON(
          json::parse(Member.string(), Place + ": 'arguments' of a call"));
  }
}

Conversation poplar::runtime::readConversation(const json::Value &Row,
                                               ExampleShape Shape,
                                               const ExampleMembers &Members,
                                               const TemplateTraits &Traits,
                                               const std::string &Where) {
  return Reader(Row, Members, Traits, Where).read(Shape);
}

PairOfConversations poplar::runtime::readPair(const json::Value &Row,
                                              PairShape Shape,
                                              const ExampleMembers &Members,
                                              const TemplateTraits &Traits,
                                              const std::string &Where) {
  return Reader(Row, Members, Traits, Where).readPair(Shape);
}
