//===- Course.h - How long and how fast a run trains ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Defaults of options that depend on the run. They are decided in two steps,
// from what the run begins with, and then from its data:
//
//   kind    pre-training, fine-tuning of all weights or of adapters: decides
//           the learning rate, the weight decay and the part held out
//   data    samples an epoch: with the samples of a step, decide the steps, and
//           with these the warm-up, the checkpoints and the validations
//
// Example: --epochs 3 of 52 samples in steps of 8 are 156 samples or, rounded
// up to whole steps, 20 steps. An epoch ends in step 7. --warmup-ratio 0.1 is
// a warm-up of 2 steps.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COURSE_H
#define POPLAR_RUNTIME_COURSE_H

#include "job/Options.h"
#include "program/Executor.h"

namespace poplar::runtime {

/// The kind of a run: which weights it trains, and where they come from.
enum class RunKind { PreTraining, FineTuning, Adapters };

/// "pre-training", "fine-tuning", "adapters", as a checkpoint has it.
const char *getName(RunKind Kind);
/// False if there is no kind of that name.
bool parseRunKind(std::string_view Name, RunKind &Result);

/// The kind of a run that begins with these options.
RunKind getRunKind(const ModelInfo &Model, const Options &Given);

/// Properties that a run keeps when it is continued, unless options change
/// them.
struct Beginning {
  RunKind Kind;
  std::string ValSplit;
};

/// The options with what the beginning of the run decides.
Options decideByKind(Options Given, const Beginning &Begun);

/// Steps that `Epochs` passes over `Samples` samples take.
int64_t countSteps(double Epochs, int64_t Samples, int64_t GlobalBatch);

/// The same with what the data decide, too. `O` are the options by kind.
Options decideByData(Options O, RunKind Kind, int64_t Samples,
                     int64_t GlobalBatch);

/// A line that says what the run is, how long it is, and which options have
/// their defaults. `Decided` are the options with both decided. A validation
/// reads `Validated` of the `Held` samples that are held out.
std::string describeCourse(const Options &Given, const Options &Decided,
                           RunKind Kind, int64_t Samples, int64_t GlobalBatch,
                           int64_t Validated, int64_t Held);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_COURSE_H
