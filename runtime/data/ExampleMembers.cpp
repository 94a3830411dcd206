//===- ExampleMembers.cpp - Which members of examples are read ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ExampleMembers.h"
#include "support/Error.h"

#include <algorithm>

using namespace poplar::runtime;

/// Members that say where an example or a message comes from, and nothing about
/// what is to be learned. docs/example-formats.md lists them.
static constexpr std::string_view Metadata[] = {
    "_id",          "category",    "conversation_id",
    "created_at",   "data_source", "dataset",
    "dataset_name", "date",        "domain",
    "dump",         "example_id",  "file_path",
    "id",           "idx",         "index",
    "lang",         "language",    "language_score",
    "license",      "locale",      "meta",
    "metadata",     "model",       "model_name",
    "num_tokens",   "prompt_id",   "row_id",
    "source",       "split",       "subset",
    "tags",         "timestamp",   "title",
    "token_count",  "topic",       "uid",
    "url",          "uuid"};

namespace {
/// A member that other libraries read.
struct Foreign {
  std::string_view Name;
  const char *Why;
};
} // namespace

static constexpr const char *NoTools =
    "tools are read beside messages, and tool_call_id in messages of a tool";
static constexpr const char *NoFunctions =
    "the older form of tools: give tools, and tool_calls in messages";
static constexpr const char *NoName = "the chat template does not write it";
static constexpr const char *NoMedia = "images, audio and video are not "
                                       "supported";
static constexpr const char *NoPreference =
    "data of preferences and labels are not supported: give what is to be "
    "learned, as completion or messages";
static constexpr const char *NoPair =
    "pairs of answers are for --preference dpo or orpo";
static constexpr const char *NoParts =
    "a message counts whole or not: train is true or false";
static constexpr const char *NoTurns = "make it the first of the messages";

static constexpr Foreign Reasons[] = {
    {"tools", NoTools},         {"tool_call_id", NoTools},
    {"functions", NoFunctions}, {"function_call", NoFunctions},
    {"images", NoMedia},        {"image", NoMedia},
    {"audio", NoMedia},         {"audios", NoMedia},
    {"videos", NoMedia},        {"label", NoPreference},
    {"labels", NoPreference},   {"chosen", NoPair},
    {"rejected", NoPair},       {"name", NoName},
    {"train_detail", NoParts},  {"training_detail", NoParts},
};

namespace {
/// Members of a shape: those that make it known, and those that it may have.
struct ShapeMembers {
  std::vector<std::string_view> Keys, Others;
};
} // namespace

static const ShapeMembers &getMembers(ExampleShape Shape) {
  static const ShapeMembers Lists[] = {
      {{"text"}, {}},
      {{"prompt", "completion"}, {}},
      {{"instruction", "output"}, {"input", "system", "history"}},
      {{"messages"},
       {"tools", "documents", "chat_template_kwargs", "parallel_tool_calls"}},
      {{"conversations"}, {"system", "tools"}},
      {{"segments"}, {}},
      {{"input_ids", "labels", "attention_mask"}, {}}};
  return Lists[static_cast<size_t>(Shape)];
}

/// Whether a member is there in form alone.
static bool isEmpty(const json::Value &Member) {
  switch (Member.kind()) {
  case json::Value::Null:
    return true;
  case json::Value::String:
    return Member.asString().empty();
  case json::Value::Array:
    return Member.elements().empty();
  case json::Value::Object:
    return Member.members().empty();
  default:
    return false;
  }
}

/// The members of an object, or the kind of another value.
static std::string listKeys(const json::Value &Object) {
  if (Object.kind() != json::Value::Object)
    return "no object";
  std::string Text;
  for (const auto &[Key, Member] : Object.members())
    Text += (Text.empty() ? "" : ", ") + json::quote(Key) +
            (Member.kind() == json::Value::Null ? " (null)" : "");
  return Text.empty() ? "an empty object" : "one with " + Text;
}

ExampleMembers::ExampleMembers(const std::vector<std::string> &Ignored)
    : Ignored(Ignored.begin(), Ignored.end()) {}

const json::Value *ExampleMembers::find(const json::Value &Object,
                                        std::string_view Key) const {
  const json::Value *Member = Object.find(Key);
  return Member && Member->kind() != json::Value::Null && !Ignored.count(Key)
             ? Member
             : nullptr;
}

const json::Value *ExampleMembers::findInMessage(const json::Value &Message,
                                                 const std::string &Key) const {
  const json::Value *Member = Message.find(Key);
  return Member && Member->kind() != json::Value::Null &&
                 !Ignored.count("messages." + Key)
             ? Member
             : nullptr;
}

void ExampleMembers::checkMembers(const json::Value &Object,
                                  const std::vector<std::string_view> &Read,
                                  const char *Prefix,
                                  const std::string &Where) const {
  std::string Unknown, Options, Why;
  for (const auto &[Key, Member] : Object.members()) {
    std::string Name = Prefix + Key;
    auto Is = [&Key = Key](std::string_view Other) { return Key == Other; };
    if (isEmpty(Member) || std::any_of(Read.begin(), Read.end(), Is) ||
        std::any_of(std::begin(Metadata), std::end(Metadata), Is) ||
        Ignored.count(Name))
      continue;
    Unknown += (Unknown.empty() ? "" : ", ") + json::quote(Key);
    Options += " --ignore-member " + Name;
    for (const Foreign &Each : Reasons)
      if (Is(Each.Name) && Why.empty())
        Why = std::string(" (") + Each.Why + ")";
    if (Key == "system" && !*Prefix && Why.empty())
      Why = std::string(" (") + NoTurns + ")";
  }
  if (!Unknown.empty())
    fail(Where, ": ", Unknown, Why,
         " may change what the example means, and nothing here reads it; "
         "remove it, or train as if it were not there by",
         Options);
}

