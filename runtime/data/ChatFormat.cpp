//===- ChatFormat.cpp - How conversations become text ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ChatFormat.h"
#include "data/Strip.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

using namespace poplar::runtime;
namespace fs = std::filesystem;

//===-- The template that a model ships -----------------------------------===//

/// A token is a string, or an object with the string as its content.
static void addTokens(const json::Value &Config, jinja::Entries &Tokens) {
  for (const auto &[Key, Content] : Config.members()) {
    bool IsToken =
        Key.size() > 6 && Key.compare(Key.size() - 6, 6, "_token") == 0;
    const json::Value *Text = Content.kind() == json::Value::Object
                                  ? Content.find("content")
                                  : &Content;
    if (!IsToken || !Text || Text->kind() != json::Value::String)
      continue;
    auto Known = std::find_if(Tokens.begin(), Tokens.end(),
                              [&Key = Key](auto &E) { return E.first == Key; });
    if (Known == Tokens.end())
      Known = Tokens.insert(Tokens.end(), {Key, jinja::JinjaValue()});
    Known->second = std::string(Text->asString());
  }
}

/// The member `chat_template`: a string, or a list of them with names.
static std::string getTemplate(const json::Value &Config,
                               const std::string &Path) {
  const json::Value *Member = Config.find("chat_template");
  if (!Member || Member->kind() == json::Value::Null)
    return "";
  if (Member->kind() == json::Value::String)
    return std::string(Member->asString());
  std::string Names;
  for (const json::Value &Each : Member->elements()) {
    std::string Name = Each.string("name", "");
    if (Name == "default")
      return Each.string("template", "");
    Names += (Names.empty() ? "" : ", ") + Name;
  }
  fail("'", Path,
       "': chat_template is neither a string nor a list with the "
       "template 'default'",
       Names.empty() ? "" : "; it has " + Names,
       "; --chat-template names another");
}

ShippedTemplate ShippedTemplate::read(const std::string &TokenizerPath) {
  ShippedTemplate Result;
  std::error_code Code;
  fs::path Directory = fs::path(TokenizerPath).parent_path();
  auto Take = [&](const fs::path &Path, std::string Source) {
    if (!Result.Source.empty() || Source.empty())
      return;
    Result.Path = Path;
    Result.Source = std::move(Source);
  };
  if (fs::path File = Directory / "chat_template.jinja"; fs::exists(File, Code))
    Take(File, std::string(MappedFile(File).text()));
  for (const char *Name : {"special_tokens_map.json", "tokenizer_config.json",
                           "chat_template.json"}) {
    fs::path File = Directory / Name;
    if (!fs::exists(File, Code))
      continue;
    json::Value Config =
        json::parse(MappedFile(File).text(), "'" + File.string() + "'");
    addTokens(Config, Result.Tokens);
    if (Result.Source.empty())
      Take(File, getTemplate(Config, File));
  }
  return Result;
}

//===-- Which template is used --------------------------------------------===//

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
      Tokens(Shipped.Tokens), Path(Shipped.Path) {
  std::string Source = Shipped.Source;
  std::string Name = fs::path(Path).filename();
  if (!Asked.Template.empty()) {
    Family = ChatTemplate::find(Asked.Template);
    std::error_code Code;
    if (!Family && !fs::exists(Asked.Template, Code))
      fail("--chat-template '", Asked.Template,
           "' is neither a file nor one of ", ChatTemplate::listOptions());
    std::string Other =
        Family ? "" : std::string(MappedFile(Asked.Template).text());
    bool Differs = !Source.empty() && Other != Source;
    Source = Other;
    Path = Asked.Template;
    Description =
        "chat template " +
        (Family ? Family->getName() : "'" + Asked.Template + "'") +
        " as asked for" +
        (Differs ? ", and checkpoints carry the model's own, in " + Name : "");
  } else if (Source.empty()) {
    Family = ChatTemplate::find(Tok);
    if (Family)
      Description = "chat template " + Family->getName() +
                    " by its tokens, as the model ships none";
    else
      fail("the model ships no chat_template, and the tokenizer has the tokens "
           "of none that is built in (",
           ChatTemplate::listNames(),
           "); give prompt and completion instead of messages, or name a "
           "template by --chat-template FILE");
  } else {
    Description = "chat template of the model, in " + Name;
  }
  if (Family)
    return;
  ReadsReasoning = Source.find("reasoning_content") != Source.npos;
  try {
    Own = std::make_unique<jinja::Template>(Source);
  } catch (const Error &E) {
    fail("the chat template in '", Path, "' cannot be run: ", E.what(),
         explainOthers());
  }
  try {
    Messages Question = {{"user", "?", "", true}};
    std::string Without = run(Question, false).Text,
                With = run(Question, true).Text;
    if (With.compare(0, Without.size(), Without) == 0)
      AnswerPrompt = With.substr(Without.size());
  } catch (const Error &) {
    // It wants another conversation, and says so when it is met.
  }
}

