//===- Verdict.cpp - A plan in one sentence -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verdict.h"
#include "Poplar/Support/Text.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <cstdio>

using namespace poplar;

/// Four digits of a positive number.
static std::string shorten(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

static void addRanks(const llvm::json::Array &ranks, PlannedJob &job) {
  for (const llvm::json::Value &value : ranks) {
    const llvm::json::Object *rank = value.getAsObject();
    const llvm::json::Object *memory =
        rank ? rank->getObject("memory") : nullptr;
    if (!memory)
      continue;
    PlannedType &type =
        job.types[rank->getString("device_type").value_or("").str()];
    ++type.devices;
    type.samples += rank->getInteger("samples").value_or(0);
    type.peakBytes =
        std::max(type.peakBytes, memory->getInteger("peak").value_or(0));
  }
}

/// Pipelines: groups of lanes, each of devices of one type.
static void addGroups(const llvm::json::Array &groups, PlannedJob &job) {
  for (const llvm::json::Value &group : groups) {
    const llvm::json::Object *object = group.getAsObject();
    const llvm::json::Array *lanes =
        object ? object->getArray("lanes") : nullptr;
    for (size_t i = 0; lanes && i < lanes->size(); ++i) {
      const llvm::json::Object *lane = (*lanes)[i].getAsObject();
      const llvm::json::Array *ranks = lane ? lane->getArray("ranks") : nullptr;
      if (!ranks)
        continue;
      PlannedType &type =
          job.types[lane->getString("device_type").value_or("").str()];
      type.devices += static_cast<int>(ranks->size());
      type.peakBytes =
          std::max(type.peakBytes, lane->getInteger("peak_bytes").value_or(0));
    }
  }
}

std::optional<PlannedJob> poplar::readPlannedJob(const std::string &path,
                                                 std::string &error) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    error = path + ": " + file.getError().message();
    return std::nullopt;
  }
  llvm::Expected<llvm::json::Value> value =
      llvm::json::parse((*file)->getBuffer());
  const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
  PlannedJob job;
  if (object) {
    job.globalBatch = object->getInteger("global_batch").value_or(0);
    job.seconds = object->getNumber("simulated_seconds").value_or(0);
    if (const llvm::json::Array *ranks = object->getArray("ranks")) {
      job.kind = "ZeRO stage " +
                 std::to_string(object->getInteger("stage").value_or(0));
      addRanks(*ranks, job);
    } else if (const llvm::json::Array *groups = object->getArray("groups")) {
      job.kind = "pipeline stages";
      addGroups(*groups, job);
    }
  }
  if (!value)
    llvm::consumeError(value.takeError());
  if (job.types.empty() || job.seconds <= 0) {
    error = path + ": is no plan that poplar plan --json wrote";
    return std::nullopt;
  }
  return job;
}

std::string poplar::formatVerdict(const PlannedJob &job,
                                  const std::map<std::string, double> &alone,
                                  const std::map<std::string, int64_t> &memory,
                                  const std::string &source) {
  int devices = 0;
  for (const auto &[name, type] : job.types)
    devices += type.devices;
  auto best = std::min_element(
      alone.begin(), alone.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  std::string text = llvm::formatv(
      "verdict   {0} on {1}: {2} in {3} s by {4} times", job.kind,
      formatCount(devices, "device"), formatCount(job.globalBatch, "sample"),
      shorten(job.seconds), source);
  if (best == alone.end())
    text += "; no device can hold the job alone";
  else if (devices > 1)
    text += llvm::formatv(", {0:f2} times as fast as the best device alone, "
                          "{1} with {2} s",
                          best->second / job.seconds, best->first,
                          shorten(best->second));
  text += "\n";
  for (const auto &[name, type] : job.types) {
    text += llvm::formatv("          {0,-16} {1}, ", name,
                          formatCount(type.devices, "device"));
    if (type.samples > 0)
      text += llvm::formatv("{0}, {1} a second, ",
                            formatCount(type.samples, "sample"),
                            shorten(double(type.samples) / job.seconds));
    text += formatBytes(type.peakBytes);
    if (auto most = memory.find(name); most != memory.end())
      text += " of " + formatBytes(most->second) + " on each";
    text += "\n";
  }
  return text;
}
