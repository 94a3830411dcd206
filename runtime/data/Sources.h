//===- Sources.h - The samples that options name ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SOURCES_H
#define POPLAR_RUNTIME_SOURCES_H

#include "data/ExampleSource.h"
#include "job/Options.h"
#include "program/Collectives.h"

namespace poplar::runtime {

/// Data of one --data or --val-data: text or tokens, or examples in JSON.
struct DataFile {
  std::unique_ptr<Corpus> Tokens;
  std::unique_ptr<ExampleFile> Examples;
  /// Whether every two examples are a pair of answers.
  bool HasPairs = false;
  /// The number of training samples: the first ones, in the order of the file
  /// or in one that the seed decides.
  int64_t TrainEnd = 0;
  bool IsSplitAtRandom = false;
  /// The weight of this file; 0 if it was not given.
  double Weight = 0;
  /// A note that describe() adds.
  std::string Note;

  int64_t size() const {
    return Tokens ? Tokens->size() : Examples->size() / (HasPairs ? 2 : 1);
  }
  std::string describe() const;
  void addTo(Fingerprint &Print) const;
};

/// Training and validation samples, from whatever the options name.
struct Sources {
  /// With `Reports`, says how far reading has come where that takes long.
  Sources(const Options &O, const ModelInfo &Model, bool Reports);

  /// Lines that say what was found.
  std::string describe() const;

  std::vector<DataFile> Data, ValData;
  std::unique_ptr<SampleSource> Train, Validation; // the latter may be null
  /// With a reference model (--preference dpo): each pair of all files once.
  std::unique_ptr<SampleSource> AllPairs;

private:
  void openTraining(const Options &O, const ModelInfo &Model);
  void openValidation(const Options &O, const ModelInfo &Model);
  void openAllPairs(const Options &O, const ModelInfo &Model);
};

/// Descriptions of the contents of each data file, by the option that names it;
/// see Fingerprint, which reads up to `Compared` bytes of each.
std::vector<std::pair<std::string, std::string>>
describeFiles(const Options &O, const Sources &Data, int64_t Compared,
              const Fingerprint::Report &OnProgress = nullptr);

/// Ends the job, on all ranks, if what they read is not the same: data, the
/// checkpoint of --init, and the checkpoint `Latest` to resume from.
/// Collective.
void agreeOnFiles(Collectives &Group, const Options &O, const Sources &Data,
                  const std::string &Latest);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SOURCES_H
