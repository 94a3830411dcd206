//===- ModelDirectory.cpp - Where the model of a recipe lies --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelDirectory.h"
#include "Poplar/Support/JSON.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <cstdlib>

using namespace poplar;

std::string poplar::joinPath(llvm::StringRef directory, llvm::StringRef name) {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

static llvm::StringRef getVariable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The cache of the Hub, as huggingface_hub finds it.
static std::string getHubCache() {
  if (llvm::StringRef cache = getVariable("HF_HUB_CACHE"); !cache.empty())
    return cache.str();
  if (llvm::StringRef home = getVariable("HF_HOME"); !home.empty())
    return joinPath(home, "hub");
  llvm::StringRef caches = getVariable("XDG_CACHE_HOME");
  std::string root =
      caches.empty() ? joinPath(getVariable("HOME"), ".cache") : caches.str();
  return joinPath(joinPath(root, "huggingface"), "hub");
}

std::string poplar::findModelDirectory(const std::string &name,
                                       const std::string &revision) {
  if (llvm::sys::fs::is_directory(name))
    return name;
  // A name of the Hub: ORGANISATION/MODEL, or MODEL.
  auto [organisation, model] = llvm::StringRef(name).split('/');
  if (name.empty() || model.contains('/') || organisation.starts_with("."))
    return "";
  std::string folder = "models--" + organisation.str() +
                       (model.empty() ? "" : "--") + model.str();
  std::string directory = joinPath(getHubCache(), folder);
  std::string commit = revision.empty() ? "main" : revision;
  if (auto reference = llvm::MemoryBuffer::getFile(
          joinPath(joinPath(directory, "refs"), commit)))
    commit = (*reference)->getBuffer().trim().str();
  std::string snapshot = joinPath(joinPath(directory, "snapshots"), commit);
  return llvm::sys::fs::exists(joinPath(snapshot, "config.json")) ? snapshot
                                                                  : "";
}

std::string poplar::readSpecialToken(const std::string &directory,
                                     const std::string &name) {
  auto document = json::Document::open(
      joinPath(directory, "tokenizer_config.json"), "tokenizer_config.json");
  json::Value root = document->getRoot();
  if (document->hasError() || !root.isObject())
    return "";
  json::Value token = root[name];
  if (token.isObject())
    token = token["content"];
  return token.isString() ? token.getString() : "";
}

int64_t poplar::readVocabularySize(const std::string &directory) {
  auto document =
      json::Document::open(joinPath(directory, "config.json"), "config.json");
  json::Value root = document->getRoot();
  if (document->hasError() || !root.isObject())
    return 0;
  json::Value inner = root["text_config"],
              size = (inner.isObject() ? inner : root)["vocab_size"];
  if (!size.isNumber())
    return 0;
  int64_t rows = size.getInteger();
  return document->hasError() ? 0 : rows;
}

std::string poplar::readModelType(const std::string &directory) {
  auto document =
      json::Document::open(joinPath(directory, "config.json"), "config.json");
  json::Value root = document->getRoot();
  return !document->hasError() && root.isObject() &&
                 root["model_type"].isString()
             ? root["model_type"].getString()
             : "";
}

std::string poplar::readConfigValue(const std::string &directory,
                                    const std::string &key) {
  auto document =
      json::Document::open(joinPath(directory, "config.json"), "config.json");
  json::Value root = document->getRoot();
  return !document->hasError() && root.isObject() ? root[key].dump() : "";
}

/// A text of the configuration in tekken.json; empty if there is none.
static std::string readTekken(const std::string &directory, const char *key) {
  auto document =
      json::Document::open(joinPath(directory, "tekken.json"), "tekken.json");
  json::Value root = document->getRoot();
  if (document->hasError() || !root.isObject() || !root["config"].isObject())
    return "";
  json::Value value = root["config"][key];
  return value.isString() ? value.getString() : "";
}

std::string poplar::readTekkenVersion(const std::string &directory) {
  return readTekken(directory, "version");
}

bool poplar::splitsAsTekken(const std::string &directory) {
  auto document = json::Document::open(joinPath(directory, "tokenizer.json"),
                                       "tokenizer.json");
  json::Value root = document->getRoot();
  if (document->hasError() || !root.isObject() ||
      !root["pre_tokenizer"].isObject())
    return false;
  json::Value steps = root["pre_tokenizer"]["pretokenizers"];
  json::Value step = steps.isArray() && steps.size() ? steps[0] : steps;
  if (!step.isObject() || !step["pattern"].isObject())
    return false;
  json::Value pattern = step["pattern"]["Regex"];
  return pattern.isString() &&
         pattern.getString() == readTekken(directory, "pattern");
}

bool poplar::shipsChatTemplate(const std::string &directory) {
  for (const char *name : {"chat_template.jinja", "chat_template.json"})
    if (llvm::sys::fs::exists(joinPath(directory, name)))
      return true;
  auto document = json::Document::open(
      joinPath(directory, "tokenizer_config.json"), "tokenizer_config.json");
  json::Value root = document->getRoot();
  return !document->hasError() && root.isObject() &&
         root["chat_template"].isPresent();
}
