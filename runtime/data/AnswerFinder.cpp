//===- AnswerFinder.cpp - Where a chat template writes answers ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/AnswerFinder.h"
#include "support/Error.h"
#include "template/Strip.h"

#include <algorithm>

using namespace poplar::runtime;
using Turn = jinja::Template::Result::Turn;

/// No special token is longer.
static constexpr size_t MaxToken = 64;

AnswerFinder::AnswerFinder(const Tokenizer &Tok, const Renderer &Render)
    : Tok(Tok) {
  // A template may want other conversations, and says so when it meets one.
  try {
    Conversation Question = {{"user", "?"}};
    std::string Without = Render(Question, false).Text,
                With = Render(Question, true).Text;
    if (With.compare(0, Without.size(), Without) == 0)
      AnswerPrompt = With.substr(Without.size());
  } catch (const Error &) {
  }
  try {
    learn(Render);
  } catch (const Error &) {
  }
}

/// Reads what comes before and behind the content of answers, of the last one
/// and of others.
void AnswerFinder::learn(const Renderer &Render) {
  static const std::string Mark = "\xEF\xBF\xBEPoplar\xEF\xBF\xBE";
  Conversation Chat = {
      {"user", "?"}, {"assistant", Mark}, {"user", "?"}, {"assistant", Mark}};
  jinja::Template::Result Result = Render(Chat, false);
  std::string_view Text = Result.Text;
  size_t LastMark = Text.rfind(Mark);
  if (LastMark != Text.npos) {
    std::string_view Behind = Text.substr(LastMark + Mark.size());
    EndOfTurn = Tok.findAdded(strip(Behind.substr(0, findFirstToken(Behind))));
  }
  for (const Turn &Each : Result.Turns) {
    std::string_view Written = Text.substr(Each.Begin, Each.End - Each.Begin);
    size_t Content = Written.find(Mark);
    if (Content == Written.npos)
      continue;
    std::string Header(Written.substr(0, Content));
    size_t Prompt =
        AnswerPrompt.empty() ? Header.npos : Header.find(AnswerPrompt);
    if (Prompt != Header.npos)
      Header.resize(Prompt + AnswerPrompt.size());
    Headers.push_back(std::move(Header));
  }
  if (!AnswerPrompt.empty())
    Headers.push_back(AnswerPrompt);
  std::sort(Headers.begin(), Headers.end(),
            [](auto &X, auto &Y) { return X.size() > Y.size(); });
}

int32_t AnswerFinder::findLastToken(std::string_view Text) const {
  for (size_t Size = std::min(Text.size(), MaxToken); Size > 0; --Size)
    if (int32_t Id = Tok.findAdded(Text.substr(Text.size() - Size)); Id >= 0)
      return Id;
  return -1;
}

size_t AnswerFinder::findFirstToken(std::string_view Text) const {
  size_t Begin = Text.size() - strip(Text, true, false).size();
  for (size_t Size = std::min(Text.size() - Begin, MaxToken); Size > 0; --Size)
    if (Tok.findAdded(Text.substr(Begin, Size)) >= 0)
      return Begin + Size;
  return 0;
}

size_t AnswerFinder::getHeader(std::string_view Turn) const {
  for (const std::string &Each : Headers) {
    size_t At = Turn.find(Each);
    // Before the first turn may stand the token that begins a text, or a system
    // message of the template's own. Then, a token begins the header.
    bool IsFirst = At == 0 ||
                   (At < MaxToken && Tok.findAdded(Turn.substr(0, At)) >= 0) ||
                   (At != Turn.npos && findFirstToken(Each) > 0);
    if (IsFirst)
      return At + Each.size();
  }
  // An answer of another kind, such as a call of a tool: the special tokens and
  // lines that it has in common with the generation prompt.
  size_t Same = 0;
  while (Same < Turn.size() && Same < AnswerPrompt.size() &&
         Turn[Same] == AnswerPrompt[Same])
    ++Same;
  while (Same > 0 && Turn[Same - 1] != '\n' &&
         findLastToken(Turn.substr(0, Same)) < 0)
    --Same;
  return Same;
}

