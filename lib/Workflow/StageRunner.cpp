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
#include "Poplar/Support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
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

static llvm::json::Object hashFiles(const std::vector<std::string> &paths) {
  llvm::json::Object hashes;
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
                         std::string record)
    : program(std::move(program)), version(std::move(version)),
      record(std::move(record)) {
  auto file = llvm::MemoryBuffer::getFile(this->record);
  if (!file)
    return;
  llvm::Expected<llvm::json::Value> value =
      llvm::json::parse((*file)->getBuffer());
  // Stages run again where it is damaged.
  if (!value)
    llvm::consumeError(value.takeError());
  else if (llvm::json::Object *object = value->getAsObject())
    stages = std::move(*object);
}

std::vector<std::string> StageRunner::getRecorded(StringRef name) const {
  std::vector<std::string> words;
  const llvm::json::Object *old = stages.getObject(name);
  const llvm::json::Array *command = old ? old->getArray("command") : nullptr;
  for (size_t i = 0; command && i < command->size(); ++i)
    words.push_back((*command)[i].getAsString().value_or("").str());
  return words;
}

bool StageRunner::isKept(const Stage &stage) {
  const llvm::json::Object *old = stages.getObject(stage.name);
  const llvm::json::Object *outputs = old ? old->getObject("outputs") : nullptr;
  if (!outputs)
    return false;
  llvm::json::Object now = hashFiles(stage.outputs);
  for (const auto &[path, hash] : now) {
    const llvm::json::Value *left = outputs->get(path);
    if (!left || *left == hash || hash == llvm::json::Value(kAbsent))
      continue;
    error = llvm::formatv("{0}: was changed after `{1}` wrote it; remove it to "
                          "have it written again",
                          path.str(), formatCommand(getRecorded(stage.name)))
                .str();
    return false;
  }
  const llvm::json::Object *inputs = old->getObject("inputs");
  return now == *outputs && getRecorded(stage.name) == stage.command &&
         old->getString("version") == StringRef(version) && inputs &&
         hashFiles(stage.inputs) == *inputs;
}

bool StageRunner::addRecord(const Stage &stage, llvm::json::Object inputs,
                            double taken) {
  stages[stage.name] =
      llvm::json::Object{{"command", llvm::json::Array(stage.command)},
                         {"version", version},
                         {"inputs", std::move(inputs)},
                         {"outputs", hashFiles(stage.outputs)},
                         {"seconds", taken}};
  std::string text =
      llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object(stages)));
  return writeFile(record, text, error);
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

StageEnd StageRunner::run(const Stage &stage) {
  bool kept = isKept(stage);
  if (!error.empty())
    return StageEnd::Failed;
  llvm::outs() << llvm::formatv("{0,-9} {1}{2}\n", stage.name,
                                kept ? "done: " : "$ ",
                                formatCommand(stage.command));
  double taken = 0;
  if (!kept) {
    // What it reads is what lies there now, whatever changes meanwhile.
    llvm::json::Object inputs = hashFiles(stage.inputs);
    auto start = std::chrono::steady_clock::now();
    StageEnd end = runAlways(stage.command);
    if (end != StageEnd::Done)
      return end;
    taken =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    if (!addRecord(stage, std::move(inputs), taken))
      return StageEnd::Failed;
  }
  seconds.emplace_back(stage.name, taken);
  return StageEnd::Done;
}
