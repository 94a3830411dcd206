//===- RowKeys.cpp - How the rows of a recipe are read --------------------===//
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

/// The type of rows with conversations.
static constexpr llvm::StringRef kChat = "chat_template";
/// And of rows with texts.
static constexpr llvm::StringRef kCompletion = "completion";
/// And of those for pre-training.
static constexpr llvm::StringRef kPretrain = "pretrain";
/// And of rows with texts in parts.
static constexpr llvm::StringRef kSegments = "input_output";

bool poplar::isChatType(llvm::StringRef type) {
  return type == kChat || type.starts_with(kChat.str() + ".");
}

bool poplar::hasCompletions(const Translator &t) {
  return llvm::any_of(listDatasets(t), [](const yaml::Content *dataset) {
    return getText(*dataset, "type") == kCompletion;
  });
}

static std::optional<RowType> findType(const yaml::Content &dataset) {
  const yaml::Content *type = dataset.find("type");
  if (!type)
    return std::nullopt;
  return type->kind == yaml::Content::Map ? readRowType(*type)
                                          : findRowType(type->text);
}

/// The options of a type that are about prompts, which all rows share.
static Options listFormats(const RowType &type) {
  Options formats;
  for (const auto &option : type.options)
    if (option.first != "--read-member")
      formats.push_back(option);
  return formats;
}

/// Handles rows with instructions.
static void decideRowType(Translator &t, const RecipeEntry &entry,
                          const RowType &type) {
  if (!type.remedy.empty()) {
    t.refuse(entry, type.remedy);
    return;
  }
  for (const yaml::Content *dataset : listDatasets(t))
    if (std::optional<RowType> other = findType(*dataset);
        other && listFormats(*other) != listFormats(type)) {
      t.refuse(entry, "prompts of all data sets have one format, and these "
                      "have several; train on them one after the other");
      return;
    }
  Options options = type.options;
  options.emplace_back("--encode-apart", "");
  t.honour(entry, options);
}

void poplar::decideType(Translator &t, const RecipeEntry &entry) {
  if (isPretraining(t)) {
    if (!entry.node || entry.text == kPretrain)
      t.accept(entry, "texts become windows that overlap, of which all tokens "
                      "count");
    else
      t.refuse(entry, "the type of pretraining_dataset is pretrain; give rows "
                      "of another type as datasets");
    return;
  }
  if (t.top().find("rl")) {
    decidePairType(t, entry);
    return;
  }
  std::optional<RowType> type;
  if (entry.node)
    type = entry.node->kind == yaml::Content::Map ? readRowType(*entry.node)
                                                  : findRowType(entry.text);
  if (!entry.node)
    t.accept(entry, "rows are token ids: input_ids, labels, attention_mask");
  else if (type)
    decideRowType(t, entry, *type);
  else if (entry.text == kChat)
    t.accept(entry, "rows are read by their members");
  else if (entry.text == kSegments)
    t.accept(entry, "rows are segments with a label and a text");
  else if (llvm::StringRef(entry.text).starts_with("sharegpt"))
    t.refuse(entry, "axolotl has it no more; give type: chat_template, "
                    "field_messages: conversations and "
                    "message_property_mappings: {role: from, content: value}");
  else if (entry.text != kCompletion)
    t.refuse(entry,
             "the types are alpaca, chat_template, completion, input_output, "
             "and those of docs/recipes.md; convert the rows to messages, or "
             "to instruction, input and output");
  else if (llvm::any_of(listDatasets(t), [](const yaml::Content *dataset) {
             return getText(*dataset, "type") != kCompletion;
           }))
    t.refuse(entry, "long texts are split and other rows are not; train on "
                    "them one after the other");
  else
    t.accept(entry, "rows are texts, of which all tokens count");
}

/// Emits --read-member, or says that nothing is renamed.
static void readMember(Translator &t, const RecipeEntry &entry,
                       const std::string &name) {
  Options options;
  addMember(options, name, entry.text);
  if (options.empty())
    t.accept(entry, "is read from " + name);
  else
    t.honour(entry, options);
}

void poplar::decideField(Translator &t, const RecipeEntry &entry) {
  if (t.dataset().getText("type") != kCompletion)
    t.ignore(entry, "is for rows of type completion");
  else
    readMember(t, entry, "text");
}

/// The name of a property of messages in the file.
static llvm::StringRef getMapped(const Translator &t, const char *property,
                                 const char *older) {
  if (llvm::StringRef name = t.dataset().getText(older); !name.empty())
    return name;
  const RecipeEntry *mapping = t.dataset().find("message_property_mappings");
  llvm::StringRef name = mapping ? getText(*mapping->node, property) : "";
  return name.empty() ? property : name;
}

/// Whether rows are those of ShareGPT, which are read as they are.
static bool isShareGPT(const Translator &t) {
  return getPreference(t).empty() &&
         t.dataset().getText("field_messages") == "conversations" &&
         getMapped(t, "role", "message_field_role") == "from" &&
         getMapped(t, "content", "message_field_content") == "value";
}

/// Members of messages that are read beside role and content.
static constexpr const char *kProperties[] = {
    "reasoning_content", "thinking", "tool_calls", "name", "tool_call_id"};

