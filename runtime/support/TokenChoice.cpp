//===- TokenChoice.cpp - Which token follows ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/TokenChoice.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace poplar::runtime;

/// Tokens of -inf are never drawn; there must be others.
static void checkFinite(const std::vector<float> &Logits) {
  constexpr float Infinity = std::numeric_limits<float>::infinity();
  auto Bad = std::find_if_not(Logits.begin(), Logits.end(),
                              [&](float Logit) { return Logit < Infinity; });
  if (Bad == Logits.end() &&
      std::all_of(Logits.begin(), Logits.end(),
                  [&](float Logit) { return Logit == -Infinity; }))
    Bad = Logits.begin();
  if (Bad != Logits.end())
    fail("the output of the model is not finite (the logit of token ",
         Bad - Logits.begin(), " is ", *Bad, "): ", DivergedAdvice);
}

std::vector<TokenChoice::Candidate>
TokenChoice::list(const std::vector<float> &Logits) const {
  checkFinite(Logits);
  if (Temperature <= 0) {
    auto Likeliest = std::max_element(Logits.begin(), Logits.end());
    return {{static_cast<int32_t>(Likeliest - Logits.begin()), 1}};
  }
  std::vector<int32_t> Order(Logits.size());
  std::iota(Order.begin(), Order.end(), 0);
  // Equal logits in the order of their ids, for the same text everywhere.
  auto IsBefore = [&](int32_t A, int32_t B) {
    float First = Logits[static_cast<size_t>(A)],
          Second = Logits[static_cast<size_t>(B)];
    return First > Second || (First == Second && A < B);
  };
  if (TopK > 0 && static_cast<size_t>(TopK) < Order.size()) {
    auto Last = Order.begin() + TopK - 1;
    std::nth_element(Order.begin(), Last, Order.end(), IsBefore);
    // As transformers does it, those that equal the last one stay, too.
    float Least = Logits[static_cast<size_t>(*Last)];
    Order.erase(std::partition(Last + 1, Order.end(),
                               [&](int32_t Id) {
                                 return Logits[static_cast<size_t>(Id)] >=
                                        Least;
                               }),
                Order.end());
  }
  std::sort(Order.begin(), Order.end(), IsBefore);
  double Highest = Logits[static_cast<size_t>(Order.front())], Sum = 0;
  std::vector<Candidate> Candidates;
  for (int32_t Id : Order) {
    double Weight =
        std::exp((Logits[static_cast<size_t>(Id)] - Highest) / Temperature);
    Candidates.push_back({Id, Weight});
    Sum += Weight;
  }
  // The token with which the probability is reached stays.
  double Before = 0;
  size_t Count = 0;
  while (Count < Candidates.size() &&
         (Count == 0 ||
          (Before < TopP * Sum && Candidates[Count].Probability >= MinP)))
    Before += Candidates[Count++].Probability;
  Candidates.resize(Count);
  for (Candidate &Each : Candidates)
    Each.Probability /= Before;
  return Candidates;
}

int32_t TokenChoice::draw(const std::vector<float> &Logits,
                          double Uniform) const {
  std::vector<Candidate> Candidates = list(Logits);
  for (Candidate Each : Candidates)
    if ((Uniform -= Each.Probability) < 0)
      return Each.Id;
  return Candidates.back().Id;
}
