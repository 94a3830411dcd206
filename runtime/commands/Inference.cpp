//===- Inference.cpp - What a model says behind a text --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "commands/Inference.h"
#include "job/Group.h"

#include <algorithm>
#include <numeric>

using namespace poplar::runtime;

static size_t getCount(int64_t Number) { return static_cast<size_t>(Number); }

void Inference::run(const std::vector<int32_t> &Text) {
  if (!UsesCaches || Text.size() > getCount(Exec.model().SeqLen))
    return runWhole(Text);
  while (Cached < Text.size())
    runNew(Text);
  collect();
}

void Inference::runWhole(const std::vector<int32_t> &Text) {
  Function = nullptr;
  Ids.assign(getCount(Exec.model().SeqLen), 0);
  size_t Count = std::min(Text.size(), Ids.size());
  // What follows the tokens is masked by causality.
  std::copy(Text.end() - static_cast<ptrdiff_t>(Count), Text.end(),
            Ids.begin());
  Row = static_cast<int64_t>(Count) - 1;
  Positions.resize(Ids.size());
  std::iota(Positions.begin(), Positions.end(), 0);
  if (Pipeline *Turns = Exec.pipeline()) {
    Turns->infer(*this);
    return collect();
  }
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
  else if (Exec.model().Packed)
    CopyIn(Exec.program().positions, Positions);
}

void Inference::take(int64_t) {
  Exec.readLogits(Function ? Function->logits : Exec.program().logits, 1, Row,
                  1, Logits.data());
}

/// In a pipeline, those of the first rank of the last stage are as good as any.
void Inference::collect() {
  if (!Exec.pipeline())
    return;
  const PoplarProgram &Program = Exec.program();
  std::vector<int64_t> Bounds = {0};
  bool IsFound = false;
  for (int64_t R = 0; R < Program.world_size; ++R) {
    bool Has =
        !IsFound && Program.ranks[R].group + 1 == Program.pipeline->num_groups;
    IsFound |= Has;
    Bounds.push_back(Bounds.back() + (Has ? Exec.model().VocabSize : 0));
  }
  std::vector<float> All(Logits.size());
  Ranks->gather(Logits.data(), All.data(), Bounds.data());
  Logits = std::move(All);
}
