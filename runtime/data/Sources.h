//===- Sources.h - The samples that options name ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SOURCES_H
#define POPLAR_RUNTIME_SOURCES_H

#include "data/Data.h"
#include "data/Examples.h"
#include "job/Collectives.h"
#include "job/Options.h"

namespace poplar::runtime {

/// Training and validation samples, from whatever the options name.
struct Sources {
  /// With `Reports`, says how far reading has come where that takes long.
  Sources(const Options &O, const ModelInfo &Model, bool Reports);

  /// Lines that say what was found.
  std::string describe() const;

  void openExamples(const Options &O, const ModelInfo &Model,
                    const TextEncoding &Encoding, bool Reports);

  std::unique_ptr<Corpus> TrainTokens, ValTokens;
  int64_t TrainEnd = 0;
  std::unique_ptr<SampleSource> Train, Validation; // the latter may be null
  /// For examples in JSON: of --data and of --val-data.
  const ExampleSource *Examples = nullptr, *ValExamples = nullptr;
  /// What else is worth telling.
  std::string Note;
};

/// Ends the job, on all ranks, if what they read is not the same: data, the
/// checkpoint of --init, and the checkpoint `Latest` to resume from.
/// Collective.
void agreeOnFiles(Collectives &Group, const Options &O, const Sources &Data,
                  const std::string &Latest);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SOURCES_H
