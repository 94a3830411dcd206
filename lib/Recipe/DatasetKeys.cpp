//===- DatasetKeys.cpp - What a recipe trains on --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"
#include "ModelDirectory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace poplar;

/// The type of rows with conversations.
static constexpr llvm::StringRef kChat = "chat_template";
/// And of rows with texts.
static constexpr llvm::StringRef kCompletion = "completion";
/// The template that the model ships.
static constexpr llvm::StringRef kOwnTemplate = "tokenizer_default";
static constexpr llvm::StringRef kFallback = "tokenizer_default_fallback_";
static constexpr const char *kTemplateFile = "jinja";

static llvm::StringRef getText(const yaml::Content &map, const char *name) {
  const yaml::Content *node = map.find(name);
  return node && node->kind == yaml::Content::Scalar
             ? llvm::StringRef(node->text)
             : "";
}

/// Whether rows of a type have conversations: of pairs, it is the name of a
/// function behind the template's.
static bool isChat(llvm::StringRef type) {
  return type == kChat || type.starts_with(kChat.str() + ".");
}

/// The data sets with conversations, of training and of validation.
static std::vector<const yaml::Content *> listChats(const Translator &t) {
  std::vector<const yaml::Content *> chats;
  for (const char *key : {"datasets", "test_datasets"})
    if (const RecipeEntry *list = t.top().find(key))
      for (const yaml::Content &dataset : list->node->elements)
        if (isChat(getText(dataset, "type")))
          chats.push_back(&dataset);
  return chats;
}

/// The template that a map names, or the file of one; empty if it names none.
static llvm::StringRef getTemplate(llvm::StringRef name, llvm::StringRef file) {
  bool isFile = !file.empty() && (name.empty() || name == kTemplateFile);
  return isFile ? file : name;
}

/// The template that axolotl takes for a data set.
static llvm::StringRef getTemplate(const Translator &t,
                                   const yaml::Content &dataset) {
  llvm::StringRef own = getTemplate(getText(dataset, "chat_template"),
                                    getText(dataset, "chat_template_jinja"));
  if (own.empty())
    own = getTemplate(t.top().getText("chat_template"),
                      t.top().getText("chat_template_jinja"));
  return own.empty() ? kOwnTemplate : own;
}

/// Handles a template that does not format all conversations; false if there is
/// no other one.
static bool refuseOthers(Translator &t, const RecipeEntry &entry) {
  std::vector<const yaml::Content *> chats = listChats(t);
  for (const yaml::Content *chat : chats)
    if (llvm::StringRef other = getTemplate(t, *chat);
        other != getTemplate(t, *chats.front())) {
      t.refuse(entry, "all data sets have one template, and these have " +
                          getTemplate(t, *chats.front()).str() + " and " +
                          other.str());
      return true;
    }
  return false;
}

void poplar::decideDatasets(Translator &t, const RecipeEntry &entry) {
  t.translateDatasets(entry);
}

void poplar::decideValSize(Translator &t, const RecipeEntry &entry) {
  double size = t.top().getNumber("val_set_size");
  if (size == 0) {
    if (!t.top().find("test_datasets"))
      t.honour(entry, "--val-fraction", "0");
    else if (entry.node)
      t.ignore(entry, "test_datasets are held out");
  } else if (size > 0 && size < 1) {
    t.honour(entry, {{"--val-fraction", entry.text},
                     {"--val-split", "random"},
                     {"--eval-batches", "0"}});
  } else {
    t.refuse(entry, "a number of rows is not supported; give a part below 1, "
                    "or a file of test_datasets");
  }
}

/// Whether rows are texts, which axolotl splits into samples.
static bool isCompletion(const yaml::Content &dataset) {
  return getText(dataset, "type") == kCompletion;
}

/// How many data sets there are, and how many of them have texts.
static std::pair<size_t, size_t> countCompletions(const Translator &t) {
  std::pair<size_t, size_t> counts;
  for (const char *key : {"datasets", "test_datasets"})
    if (const RecipeEntry *list = t.top().find(key)) {
      counts.first += list->node->elements.size();
      counts.second +=
          size_t(llvm::count_if(list->node->elements, isCompletion));
    }
  return counts;
}

void poplar::decideLongRows(Translator &t, const RecipeEntry &entry) {
  static constexpr std::pair<const char *, const char *> strategies[] = {
      {"drop", "drop"}, {"truncate", "cut"}, {"raise", "fail"}};
  auto known = llvm::find_if(
      strategies, [&](const auto &it) { return entry.text == it.first; });
  auto [datasets, completions] = countCompletions(t);
  if (known == std::end(strategies))
    t.fail(entry, "expected drop, truncate or raise, found " + entry.text);
  else if (completions > 0)
    // Nothing is too long once it has been split.
    t.honour(entry, "--long-examples", "split");
  else
    t.honour(entry, "--long-examples", known->second);
}