//===-- Conversations -----------------------------------------------------===//

ChatFormat::Messages ChatFormat::readMessages(const json::Value &List,
                                              const ExampleMembers &Members,
                                              const std::string &Where) const {
  if (List.kind() != json::Value::Array || List.elements().empty())
    fail(Where, ": 'messages' is not a list of messages");
  Messages Result;
  for (const json::Value &Each : List.elements()) {
    std::string Place =
        Where + ", message " + std::to_string(Result.size() + 1);
    bool Counts = Members.checkMessage(Each, ReadsReasoning, Place);
    const json::Value *Content = Each.find("content");
    std::string Role = Each.string("role", "");
    if (!Content || Content->kind() != json::Value::String)
      fail(Where, ": the 'content' of a message is not a string; lists of "
                  "parts and calls of tools are not supported");
    if (Role != "user" && Role != "assistant" && Role != "system")
      fail(Where, ": the role '", Role,
           "' of a message is not supported; there are system, user and "
           "assistant");
    const json::Value *Reasoning =
        ReadsReasoning ? Members.findInMessage(Each, "reasoning_content")
                       : nullptr;
    if (Reasoning && Reasoning->kind() != json::Value::String)
      fail(Place, ": 'reasoning_content' is not a string");
    Result.push_back({Role, std::string(Content->asString()),
                      Reasoning ? std::string(Reasoning->asString()) : "",
                      Counts});
  }
  return Result;
}

jinja::Template::Result ChatFormat::run(const Messages &All,
                                        bool AsksForAnswer) const {
  jinja::List List;
  for (const ChatMessage &Each : All) {
    jinja::Entries Message = {{"role", Each.Role}, {"content", Each.Content}};
    if (!Each.Reasoning.empty())
      Message.emplace_back("reasoning_content", Each.Reasoning);
    List.push_back(jinja::JinjaValue(std::move(Message)));
  }
  jinja::Entries Variables = Tokens;
  Variables.emplace_back("messages", std::move(List));
  Variables.emplace_back("tools", jinja::JinjaValue::none());
  Variables.emplace_back("documents", jinja::JinjaValue::none());
  Variables.emplace_back("add_generation_prompt", AsksForAnswer);
  return Own->render(Variables, Date);
}

RenderedChat ChatFormat::renderOwn(const Messages &All,
                                   const std::string &Where) const {
  jinja::Template::Result Result;
  try {
    Result = run(All, false);
  } catch (const Error &E) {
    fail(Where, ": the chat template in '", Path, "' fails: ", E.what(),
         explainOthers());
  }
  if (Result.IsDated && !HasDate)
    fail(Where, ": the chat template in '", Path,
         "' writes the date of the day; --chat-date YYYY-MM-DD says which one "
         "to train with");
  auto Counted = std::move(Result.Generated);
  if (Counted.empty())
    return {Result.Text, findAnswers(All, Result.Text, Where)};
  std::vector<bool> Counts;
  for (const ChatMessage &Each : All)
    if (Each.Role == "assistant")
      Counts.push_back(Each.Counts);
  if (std::find(Counts.begin(), Counts.end(), false) != Counts.end()) {
    if (Counts.size() != Counted.size())
      fail(Where, ": the chat template in '", Path,
           "' does not tell which answer is the one that is not to count");
    for (size_t I = Counted.size(); I-- > 0;)
      if (!Counts[I])
        Counted.erase(Counted.begin() + static_cast<ptrdiff_t>(I));
  }
  return {std::move(Result.Text), std::move(Counted)};
}

