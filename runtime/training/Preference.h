//===- Preference.h - Losses of pairs of answers ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For a prompt x, an answer w that is preferred to an answer l, and lengths
// n_w, n_l in tokens:
//
//   DPO (Rafailov et al. 2023, eq. 7)
//     margin = beta ((log p(w|x) - log q(w|x)) - (log p(l|x) - log q(l|x)))
//     loss   = -log sigmoid(margin)
//     q is the reference: the model before the first step.
//
//   ORPO (Hong et al. 2024, eq. 6 and 7)
//     P(y)   = p(y|x)^(1 / n_y)
//     ratio  = log(P(w) / (1 - P(w))) - log(P(l) / (1 - P(l)))
//     loss   = -log p(x, w) / tokens - beta log sigmoid(ratio)
//     margin = beta (log P(w) - log P(l)), as trl reports it
//
// The losses of a step are means over the pairs of the global batch, and over
// its tokens in ORPO's first term, whichever ranks have them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PREFERENCE_H
#define POPLAR_RUNTIME_PREFERENCE_H

#include "data/Batch.h"
#include "job/Options.h"

#include <string>
#include <unordered_map>

namespace poplar::runtime {

class Collectives;

/// Sums over pairs.
struct PairSums {
  double Loss = 0, TokenLoss = 0, Margin = 0, Accurate = 0;
  int64_t Pairs = 0, Tokens = 0;

  /// Adds those of all ranks.
  void reduce(Collectives *Group);
  double getLoss() const;
  double getMargin() const { return Margin / static_cast<double>(Pairs); }
  /// The part of the pairs whose chosen answer has the higher reward.
  double getAccuracy() const { return Accurate / static_cast<double>(Pairs); }
};

/// What the reference says of each pair, by the pair's key.
class ReferenceScores {
public:
  /// Scores all pairs of `Source` with the weights as they are, in batches of
  /// `GlobalBatch` pairs. Collective.
  void compute(BatchRunner &Batches, SampleSource &Source, const Share &Part,
               int64_t GlobalBatch, Collectives *Group);
  /// A file of them, and the text of one, which must be there.
  void write(const std::string &Path) const;
  static std::string load(const std::string &Path);
  /// Takes the text of the file `Path`. Fails if it is damaged, or others than
  /// those that describe() has called `Description`.
  void read(const std::string &Text, const std::string &Path,
            const std::string &Description);
  /// "12 pairs with the hash 0123456789abcdef".
  std::string describe() const;
  /// Fails if a pair of `Source` has none.
  void require(BatchRunner &Batches, SampleSource &Source, const Share &Part,
               int64_t GlobalBatch, const std::string &Path) const;

  /// log q(w|x) and log q(l|x); null if there is no such pair.
  const std::pair<double, double> *find(uint64_t Key) const;

private:
  /// Ordered as the pairs were read.
  std::vector<std::pair<uint64_t, std::pair<double, double>>> All;
  std::unordered_map<uint64_t, size_t> Numbers;
};

/// The loss that --preference names.
class PreferenceLoss {
public:
  explicit PreferenceLoss(const Options &O)
      : IsDPO(O.Preference == "dpo"), Beta(O.PreferenceBeta) {}

  /// Whether it compares with a reference.
  bool hasReference() const { return IsDPO; }
  /// Scores what was loaded: the sums over its pairs, on the rank that counts
  /// them, and the gradient of each pair's loss, before any mean.
  PairSums score(BatchRunner &Batches, int64_t Samples,
                 const ReferenceScores &Reference);
  /// Trains on what was scored; `Sums` are those of the global batch.
  void train(BatchRunner &Batches, const PairSums &Sums, double LossScale);

private:
  /// The loss of a pair, its margin and its gradient.
  double apply(const PairScore &S, const std::pair<double, double> &Reference,
               double &Margin, PairGradient &G) const;

  bool IsDPO;
  double Beta;
  std::vector<PairGradient> Gradients;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PREFERENCE_H
