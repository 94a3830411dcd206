//===- RunSetup.h - What a run is, before its first step --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_RUNSETUP_H
#define POPLAR_RUNTIME_RUNSETUP_H

#include "data/Sources.h"
#include "training/Course.h"

#include <string>

namespace poplar::runtime {

class Collectives;

/// The newest checkpoint of the run that the options continue, as the first
/// rank sees it; empty if there is none. `Group` is null where the rank is
/// alone, here and below.
std::string getLatest(const Options &O, Collectives *Group);

/// The properties that a continued run began with, as the first rank reads
/// them.
Beginning getBeginning(const ModelInfo &Model, const Options &O,
                       Collectives *Group, const std::string &Latest);

/// The data, of which the part that is held out may depend on the kind of run.
/// Ends the job if ranks see other files.
Sources openData(const Options &O, const ModelInfo &Model, bool Leads,
                 Collectives *Group, const std::string &Latest);

/// Samples of an iteration: the plan's, else the options'.
int64_t getGlobalBatch(const PoplarProgram &Program, const Options &O);

/// Samples of a micro-batch: what the plan says or was asked for; else what a
/// resumed run had, for the same bits; else what fits.
int64_t getMicroBatch(const PoplarProgram &Program, int Rank,
                      const ModelInfo &Model, const Options &O,
                      int64_t GlobalBatch, const std::string &Latest);

/// Samples that a validation reads; 0 if there is none.
int64_t getValSamples(const Options &O, const Sources &Data,
                      int64_t GlobalBatch, int64_t MicroBatch, bool Planned);

/// Puts what `poplar sample` and `poplar report` need, which are given the run
/// alone, into its directory: a link to the executable, or to the script of the
/// job where no rank has the whole model, and the plan or the model that the
/// executable was built from.
void rememberJob(const PoplarProgram &Program, const std::string &Run);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_RUNSETUP_H
