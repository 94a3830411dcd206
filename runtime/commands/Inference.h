//===- Inference.h - What a model says behind a text ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_INFERENCE_H
#define POPLAR_RUNTIME_INFERENCE_H

#include "program/Executor.h"
#include "program/Pipeline.h"

namespace poplar::runtime {

class Group;

/// What a model says behind a token, wherever the job has its parts. All ranks
/// of a job run it; those of a pipeline each pass on the same sample.
///
/// With caches, only new tokens are computed, a prompt in chunks. A partial
/// chunk is padded with its last token at the same position: that token is
/// computed and written again, so that the last row is always that of the
/// newest token.
class Inference : public MicroBatches {
public:
  /// `Ranks` is null where the rank is alone.
  Inference(Executor &Exec, Group *Ranks, bool UsesCaches);

  /// A text that grows from call to call. Of one that is longer than the
  /// model's sequences, the newest tokens that fit are read, as a sequence of
  /// their own and without caches: all of them are at other positions than
  /// before.
  void run(const std::vector<int32_t> &Text);

  /// Whether the model's parts are on several ranks, of which only the first
  /// has the logits of all.
  bool isDivided() const;
  /// The logits of run().
  const std::vector<float> &getLogits() const {
    return isDivided() ? All : Logits;
  }

  int64_t count() const override { return 1; }
  int64_t size(int64_t) const override { return 1; }
  void fill(int64_t, char *Slot, bool) override;
  void take(int64_t) override;

private:
  void runWhole(const std::vector<int32_t> &Text);
  /// The next of the tokens that are new.
  void runNew(const std::vector<int32_t> &Text);
  void findBounds();

  Executor &Exec;
  Group *Ranks;
  bool UsesCaches;
  /// Tokens in the caches.
  size_t Cached = 0;
  /// The function under way, null of whole sequences; its inputs, and the row
  /// whose logits are wanted.
  const PoplarDecoding *Function = nullptr;
  std::vector<int32_t> Ids, Positions;
  int64_t Row = 0;
  /// The rank's part of the logits; on the first rank, all of them, of which
  /// each rank has those between its bounds.
  std::vector<float> Logits, All;
  std::vector<int64_t> Bounds;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_INFERENCE_H
