//===- Facts.cpp - What a rank has, for comparison with others ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Facts.h"
#include "comm/Host.h"
#include "program/Executor.h"
#include "support/Cores.h"
#include "support/Error.h"
#include "support/ISA.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

using namespace poplar::runtime;
namespace fs = std::filesystem;

extern char **environ;

/// Interfaces that are up, and InfiniBand's devices.
static std::string listNetwork() {
  std::vector<std::string> Names;
  std::error_code Code;
  for (const auto &Entry : fs::directory_iterator("/sys/class/net", Code)) {
    std::string Name = Entry.path().filename(), State;
    std::ifstream(Entry.path() / "operstate") >> State;
    if (Name != "lo" && State != "down")
      Names.push_back(Name);
  }
  for (const auto &Entry :
       fs::directory_iterator("/sys/class/infiniband", Code))
    Names.push_back("infiniband:" + Entry.path().filename().string());
  std::sort(Names.begin(), Names.end());
  std::string Text;
  for (const std::string &Name : Names)
    Text += (Text.empty() ? "" : " ") + Name;
  return Text;
}

static std::string listEnvironment() {
  std::vector<std::string> Found;
  for (char **Variable = environ; *Variable; ++Variable)
    if (std::string(*Variable).compare(0, 5, "NCCL_") == 0)
      Found.push_back(*Variable);
  std::sort(Found.begin(), Found.end());
  std::string Text;
  for (const std::string &One : Found)
    Text += (Text.empty() ? "" : ";") + One;
  return Text;
}

std::string
poplar::runtime::findMissingInstructions(const PoplarProgram &Program) {
  std::istringstream Words(Program.instructions);
  std::vector<std::string> Needed{std::istream_iterator<std::string>(Words),
                                  {}};
  return findMissing(Needed);
}

Facts poplar::runtime::collectFacts(const PoplarProgram &Program, int Rank) {
  Facts F;
  F["host"] = comm::getHostName();
  F["type"] = ModelInfo(Program).DeviceType;
  F["cores"] = std::to_string(getGivenCores().size());
  F["network"] = listNetwork();
  F["environment"] = listEnvironment();
  const char *Comm = std::getenv("POPLAR_COMM");
  F["comm"] = Comm ? Comm : "auto";
  int64_t Batch = 1;
  if (Program.ranks) {
    const PoplarRank &R = Program.ranks[Rank];
    Batch = R.steps > 1 ? std::max(R.micro_batch, R.last) : R.last;
    F["threads"] = std::to_string(R.threads);
  }
  F["needed"] = std::to_string(getPeakBytes(Program, Batch, Rank));
  try {
    addDeviceFacts(Program, Rank, F);
  } catch (const Error &E) {
    F["error"] = E.what();
  }
  return F;
}

std::string poplar::runtime::toText(const Facts &F) {
  std::string Text;
  for (auto [Key, Value] : F) {
    std::replace(Value.begin(), Value.end(), '\n', ' ');
    Text += Key + "=" + Value + "\n";
  }
  return Text;
}

Facts poplar::runtime::parseFacts(const std::string &Text) {
  Facts F;
  std::istringstream Lines(Text);
  for (std::string Line; std::getline(Lines, Line);)
    if (size_t Equals = Line.find('='); Equals != std::string::npos)
      F[Line.substr(0, Equals)] = Line.substr(Equals + 1);
  return F;
}

std::string poplar::runtime::getFact(const Facts &F, const std::string &Key) {
  auto Found = F.find(Key);
  return Found == F.end() ? "" : Found->second;
}

double poplar::runtime::getNumber(const Facts &F, const std::string &Key) {
  return std::atof(getFact(F, Key).c_str());
}
