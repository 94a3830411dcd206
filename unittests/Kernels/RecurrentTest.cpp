//===- RecurrentTest.cpp - Linear attention -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against the definitions, in double; gradients against differences of these.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/Recurrent.h"
#include "Poplar/Runtime/ABI.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Positions = std::vector<int32_t>;

Floats draw(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values((size_t(count)));
  for (float &value : values)
    value = normal(generator);
  return values;
}

Doubles widen(const Floats &values) { return {values.begin(), values.end()}; }

/// Documents of these lengths in each sample; the second has them backwards.
Positions place(std::vector<int64_t> lengths) {
  Positions positions;
  for (int sample = 0; sample < 2; ++sample) {
    for (int64_t length : lengths)
      for (int64_t i = 0; i < length; ++i)
        positions.push_back(int32_t(i));
    std::reverse(lengths.begin(), lengths.end());
  }
  return positions;
}

constexpr int64_t kBatch = 2;

float dot(const Floats &a, const Floats &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += double(a[i]) * b[i];
  return float(sum);
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

struct ConvCase {
  int64_t length, channels, width;
  std::vector<int64_t> documents;
};

class CausalConvTest : public testing::TestWithParam<ConvCase> {
protected:
  PoplarCausalConv desc = {
      GetParam().length, GetParam().channels, GetParam().width, POPLAR_F32,
      GetParam().documents.empty() ? POPLAR_ONE_DOCUMENT : POPLAR_DOCUMENTS};
  Positions positions = place(GetParam().documents.empty()
                                  ? std::vector<int64_t>{GetParam().length}
                                  : GetParam().documents);
  int64_t groups =
      (desc.channels + POPLAR_CONV_CHANNELS - 1) / POPLAR_CONV_CHANNELS;
  Floats x = draw(kBatch * desc.seq_len * desc.channels, 1),
         weight = draw(desc.channels * desc.width, 2);

  Floats compute(const PoplarCausalConv &shape, const Floats &input,
                 const Positions &at, int64_t batch, float *cache = nullptr) {
    Floats y(input.size());
    void *args[] = {const_cast<float *>(input.data()), weight.data(),
                    const_cast<int32_t *>(at.data()), cache, y.data()};
    poplar_causal_conv(&shape, args, batch, 0, batch * groups);
    return y;
  }
};

TEST_P(CausalConvTest, SumsTokensOfADocument) {
  Floats y = compute(desc, x, positions, kBatch);
  for (int64_t row = 0; row < kBatch * desc.seq_len; ++row)
    for (int64_t c = 0; c < desc.channels; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < desc.width; ++j) {
        int64_t back = desc.width - 1 - j;
        if (back <= positions[size_t(row)])
          sum += double(weight[size_t(c * desc.width + j)]) *
                 x[size_t((row - back) * desc.channels + c)];
      }
      ASSERT_NEAR(y[size_t(row * desc.channels + c)], sum, 1e-5);
    }
}

// The operator is linear in both: <dy, f(x)> = <dx, x> = <dw, w>.
TEST_P(CausalConvTest, HasTheTransposesAsGradients) {
  Floats y = compute(desc, x, positions, kBatch),
         dy = draw(int64_t(y.size()), 3);
  Floats dx(x.size()), dw(weight.size(), 0.5f);
  void *ofX[] = {dy.data(), weight.data(), positions.data(), dx.data()};
  poplar_causal_conv_grad(&desc, ofX, kBatch, 0, kBatch * groups);
  void *ofWeight[] = {dy.data(), x.data(), positions.data(), dw.data()};
  poplar_causal_conv_grad_weight(&desc, ofWeight, kBatch, 0, groups);
  for (float &value : dw)
    value -= 0.5f;
  double scale = std::sqrt(double(y.size())) * 1e-4;
  EXPECT_NEAR(dot(dx, x), dot(dy, y), scale);
  EXPECT_NEAR(dot(dw, weight), dot(dy, y), scale);
  // And of single elements.
  for (size_t i : {size_t(0), x.size() / 2, x.size() - 1}) {
    Floats moved = x;
    moved[i] += 1;
    EXPECT_NEAR(dot(dy, compute(desc, moved, positions, kBatch)) - dot(dy, y),
                dx[i], 1e-4 * double(y.size()) / 10);
  }
}

