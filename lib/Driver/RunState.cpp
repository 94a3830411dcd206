//===- RunState.cpp - How far a run is ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/RunState.h"
#include "Poplar/Support/JSON.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"

using namespace poplar;

std::optional<RunState> poplar::readRunState(const std::string &run) {
  std::string file = run + "/latest/state.json";
  if (!llvm::sys::fs::exists(file))
    return std::nullopt;
  std::unique_ptr<json::Document> document = json::Document::open(file, file);
  json::Value root = document->getRoot();
  std::string last = root["options"]["steps"].getString("");
  RunState state = {root["step"].getInteger(), 0};
  if (document->hasError() ||
      llvm::StringRef(last).getAsInteger(10, state.lastStep))
    return std::nullopt;
  return state;
}
