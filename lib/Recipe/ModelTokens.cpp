//===- ModelTokens.cpp - Other tokens for a model -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Recipe/ModelTokens.h"
#include "EmbeddingRows.h"
#include "ModelDirectory.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/JSONEdit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <optional>
#include <set>

using namespace poplar;
namespace fs = llvm::sys::fs;
using json::Edit;

static constexpr const char *kTokenizer = "tokenizer.json";
/// Files that are changed where they are there.
static constexpr const char *kChanged[] = {
    kTokenizer, "tokenizer_config.json", "special_tokens_map.json",
    "config.json", "generation_config.json"};

namespace {
/// tokenizer.json, and how it is to be changed.
class TokenAdder {
public:
  explicit TokenAdder(const std::string &directory) {
    document =
        json::Document::open(joinPath(directory, kTokenizer), kTokenizer);
    root.emplace(document->getRoot());
    if (document->hasError() || !root->isObject() ||
        !(*root)["model"].isObject())
      return;
    vocabulary.emplace((*root)["model"]["vocab"]);
    next = static_cast<int64_t>(vocabulary->size());
    json::Value added = (*root)["added_tokens"];
    for (size_t i = 0; added.isArray() && i < added.size(); ++i) {
      json::Value token = added[i];
      if (!token.isObject() || !token["content"].isString() ||
          !token["id"].isNumber())
        continue;
      known.push_back({token["content"].getString(), token["id"].getInteger()});
      next = std::max(next, known.back().second + 1);
    }
    isRead = !document->hasError();
  }

  bool isRead = false;
  std::vector<Edit> edits, configEdits;
  /// The ids that have been given to new tokens end here.
  int64_t next = 0;

  /// The id of a token, which is added if there is none.
  int64_t add(const std::string &token, bool isSpecial) {
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i].first == token) {
        if (isSpecial)
          edits.push_back({Edit::Set,
                           "/added_tokens/" + std::to_string(i) + "/special",
                           "true"});
        return known[i].second;
      }
    int64_t id = next;
    if (vocabulary->isObject() && (*vocabulary)[token].isNumber())
      id = (*vocabulary)[token].getInteger();
    else
      ++next;
    known.push_back({token, id});
    std::string members =
        "\"content\": " + json::quote(token) +
        ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": " +
        (isSpecial ? "true" : "false") + "}";
    edits.push_back({Edit::Append, "/added_tokens",
                     "{\"id\": " + std::to_string(id) + ", " + members});
    configEdits.push_back({Edit::Set,
                           "/added_tokens_decoder/" + std::to_string(id),
                           "{" + members});
    return id;
  }

private:
  std::unique_ptr<json::Document> document;
  std::optional<json::Value> root, vocabulary;
  /// Added tokens in the order of the file.
  std::vector<std::pair<std::string, int64_t>> known;
};
} // namespace

bool poplar::hasToken(const std::string &directory, const std::string &token) {
  TokenAdder adder(directory);
  if (!adder.isRead)
    return false;
  int64_t before = adder.next;
  adder.add(token, /*isSpecial=*/false);
  return adder.next == before;
}

/// The ids of all tokens, with those to add, end here.
static int64_t countTokens(TokenAdder &adder, const TokenChanges &changes) {
  for (const std::string &token : changes.added)
    adder.add(token, /*isSpecial=*/false);
  if (!changes.endToken.empty())
    adder.add(changes.endToken, /*isSpecial=*/true);
  return adder.next;
}

std::string poplar::checkTokens(const std::string &directory,
                                const TokenChanges &changes) {
  TokenAdder adder(directory);
  if (!adder.isRead)
    return "the model has no tokenizer.json to change; save its tokenizer by "
           "save_pretrained of transformers";
  int64_t before = adder.next, tokens = countTokens(adder, changes);
  if (changes.rowMultiple == 0 && tokens == before)
    return "";
  if (readVocabularySize(directory) == 0)
    return "config.json of the model does not say vocab_size, the rows of its "
           "embedding; write it there";
  return "";
}

int64_t poplar::countNewRows(const std::string &directory,
                             const TokenChanges &changes) {
  TokenAdder adder(directory);
  int64_t before = adder.next, tokens = countTokens(adder, changes),
          rows = readVocabularySize(directory),
          multiple = std::max<int64_t>(changes.rowMultiple, 1);
  if (changes.rowMultiple == 0 && tokens == before)
    return 0;
  int64_t wanted = (tokens + multiple - 1) / multiple * multiple;
  return rows < wanted ? wanted : 0;
}

static std::optional<std::string> readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? std::optional<std::string>((*buffer)->getBuffer().str())
                : std::nullopt;
}

/// Writes a file unless it has this content, so that what was made from it
/// stays valid.
static bool writeChanged(const std::string &path, const std::string &text,
                         std::string &error) {
  if (readFile(path) == text)
    return true;
  fs::remove(path);
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  file << text;
  file.close();
  if (!code)
    code = file.error();
  file.clear_error();
  if (code)
    error = path + ": " + code.message();
  return !code;
}