/// A template of axolotl and what --chat-template calls it.
static constexpr std::pair<const char *, const char *> kTemplates[] = {
    {"chatml", "chatml"}, {"llama3", "llama-3"}, {"gemma", "gemma"}};

/// Translates the name of a template; `file` is that of a template of the
/// user's own.
static void decideTemplate(Translator &t, const RecipeEntry &entry,
                           llvm::StringRef name, const RecipeEntry *file) {
  if (name.consume_front(kFallback) && shipsChatTemplate(t.getModelDirectory()))
    name = kOwnTemplate;
  if (name == kOwnTemplate) {
    t.ignore(entry, "the template that the model ships is used");
    return;
  }
  if (name == kTemplateFile) {
    if (!file)
      t.fail(entry, "chat_template_jinja is missing");
    else if (llvm::sys::fs::exists(file->text))
      t.honour(entry, "--chat-template", file->text);
    else
      t.refuse(entry, "write the template into a file, and its path into "
                      "chat_template_jinja");
    return;
  }
  for (auto [theirs, ours] : kTemplates)
    if (name == theirs) {
      t.honour(entry, "--chat-template", ours);
      return;
    }
  t.refuse(entry, "this template is not known here; remove the key to use the "
                  "one that the model ships, or give a file: chat_template: "
                  "jinja and chat_template_jinja: FILE");
}

/// Whether a data set has the template of the recipe.
static bool isTemplateUsed(const Translator &t) {
  return llvm::any_of(listChats(t), [](const yaml::Content *chat) {
    return getText(*chat, "chat_template").empty() &&
           getText(*chat, "chat_template_jinja").empty();
  });
}

void poplar::decideChatTemplate(Translator &t, const RecipeEntry &entry) {
  if (!isTemplateUsed(t))
    t.ignore(entry, "no data set of type chat_template takes it");
  else if (!refuseOthers(t, entry))
    decideTemplate(t, entry, entry.text, t.top().find("chat_template_jinja"));
}

void poplar::decideChatTemplateFile(Translator &t, const RecipeEntry &entry) {
  bool isOfRecipe = &entry == t.top().find("chat_template_jinja");
  const Section &section = isOfRecipe ? t.top() : t.dataset();
  llvm::StringRef name = section.getText("chat_template");
  if (isOfRecipe ? !isTemplateUsed(t) : !isChat(section.getText("type")))
    t.ignore(entry, "no data set of type chat_template takes it");
  else if (!name.empty() && name != kTemplateFile)
    t.ignore(entry, "chat_template names another template");
  else if (!refuseOthers(t, entry))
    decideTemplate(t, entry, kTemplateFile, &entry);
}

void poplar::decideDatasetTemplate(Translator &t, const RecipeEntry &entry) {
  if (!isChat(t.dataset().getText("type")))
    t.ignore(entry, "is for rows of type chat_template");
  else if (!refuseOthers(t, entry))
    decideTemplate(t, entry, entry.text,
                   t.dataset().find("chat_template_jinja"));
}

/// Files are JSON Lines, or a list of objects.
static bool isJSON(llvm::StringRef path) {
  llvm::StringRef extension = llvm::sys::path::extension(path);
  return extension == ".jsonl" || extension == ".json";
}

/// The files of `data_files`.
static std::vector<std::string> listFiles(const Translator &t) {
  const RecipeEntry *files = t.dataset().find("data_files");
  std::vector<std::string> names;
  if (files && files->node->kind == yaml::Content::List)
    for (const yaml::Content &element : files->node->elements)
      names.push_back(element.text);
  else if (files)
    names.push_back(files->text);
  llvm::StringRef directory = t.dataset().getText("path");
  for (std::string &name : names)
    if (llvm::sys::fs::is_directory(directory)) {
      llvm::SmallString<128> path(directory);
      llvm::sys::path::append(path, name);
      name = path.str().str();
    }
  return names;
}

/// What is to be given instead of a path; empty if nothing.
static std::string explainPath(llvm::StringRef path, bool isNamed) {
  if (!llvm::sys::fs::exists(path))
    return isNamed ? "there is no such file"
                   : "there is no such file; of the Hugging Face Hub, `hf "
                     "download " +
                         path.str() +
                         " --repo-type dataset --local-dir DIR` gets it: give "
                         "the rows as a file of JSON Lines here";
  if (llvm::sys::fs::is_directory(path))
    return "is a directory; give a file of JSON Lines, or name files of it in "
           "data_files";
  return isJSON(path) ? ""
                      : "rows are read from JSON Lines (.jsonl); convert the "
                        "file";
}