namespace {
/// A piece of a text: words of the template, or a part of a message.
struct TextPart {
  std::string Words;
  size_t Message = 0;
  bool IsContent = false, IsReasoning = false;
};
} // namespace

/// A mark that no text has, of a message.
static std::string makeMark(size_t Message, bool IsReasoning) {
  return "\xEF\xBF\xBEPoplar" + std::to_string(2 * Message + IsReasoning) +
         "\xEF\xBF\xBE";
}

/// Cuts a text at marks.
static std::vector<TextPart> cut(const std::string &Text) {
  static const std::string Mark = "\xEF\xBF\xBEPoplar";
  std::vector<TextPart> Pieces;
  size_t Begin = 0;
  for (size_t At; (At = Text.find(Mark, Begin)) != Text.npos;) {
    Pieces.push_back({Text.substr(Begin, At - Begin)});
    size_t Number = 0;
    for (Begin = At + Mark.size(); Text[Begin] >= '0' && Text[Begin] <= '9';)
      Number = 10 * Number + static_cast<size_t>(Text[Begin++] - '0');
    Begin += 3;
    Pieces.push_back({"", Number / 2, true, Number % 2 == 1});
  }
  Pieces.push_back({Text.substr(Begin)});
  return Pieces;
}

/// The forms in which templates write a content: whole, or without white space
/// at its ends.
static std::vector<std::string_view> listForms(std::string_view Content) {
  static const std::string NewLine = "\n";
  std::vector<std::string_view> Forms = {Content};
  for (const std::string *Chars :
       {static_cast<const std::string *>(nullptr), &NewLine})
    for (auto [Begin, End] :
         {std::pair(true, true), {true, false}, {false, true}})
      Forms.push_back(strip(Content, Begin, End, Chars));
  return Forms;
}

size_t ChatFormat::findEnd(std::string_view Text) const {
  size_t Begin = Text.size() - strip(Text, true, false).size();
  for (size_t Size = std::min<size_t>(Text.size() - Begin, 64); Size > 0;
       --Size) {
    int32_t Id = Tok.findAdded(Text.substr(Begin, Size));
    if (Id >= 0)
      return Begin + Size;
  }
  return 0;
}

/// How much of `Rest`, the text from a content on, is the content in a form
/// that the template gave it, so that `Next` follows, and nothing more if the
/// content is the last. None if it is in no form.
static std::optional<size_t> findContent(std::string_view Rest,
                                         std::string_view Content,
                                         std::string_view Next, bool IsLast) {
  for (std::string_view Form : listForms(Content)) {
    std::string_view Behind = Rest.substr(std::min(Form.size(), Rest.size()));
    if (Rest.substr(0, Form.size()) == Form &&
        Behind.substr(0, Next.size()) == Next &&
        (!IsLast || Behind.size() == Next.size()))
      return Form.size();
  }
  return std::nullopt;
}

/// The messages with a mark for each of their contents.
static std::vector<ChatMessage> mark(std::vector<ChatMessage> All) {
  for (size_t I = 0; I < All.size(); ++I) {
    All[I].Content = makeMark(I, false);
    if (!All[I].Reasoning.empty())
      All[I].Reasoning = makeMark(I, true);
  }
  return All;
}

