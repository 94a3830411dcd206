//===- ProfileJournal.h - Measurements of an unfinished profile -*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A profile takes minutes. What it has measured is kept in a file, from which
// an interrupted one goes on. Text, a line each for what the file is, of what
// the measurements are, and for each of them its name and its seconds:
//
//   poplar profile journal 1
//   model 7e5c..., node0: AMD EPYC ..., poplar 0.1, slow, stage 2, ...
//   1 micro-batch 4: 0.0123 0.0124 0.0122
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PROFILEJOURNAL_H
#define POPLAR_RUNTIME_PROFILEJOURNAL_H

#include <map>
#include <string>
#include <vector>

namespace poplar::runtime {

class ProfileJournal {
public:
  /// Reads the file, if there is one. An Error if it is damaged, or of other
  /// measurements than `Identity` says. Without a path nothing is kept.
  ProfileJournal(std::string Path, std::string Identity);

  /// The seconds of a measurement that the file has; null if it has none.
  const std::vector<double> *find(const std::string &Name) const;
  /// Adds one, and replaces the file.
  void add(const std::string &Name, std::vector<double> Seconds);
  size_t size() const { return Known.size(); }

private:
  void read(const std::string &Text);

  std::string Path, Identity;
  std::map<std::string, std::vector<double>> Known;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PROFILEJOURNAL_H
