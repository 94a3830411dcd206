//===- Claims.cpp - What a rank claims about itself -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Claims.h"
#include "RuntimeSources.h"
#include "job/Fingerprint.h"
#include "program/Executor.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/Versions.h"

using namespace poplar::runtime;
using comm::Claim;

std::string poplar::runtime::getRuntimeVersion() {
  return POPLAR_VERSION " (sources " POPLAR_RUNTIME_SOURCES ")";
}

/// Properties of the model, which all device types must share.
static std::string describeModel(const PoplarProgram &Program) {
  ModelInfo Model(Program);
  Fingerprint Print(INT64_MAX);
  for (const std::string &Text :
       {std::string(Model.architecture), std::string(Model.config),
        std::to_string(Model.masked), std::to_string(Model.mask_token)})
    Print.add(Text);
  return std::string(Model.architecture) + " of vocabulary " +
         std::to_string(Model.vocab_size) + " and sequences of " +
         std::to_string(Model.seq_len) + ", " + Print.describe();
}

/// Libraries whose versions are told, and are no reason to end the job: sums
/// of gradients cross the ranks in Poplar's own formats, and every rank updates
/// its shards with Poplar's own code. Another version of oneDNN rounds products
/// in its own way, as another CPU does.
static void addLibraries(std::vector<Claim> &Claims) {
  try {
    json::Value Versions =
        json::parse("{" + getLibraryVersions() + "}", "versions");
    for (const auto &[Name, Version] : Versions.members())
      Claims.push_back({Name, std::string(Version.asString("")), false});
  } catch (const Error &) {
    // A GPU's driver may be missing, which is told where it is needed.
  }
}

static std::string describeFile(const std::string &Path) {
  if (Path.empty())
    return "none";
  Fingerprint Print(INT64_MAX);
  Print.add(MappedFile(Path));
  return Print.describe();
}

std::vector<Claim> poplar::runtime::claimOptions(const PoplarProgram &Program,
                                                 const Options &O) {
  std::vector<Claim> Claims = {
      {"version of Poplar", getRuntimeVersion()},
      {"version of the interface", std::to_string(Program.version)},
      {"model", describeModel(Program)},
      {"command", getCommandName(O.TheCommand)}};
  for (const OptionValue &Option : getOptionValues(O)) {
    std::string Name = "--" + Option.Name;
    if (Option.Rule == Agreement::Same)
      Claims.push_back({Name, Option.Value});
    // Contents of files are compared when they are read, but for small files.
    else if (Option.Rule == Agreement::Contents && Option.Name != "ranks" &&
             Option.Name != "tokenizer")
      Claims.push_back({Name, Option.Value == "none" ? "none" : "a path"});
  }
  Claims.push_back({"--ranks", describeFile(O.Ranks)});
  Claims.push_back({"--tokenizer", describeFile(O.Tokenizer)});
  addLibraries(Claims);
  return Claims;
}
