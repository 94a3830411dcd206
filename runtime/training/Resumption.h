//===- Resumption.h - What a resumed run has other than before --*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_RESUMPTION_H
#define POPLAR_RUNTIME_RESUMPTION_H

#include "checkpoint/Checkpoint.h"
#include "job/Options.h"
#include "training/Schedule.h"

namespace poplar::runtime {

struct Sources;

/// The schedule that decided options describe.
Schedule makeSchedule(const Options &O);

/// The options that decide the course of training, for the state of a run.
TrainingState::Record recordOptions(const Options &Decided,
                                    int64_t GlobalBatch);

/// Descriptions of the training data, for the state of a run.
TrainingState::Record recordData(const Options &O, const Sources &Data);

/// Lines that say what differs from the run so far, "" if nothing does that
/// steps after `Before.Step` depend on. `Options` and `Data` are what is
/// recorded of the run from now on, and `Rates` its schedule of `Steps` steps.
std::string describeChanges(const TrainingState &Before,
                            const TrainingState::Record &Options,
                            const TrainingState::Record &Data,
                            const Schedule &Rates, int64_t Steps);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_RESUMPTION_H
