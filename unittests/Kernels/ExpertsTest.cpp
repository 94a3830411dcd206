//===- ExpertsTest.cpp - Mixtures of experts ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/Experts.h"
#include "Poplar/Runtime/ABI.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace {

using Floats = std::vector<float>;

Floats draw(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float &value : values)
    value = normal(generator);
  return values;
}

//===----------------------------------------------------------------------===//
// Routes
//===----------------------------------------------------------------------===//

struct Route {
  Floats scores;
  std::vector<int32_t> experts;
};

Route route(const PoplarRoute &desc, Floats logits, int64_t batch) {
  size_t slots = size_t(batch * desc.seq_len * desc.top_k);
  Route result{Floats(slots), std::vector<int32_t>(slots)};
  void *args[] = {logits.data(), result.scores.data(), result.experts.data()};
  poplar_route(&desc, args, batch, 0, batch * desc.seq_len);
  return result;
}

class RouteTest : public testing::TestWithParam<int> {
protected:
  PoplarRoute desc = {3, 11, 4, POPLAR_F32, GetParam()};
  const int64_t batch = 2;
  Floats logits = draw(size_t(batch * 3 * 11), 1);
};

TEST_P(RouteTest, ChoosesTheLargest) {
  Route found = route(desc, logits, batch);
  for (int64_t token = 0; token < batch * desc.seq_len; ++token) {
    const float *row = logits.data() + token * desc.num_experts;
    std::vector<int32_t> order(size_t(desc.num_experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    double all = 0, chosen = 0;
    for (int64_t i = 0; i < desc.num_experts; ++i)
      all += std::exp(double(row[order[size_t(i)]]));
    for (int64_t k = 0; k < desc.top_k; ++k)
      chosen += std::exp(double(row[order[size_t(k)]]));
    for (int64_t k = 0; k < desc.top_k; ++k) {
      auto slot = size_t(token * desc.top_k + k);
      EXPECT_EQ(found.experts[slot], order[size_t(k)]);
      EXPECT_NEAR(found.scores[slot],
                  std::exp(double(row[order[size_t(k)]])) /
                      (desc.normalized ? chosen : all),
                  1e-6);
    }
  }
}

TEST_P(RouteTest, HasTheGradientOfDifferences) {
  Route found = route(desc, logits, batch);
  Floats weights = draw(found.scores.size(), 2), gradient(logits.size());
  void *args[] = {weights.data(), found.scores.data(), found.experts.data(),
                  logits.data(), gradient.data()};
  poplar_route_grad(&desc, args, batch, 0, batch * desc.seq_len);
  auto loss = [&](size_t at, float by) {
    Floats moved = logits;
    moved[at] += by;
    Route other = route(desc, moved, batch);
    EXPECT_EQ(other.experts, found.experts);
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i)
      sum += double(weights[i]) * other.scores[i];
    return sum;
  };
  for (size_t at = 0; at < logits.size(); ++at)
    EXPECT_NEAR(gradient[at], (loss(at, 1e-3f) - loss(at, -1e-3f)) / 2e-3,
                1e-3);
}

INSTANTIATE_TEST_SUITE_P(Scores, RouteTest, testing::Values(0, 1));

TEST(RouteTest, TakesTheFirstOfEqualOnesAndEndsWithNaNs) {
  PoplarRoute desc = {2, 4, 2, POPLAR_F32, 1};
  float nan = std::nanf("");
  Route found = route(desc, {1, 2, 2, 2, nan, nan, nan, nan}, 1);
  EXPECT_EQ(found.experts[0], 1);
  EXPECT_EQ(found.experts[1], 2);
  for (size_t slot : {2, 3}) {
    EXPECT_GE(found.experts[slot], 0);
    EXPECT_LT(found.experts[slot], 4);
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

uint16_t toBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
float fromBF16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

/// f32 or bf16 in memory.
struct Array {
  Floats values;
  std::vector<uint16_t> halves;

  Array(Floats given, bool isBF16) : values(std::move(given)) {
    for (float &value : values)
      if (isBF16) {
        halves.push_back(toBF16(value));
        value = fromBF16(halves.back());
      }
  }
  void *data() {
    return halves.empty() ? static_cast<void *>(values.data()) : halves.data();
  }
  float operator[](int64_t i) const {
    return halves.empty() ? values[size_t(i)] : fromBF16(halves[size_t(i)]);
  }
};

/// Own inputs, own outputs, transposed, bf16; inputs, outputs.
using Shape = std::tuple<bool, bool, bool, bool, int, int>;

class ExpertsTest : public testing::TestWithParam<Shape> {
protected:
  ExpertsTest() {
    auto [ownInputs, ownOutputs, transposed, bf16, inputs, outputs] =
        GetParam();
    isBF16 = bf16;
    desc = {length,     numExperts, topK,
            inputs,     outputs,    bf16 ? POPLAR_BF16 : POPLAR_F32,
            transposed, ownInputs,  ownOutputs};
    // The last expert has no tokens.
    std::mt19937 generator(3);
    for (int64_t token = 0; token < batch * length; ++token) {
      int32_t first = int32_t(generator() % (numExperts - 1));
      experts.push_back(first);
      experts.push_back((first + 1) % (numExperts - 1));
    }
  }
  Array drawRows(int64_t columns, bool isOwn, unsigned seed) {
    return {draw(size_t(batch * length * (isOwn ? topK : 1) * columns), seed),
            isBF16};
  }
  int64_t rowOf(int64_t slot, bool isOwn) { return isOwn ? slot : slot / topK; }

  static constexpr int64_t length = 30, numExperts = 4, topK = 2, batch = 3;
  static constexpr int64_t slots = batch * length * topK;
  PoplarExperts desc;
  bool isBF16;
  std::vector<int32_t> experts;
};

TEST_P(ExpertsTest, MultipliesByTheWeightsOfTheExperts) {
  Array x = drawRows(desc.inputs, desc.own_inputs, 1),
        y = drawRows(desc.outputs, desc.own_outputs, 2);
  std::vector<Array> weights;
  for (unsigned e = 0; e < numExperts; ++e)
    weights.emplace_back(draw(size_t(desc.inputs * desc.outputs), 10 + e),
                         isBF16);
  std::vector<double> expected(y.values.size());
  for (int64_t slot = 0; slot < slots; ++slot)
    for (int64_t n = 0; n < desc.outputs; ++n)
      for (int64_t k = 0; k < desc.inputs; ++k)
        expected[size_t(rowOf(slot, desc.own_outputs) * desc.outputs + n)] +=
            double(x[rowOf(slot, desc.own_inputs) * desc.inputs + k]) *
            weights[size_t(experts[size_t(slot)])]
                   [desc.transposed ? n * desc.inputs + k
                                    : k * desc.outputs + n];
  std::vector<void *> args = {x.data(), experts.data(), y.data()};
  for (Array &weight : weights)
    args.push_back(weight.data());
  int64_t half = desc.outputs / 2;
  poplar_expert_product(&desc, args.data(), batch, 0, half);
  poplar_expert_product(&desc, args.data(), batch, half, desc.outputs);
  double largest = 0;
  for (double value : expected)
    largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(y[int64_t(i)], expected[i], largest * (isBF16 ? 1e-2 : 1e-6))
        << i;
}

TEST_P(ExpertsTest, AddsGradientsOfWeights) {
  desc.transposed = 1;
  Array x = drawRows(desc.inputs, desc.own_inputs, 1),
        dy = drawRows(desc.outputs, desc.own_outputs, 2);
  auto size = size_t(desc.inputs * desc.outputs);
  std::vector<Floats> found(numExperts, Floats(size, 0.5f));
  std::vector<std::vector<double>> expected(numExperts,
                                            std::vector<double>(size, 0.5));
  for (int64_t slot = 0; slot < slots; ++slot)
    for (int64_t n = 0; n < desc.outputs; ++n)
      for (int64_t k = 0; k < desc.inputs; ++k)
        expected[size_t(experts[size_t(slot)])][size_t(n * desc.inputs + k)] +=
            double(dy[rowOf(slot, desc.own_outputs) * desc.outputs + n]) *
            x[rowOf(slot, desc.own_inputs) * desc.inputs + k];
  std::vector<void *> args = {dy.data(), x.data(), experts.data()};
  for (Floats &gradient : found)
    args.push_back(gradient.data());
  int64_t part = desc.outputs / 3;
  poplar_expert_weight_grad(&desc, args.data(), batch, 0, part);
  poplar_expert_weight_grad(&desc, args.data(), batch, part, desc.outputs);
  for (size_t e = 0; e < numExperts; ++e)
    for (size_t i = 0; i < size; ++i)
      ASSERT_NEAR(found[e][i], expected[e][i], 1e-4) << e << " " << i;
}

// Widths with and without rests of vectors and of blocks.
INSTANTIATE_TEST_SUITE_P(Shapes, ExpertsTest,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Bool(), testing::Bool(),
                                          testing::Values(16, 37, 133),
                                          testing::Values(7, 64, 101)));

} // namespace
