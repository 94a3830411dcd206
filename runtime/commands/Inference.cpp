//===- Inference.cpp - What a model says behind a text --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "commands/Inference.h"
#include "job/Group.h"
#include "program/State.h"
#include "training/Shares.h"

#include <algorithm>
#include <numeric>

using namespace poplar::runtime;

static size_t getCount(int64_t Number) { return static_cast<size_t>(Number); }

Inference::Inference(Executor &Exec, Group *Ranks, bool UsesCaches)
    : Exec(Exec), Ranks(Ranks), UsesCaches(UsesCaches),
      Logits(getCount(Exec.model().logits_columns)) {
  if (isDivided())
    findBounds();
}

void Inference::run(const std::vector<int32_t> &Text) {
  if (!UsesCaches || Text.size() > getCount(Exec.model().seq_len))
    runWhole(Text);
  else
    while (Cached < Text.size())
      runNew(Text);
  if (isDivided())
    Ranks->gather(Logits.data(), All.data(), Bounds.data());
}

void Inference::runWhole(const std::vector<int32_t> &Text) {
  Function = nullptr;
  Ids.assign(getCount(Exec.model().seq_len), 0);
  size_t Count = std::min(Text.size(), Ids.size());
  // What follows the tokens is masked by causality.
  std::copy(Text.end() - static_cast<ptrdiff_t>(Count), Text.end(),
            Ids.begin());
  Row = static_cast<int64_t>(Count) - 1;
  Positions.resize(Ids.size());
  std::iota(Positions.begin(), Positions.end(), 0);
  if (Pipeline *Turns = Exec.pipeline())
    return Turns->infer(*this);
  fill(0, Exec.sized<char>(0, 1), /*HasLoss=*/false);
  Exec.infer(1);
  take(0);
}

void Inference::runNew(const std::vector<int32_t> &Text) {
  const PoplarProgram &Program = Exec.program();
  bool IsPrompt = Text.size() - Cached > 1;
  Function = IsPrompt ? Program.prefill : Program.decode;
  size_t End = std::min(Text.size(), Cached + getCount(Function->tokens));
  Ids.clear();
  Positions.clear();
  for (int64_t I = 0; I < Function->tokens; ++I) {
    size_t At = std::min(Cached + getCount(I), End - 1);
    Ids.push_back(Text[At]);
    Positions.push_back(static_cast<int32_t>(At));
  }
  Row = Function->tokens - 1;
  Cached = End;
  if (Pipeline *Turns = Exec.pipeline())
    return Turns->decode(*this, IsPrompt);
  fill(0, Exec.sized<char>(0, 1), /*HasLoss=*/false);
  Exec.decode(*Function, 1);
  take(0);
}

void Inference::fill(int64_t, char *Slot, bool) {
  auto CopyIn = [&](int64_t Offset, const std::vector<int32_t> &Values) {
    Exec.device().copyIn(Slot + Offset, Values.data(),
                         static_cast<int64_t>(Values.size()) * 4);
  };
  CopyIn(Function ? Function->ids : Exec.program().ids, Ids);
  if (Function)
    CopyIn(Function->positions, Positions);
  else if (Exec.model().packed)
    CopyIn(Exec.program().positions, Positions);
}

void Inference::take(int64_t) {
  Exec.readLogits(Function ? Function->logits : Exec.program().logits, 1, Row,
                  1, Logits.data());
}

/// In a pipeline, the logits of the first rank of the last stage are used.
bool Inference::isDivided() const {
  return Exec.pipeline() || sharesUnits(Exec.program());
}

/// Takes the logits of the first ranks of the last stage that together have
/// them all.
void Inference::findBounds() {
  std::vector<int64_t> Columns = countLogitColumns(Exec, *Ranks);
  Bounds = {0};
  All.resize(getCount(Exec.model().vocab_size));
  for (int64_t C : Columns)
    Bounds.push_back(std::min(Bounds.back() + C, Exec.model().vocab_size));
}
