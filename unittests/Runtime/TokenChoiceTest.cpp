//===- TokenChoiceTest.cpp - Which token follows --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/TokenChoice.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace poplar::runtime;

namespace {

struct Golden {
  TokenChoice Choice;
  std::vector<float> Logits;
  std::vector<double> Probabilities;
};

const Golden Goldens[] = {
#include "SamplingGoldens.inc"
};

TEST(TokenChoiceTest, choosesAsTransformers) {
  for (const Golden &Each : Goldens) {
    std::vector<double> Probabilities(Each.Logits.size());
    for (auto [Id, Probability] : Each.Choice.list(Each.Logits))
      Probabilities[static_cast<size_t>(Id)] = Probability;
    for (size_t Id = 0; Id < Probabilities.size(); ++Id)
      EXPECT_NEAR(Probabilities[Id], Each.Probabilities[Id], 1e-6)
          << "golden " << &Each - Goldens << ", token " << Id;
  }
}

TEST(TokenChoiceTest, drawsByProbability) {
  TokenChoice Choice{1, 0, 1, 0};
  std::vector<float> Logits = {0, 1, 1, -1};
  std::vector<TokenChoice::Candidate> Candidates = Choice.list(Logits);
  // Equal logits in the order of their ids.
  EXPECT_EQ(Candidates[0].Id, 1);
  EXPECT_EQ(Candidates[1].Id, 2);
  std::vector<int> Counts(4);
  const int Draws = 10000;
  for (int I = 0; I < Draws; ++I)
    ++Counts[static_cast<size_t>(Choice.draw(Logits, double(I) / Draws))];
  for (auto [Id, Probability] : Candidates)
    EXPECT_NEAR(Counts[static_cast<size_t>(Id)], Probability * Draws, 2);
}

TEST(TokenChoiceTest, withoutTemperatureTakesTheLikeliest) {
  TokenChoice Choice{0, 0, 1, 0};
  EXPECT_EQ(Choice.draw({1, 3, 3, 2}, 0.99), 1);
}

TEST(TokenChoiceTest, refusesWhatIsNotFinite) {
  const float Infinity = std::numeric_limits<float>::infinity();
  auto Refuses = [](std::vector<float> Logits, const char *Part) {
    for (double Temperature : {0.0, 0.8}) {
      TokenChoice Choice{Temperature, 2, 0.9, 0.1};
      try {
        Choice.draw(Logits, 0.5);
        FAIL() << "drew a token where " << Part;
      } catch (const Error &E) {
        EXPECT_NE(std::string(E.what()).find(Part), std::string::npos)
            << E.what();
      }
    }
  };
  Refuses({1, std::nanf(""), 3}, "(the logit of token 1 is nan)");
  Refuses({1, 2, Infinity}, "(the logit of token 2 is inf)");
  Refuses({-Infinity, -Infinity}, "(the logit of token 0 is -inf)");
  EXPECT_EQ((TokenChoice{0.8, 0, 1, 0}.draw({-Infinity, 1}, 0.0)), 1);
}

} // namespace