void poplar::decidePath(Translator &t, const RecipeEntry &entry) {
  std::vector<std::string> files = listFiles(t);
  bool isNamed = !files.empty() && (entry.text == "json" ||
                                    llvm::sys::fs::is_directory(entry.text));
  if (!isNamed)
    files = {entry.text};
  for (const std::string &file : files)
    if (std::string remedy = explainPath(file, isNamed); !remedy.empty()) {
      t.refuse(entry, (isNamed ? file + ": " : "") + remedy);
      return;
    }
  t.honourData(entry, files);
}

void poplar::decideDataFiles(Translator &t, const RecipeEntry &entry) {
  llvm::StringRef path = t.dataset().getText("path");
  if (path == "json" || llvm::sys::fs::is_directory(path))
    t.accept(entry, "files of path");
  else
    t.refuse(entry, "names files of a directory, and path is none");
}

void poplar::decideType(Translator &t, const RecipeEntry &entry) {
  if (t.top().find("rl"))
    decidePairType(t, entry);
  else if (!entry.node)
    t.refuse(entry, "rows of token ids are not read; give text or messages, "
                    "and their type");
  else if (entry.text == kChat || entry.text == "alpaca")
    t.accept(entry, "rows are read by their members");
  else if (entry.text != kCompletion)
    t.refuse(entry, "the types are alpaca, chat_template and completion; "
                    "convert the rows to messages, or to instruction, input "
                    "and output");
  else if (auto [datasets, completions] = countCompletions(t);
           datasets != completions)
    t.refuse(entry, "long texts are split and other rows are not; train on "
                    "them one after the other");
  else
    t.accept(entry, "rows are texts, of which all tokens count");
}

void poplar::decideField(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "text")
    t.accept(entry, "texts are read from text");
  else
    t.refuse(entry, "texts are read from text; rename the member in the rows");
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

/// Poplar reads messages with role and content, and conversations with from
/// and value.
static bool isReadable(const Translator &t) {
  llvm::StringRef list = t.dataset().getText("field_messages"),
                  role = getMapped(t, "role", "message_field_role"),
                  content = getMapped(t, "content", "message_field_content");
  if (list == "conversations")
    return role == "from" && content == "value";
  return (list.empty() || list == "messages") && role == "role" &&
         content == "content";
}

void poplar::decideMessages(Translator &t, const RecipeEntry &entry) {
  if (!isChat(t.dataset().getText("type")))
    t.ignore(entry, "is for rows of type chat_template");
  else if (isReadable(t))
    t.accept(entry, "rows are read by their members");
  else
    t.refuse(entry, "rows are read with messages of role and content, or with "
                    "conversations of from and value; rename the members");
}

void poplar::decideMapping(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  for (const yaml::Member &member : entry.node->members)
    if (member.key != "role" && member.key != "content" &&
        member.value.text != member.key) {
      t.refuse(entry, "the member " + member.value.describe() +
                          " is not read as " + member.key +
                          "; rename it in the rows");
      return;
    }
  decideMessages(t, entry);
}

/// Roles by their names in rows.
static constexpr std::pair<const char *, const char *> kRoles[] = {
    {"user", "human"},    {"user", "user"}, {"assistant", "gpt"},
    {"system", "system"}, {"tool", "tool"}, {"assistant", "assistant"}};

void poplar::decideRoles(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  for (const yaml::Member &member : entry.node->members) {
    if (member.value.kind != yaml::Content::List) {
      t.fail(member.value.place, member.key + ": expected a list, found " +
                                     member.value.describe());
      return;
    }
    for (const yaml::Content &source : member.value.elements)
      if (llvm::none_of(kRoles, [&](const auto &role) {
            return member.key == role.first && source.text == role.second;
          })) {
        t.refuse(entry, source.describe() + " is not read as " + member.key +
                            "; rename the role in the rows");
        return;
      }
  }
  t.accept(entry, "roles are read so");
}

bool poplar::isOnly(const yaml::Content &node, llvm::StringRef word) {
  return node.kind == yaml::Content::List
             ? node.elements.size() == 1 && node.elements[0].text == word
             : node.text == word;
}

void poplar::decideTrainedRoles(Translator &t, const RecipeEntry &entry) {
  if (isOnly(*entry.node, "assistant"))
    t.ignore(entry, "only what the assistant says counts");
  else
    t.refuse(entry, "only what the assistant says counts; leave it out");
}
