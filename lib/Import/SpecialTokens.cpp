//===- SpecialTokens.cpp - What a tokenizer's files say -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SpecialTokens.h"
#include "Poplar/Support/JSON.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <map>

using namespace poplar;
using namespace poplar::import;
using llvm::StringRef;

void SpecialTokens::add(int64_t id) {
  if (!llvm::is_contained(all, id))
    all.insert(llvm::lower_bound(all, id), id);
}

namespace {
class Reader {
public:
  Reader(const std::string &directory, std::string &error)
      : directory(directory), error(error) {}

  SpecialTokens read() {
    readVocabulary();
    readTokenizer();
    // The later one wins where they differ, as in transformers.
    readNames("special_tokens_map.json");
    readNames("tokenizer_config.json");
    SpecialTokens tokens;
    if (ids.empty() || !error.empty())
      return tokens;
    // What BERT's tokenizer has unless its files name others.
    for (auto [role, text] :
         {std::pair("unk_token", "[UNK]"), std::pair("sep_token", "[SEP]"),
          std::pair("pad_token", "[PAD]"), std::pair("cls_token", "[CLS]"),
          std::pair("mask_token", "[MASK]")})
      names.emplace(role, text);
    for (const auto &[role, text] : names) {
      auto id = ids.find(text);
      if (id == ids.end())
        continue;
      tokens.add(id->second);
      if (role == "mask_token") {
        tokens.mask = id->second;
        tokens.source = source;
      }
    }
    for (const std::string &text : additional)
      if (auto id = ids.find(text); id != ids.end())
        tokens.add(id->second);
    return tokens;
  }

private:
  std::string getPath(const char *name) const {
    return directory.empty() ? name : directory + "/" + name;
  }

  std::unique_ptr<json::Document> open(const char *name) {
    std::string path = getPath(name);
    if (!llvm::sys::fs::exists(path))
      return nullptr;
    auto document = json::Document::open(path, path);
    take(*document);
    return document->hasError() ? nullptr : std::move(document);
  }
  void take(const json::Document &document) {
    if (document.hasError() && error.empty())
      error = document.getError();
  }

  /// One token a line, whose number is its id.
  void readVocabulary() {
    auto buffer = llvm::MemoryBuffer::getFile(getPath("vocab.txt"));
    if (!buffer)
      return;
    source = "vocab.txt";
    int64_t id = 0;
    for (StringRef rest = (*buffer)->getBuffer(); !rest.empty(); ++id) {
      StringRef line;
      std::tie(line, rest) = rest.split('\n');
      ids[line.rtrim('\r').str()] = id;
    }
  }

  void readTokenizer() {
    auto document = open("tokenizer.json");
    if (!document)
      return;
    source = "tokenizer.json";
    json::Value root = document->getRoot();
    if (json::Value vocabulary = root["model"]["vocab"]; vocabulary.isObject())
      for (const std::string &text : vocabulary.keys())
        ids[text] = vocabulary[text].getInteger(0);
    json::Value added = root["added_tokens"];
    for (size_t i = 0; i < added.size(); ++i)
      ids[added[i]["content"].getString()] = added[i]["id"].getInteger(0);
    take(*document);
  }

  /// A token is a string, or an object with the string as its content.
  static std::string getText(json::Value value) {
    return value.isObject() ? value["content"].getString() : value.getString();
  }

  void readNames(const char *file) {
    auto document = open(file);
    if (!document)
      return;
    json::Value root = document->getRoot();
    for (const std::string &role : root.keys()) {
      json::Value value = root[role];
      if (role == "additional_special_tokens" || role == "extra_special_tokens")
        for (size_t i = 0; value.isArray() && i < value.size(); ++i)
          additional.push_back(getText(value[i]));
      else if (StringRef(role).ends_with("_token") &&
               (value.isObject() || value.isString()))
        names[role] = getText(value);
    }
    json::Value added = root["added_tokens_decoder"];
    for (const std::string &key : added.keys()) {
      int64_t id;
      if (llvm::to_integer(key, id) && id >= 0)
        ids.emplace(getText(added[key]), id);
      if (source.empty())
        source = file;
    }
    take(*document);
  }

  std::string directory, source;
  std::string &error;
  std::map<std::string, int64_t> ids;
  std::map<std::string, std::string> names;
  std::vector<std::string> additional;
};
} // namespace

SpecialTokens import::readSpecialTokens(const std::string &directory,
                                        std::string &error) {
  return Reader(directory, error).read();
}
