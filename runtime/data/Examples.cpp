//===- Examples.cpp - Examples in JSON, of which some tokens count --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Examples.h"
#include "support/Error.h"

#include <algorithm>

using namespace poplar::runtime;

ExampleEncoder::ExampleEncoder(const Tokenizer &Tok, int32_t EndId,
                               const ShippedTemplate &Shipped,
                               const ExampleRules &Rules)
    : Encoder(Tok.makeEncoder()), Tok(Tok), Shipped(Shipped),
      Form(Rules.Form, Rules.IgnoredMembers),
      Members(Form.changesRows() ? std::vector<std::string>()
                                 : Rules.IgnoredMembers),
      Asked(Rules.Chat), EndId(EndId), Before(Tok.getBefore()) {}

const ChatFormat &ExampleEncoder::getChat(const std::string &Where) {
  if (!Chat)
    try {
      Chat = std::make_unique<ChatFormat>(Tok, Shipped, Asked);
    } catch (const Error &E) {
      fail(Where, ": ", E.what());
    }
  return *Chat;
}

std::vector<int32_t> ExampleEncoder::encodeText(std::string_view Text) {
  std::vector<int32_t> Ids;
  Encoder->encode(Text, /*AddSpecial=*/true, Ids);
  return Ids;
}

bool ExampleEncoder::startsTwice(const std::vector<int32_t> &Ids) const {
  return !Before.empty() && Ids.size() > Before.size() &&
         Ids[Before.size()] == Before.front();
}

void ExampleEncoder::addEnd(Example &E, const std::string &Where) const {
  if (EndId < 0)
    fail(Where, ": the model's config.json has no eos_token_id, which ends an "
                "example");
  if (!E.Ids.empty() && E.Ids.back() == EndId)
    return;
  E.Ids.push_back(EndId);
  E.Counts.push_back(true);
}

/// Tokens that both have from the first on.
static size_t countSame(const std::vector<int32_t> &A,
                        const std::vector<int32_t> &B) {
  size_t Same = 0;
  while (Same < A.size() && Same < B.size() && A[Same] == B[Same])
    ++Same;
  return Same;
}

Example ExampleEncoder::encodeCompletion(const std::string &Prompt,
                                         const std::string &Completion,
                                         const std::string &Where) {
  std::vector<int32_t> OfPrompt = encodeText(Prompt);
  Example E;
  size_t Same = OfPrompt.size();
  if (Form.encodesApart()) {
    std::vector<int32_t> Answer = encodeText(Completion);
    size_t Skipped = std::min(countSame(Before, Answer), Answer.size());
    E.Ids = std::move(OfPrompt);
    E.Ids.insert(E.Ids.end(), Answer.begin() + static_cast<ptrdiff_t>(Skipped),
                 Answer.end());
  } else {
    // The whole at once, as the model will meet it; the tokens that the prompt
    // alone has as well are the prompt's.
    E.Ids = encodeText(Prompt + Completion);
    Same = countSame(OfPrompt, E.Ids);
  }
  E.Counts.assign(E.Ids.size(), true);
  if (!Form.countsPrompts())
    std::fill_n(E.Counts.begin(), Same, false);
  E.StartsTwice = startsTwice(E.Ids);
  addEnd(E, Where);
  return E;
}

Example ExampleEncoder::encodeChat(const json::Value &Object,
                                   ExampleShape Shape,
                                   const std::string &Where) {
  if (Form.countsPrompts())
    fail(Where, ": --count-prompts is for prompts and completions, and this is "
                "a conversation, of which the assistant's answers count");
  RenderedChat Chat = getChat(Where).render(Object, Shape, Members, Where);
  Example E;
  std::vector<size_t> Places;
  for (auto [Begin, End] : Chat.Counted)
    Places.insert(Places.end(), {Begin, End});
  std::vector<size_t> Ends = Encoder->encodePrefixes(Chat.Text, Places, E.Ids);
  E.Counts.assign(E.Ids.size(), false);
  for (size_t I = 0; I < Ends.size(); I += 2)
    for (size_t Id = Ends[I]; Id < Ends[I + 1]; ++Id)
      E.Counts[Id] = true;
  return E;
}

Example ExampleEncoder::encode(const json::Value &Object,
                               const std::string &Where) {
  return Form.changesRows() ? encodeRow(Form.read(Object, Where), Where)
                            : encodeRow(Object, Where);
}

Example ExampleEncoder::encodeRow(const json::Value &Object,
                                  const std::string &Where) {
  Example E = encodeObject(Object, Where);
  // As with trl: a missing answer is probably a mistake.
  if (std::find(E.Counts.begin(), E.Counts.end(), true) == E.Counts.end())
    fail(Where, Members.find(Object, "messages") ||
                        Members.find(Object, "conversations")
                    ? ": no message is of the assistant and counts, so that "
                      "nothing would count in the loss"
                    : ": the completion is empty, so that nothing would count "
                      "in the loss");
  return E;
}

