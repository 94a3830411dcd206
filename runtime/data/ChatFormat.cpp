//===- ChatFormat.cpp - How conversations become text ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ChatFormat.h"
#include "data/ChatTemplate.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <cstdio>
#include <filesystem>

using namespace poplar::runtime;
using jinja::JinjaValue;
namespace fs = std::filesystem;

static std::time_t parseDate(const std::string &Text) {
  std::tm Local = {};
  char Rest = 0;
  if (std::sscanf(Text.c_str(), "%4d-%2d-%2d%c", &Local.tm_year, &Local.tm_mon,
                  &Local.tm_mday, &Rest) != 3 ||
      Local.tm_mon < 1 || Local.tm_mon > 12 || Local.tm_mday < 1 ||
      Local.tm_mday > 31)
    fail("--chat-date '", Text, "' is no date; give YYYY-MM-DD");
  Local.tm_year -= 1900;
  Local.tm_mon -= 1;
  Local.tm_hour = 12;
  Local.tm_isdst = -1;
  return std::mktime(&Local);
}

static std::string explainOthers() {
  return "; --chat-template FILE trains another template, and --chat-template "
         "NAME one of " +
         ChatTemplate::listOptions();
}

ChatFormat::ChatFormat(const Tokenizer &Tok, const ShippedTemplate &Shipped,
                       const ChatOptions &Asked)
    : Tok(Tok), HasDate(!Asked.Date.empty()),
      Date(HasDate ? parseDate(Asked.Date) : std::time(nullptr)),
      Tokens(Shipped.Tokens) {
  std::string File = fs::path(Shipped.Path).filename(), Source, ToolSource;
  std::optional<ChatTemplate> Family;
  if (!Asked.Template.empty()) {
    Family = ChatTemplate::find(Asked.Template);
    std::error_code Code;
    if (!Family && !fs::exists(Asked.Template, Code))
      fail("--chat-template '", Asked.Template,
           "' is neither a file nor one of ", ChatTemplate::listOptions());
    if (!Family)
      Source = MappedFile(Asked.Template).text();
    Name = "in '" + Asked.Template + "'";
    Description = "chat template " +
                  (Family ? Family->Name : "'" + Asked.Template + "'") +
                  " as asked for" +
                  (Shipped.Source.empty() || Source == Shipped.Source
                       ? ""
                       : ", and checkpoints carry the model's own, in " + File);
  } else if (Shipped.Source.empty()) {
    Family = ChatTemplate::find(Tok);
    if (!Family)
      fail("the model ships no chat_template, and the tokenizer has the tokens "
           "of none that is built in (",
           ChatTemplate::listNames(),
           "); give prompt and completion instead of messages, or name a "
           "template by --chat-template FILE");
    Description = "chat template " + Family->Name +
                  " by its tokens, as the model ships none";
  } else {
    Source = Shipped.Source;
    ToolSource = Shipped.ToolSource;
    Name = "in '" + Shipped.Path + "'";
    Description = "chat template of the model, in " + File;
  }
  if (Family) {
    Name = Family->Name;
    Source = Family->Source;
  }
  Main = load(Source);
  if (!ToolSource.empty())
    ForTools = load(ToolSource);
}

std::unique_ptr<ChatFormat::Loaded>
ChatFormat::load(const std::string &Source) const {
  std::unique_ptr<Loaded> L;
  try {
    L = std::make_unique<Loaded>(Source);
  } catch (const Error &E) {
    fail("the chat template ", Name, " cannot be run: ", E.what(),
         explainOthers());
  }
  AnswerFinder::Renderer Run =
      [this, &Template = L->Template](const Conversation &Chat, bool Asks) {
        return run(Template, Chat, Asks);
      };
  L->Traits.Source = Source;
  learn(L->Traits, Run);
  L->Finder = std::make_unique<AnswerFinder>(Tok, Run);
  return L;
}

