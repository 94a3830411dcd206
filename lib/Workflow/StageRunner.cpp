//===- StageRunner.cpp - Commands that run once ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Workflow/StageRunner.h"
#include "ChildProcess.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <chrono>

using namespace poplar;
using llvm::StringRef;

/// Stands for the contents of a file that is not there.
static constexpr const char *kAbsent = "absent";

static std::string hashFile(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return kAbsent;
  return llvm::utohexstr(llvm::xxh3_64bits((*file)->getBuffer()),
                         /*LowerCase=*/true, 16);
}

StageRunner::Hashes
StageRunner::hashFiles(const std::vector<std::string> &paths) {
  Hashes hashes;
  for (const std::string &path : paths)
    hashes[path] = hashFile(path);
  return hashes;
}

static std::string formatCommand(const std::vector<std::string> &words) {
  std::string text = "poplar";
  for (const std::string &word : words)
    text += " " + formatWord(word);
  return text;
}

StageRunner::StageRunner(std::string program, std::string version,
                         std::string file)
    : program(std::move(program)), version(std::move(version)),
      file(std::move(file)) {
  readRecords();
}

/// What the file says; stages run again where it says nothing, or is damaged.
void StageRunner::readRecords() {
  if (!llvm::sys::fs::exists(file))
    return;
  std::unique_ptr<json::Document> document = json::Document::open(file, file);
  json::Value root = document->getRoot();
  auto readHashes = [](json::Value value) {
    Hashes hashes;
    for (const std::string &path : value.keys())
      hashes[path] = value[path].getString();
    return hashes;
  };
  for (const std::string &name : root.keys()) {
    json::Value stage = root[name];
    Record record;
    for (size_t i = 0; i < stage["command"].size(); ++i)
      record.command.push_back(stage["command"][i].getString());
    record.version = stage["version"].getString();
    record.inputs = readHashes(stage["inputs"]);
    record.outputs = readHashes(stage["outputs"]);
    record.seconds = stage["seconds"].getNumber();
    records[name] = std::move(record);
  }
  if (document->hasError())
    records.clear();
}

bool StageRunner::writeRecords() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, /*IndentSize=*/2);
  auto writeHashes = [&](StringRef name, const Hashes &hashes) {
    json.attributeObject(name, [&] {
      for (const auto &[path, hash] : hashes)
        json.attribute(path, hash);
    });
  };
  json.object([&] {
    for (const auto &[name, record] : records)
      json.attributeObject(name, [&, &record = record] {
        json.attribute("command", llvm::json::Array(record.command));
        json.attribute("version", record.version);
        writeHashes("inputs", record.inputs);
        writeHashes("outputs", record.outputs);
        json.attribute("seconds", record.seconds);
      });
  });
  return writeFile(file, text + "\n", error);
}

std::vector<std::string>
StageRunner::getRecorded(const std::string &name) const {
  auto found = records.find(name);
  return found == records.end() ? std::vector<std::string>()
                                : found->second.command;
}

bool StageRunner::isKept(const WorkflowStage &stage) {
  auto found = records.find(stage.name);
  if (found == records.end())
    return false;
  const Record &old = found->second;
  Hashes now = hashFiles(stage.outputs);
  for (const auto &[path, hash] : now) {
    auto left = old.outputs.find(path);
    if (left == old.outputs.end() || left->second == hash || hash == kAbsent)
      continue;
    error = llvm::formatv("{0}: was changed after `{1}` wrote it; remove it to "
                          "have it written again",
                          path, formatCommand(old.command));
    return false;
  }
  return now == old.outputs && old.command == stage.command &&
         old.version == version && hashFiles(stage.inputs) == old.inputs &&
         (!stage.isComplete || stage.isComplete());
}

StageEnd StageRunner::runAlways(const std::vector<std::string> &command,
                                StringRef output) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), command.begin(), command.end());
  llvm::outs().flush();
  ChildEnd end;
  if (!runChild(words, output.str(), end, error))
    return StageEnd::Failed;
  if (end.stopped)
    return StageEnd::Stopped;
  return end.status == 0 ? StageEnd::Done : StageEnd::Failed;
}

StageEnd StageRunner::run(const WorkflowStage &stage) {
  bool kept = isKept(stage);
  if (!error.empty())
    return StageEnd::Failed;
  llvm::outs() << llvm::formatv("{0,-9} {1}{2}\n", stage.name,
                                kept ? "done: " : "$ ",
                                formatCommand(stage.command));
  double taken = 0;
  if (!kept) {
    // What it reads is what lies there now, whatever changes meanwhile.
    Record record = {stage.command, version, hashFiles(stage.inputs), {}, 0};
    auto start = std::chrono::steady_clock::now();
    StageEnd end = runAlways(stage.command);
    if (end != StageEnd::Done)
      return end;
    taken =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    if (stage.isComplete && !stage.isComplete())
      return StageEnd::Stopped;
    record.outputs = hashFiles(stage.outputs);
    record.seconds = taken;
    records[stage.name] = std::move(record);
    if (!writeRecords())
      return StageEnd::Failed;
  }
  seconds.emplace_back(stage.name, taken);
  return StageEnd::Done;
}