/// Links to all files of a directory but those that are changed, which are
/// kChanged and `weights`.
static bool linkOthers(const std::string &directory, const std::string &output,
                       const std::set<std::string> &weights,
                       std::string &error) {
  std::error_code code;
  for (fs::directory_iterator entry(directory, code), end;
       entry != end && !code; entry.increment(code)) {
    llvm::StringRef name = llvm::sys::path::filename(entry->path());
    if (std::find(std::begin(kChanged), std::end(kChanged), name) !=
            std::end(kChanged) ||
        weights.count(name.str()))
      continue;
    llvm::SmallString<128> target(entry->path());
    code = fs::make_absolute(target);
    std::string link = joinPath(output, name);
    fs::remove(link);
    if (!code)
      code = fs::create_link(target, link);
  }
  if (code)
    error = output + ": " + code.message();
  return !code;
}

/// How generation_config.json names all tokens that end a text: the new one
/// first, as the Trainer of transformers writes them.
static std::string listEnds(const std::string &path, int64_t id) {
  auto document = json::Document::open(path, "generation_config.json");
  json::Value root = document->getRoot();
  std::string text = "[" + std::to_string(id);
  if (document->hasError() || !root.isObject())
    return text + "]";
  json::Value old = root["eos_token_id"];
  auto add = [&](const json::Value &value) {
    if (value.isNumber() && value.getInteger() != id)
      text += ", " + std::to_string(value.getInteger());
  };
  add(old);
  for (size_t i = 0; old.isArray() && i < old.size(); ++i)
    add(old[i]);
  return text + "]";
}

/// What changes in config.json with the weights.
static std::vector<Edit> listConfigEdits(const std::string &text, int64_t rows,
                                         bool unties) {
  auto document = json::Document::parse(text, "config.json");
  json::Value root = document->getRoot(), inner = root["text_config"];
  std::vector<Edit> edits;
  if (rows > 0)
    edits.push_back(
        {Edit::Set,
         std::string(inner.isObject() ? "/text_config" : "") + "/vocab_size",
         std::to_string(rows)});
  if (unties)
    edits.push_back({Edit::Set, "/tie_word_embeddings", "false"});
  if (unties && inner.isObject() && inner["tie_word_embeddings"].isPresent())
    edits.push_back({Edit::Set, "/text_config/tie_word_embeddings", "false"});
  return edits;
}

bool poplar::writeWithTokens(const std::string &directory,
                             const TokenChanges &changes,
                             const WeightChanges &weights,
                             const std::string &output, std::string &error) {
  if (error = changes.isEmpty() ? "" : checkTokens(directory, changes);
      !error.empty())
    return false;
  int64_t rows = readVocabularySize(directory),
          wanted = changes.isEmpty() ? 0 : countNewRows(directory, changes);
  std::set<std::string> written;
  if ((wanted > 0 || weights.unties) &&
      !writeWeights(directory,
                    {weights, rows, wanted > 0 ? wanted : rows, changes.rows,
                     changes.seed},
                    output, written, error))
    return false;
  if (std::error_code code = fs::create_directories(output)) {
    error = output + ": " + code.message();
    return false;
  }
  if (!linkOthers(directory, output, written, error))
    return false;
  TokenAdder adder(directory);
  int64_t end = 0;
  // As axolotl: special tokens come before others.
  if (!changes.endToken.empty())
    end = adder.add(changes.endToken, /*isSpecial=*/true);
  for (const std::string &token : changes.added)
    adder.add(token, /*isSpecial=*/false);
  for (llvm::StringRef name : kChanged) {
    std::string path = joinPath(directory, name);
    std::optional<std::string> text = readFile(path);
    if (!text)
      continue;
    std::vector<Edit> edits;
    bool hasEnd = !changes.endToken.empty();
    if (name == "config.json")
      edits = listConfigEdits(*text, wanted, weights.unties);
    if (name == kTokenizer)
      edits = adder.edits;
    else if (name == "tokenizer_config.json" &&
             text->find("\"added_tokens_decoder\"") != std::string::npos)
      edits = adder.configEdits;
    if (hasEnd && name.ends_with("config.json") && !name.starts_with("tok"))
      edits.push_back(
          {Edit::Set, "/eos_token_id",
           name == "config.json" ? std::to_string(end) : listEnds(path, end)});
    else if (hasEnd && name != kTokenizer)
      edits.push_back({Edit::Set, "/eos_token", json::quote(changes.endToken)});
    std::string changed =
        edits.empty() ? *text : json::edit(*text, path, edits, error);
    if (changed.empty() ||
        !writeChanged(joinPath(output, name), changed, error))
      return false;
  }
  return true;
}