void ChatFormat::learn(TemplateTraits &Traits,
                       const AnswerFinder::Renderer &Run) const {
  auto Writes = [&](const Conversation &Chat, const char *Words) {
    try {
      std::string Text = Run(Chat, false).Text;
      // Not as Python prints a list or dictionary.
      return Text.find(Words) != Text.npos &&
             Text.find("'poplar'") == Text.npos;
    } catch (const Error &) {
      return false;
    }
  };
  JinjaValue Function(
      jinja::Entries{{"name", "poplar"}, {"arguments", "{\"poplar\":1}"}}),
      Call(jinja::Entries{
          {"type", "function"}, {"id", "poplar001"}, {"function", Function}});
  Conversation Calls = {{"user", "?"}, {"assistant", ""}};
  Calls.Messages.back().Members.emplace_back("tool_calls", jinja::List{Call});
  Traits.KeepsArguments = Writes(Calls, "{\"poplar\":1}");
  Conversation Parts = {{"user", ""}};
  JinjaValue Part(jinja::Entries{{"type", "text"}, {"text", "poplar"}});
  Parts.Messages.back().Members.back().second = jinja::List{Part};
  Traits.ReadsParts = Writes(Parts, "poplar");
}

jinja::Template::Result ChatFormat::run(const jinja::Template &Template,
                                        const Conversation &Chat,
                                        bool AsksForAnswer) const {
  jinja::List Messages;
  for (const ChatMessage &Each : Chat.Messages)
    Messages.push_back(JinjaValue(Each.Members));
  jinja::Entries Variables = Tokens;
  addMember(Variables, "messages", std::move(Messages));
  addMember(Variables, "tools", Chat.Tools);
  addMember(Variables, "documents", Chat.Documents);
  addMember(Variables, "add_generation_prompt", AsksForAnswer);
  for (const auto &[Key, Content] : Chat.Variables)
    addMember(Variables, Key, Content);
  return Template.render(Variables, Date);
}

void ChatFormat::refuse(const std::string &Where,
                        const std::string &What) const {
  fail(Where, ": the chat template ", Name, " ", What, explainOthers());
}

const ChatFormat::Loaded &
ChatFormat::getLoaded(const json::Value &Row,
                      const ExampleMembers &Members) const {
  bool HasTools = Members.find(Row, "tools") != nullptr;
  return HasTools && ForTools ? *ForTools : *Main;
}

jinja::Template::Result ChatFormat::runOnRow(const Loaded &L,
                                             const Conversation &Chat,
                                             bool AsksForAnswer,
                                             const std::string &Where) const {
  jinja::Template::Result Result;
  try {
    Result = run(L.Template, Chat, AsksForAnswer);
  } catch (const Error &E) {
    refuse(Where, std::string("fails: ") + E.what());
  }
  if (Result.IsDated && !HasDate)
    fail(Where, ": the chat template ", Name,
         " writes the date of the day; --chat-date YYYY-MM-DD says which one "
         "to train with");
  return Result;
}

RenderedChat ChatFormat::render(const json::Value &Row, ExampleShape Shape,
                                const ExampleMembers &Members,
                                const std::string &Where) const {
  const Loaded &L = getLoaded(Row, Members);
  Conversation Chat = readConversation(Row, Shape, Members, L.Traits, Where);
  jinja::Template::Result Result = runOnRow(L, Chat, false, Where);
  try {
    TextRanges Counted = L.Finder->find(Chat, Result);
    return {std::move(Result.Text), std::move(Counted)};
  } catch (const Error &E) {
    refuse(Where, E.what());
  }
}

RenderedPair ChatFormat::renderPair(const json::Value &Row, PairShape Shape,
                                    const ExampleMembers &Members,
                                    const std::string &Where) const {
  const Loaded &L = getLoaded(Row, Members);
  PairOfConversations Pair = readPair(Row, Shape, Members, L.Traits, Where);
  return {runOnRow(L, Pair.Prompt, true, Where).Text,
          runOnRow(L, Pair.Chosen, false, Where).Text,
          runOnRow(L, Pair.Rejected, false, Where).Text};
}

std::string ChatFormat::renderPrompt(const std::string &Message) const {
  try {
    return run(Main->Template, {{"user", Message}}, true).Text;
  } catch (const Error &E) {
    fail("the chat template ", Name, " fails: ", E.what(), explainOthers());
  }
}
