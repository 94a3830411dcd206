//===- ProfileJournal.cpp - Measurements of an unfinished profile ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "commands/ProfileJournal.h"
#include "support/Error.h"
#include "support/Files.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace poplar::runtime;

static constexpr const char *Head = "poplar profile journal 1";

ProfileJournal::ProfileJournal(std::string Path, std::string Identity)
    : Path(std::move(Path)), Identity(std::move(Identity)) {
  if (this->Path.empty() || !std::filesystem::exists(this->Path))
    return;
  std::ifstream File(this->Path);
  std::ostringstream Text;
  Text << File.rdbuf();
  if (!File)
    fail("cannot read '", this->Path, "'");
  read(Text.str());
}

void ProfileJournal::read(const std::string &Text) {
  std::istringstream Lines(Text);
  std::string Line;
  if (!std::getline(Lines, Line) || Line != Head)
    fail("'", Path, "' is not a journal of a profile; move it away");
  if (!std::getline(Lines, Line) || Line != Identity)
    fail("'", Path, "' has other measurements (", Line, ") than these (",
         Identity, "); delete it to start again");
  // Lines that are missing are measured again; half a number would be another.
  if (Text.back() != '\n')
    fail("'", Path, "' is truncated within a line; delete it to start again");
  for (int Number = 3; std::getline(Lines, Line); ++Number) {
    size_t Colon = Line.rfind(':');
    std::vector<double> Seconds;
    std::istringstream Values(
        Colon == std::string::npos ? "" : Line.substr(Colon + 1));
    for (double Value; Values >> Value;)
      Seconds.push_back(std::isfinite(Value) && Value > 0 ? Value : NAN);
    bool IsSound = Values.eof() && !Seconds.empty();
    for (double Value : Seconds)
      IsSound &= !std::isnan(Value);
    if (!IsSound)
      fail("'", Path, "':", Number,
           ": expected the name of a measurement, a colon, and seconds; delete "
           "the file to start again");
    Known[Line.substr(0, Colon)] = std::move(Seconds);
  }
}

const std::vector<double> *ProfileJournal::find(const std::string &Name) const {
  auto Entry = Known.find(Name);
  return Entry == Known.end() ? nullptr : &Entry->second;
}

void ProfileJournal::add(const std::string &Name, std::vector<double> Seconds) {
  Known[Name] = std::move(Seconds);
  if (Path.empty())
    return;
  std::ostringstream Text;
  Text.precision(17);
  Text << Head << "\n" << Identity << "\n";
  for (const auto &[Measured, Values] : Known) {
    Text << Measured << ":";
    for (double Value : Values)
      Text << " " << Value;
    Text << "\n";
  }
  writeFileAtomically(Path, Text.str());
}