/// What two texts begin with alike, without a space at its end.
static std::string_view findCommonPrompt(std::string_view Chosen,
                                         std::string_view Rejected,
                                         const std::string &Where) {
  size_t Same = 0, Most = std::min(Chosen.size(), Rejected.size());
  while (Same < Most && Chosen[Same] == Rejected[Same])
    ++Same;
  // No character of UTF-8 is divided.
  auto IsInside = [&](std::string_view Text) {
    return Same < Text.size() &&
           (static_cast<unsigned char>(Text[Same]) & 0xc0) == 0x80;
  };
  while (Same > 0 && (IsInside(Chosen) || IsInside(Rejected)))
    --Same;
  if (Same > 0 && Chosen[Same - 1] == ' ')
    --Same;
  if (Same == 0 || Chosen == Rejected)
    fail(Where, Same
                    ? ": 'chosen' and 'rejected' are the same, and there is no "
                      "'prompt'"
                    : ": 'chosen' and 'rejected' begin with different texts, "
                      "and there is no 'prompt'");
  return Chosen.substr(0, Same);
}

std::pair<Example, Example>
ExampleEncoder::encodePair(const json::Value &Object,
                           const std::string &Where) {
  return Form.changesRows() ? encodePairRow(Form.read(Object, Where), Where)
                            : encodePairRow(Object, Where);
}

std::pair<Example, Example>
ExampleEncoder::encodePairRow(const json::Value &Object,
                              const std::string &Where) {
  PairShape Shape = Members.findPairShape(Object, Where);
  std::vector<int32_t> OfPrompt;
  std::pair<Example, Example> Pair;
  if (Shape == PairShape::Texts) {
    std::string Chosen(Members.find(Object, "chosen")->asString()),
        Rejected(Members.find(Object, "rejected")->asString()), Prompt;
    if (const json::Value *Given = Members.find(Object, "prompt")) {
      Prompt = Given->asString();
      Chosen = Prompt + Chosen;
      Rejected = Prompt + Rejected;
    } else {
      Prompt = findCommonPrompt(Chosen, Rejected, Where);
    }
    OfPrompt = encodeText(Prompt);
    Pair.first.Ids = encodeText(Chosen);
    Pair.second.Ids = encodeText(Rejected);
    Pair.first.StartsTwice = startsTwice(Pair.first.Ids);
  } else {
    RenderedPair Texts =
        getChat(Where).renderPair(Object, Shape, Members, Where);
    Encoder->encode(Texts.Prompt, /*AddSpecial=*/false, OfPrompt);
    Encoder->encode(Texts.Chosen, /*AddSpecial=*/false, Pair.first.Ids);
    Encoder->encode(Texts.Rejected, /*AddSpecial=*/false, Pair.second.Ids);
  }
  size_t Same = std::min(countSame(OfPrompt, Pair.first.Ids),
                         countSame(OfPrompt, Pair.second.Ids));
  for (Example *Each : {&Pair.first, &Pair.second}) {
    Each->Counts.assign(Each->Ids.size(), true);
    std::fill_n(Each->Counts.begin(), Same, false);
    if (Shape == PairShape::Texts)
      addEnd(*Each, Where);
    if (Same == Each->Ids.size())
      fail(Where, ": an answer is empty, so that nothing would count in the "
                  "loss");
  }
  return Pair;
}

/// axolotl's input_output: texts that are encoded one by one, and as they are.
Example ExampleEncoder::encodeSegments(const json::Value &Segments,
                                       const std::string &Where) {
  if (Segments.kind() != json::Value::Array)
    fail(Where, ": 'segments' is not a list");
  Example E;
  for (const json::Value &Each : Segments.elements()) {
    const json::Value *Label = Each.find("label"), *Text = Each.find("text");
    if (!Label || !Text || Label->kind() != json::Value::Boolean ||
        Text->kind() != json::Value::String || Each.members().size() != 2)
      fail(Where,
           ": a segment has a label, which is true or false, and a text");
    Encoder->encode(Text->asString(), /*AddSpecial=*/false, E.Ids);
    E.Counts.resize(E.Ids.size(), Label->asBool() || Form.countsPrompts());
  }
  return E;
}