// A prompt of five tokens, the last of which comes twice, then single tokens.
TEST_P(CausalConvTest, GoesOnFromACache) {
  if (!GetParam().documents.empty() || desc.seq_len < 6)
    GTEST_SKIP();
  Floats whole = compute(desc, x, positions, kBatch);
  Floats cache(size_t((desc.width - 1) * desc.channels), NAN);
  PoplarCausalConv shape = desc;
  shape.tokens = POPLAR_NEW_TOKENS;
  auto check = [&](const Positions &at) {
    shape.seq_len = int64_t(at.size());
    Floats rows;
    for (int32_t token : at)
      rows.insert(rows.end(), x.begin() + token * desc.channels,
                  x.begin() + (token + 1) * desc.channels);
    Floats y = compute(shape, rows, at, 1, cache.data());
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(
          y[i],
          whole[size_t(at[i / size_t(desc.channels)]) * size_t(desc.channels) +
                i % size_t(desc.channels)],
          1e-6);
  };
  check({0, 1, 2, 3, 4, 4, 4});
  for (int32_t token = 5; token < desc.seq_len; ++token)
    check({token});
  // Another text, in the same cache.
  check({0, 1});
}

INSTANTIATE_TEST_SUITE_P(Shapes, CausalConvTest,
                         testing::Values(ConvCase{9, 20, 4, {}},
                                         ConvCase{1, 16, 4, {}},
                                         ConvCase{12, 3, 1, {}},
                                         ConvCase{12, 33, 16, {}},
                                         ConvCase{12, 40, 4, {1, 5, 2, 4}}));

//===----------------------------------------------------------------------===//
// The gated delta rule
//===----------------------------------------------------------------------===//

struct DeltaCase {
  int64_t length, keyHeads, valueHeads, keyDim, valueDim;
  std::vector<int64_t> documents;
};

/// What goes in.
struct Inputs {
  Doubles x, a, b, aLog, dtBias;
};

/// The definition.
Doubles define(const PoplarGatedDelta &desc, const Inputs &in,
               const Positions &positions) {
  int64_t dk = desc.key_dim, dv = desc.value_dim, keys = desc.key_heads * dk,
          values = desc.value_heads * dv, columns = 2 * keys + values,
          group = desc.value_heads / desc.key_heads;
  Doubles y(size_t(kBatch * desc.seq_len * values));
  for (int64_t sample = 0; sample < kBatch; ++sample)
    for (int64_t h = 0; h < desc.value_heads; ++h) {
      Doubles state(size_t(dk * dv), 0.0);
      for (int64_t t = 0; t < desc.seq_len; ++t) {
        int64_t row = sample * desc.seq_len + t;
        if (positions[size_t(row)] == 0)
          state.assign(state.size(), 0.0);
        auto unit = [&](int64_t first) {
          Doubles result(size_t(dk), 0.0);
          double squares = 1e-6;
          for (int64_t i = 0; i < dk; ++i) {
            result[size_t(i)] = in.x[size_t(row * columns + first + i)];
            squares += result[size_t(i)] * result[size_t(i)];
          }
          for (double &value : result)
            value /= std::sqrt(squares);
          return result;
        };
        Doubles q = unit(h / group * dk), k = unit(keys + h / group * dk);
        auto gate = size_t(row * desc.value_heads + h);
        double alpha =
            std::exp(-std::exp(in.aLog[size_t(h)]) *
                     std::log1p(std::exp(in.a[gate] + in.dtBias[size_t(h)])));
        double beta = 1 / (1 + std::exp(-in.b[gate]));
        for (double &value : state)
          value *= alpha;
        for (int64_t c = 0; c < dv; ++c) {
          double p = 0, out = 0;
          for (int64_t i = 0; i < dk; ++i)
            p += state[size_t(i * dv + c)] * k[size_t(i)];
          double delta =
              beta * (in.x[size_t(row * columns + 2 * keys + h * dv + c)] - p);
          for (int64_t i = 0; i < dk; ++i) {
            state[size_t(i * dv + c)] += k[size_t(i)] * delta;
            out += state[size_t(i * dv + c)] * q[size_t(i)];
          }
          y[size_t(row * values + h * dv + c)] = out / std::sqrt(double(dk));
        }
      }
    }
  return y;
}

class GatedDeltaTest : public testing::TestWithParam<DeltaCase> {
protected:
  PoplarGatedDelta desc = {GetParam().length,
                           GetParam().keyHeads,
                           GetParam().valueHeads,
                           GetParam().keyDim,
                           GetParam().valueDim,
                           POPLAR_F32,
                           GetParam().documents.empty() ? POPLAR_ONE_DOCUMENT
                                                        : POPLAR_DOCUMENTS};
  Positions positions = place(GetParam().documents.empty()
                                  ? std::vector<int64_t>{GetParam().length}
                                  : GetParam().documents);
  int64_t rows = kBatch * desc.seq_len,
          values = desc.value_heads * desc.value_dim,
          columns = 2 * desc.key_heads * desc.key_dim + values;
  Floats x = draw(rows * columns, 1), a = draw(rows * desc.value_heads, 2),
         b = draw(rows * desc.value_heads, 3), aLog = draw(desc.value_heads, 4),
         dtBias = draw(desc.value_heads, 5), dy = draw(rows * values, 6);