std::pair<size_t, size_t> AnswerFinder::findAnswer(const std::string &Text,
                                                   size_t Begin, size_t End,
                                                   size_t Message) const {
  std::string_view Written = std::string_view(Text).substr(Begin, End - Begin);
  size_t Header = getHeader(Written);
  std::string_view Answer = strip(Written.substr(Header), false, true);
  std::pair Found(Begin + Header, Begin + Header + Answer.size());
  int32_t Last = findLastToken(Answer);
  // A token such as </tool_call> is not special, and ends no answer.
  if (Last >= 0 &&
      (Last == EndOfTurn || Tok.decode(&Last, 1, /*SkipSpecial=*/true).empty()))
    return Found;
  // Some models end an answer by the token that begins the next turn.
  std::string_view Behind = std::string_view(Text).substr(End);
  size_t Next = findFirstToken(Behind);
  bool IsAnswer = !AnswerPrompt.empty() &&
                  Behind.substr(0, AnswerPrompt.size()) == AnswerPrompt;
  if (Next && !IsAnswer)
    return {Found.first, End + Next};
  if (Last < 0)
    fail("puts no special token behind the content of message ", Message + 1,
         " (assistant)");
  return Found;
}

/// Whether the texts of a content are in `Text`.
static bool isWritten(const jinja::JinjaValue &Content,
                      const std::string &Text) {
  if (Content.is(jinja::JinjaValue::String))
    return Text.find(strip(Content.string())) != Text.npos;
  if (!Content.is(jinja::JinjaValue::Sequence))
    return true;
  return std::all_of(Content.list().begin(), Content.list().end(),
                     [&](const jinja::JinjaValue &Part) {
                       const jinja::JinjaValue *Words = Part.find("text");
                       return !Words || isWritten(*Words, Text);
                     });
}

/// Adds an answer without what is written inside of it for other messages, such
/// as what tools gave back.
static void addAnswer(std::pair<size_t, size_t> Answer,
                      const std::vector<Turn> &Turns, size_t Message,
                      TextRanges &Answers) {
  auto [Begin, End] = Answer;
  for (const Turn &Each : Turns) {
    if (Each.Message == Message || Each.Begin < Begin || Each.End > End)
      continue;
    Answers.emplace_back(Begin, Each.Begin);
    Begin = Each.End;
  }
  Answers.emplace_back(Begin, End);
}

TextRanges AnswerFinder::find(const Conversation &Chat,
                              const jinja::Template::Result &Result) const {
  TextRanges Answers = Result.Generated;
  bool HasMarks = !Answers.empty();
  auto Name = [&](size_t I) {
    return "message " + std::to_string(I + 1) + " (" + Chat.Messages[I].Role +
           ")";
  };
  for (size_t I = 0; I < Chat.Messages.size(); ++I) {
    const ChatMessage &Message = Chat.Messages[I];
    auto IsOf = [I](const Turn &T) { return T.Message == I; };
    auto Found = std::find_if(Result.Turns.begin(), Result.Turns.end(), IsOf);
    bool IsAnswer = Message.Role == "assistant";
    if (Found == Result.Turns.end()) {
      if (!isWritten(Message.getContent(), Result.Text))
        fail("does not write the content of ", Name(I));
      // It may stand in an answer's turn, but for a system message.
      if (HasMarks ? IsAnswer && !Message.Counts : I > 0)
        fail("does not tell what it writes for ", Name(I));
      continue;
    }
    if (!IsAnswer)
      continue;
    if (std::find_if(Found + 1, Result.Turns.end(), IsOf) != Result.Turns.end())
      fail("writes more than once the content of ", Name(I));
    if (!HasMarks && Message.Counts)
      addAnswer(findAnswer(Result.Text, Found->Begin, Found->End, I),
                Result.Turns, I, Answers);
    if (HasMarks && !Message.Counts)
      Answers.erase(std::remove_if(Answers.begin(), Answers.end(),
                                   [&](auto &Range) {
                                     return Range.first >= Found->Begin &&
                                            Range.second <= Found->End;
                                   }),
                    Answers.end());
  }
  return Answers;
}