ExampleShape ExampleMembers::findShape(const json::Value &Object,
                                       const std::string &Where) const {
  std::vector<ExampleShape> Full, Empty;
  for (ExampleShape Shape :
       {ExampleShape::Messages, ExampleShape::ShareGPT,
        ExampleShape::Completion, ExampleShape::Alpaca, ExampleShape::Segments,
        ExampleShape::Ids, ExampleShape::Text}) {
    const std::vector<std::string_view> &Keys = getMembers(Shape).Keys;
    if (!std::all_of(Keys.begin(), Keys.end(),
                     [&](std::string_view Key) { return find(Object, Key); }))
      continue;
    bool Says =
        std::any_of(Keys.begin(), Keys.end(), [&](std::string_view Key) {
          return !isEmpty(*Object.find(Key));
        });
    (Says ? Full : Empty).push_back(Shape);
  }
  if (Full.empty() && Empty.empty() && find(Object, "chosen") &&
      find(Object, "rejected"))
    fail(Where, ": has 'chosen' and 'rejected': ", NoPair);
  if (Full.empty() && Empty.empty())
    fail(Where,
         ": expected an object with text, prompt and completion, instruction "
         "and output, messages, conversations, segments, or input_ids, labels "
         "and attention_mask, found ",
         listKeys(Object));
  if (Full.size() > 1) {
    std::string Other(getMembers(Full[1]).Keys[0]);
    fail(Where, ": has both '", getMembers(Full[0]).Keys[0], "' and '", Other,
         "', which are examples of their own; remove one, or ignore it by "
         "--ignore-member ",
         Other);
  }
  ExampleShape Shape = Full.empty() ? Empty.front() : Full.front();
  std::vector<std::string_view> Read = getMembers(Shape).Keys;
  const json::Value *Prompt = find(Object, "prompt");
  bool IsChat =
      Shape == ExampleShape::Completion && Prompt->kind() == json::Value::Array;
  const ShapeMembers &More =
      getMembers(IsChat ? ExampleShape::Messages : Shape);
  Read.insert(Read.end(), More.Others.begin(), More.Others.end());
  checkMembers(Object, Read, "", Where);
  return Shape;
}

/// `weight` as OpenAI has it.
PairShape ExampleMembers::findPairShape(const json::Value &Object,
                                        const std::string &Where) const {
  const json::Value *Chosen = find(Object, "chosen"),
                    *Rejected = find(Object, "rejected"),
                    *Prompt = find(Object, "prompt");
  if (!Chosen || !Rejected)
    fail(Where,
         ": --preference trains on pairs of answers: expected an object with "
         "chosen and rejected, found ",
         listKeys(Object));
  json::Value::Kind Kind = Chosen->kind();
  if (Rejected->kind() != Kind)
    fail(Where, ": 'chosen' and 'rejected' are not of one kind");
  // Scores of the answers change nothing of these losses.
  std::vector<std::string_view> Read = {"chosen", "rejected", "score_chosen",
                                        "score_rejected"};
  PairShape Shape = PairShape::Texts;
  switch (Kind) {
  case json::Value::String:
    if (find(Object, "messages"))
      Shape = PairShape::Messages;
    break;
  case json::Value::Array:
    Shape = PairShape::Chats;
    break;
  case json::Value::Object:
    Shape = PairShape::Messages;
    break;
  default:
    fail(Where, ": 'chosen' is neither a string, nor a list of messages, nor a "
                "message");
  }
  if (Shape == PairShape::Messages) {
    Read.push_back("messages");
  } else {
    Read.push_back("prompt");
    if (Prompt && Prompt->kind() != Kind)
      fail(Where,
           ": 'prompt' and 'chosen' are not of one kind; if 'chosen' has "
           "the prompt as well, leave it out by --ignore-member prompt");
  }
  if (Shape != PairShape::Texts) {
    const std::vector<std::string_view> &More =
        getMembers(ExampleShape::Messages).Others;
    Read.insert(Read.end(), More.begin(), More.end());
  }
  checkMembers(Object, Read, "", Where);
  return Shape;
}

static bool readOneWeight(const json::Value &Weight, const std::string &Where) {
  double Value = Weight.asDouble(-1);
  if (Weight.kind() != json::Value::Number || (Value != 0 && Value != 1))
    fail(Where, ": the 'weight' of a message is 0 or 1");
  return Value == 1;
}

bool ExampleMembers::readWeight(const json::Value &Message, bool IsAnswer,
                                const std::string &Where) const {
  bool Counts = true, IsAsked = false;
  for (const char *Key : {"weight", "train", "training"}) {
    const json::Value *Member = findInMessage(Message, Key);
    if (!Member)
      continue;
    bool IsWeight = Key[0] == 'w';
    if (!IsWeight && Member->kind() != json::Value::Boolean)
      fail(Where, ": the '", Key, "' of a message is true or false");
    bool Says = IsWeight ? readOneWeight(*Member, Where) : Member->asBool();
    IsAsked |= Says;
    Counts &= Says;
  }
  if (IsAsked && !IsAnswer)
    fail(Where, ": only what the assistant says counts in the loss, and this "
                "message is to count as well; leave its weight out");
  if (IsAsked && !Counts)
    fail(Where, ": weight and train contradict each other");
  return Counts;
}