  Inputs widenAll() {
    return {widen(x), widen(a), widen(b), widen(aLog), widen(dtBias)};
  }
  double getLoss(const Inputs &in) {
    Doubles y = define(desc, in, positions);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i)
      sum += y[i] * dy[i];
    return sum;
  }
  /// Compares some elements of a gradient with differences.
  void check(const std::string &name, Doubles Inputs::*member,
             const Floats &gradient, size_t step) {
    Inputs in = widenAll();
    double largest = 0;
    for (float value : gradient)
      largest = std::max(largest, std::abs(double(value)));
    for (size_t i = 0; i < gradient.size(); i += step) {
      double &value = (in.*member)[i], old = value;
      value = old + 1e-5;
      double above = getLoss(in);
      value = old - 1e-5;
      double below = getLoss(in);
      value = old;
      EXPECT_NEAR(gradient[i], (above - below) / 2e-5, 2e-5 * largest + 1e-6)
          << name << "[" << i << "]";
    }
  }
};

TEST_P(GatedDeltaTest, IsTheRecurrence) {
  Floats y(dy.size());
  void *args[] = {x.data(),      a.data(),         b.data(), aLog.data(),
                  dtBias.data(), positions.data(), nullptr,  y.data()};
  poplar_gated_delta(&desc, args, kBatch, 0, kBatch * desc.value_heads);
  Doubles expected = define(desc, widenAll(), positions);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_NEAR(y[i], expected[i], 2e-5) << i;
}

TEST_P(GatedDeltaTest, HasTheGradientsOfDifferences) {
  Floats dx(x.size()), da(a.size()), db(b.size()), dlog(a.size()),
      scratch(size_t(kBatch * poplar_delta_scratch(&desc)), NAN);
  void *args[] = {dy.data(),   x.data(),      a.data(),         b.data(),
                  aLog.data(), dtBias.data(), positions.data(), dx.data(),
                  da.data(),   db.data(),     dlog.data(),      scratch.data()};
  poplar_gated_delta_grad(&desc, args, kBatch, 0, kBatch * desc.value_heads);
  void *ofKeys[] = {x.data(), dx.data(), scratch.data()};
  poplar_gated_delta_grad_keys(&desc, ofKeys, kBatch, 0, rows);
  auto sum = [&](const Floats &perToken) {
    Floats sums(size_t(desc.value_heads));
    for (size_t i = 0; i < perToken.size(); ++i)
      sums[i % sums.size()] += perToken[i];
    return sums;
  };
  check("x", &Inputs::x, dx, dx.size() / 97 + 1);
  check("a", &Inputs::a, da, da.size() / 23 + 1);
  check("b", &Inputs::b, db, db.size() / 23 + 1);
  check("a_log", &Inputs::aLog, sum(dlog), 1);
  check("dt_bias", &Inputs::dtBias, sum(da), 1);
}

TEST_P(GatedDeltaTest, GoesOnFromAState) {
  if (!GetParam().documents.empty() || desc.seq_len < 6)
    GTEST_SKIP();
  Doubles whole = define(desc, widenAll(), positions);
  Floats state(size_t(values * desc.key_dim), NAN);
  PoplarGatedDelta shape = desc;
  shape.tokens = POPLAR_NEW_TOKENS;
  auto take = [](const Floats &from, const Positions &at, int64_t width) {
    Floats taken;
    for (int32_t token : at)
      taken.insert(taken.end(), from.begin() + token * width,
                   from.begin() + (token + 1) * width);
    return taken;
  };
  auto compare = [&](Positions at) {
    shape.seq_len = int64_t(at.size());
    Floats part = take(x, at, columns), partA = take(a, at, desc.value_heads),
           partB = take(b, at, desc.value_heads), y(at.size() * size_t(values));
    void *args[] = {part.data(),   partA.data(), partB.data(), aLog.data(),
                    dtBias.data(), at.data(),    state.data(), y.data()};
    poplar_gated_delta(&shape, args, 1, 0, desc.value_heads);
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(y[i],
                  whole[size_t(at[i / size_t(values)]) * size_t(values) +
                        i % size_t(values)],
                  2e-5);
  };
  compare({0, 1, 2, 3, 4, 4, 4});
  for (int32_t token = 5; token < desc.seq_len; ++token)
    compare({token});
  compare({0, 1});
}

INSTANTIATE_TEST_SUITE_P(Shapes, GatedDeltaTest,
                         testing::Values(DeltaCase{1, 1, 1, 8, 8, {}},
                                         DeltaCase{11, 2, 4, 8, 12, {}},
                                         DeltaCase{13, 1, 3, 20, 33, {}},
                                         DeltaCase{10, 1, 1, 128, 128, {}},
                                         DeltaCase{6, 1, 2, 40, 50, {}},
                                         DeltaCase{
                                             12, 2, 2, 16, 8, {1, 5, 2, 4}}));

} // namespace
