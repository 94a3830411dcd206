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

/// The template that the model ships.
static constexpr llvm::StringRef kOwnTemplate = "tokenizer_default";
static constexpr llvm::StringRef kFallback = "tokenizer_default_fallback_";
static constexpr const char *kTemplateFile = "jinja";

llvm::StringRef poplar::getText(const yaml::Content &map, const char *name) {
  const yaml::Content *node = map.find(name);
  return node && node->kind == yaml::Content::Scalar
             ? llvm::StringRef(node->text)
             : "";
}

std::vector<const yaml::Content *> poplar::listDatasets(const Translator &t) {
  std::vector<const yaml::Content *> datasets;
  for (const char *key : {"datasets", "test_datasets"})
    if (const RecipeEntry *list = t.top().find(key))
      for (const yaml::Content &dataset : list->node->elements)
        datasets.push_back(&dataset);
  return datasets;
}

/// The data sets with conversations, of training and of validation.
static std::vector<const yaml::Content *> listChats(const Translator &t) {
  std::vector<const yaml::Content *> chats;
  for (const yaml::Content *dataset : listDatasets(t))
    if (isChatType(getText(*dataset, "type")))
      chats.push_back(dataset);
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
  if (isPretraining(t))
    t.refuse(entry, "texts of pretraining_dataset are cut into windows, and "
                    "these rows are not; remove one of the keys");
  else
    t.translateDatasets(entry);
}

void poplar::decideStreaming(Translator &t, const RecipeEntry &entry) {
  const RecipeEntry *datasets = t.top().find("datasets");
  if (entry.text == "false" || isPretraining(t))
    t.ignore(entry, "rows are read from files");
  else if (t.top().getInteger("max_steps") <= 0)
    t.refuse(entry, "needs max_steps");
  else if (datasets && datasets->node->elements.size() > 1 &&
           t.top().isTrue("sample_packing"))
    t.refuse(entry, "axolotl then reads the first of the data sets alone; "
                    "remove the others, or streaming");
  else if (t.top().getNumber("val_set_size") > 0)
    t.refuse(entry, "axolotl then holds no rows out; remove val_set_size, or "
                    "streaming");
  else
    t.accept(entry, "rows are read from the file, in a random order");
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

void poplar::decideShortRows(Translator &t, const RecipeEntry &entry) {
  int64_t least = t.top().getInteger("min_sample_len");
  if (least < 0)
    t.fail(entry, "expected a number of tokens, found " + entry.text);
  else if (least <= 2)
    t.ignore(entry, "rows without a target are left out");
  else if (t.top().find("rl") || isPretraining(t))
    t.ignore(entry, "axolotl does not read it for pairs or pre-training");
  else
    t.honour(entry, "--least-tokens", entry.text);
}

void poplar::decideEqualRows(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "true" && isPretraining(t))
    t.ignore(entry, "axolotl does not read it for pre-training");
  else if (entry.text == "true")
    t.honour(entry, "--drop-equal");
  else
    t.ignore(entry, "equal rows are kept");
}

void poplar::decideLongRows(Translator &t, const RecipeEntry &entry) {
  static constexpr std::pair<const char *, const char *> strategies[] = {
      {"drop", "drop"}, {"truncate", "cut"}, {"raise", "fail"}};
  auto known = llvm::find_if(
      strategies, [&](const auto &it) { return entry.text == it.first; });
  if (known == std::end(strategies))
    t.fail(entry, "expected drop, truncate or raise, found " + entry.text);
  else if (isPretraining(t))
    t.honour(entry, "--long-examples", "overlap");
  else if (hasCompletions(t))
    // Nothing is too long once it has been split.
    t.honour(entry, "--long-examples", "split");
  else
    t.honour(entry, "--long-examples", known->second);
}

/// A template of axolotl and the family that --chat-template calls it by.
static constexpr std::pair<const char *, const char *> kFamilies[] = {
    {"chatml", "chatml"}, {"llama3", "llama-3"}, {"gemma", "gemma"}};