/// Rows that another tokenizer has encoded.
Example ExampleEncoder::encodeIds(const json::Value &Object,
                                  const std::string &Where) {
  auto Get = [&](const char *Key) {
    const json::Value *Member = Members.find(Object, Key);
    std::vector<int64_t> All;
    for (const json::Value &Each : Member->elements()) {
      All.emplace_back();
      if (!Each.asInteger(All.back()))
        fail(Where, ": '", Key, "' is not a list of integers");
    }
    return All;
  };
  std::vector<int64_t> Ids = Get("input_ids"), Labels = Get("labels"),
                       Mask = Get("attention_mask");
  if (Ids.size() != Labels.size() || Ids.size() != Mask.size())
    fail(Where, ": input_ids, labels and attention_mask are not of one length");
  // Padding behind the tokens is left out.
  while (!Mask.empty() && Mask.back() == 0 && Labels.back() == -100) {
    Mask.pop_back();
    Labels.pop_back();
    Ids.pop_back();
  }
  Example E;
  for (size_t I = 0; I < Ids.size(); ++I) {
    if (Mask[I] != 1)
      fail(Where,
           ": attention_mask is not 1 in front of a token that it shows");
    if (Ids[I] < 0 || Ids[I] > INT32_MAX)
      fail(Where, ": ", Ids[I], " in input_ids is no token");
    if (Labels[I] != -100 && Labels[I] != Ids[I])
      fail(Where, ": a label is neither -100 nor the token at its place");
    E.Ids.push_back(static_cast<int32_t>(Ids[I]));
    E.Counts.push_back(Labels[I] != -100);
  }
  return E;
}

std::string ExampleEncoder::getText(const json::Value &Object, const char *Key,
                                    const std::string &Where) const {
  const json::Value *Member = Members.find(Object, Key);
  if (Member && Member->kind() == json::Value::Array)
    fail(Where, ": '", Key,
         "' is a list, and a string is expected; conversations are given as "
         "messages");
  if (!Member || Member->kind() != json::Value::String)
    fail(Where, ": '", Key, "' is not a string");
  return std::string(Member->asString());
}

std::vector<Example> ExampleEncoder::encodeWindows(const json::Value &Given,
                                                   int64_t Window,
                                                   const std::string &Where) {
  json::Value Read;
  if (Form.changesRows())
    Read = Form.read(Given, Where);
  const json::Value &Object = Form.changesRows() ? Read : Given;
  if (EndId < 0)
    fail(Where, ": the model's config.json has no eos_token_id, which ends a "
                "window");
  if (encodeText("").size() != Before.size())
    fail(Where, ": --long-examples overlap is not for a tokenizer that puts "
                "tokens behind a text");
  std::vector<int32_t> Ids = encodeText(getText(Object, "text", Where));
  auto NumBefore = static_cast<int64_t>(Before.size()),
       Size = static_cast<int64_t>(Ids.size()),
       Stride = std::min<int64_t>(256, (Window - 1) / 2),
       Step = Window - 1 - NumBefore - Stride;
  if (Step < 1)
    fail("--long-examples overlap needs a longer --seq-len than ", Window);
  bool StartsTwice = startsTwice(Ids);
  std::vector<Example> Windows;
  for (int64_t Begin = NumBefore, End = -1; End < Size; Begin += Step) {
    End = std::min(Begin + Step + Stride, Size);
    Example E;
    E.Ids = Before;
    E.Ids.insert(E.Ids.end(), Ids.begin() + Begin, Ids.begin() + End);
    E.Ids.push_back(EndId);
    E.Counts.assign(E.Ids.size(), true);
    E.StartsTwice = StartsTwice && Windows.empty();
    Windows.push_back(std::move(E));
  }
  return Windows;
}

Example ExampleEncoder::encodeObject(const json::Value &Object,
                                     const std::string &Where) {
  auto Get = [&](const char *Key) { return getText(Object, Key, Where); };
  ExampleShape Shape = Members.findShape(Object, Where);
  switch (Shape) {
  case ExampleShape::Messages:
  case ExampleShape::ShareGPT:
    return encodeChat(Object, Shape, Where);
  case ExampleShape::Completion: {
    const json::Value *Both[] = {Members.find(Object, "prompt"),
                                 Members.find(Object, "completion")};
    if (Both[0]->kind() == json::Value::Array &&
        Both[1]->kind() == json::Value::Array)
      return encodeChat(Object, Shape, Where);
    std::string Prompt = Get("prompt");
    return encodeCompletion(Prompt, Get("completion"), Where);
  }
  case ExampleShape::Alpaca: {
    bool HasSystem = Members.find(Object, "system") != nullptr;
    if (Members.find(Object, "history") || (HasSystem && !Form.writesSystem()))
      return encodeChat(Object, Shape, Where);
    std::string Input = Members.find(Object, "input") ? Get("input") : "";
    std::string Prompt = Form.makePrompt(HasSystem ? Get("system") : "",
                                         Get("instruction"), Input);
    return encodeCompletion(Prompt, Get("output"), Where);
  }
  case ExampleShape::Segments:
    return encodeSegments(*Members.find(Object, "segments"), Where);
  case ExampleShape::Ids:
    return encodeIds(Object, Where);
  case ExampleShape::Text:
    break;
  }
  Example E;
  E.Ids = encodeText(Get("text"));
  E.Counts.assign(E.Ids.size(), true);
  E.StartsTwice = startsTwice(E.Ids);
  addEnd(E, Where);
  return E;
}