/// What reads the rows of the data set.
static Options listMembers(const Translator &t) {
  Options options;
  if (isShareGPT(t))
    return options;
  if (llvm::StringRef list = t.dataset().getText("field_messages");
      !list.empty())
    addMember(options, "messages", list);
  addMember(options, "messages.role",
            getMapped(t, "role", "message_field_role"));
  addMember(options, "messages.content",
            getMapped(t, "content", "message_field_content"));
  return options;
}

void poplar::decideMessages(Translator &t, const RecipeEntry &entry) {
  Options options = listMembers(t);
  if (!isChatType(t.dataset().getText("type")))
    t.ignore(entry, "is for rows of type chat_template");
  else if (options.empty())
    t.accept(entry, "rows are read by their members");
  else
    t.honour(entry, options);
}

void poplar::decideMapping(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  Options options = listMembers(t);
  for (const yaml::Member &member : entry.node->members) {
    if (member.value.kind != yaml::Content::Scalar ||
        member.value.text.empty()) {
      t.fail(member.value.place, member.key + ": expected a text, found " +
                                     member.value.describe());
      return;
    }
    if (member.key == "role" || member.key == "content" ||
        member.key == member.value.text)
      continue;
    if (isShareGPT(t) || !llvm::is_contained(kProperties, member.key)) {
      t.refuse(entry, "the member " + member.value.describe() +
                          " is not read as " + member.key +
                          "; rename it in the rows");
      return;
    }
    addMember(options, "messages." + member.key, member.value.text);
  }
  if (options.empty() || !isChatType(t.dataset().getText("type")))
    decideMessages(t, entry);
  else
    t.honour(entry, options);
}

void poplar::decideMessageField(Translator &t, const RecipeEntry &entry) {
  bool isThinking = entry.rule->name == "field_thinking";
  if (!isChatType(t.dataset().getText("type")))
    t.ignore(entry, "is for rows of type chat_template");
  else if (isThinking
               ? llvm::is_contained(
                     {"reasoning_content", "thinking", "reasoning"}, entry.text)
               : llvm::is_contained({"train", "training", "weight"},
                                    entry.text))
    t.accept(entry, "is read by this name");
  else
    readMember(t, entry,
               isThinking ? "messages.reasoning_content" : "messages.train");
}

void poplar::decideTools(Translator &t, const RecipeEntry &entry) {
  if (isChatType(t.dataset().getText("type")))
    readMember(t, entry, "tools");
  else
    t.ignore(entry, "is for rows of type chat_template");
}

/// Roles of ShareGPT, which are read so.
static constexpr std::pair<const char *, const char *> kShareGPTRoles[] = {
    {"user", "human"},    {"user", "user"}, {"assistant", "gpt"},
    {"system", "system"}, {"tool", "tool"}, {"assistant", "assistant"}};

void poplar::decideRoles(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  Options options;
  for (const yaml::Member &member : entry.node->members) {
    if (member.value.kind != yaml::Content::List) {
      t.fail(member.value.place, member.key + ": expected a list, found " +
                                     member.value.describe());
      return;
    }
    for (const yaml::Content &source : member.value.elements) {
      if (source.kind != yaml::Content::Scalar || source.text.empty()) {
        t.fail(source.place,
               member.key + ": expected a role, found " + source.describe());
        return;
      }
      bool isRead =
          isShareGPT(t) && llvm::any_of(kShareGPTRoles, [&](const auto &role) {
            return member.key == role.first && source.text == role.second;
          });
      if (!isRead && member.key != source.text)
        options.emplace_back("--read-role", member.key + "=" + source.text);
      if (!llvm::is_contained({"user", "assistant", "system", "tool"},
                              member.key) &&
          (isShareGPT(t) || member.key.empty())) {
        t.refuse(entry, "there is no role " + member.key);
        return;
      }
    }
  }
  if (!isChatType(t.dataset().getText("type")))
    t.ignore(entry, "is for rows of type chat_template");
  else if (options.empty())
    t.accept(entry, "roles are read so");
  else
    t.honour(entry, options);
}

void poplar::decideSystemDropped(Translator &t, const RecipeEntry &entry) {
  auto keeps = [](const yaml::Content *dataset) {
    return isChatType(getText(*dataset, "type")) &&
           !llvm::StringRef(getText(*dataset, "drop_system_message"))
                .equals_insensitive("true");
  };
  if (entry.text == "false")
    t.ignore(entry, "system messages are kept");
  else if (!isChatType(t.dataset().getText("type")))
    t.ignore(entry, "is for rows of type chat_template");
  else if (!getPreference(t).empty())
    t.ignore(entry, "axolotl does not read it for pairs");
  else if (llvm::any_of(listDatasets(t), keeps))
    t.refuse(entry, "system messages are left out of all data sets or of none; "
                    "remove them from the rows");
  else
    t.honour(entry, "--drop-system");
}

void poplar::decideInputsCount(Translator &t, const RecipeEntry &entry) {
  auto is = [&](auto matches) {
    return llvm::any_of(listDatasets(t), [&](const yaml::Content *dataset) {
      return matches(getText(*dataset, "type"));
    });
  };
  if (entry.text == "false")
    t.ignore(entry, "only answers count");
  else if (t.top().find("rl") || is(isChatType))
    t.refuse(entry, "of conversations, only answers count; remove it");
  else if (llvm::all_of(listDatasets(t), [](const yaml::Content *dataset) {
             return getText(*dataset, "type") == kCompletion;
           }))
    t.ignore(entry, "all tokens of a text count");
  else
    t.honour(entry, "--count-prompts");
}
