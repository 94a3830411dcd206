//===- Verdict.cpp - A plan in one sentence -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verdict.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/Text.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cstdio>

using namespace poplar;

/// Four digits of a positive number.
static std::string shorten(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

static void addRanks(json::Value ranks, PlannedJob &job) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    json::Value rank = ranks[i];
    PlannedDevices &type = job.types[rank["device_type"].getString()];
    ++type.devices;
    type.samples += rank["samples"].getInteger();
    type.peakBytes =
        std::max(type.peakBytes, rank["memory"]["peak"].getInteger());
  }
}

/// Pipelines: groups of lanes, each of devices of one type.
static void addGroups(json::Value groups, PlannedJob &job) {
  for (size_t i = 0; i < groups.size(); ++i) {
    json::Value lanes = groups[i]["lanes"];
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      PlannedDevices &type = job.types[lanes[lane]["device_type"].getString()];
      type.devices += static_cast<int>(lanes[lane]["ranks"].size());
      // Plans for distant devices do not say it.
      if (json::Value peak = lanes[lane]["peak_bytes"]; peak.isPresent())
        type.peakBytes = std::max(type.peakBytes, peak.getInteger());
    }
  }
}

std::optional<PlannedJob> poplar::readPlannedJob(const std::string &path,
                                                 std::string &error) {
  std::unique_ptr<json::Document> file = json::Document::open(path, path);
  json::Value root = file->getRoot();
  PlannedJob job;
  job.globalBatch = root["global_batch"].getInteger();
  job.seconds = root["simulated_seconds"].getNumber();
  if (root["ranks"].isPresent()) {
    job.kind = "ZeRO stage " + std::to_string(root["stage"].getInteger());
    addRanks(root["ranks"], job);
  } else {
    job.kind = "pipeline stages";
    addGroups(root["groups"], job);
  }
  if (!file->hasError())
    return job;
  error = file->getError();
  return std::nullopt;
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
    text += type.peakBytes > 0 ? formatBytes(type.peakBytes)
                               : std::string("memory checked by poplar build");
    if (auto most = memory.find(name);
        most != memory.end() && type.peakBytes > 0)
      text += " of " + formatBytes(most->second);
    text += type.devices > 1 ? " on each\n" : "\n";
  }
  return text;
}