std::vector<std::pair<size_t, size_t>>
ChatFormat::findAnswers(const Messages &All, const std::string &Text,
                        const std::string &Where) const {
  std::vector<TextPart> Pieces;
  try {
    Pieces = cut(run(mark(All), false).Text);
  } catch (const Error &E) {
    fail(Where, ": the chat template in '", Path, "' fails: ", E.what());
  }
  std::vector<std::pair<size_t, size_t>> Counted;
  std::vector<int> Times(All.size());
  size_t At = 0;
  /// The begin of an answer, once its generation prompt was found.
  size_t AnswerBegin = Text.npos;
  auto Refuse = [&](const TextPart &P, const std::string &Why,
                    const char *Remedy = "") {
    fail(Where, ": the chat template in '", Path, "' ", Why, " message ",
         P.Message + 1, " (", All[P.Message].Role, ")", Remedy,
         explainOthers());
  };
  for (size_t I = 0; I < Pieces.size(); I += 2) {
    const std::string &Words = Pieces[I].Words;
    // Later words were compared when the content before them was found.
    if (I == 0 && Text.compare(0, Words.size(), Words) != 0)
      Refuse(Pieces[std::min<size_t>(1, Pieces.size() - 1)],
             "writes something else because of the content of");
    size_t Prompt =
        AnswerPrompt.empty() ? Words.npos : Words.rfind(AnswerPrompt);
    if (Prompt != Words.npos)
      AnswerBegin = At + Prompt + AnswerPrompt.size();
    At += Words.size();
    if (I + 1 == Pieces.size())
      break;
    const TextPart &P = Pieces[I + 1];
    const ChatMessage &Message = All[P.Message];
    const std::string &Next = Pieces[I + 2].Words;
    const std::string &Content =
        P.IsReasoning ? Message.Reasoning : Message.Content;
    std::optional<size_t> Size =
        findContent(std::string_view(Text).substr(At), Content, Next,
                    /*IsLast=*/I + 3 == Pieces.size());
    bool Thinks = ReadsReasoning && Content.find("</think>") != Content.npos;
    if (!Size)
      Refuse(P, "does more than to write the content of",
             Thinks ? "; give the part up to </think> as reasoning_content of "
                      "the message"
                    : "");
    bool IsAnswer = Message.Role == "assistant" && !P.IsReasoning;
    if (!P.IsReasoning && ++Times[P.Message] > 1 && IsAnswer)
      Refuse(P, "writes more than once the content of");
    if (Message.Role != "assistant")
      AnswerBegin = Text.npos;
    else if (AnswerBegin == Text.npos)
      AnswerBegin = At;
    At += *Size;
    if (!IsAnswer)
      continue;
    size_t End = findEnd(Next);
    if (!End)
      Refuse(P, "puts no special token behind the content of");
    if (Message.Counts)
      Counted.emplace_back(AnswerBegin, At + End);
    AnswerBegin = Text.npos;
  }
  for (size_t I = 0; I < All.size(); ++I)
    if (!Times[I])
      Refuse({"", I, true, false}, "does not write the content of");
  return Counted;
}

RenderedChat ChatFormat::render(const json::Value &List,
                                const ExampleMembers &Members,
                                const std::string &Where) const {
  Messages All = readMessages(List, Members, Where);
  return Family ? Family->render(All, Where) : renderOwn(All, Where);
}

std::string ChatFormat::renderPrompt(const std::string &Message) const {
  if (Family)
    return Family->renderPrompt(Message);
  try {
    return run({{"user", Message, "", true}}, true).Text;
  } catch (const Error &E) {
    fail("the chat template in '", Path, "' fails: ", E.what(),
         explainOthers());
  }
}

int32_t ChatFormat::getEndOfTurn() const {
  if (Family)
    return Tok.find(Family->getEndOfTurn());
  // That behind an answer.
  const std::string Answer = makeMark(0, false);
  try {
    std::string Text =
        run({{"user", "?", "", true}, {"assistant", Answer, "", true}}, false)
            .Text;
    std::string_view Behind = std::string_view(Text).substr(
        std::min(Text.find(Answer) + Answer.size(), Text.size()));
    return Tok.findAdded(strip(Behind.substr(0, findEnd(Behind))));
  } catch (const Error &) {
    return -1;
  }
}