/// Those that --chat-template calls axolotl:NAME.
static constexpr const char *kTemplates[] = {"alpaca",
                                             "aya",
                                             "cohere",
                                             "deepseek_v2",
                                             "exaone",
                                             "falcon_h1",
                                             "gemma3",
                                             "gemma3n",
                                             "metharme",
                                             "mistral_v1",
                                             "mistral_v2v3",
                                             "mistral_v3_tekken",
                                             "mistral_v7_tekken",
                                             "nemotron_h",
                                             "phi_3",
                                             "phi_35",
                                             "phi_4",
                                             "qwen3",
                                             "qwen3_5",
                                             "qwen_25"};

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
  for (auto [theirs, ours] : kFamilies)
    if (name == theirs) {
      t.honour(entry, "--chat-template", ours);
      return;
    }
  if (llvm::is_contained(kTemplates, name)) {
    t.honour(entry, "--chat-template", "axolotl:" + name.str());
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

static constexpr const char *kMistralCommon = "tokenizer_use_mistral_common";
static constexpr const char *kNoTemplate =
    "mistral-common writes conversations without a template";

static constexpr const char *kMakeTokenizer =
    "AutoTokenizer.from_pretrained(DIR, mistral_format=False)"
    ".save_pretrained(DIR) of transformers 5 makes one of tekken.json if "
    "DIR has no tokenizer.json";

/// A version of the tokenizer of mistral-common, and the template that writes
/// the same.
static constexpr std::pair<const char *, const char *> kTekkenTemplates[] = {
    {"v3", "mistral-common:v3"},
    {"v7", "mistral-common:v7"},
    {"v11", "mistral-common:v7"},
    {"v13", "mistral-common:v7"}};

void poplar::decideMistralCommon(Translator &t, const RecipeEntry &entry) {
  std::string directory = t.getModelDirectory();
  if (entry.text == "false") {
    t.ignore(entry, "the tokenizer beside the model is read");
    return;
  }
  std::string version = directory.empty() ? "" : readTekkenVersion(directory);
  const auto *known = llvm::find_if(
      kTekkenTemplates, [&](const auto &it) { return version == it.first; });
  if (directory.empty())
    t.refuse(entry, "the model is not there to read its tekken.json");
  else if (!getPreference(t).empty())
    t.refuse(entry, "pairs are written by the chat template of the model; "
                    "remove it");
  else if (known == std::end(kTekkenTemplates))
    t.refuse(entry, version.empty()
                        ? "the model has no tekken.json, from which "
                          "mistral-common would read its tokenizer; remove it"
                        : "tekken.json has the version " + version +
                              ", and those of v3, v7, v11 and v13 are known");
  else if (!llvm::sys::fs::exists(joinPath(directory, "tokenizer.json")))
    t.refuse(entry, std::string("the tokenizer is read from tokenizer.json; ") +
                        kMakeTokenizer);
  else if (!splitsAsTekken(directory))
    t.refuse(entry, std::string("tokenizer.json cuts text into other words "
                                "than tekken.json; ") +
                        kMakeTokenizer);
  else if (listChats(t).empty())
    t.ignore(entry, "tokenizer.json encodes texts in the same way");
  else
    t.honour(entry, "--chat-template", known->second);
}

void poplar::decideChatTemplate(Translator &t, const RecipeEntry &entry) {
  if (t.top().isTrue(kMistralCommon))
    t.ignore(entry, kNoTemplate);
  else if (!isTemplateUsed(t))
    t.ignore(entry, "no data set of type chat_template takes it");
  else if (!refuseOthers(t, entry))
    decideTemplate(t, entry, entry.text, t.top().find("chat_template_jinja"));
}

void poplar::decideChatTemplateFile(Translator &t, const RecipeEntry &entry) {
  bool isOfRecipe = &entry == t.top().find("chat_template_jinja");
  const Section &section = isOfRecipe ? t.top() : t.dataset();
  llvm::StringRef name = section.getText("chat_template");
  if (t.top().isTrue(kMistralCommon))
    t.ignore(entry, kNoTemplate);
  else if (isOfRecipe ? !isTemplateUsed(t)
                      : !isChatType(section.getText("type")))
    t.ignore(entry, "no data set of type chat_template takes it");
  else if (!name.empty() && name != kTemplateFile)
    t.ignore(entry, "chat_template names another template");
  else if (!refuseOthers(t, entry))
    decideTemplate(t, entry, kTemplateFile, &entry);
}

void poplar::decideDatasetTemplate(Translator &t, const RecipeEntry &entry) {
  if (t.top().isTrue(kMistralCommon))
    t.ignore(entry, kNoTemplate);
  else if (!isChatType(t.dataset().getText("type")))
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
