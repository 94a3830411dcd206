//===- StateFile.cpp - state.json of a checkpoint -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Checkpoint.h"
#include "comm/Agreement.h"
#include "job/Options.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"
#include "tokenizer/Tables.h"

#include <cmath>
#include <cstdio>

using namespace poplar::runtime;

static std::string formatRecord(const char *Name,
                                const TrainingState::Record &Record) {
  if (Record.empty())
    return "";
  std::string Text = std::string(",\n  \"") + Name + "\": {";
  for (const auto &[Key, Value] : Record)
    Text += (Key == Record.begin()->first ? "\n    " : ",\n    ") +
            json::quote(Key) + ": " + json::quote(Value);
  return Text + "\n  }";
}

static TrainingState::Record readRecord(const json::Value &Root,
                                        std::string_view Name) {
  TrainingState::Record Record;
  if (const json::Value *Found = Root.find(Name))
    for (const auto &[Key, Value] : Found->members())
      Record[Key] = Value.asString();
  return Record;
}

/// All members but the digest, which is of this text: whatever else stands
/// between them, a state whose values were altered has another digest.
static std::string formatMembers(const TrainingState &State) {
  char Best[32], Scale[32];
  std::snprintf(Best, sizeof(Best), "%.9g", State.BestLoss);
  std::snprintf(Scale, sizeof(Scale), "%.17g", State.LossScale);
  return "  \"version\": 2,\n  \"step\": " + std::to_string(State.Step) +
         ",\n  \"samples\": " + std::to_string(State.Samples) +
         ",\n  \"seed\": " + std::to_string(State.Seed) +
         ",\n  \"micro_batch\": " + std::to_string(State.MicroBatch) +
         ",\n  \"threads\": " + std::to_string(State.Threads) +
         ",\n  \"loss_scale\": " + Scale +
         ",\n  \"kind\": " + json::quote(State.Kind) +
         formatRecord("options", State.Options) +
         formatRecord("data", State.Data) +
         (State.Base.empty() ? ""
                             : ",\n  \"base\": " + json::quote(State.Base)) +
         (State.StateBits
              ? ",\n  \"state_bits\": " + std::to_string(State.StateBits)
              : "") +
         ",\n  \"best_val_loss\": " +
         (std::isfinite(State.BestLoss) ? Best : "null");
}

std::string poplar::runtime::formatState(const TrainingState &State) {
  std::string Members = formatMembers(State);
  return "{\n" + Members +
         ",\n  \"digest\": " + json::quote(comm::toHex(hashBytes(Members))) +
         "\n}\n";
}

TrainingState poplar::runtime::readState(const std::string &Directory) {
  std::string StatePath = Directory + "/state.json";
  MappedFile StateFile(StatePath);
  json::Value Root = json::parse(StateFile.text(), "'" + StatePath + "'");
  TrainingState State;
  State.Step = Root.integer("step", -1);
  State.Samples = Root.integer("samples", -1);
  State.Seed = Root.integer("seed", 0);
  State.MicroBatch = Root.integer("micro_batch", -1);
  State.Threads = Root.integer("threads", 0);
  State.LossScale = Root.number("loss_scale", 1);
  State.Kind = Root.string("kind", "");
  State.Options = readRecord(Root, "options");
  State.Data = readRecord(Root, "data");
  State.BestLoss = Root.number("best_val_loss", State.BestLoss);
  State.Base = Root.string("base", "");
  State.StateBits = Root.integer("state_bits", 0);
  if (State.Step < 0 || State.Samples < 0 || State.MicroBatch < 1)
    fail("'", StatePath, "' lacks step, samples or micro_batch");
  if (State.Step > LargestCount ||
      State.Samples > LargestCount * LargestCount ||
      !(State.LossScale >= 0 && State.LossScale <= LargestLossScale))
    fail("'", StatePath,
         "' is damaged: its step, samples or loss_scale is too "
         "large for any run");
  // Earlier versions wrote no digest.
  std::string Digest = Root.string("digest", "");
  int64_t Version = Root.integer("version", 0);
  if (Version == 1 && Digest.empty() && State.Kind.empty())
    return State;
  if (Version != 2)
    fail("'", StatePath, "' is of version ", Version,
         ", and this version of poplar reads 1 and 2");
  if (Digest.empty())
    fail("'", StatePath,
         "' has no digest; resume from another checkpoint, or start from its "
         "weights with --init");
  if (Digest != comm::toHex(hashBytes(formatMembers(State))))
    fail("'", StatePath,
         "' is damaged or was edited: its digest is not that of its members; "
         "resume from another checkpoint, or start from its weights with "
         "--init");
  return State;
}
