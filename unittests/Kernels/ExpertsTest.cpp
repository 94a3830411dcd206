//===- ExpertsTest.cpp - Mixtures of experts ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/Experts.h"
#include "QuantizedMatrix.h"
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

Route route(const PoplarRoute &desc, Floats logits, int64_t batch,
            Floats bias = {}) {
  size_t slots = size_t(batch * desc.seq_len * desc.top_k);
  Route result{Floats(slots), std::vector<int32_t>(slots)};
  void *args[] = {logits.data(), result.scores.data(), result.experts.data(),
                  bias.data()};
  poplar_route(&desc, args, batch, 0, batch * desc.seq_len);
  return result;
}

class RouteTest : public testing::TestWithParam<int> {
protected:
  PoplarRoute desc = {3, 11, 4, POPLAR_F32, GetParam(), 0, 0, 1, 1};
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

/// Sigmoids with a bias and groups, as DeepSeek-V3 has them: whether scores are
/// normalized, groups, and how many of them are looked at.
class SigmoidRouteTest
    : public testing::TestWithParam<std::tuple<int, int, int>> {
protected:
  PoplarRoute getDesc() const {
    auto [normalized, groups, top] = GetParam();
    return {5, 12, 4, POPLAR_F32, normalized, 1, 1, groups, top};
  }
  const int64_t batch = 3, experts = 12;
  Floats logits = draw(size_t(batch * 5 * experts), 3);
  Floats bias = draw(size_t(POPLAR_BIAS_PARTS * experts), 4);
};

/// The `count` largest, in order.
std::vector<int> sortLargest(const std::vector<double> &values, size_t count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return values[size_t(a)] > values[size_t(b)];
  });
  order.resize(count);
  return order;
}

TEST_P(SigmoidRouteTest, ChoosesFromTheBestGroups) {
  PoplarRoute desc = getDesc();
  Route found = route(desc, logits, batch, bias);
  auto each = size_t(experts / desc.groups);
  for (size_t token = 0; token < size_t(batch * 5); ++token) {
    std::vector<double> scores, keys, sums;
    for (size_t e = 0; e < size_t(experts); ++e) {
      double logit = logits[token * size_t(experts) + e], added = 0;
      for (size_t part = 0; part < POPLAR_BIAS_PARTS; ++part)
        added += bias[part * size_t(experts) + e];
      scores.push_back(1 / (1 + std::exp(-logit)));
      keys.push_back(scores.back() + added);
    }
    for (size_t g = 0; g < size_t(desc.groups); ++g) {
      std::vector<double> own(keys.begin() + long(g * each),
                              keys.begin() + long((g + 1) * each));
      std::vector<int> best = sortLargest(own, 2);
      sums.push_back(own[size_t(best[0])] + own[size_t(best[1])]);
    }
    std::vector<int> open = sortLargest(sums, size_t(desc.top_groups));
    for (size_t e = 0; e < keys.size(); ++e)
      if (std::find(open.begin(), open.end(), int(e / each)) == open.end())
        keys[e] = -1e30;
    std::vector<int> chosen = sortLargest(keys, 4);
    double sum = 0;
    for (int e : chosen)
      sum += scores[size_t(e)];
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(found.experts[token * 4 + k], chosen[k]);
      EXPECT_NEAR(found.scores[token * 4 + k],
                  scores[size_t(chosen[k])] / (desc.normalized ? sum : 1),
                  1e-6);
    }
  }
}

TEST_P(SigmoidRouteTest, HasTheGradientOfDifferences) {
  PoplarRoute desc = getDesc();
  Route found = route(desc, logits, batch, bias);
  Floats weights = draw(found.scores.size(), 2), gradient(logits.size());
  void *args[] = {weights.data(), found.scores.data(), found.experts.data(),
                  logits.data(), gradient.data()};
  poplar_route_grad(&desc, args, batch, 0, batch * desc.seq_len);
  auto loss = [&](size_t at, float by) {
    Floats moved = logits;
    moved[at] += by;
    Route other = route(desc, moved, batch, bias);
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

INSTANTIATE_TEST_SUITE_P(Scores, SigmoidRouteTest,
                         testing::Values(std::tuple(0, 1, 1),
                                         std::tuple(1, 1, 1),
                                         std::tuple(1, 4, 2),
                                         std::tuple(0, 6, 3)));

/// A softmax whose scores are compared with a bias: Ernie 4.5.
TEST(RouteTest, AddsABiasToASoftmax) {
  PoplarRoute desc = {1, 3, 2, POPLAR_F32, 1, 0, 1, 1, 1};
  Floats bias = {0, 0, 0.5f, 0, 0, 0.25f, 0, 0, 0.25f};
  Route found = route(desc, {2, 1, 0}, 1, bias);
  EXPECT_EQ(found.experts, (std::vector<int32_t>{2, 0}));
  EXPECT_NEAR(found.scores[0], 1 / (1 + std::exp(2.0)), 1e-6);
  EXPECT_NEAR(found.scores[1], 1 / (1 + std::exp(-2.0)), 1e-6);
}

TEST(RouteTest, TakesTheFirstOfEqualOnesAndEndsWithNaNs) {
  PoplarRoute desc = {2, 4, 2, POPLAR_F32, 1, 0, 0, 1, 1};
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
    desc = {length,         numExperts, topK,
            inputs,         outputs,    bf16 ? POPLAR_BF16 : POPLAR_F32,
            transposed,     ownInputs,  ownOutputs,
            /*quantized=*/0};
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

// Other sums than those of plain weights, of the same values.
TEST_P(ExpertsTest, DequantizesWeights) {
  Array x = drawRows(desc.inputs, desc.own_inputs, 1),
        expected = drawRows(desc.outputs, desc.own_outputs, 2), y = expected;
  for (int32_t format : {POPLAR_NF4, POPLAR_NF4_DOUBLE, POPLAR_INT8}) {
    std::mt19937 generator(5);
    std::vector<QuantizedMatrix> weights;
    std::vector<Array> values;
    for (unsigned e = 0; e < numExperts; ++e) {
      weights.emplace_back(format, desc.transposed ? desc.outputs : desc.inputs,
                           desc.transposed ? desc.inputs : desc.outputs,
                           generator);
      Floats plain;
      for (int64_t i = 0; i < desc.inputs * desc.outputs; ++i)
        plain.push_back(weights.back().get(i));
      values.emplace_back(plain, isBF16);
    }
    std::vector<void *> args = {x.data(), experts.data(), expected.data()},
                        given = {x.data(), experts.data(), y.data()};
    for (unsigned e = 0; e < numExperts; ++e) {
      args.push_back(values[e].data());
      given.push_back(weights[e].Bytes.data());
    }
    poplar_expert_product(&desc, args.data(), batch, 0, desc.outputs);
    PoplarExperts quantized = desc;
    quantized.quantized = format;
    int64_t half = desc.outputs / 2;
    poplar_expert_product(&quantized, given.data(), batch, 0, half);
    poplar_expert_product(&quantized, given.data(), batch, half, desc.outputs);
    float largest = 0;
    for (size_t i = 0; i < y.values.size(); ++i)
      largest = std::max(largest, std::abs(expected[int64_t(i)]));
    for (size_t i = 0; i < y.values.size(); ++i)
      ASSERT_NEAR(y[int64_t(i)], expected[int64_t(i)],
                  largest * (isBF16 ? 1e-2f : 1e-6f))
          << format << " " << i;
  }
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
