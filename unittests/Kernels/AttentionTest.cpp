//===- AttentionTest.cpp - Attention against its definition ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/ABI.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace {

uint16_t toBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
float fromBF16(uint16_t value) {
  uint32_t bits = uint32_t(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

/// An array in the kernel's type, seen as doubles.
struct Array {
  Array(size_t size, bool isBF16)
      : isBF16(isBF16), bytes(size * 4 + 64, 0xFF) {}
  double get(size_t i) const {
    if (isBF16)
      return fromBF16(reinterpret_cast<const uint16_t *>(bytes.data())[i]);
    return reinterpret_cast<const float *>(bytes.data())[i];
  }
  void set(size_t i, float value) {
    if (isBF16)
      reinterpret_cast<uint16_t *>(bytes.data())[i] = toBF16(value);
    else
      reinterpret_cast<float *>(bytes.data())[i] = value;
  }
  bool isBF16;
  std::vector<unsigned char> bytes;
};

struct Case {
  const char *name;
  int64_t length, heads, kvHeads, dim;
  bool causal, packed, isBF16;
  int64_t window;
  double dropout;
  double cap = 0;
  /// How long the documents of the first sample are, which share it; those of
  /// the second one are as long, in the opposite order.
  std::vector<int64_t> documents = {};
  bool hasSinks = false;
};

/// The position of each token in its document.
std::vector<int32_t> getPositions(const Case &test, int64_t batch) {
  std::vector<int32_t> positions;
  std::vector<int64_t> lengths = test.documents;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t length : lengths)
      for (int64_t i = 0; i < length; ++i)
        positions.push_back(int32_t(i));
    std::reverse(lengths.begin(), lengths.end());
  }
  return positions;
}
void PrintTo(const Case &test, std::ostream *os) { *os << test.name; }

uint64_t splitMix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, MatchesDefinition) {
  const Case &test = GetParam();
  const int64_t batch = 2, T = test.length, H = test.heads, K = test.kvHeads,
                d = test.dim;
  PoplarAttention desc = {};
  desc.seq_len = T, desc.num_heads = H, desc.num_kv_heads = K;
  desc.head_dim = d, desc.out_stride = H * d, desc.window = test.window;
  desc.op_id = 5, desc.scale = 1.3 / std::sqrt(double(d));
  desc.dropout = test.dropout, desc.causal = test.causal, desc.cap = test.cap;
  desc.type = test.isBF16 ? POPLAR_BF16 : POPLAR_F32;
  std::vector<int32_t> positions = getPositions(test, batch);
  desc.documents = !positions.empty();
  desc.q_stride = test.packed ? (H + 2 * K) * d : H * d;
  desc.k_stride = desc.v_stride = test.packed ? (H + 2 * K) * d : K * d;
  desc.k_offset = test.packed ? H * d : 0;
  desc.v_offset = test.packed ? (H + K) * d : 0;

  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  auto make = [&](int64_t stride, bool fill) {
    Array array(batch * T * stride, test.isBF16);
    for (int64_t i = 0; fill && i < batch * T * stride; ++i)
      array.set(i, normal(random));
    return array;
  };
  Array q = make(desc.q_stride, true), k = make(desc.k_stride, true),
        v = make(desc.v_stride, true), dy = make(H * d, true),
        out = make(H * d, false), dq = make(desc.q_stride, false),
        dk = make(desc.k_stride, false), dv = make(desc.v_stride, false);
  std::vector<float> lse(batch * H * T);
  int32_t keys[] = {123, -456, 789, 10};
  Array &ka = test.packed ? q : k, &va = test.packed ? q : v,
        &dka = test.packed ? dq : dk, &dva = test.packed ? dq : dv;

  void *forward[] = {q.bytes.data(),   ka.bytes.data(),  va.bytes.data(), keys,
                     positions.data(), out.bytes.data(), lse.data()};
  int64_t extent = batch * H * ((T + 63) / 64);
  // In two parts, as two threads would.
  poplar_attention_forward(&desc, forward, batch, extent / 2, extent);
  poplar_attention_forward(&desc, forward, batch, 0, extent / 2);
  Array sinks(H, test.isBF16);
  for (int64_t h = 0; h < H; ++h)
    sinks.set(h, 4 * normal(random));
  void *sunk[] = {out.bytes.data(), lse.data(), sinks.bytes.data()};
  if (test.hasSinks) {
    poplar_attention_sinks(&desc, sunk, batch, T / 2, batch * T);
    poplar_attention_sinks(&desc, sunk, batch, 0, T / 2);
  }
  void *backward[] = {dy.bytes.data(),
                      out.bytes.data(),
                      lse.data(),
                      q.bytes.data(),
                      ka.bytes.data(),
                      va.bytes.data(),
                      keys,
                      positions.data(),
                      dq.bytes.data(),
                      dka.bytes.data(),
                      dva.bytes.data()};
  poplar_attention_backward(&desc, backward, batch, 1, batch * K);
  poplar_attention_backward(&desc, backward, batch, 0, 1);

  const double tolerance = test.isBF16 ? 2e-2 : 5e-5;
  std::vector<double> gq(batch * T * H * d), gk(batch * T * K * d),
      gv(batch * T * K * d);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < T; ++i) {
        int64_t g = h / (H / K);
        auto qAt = [&](int64_t c) {
          return (b * T + i) * desc.q_stride + h * d + c;
        };
        auto kAt = [&](int64_t j, int64_t c) {
          return (b * T + j) * desc.k_stride + desc.k_offset + g * d + c;
        };
        auto vAt = [&](int64_t j, int64_t c) {
          return (b * T + j) * desc.v_stride + desc.v_offset + g * d + c;
        };
        auto yAt = [&](int64_t c) { return (b * T + i) * H * d + h * d + c; };
        std::vector<double> p(T), keep(T, 1.0), dp(T), slope(T, 1.0);
        double sum = test.hasSinks ? std::exp(sinks.get(h)) : 0, delta = 0;
        for (int64_t j = 0; j < T; ++j) {
          if ((test.causal && j > i) || (test.window && i - j >= test.window) ||
              (desc.documents && i - j > positions[b * T + i]))
            continue;
          for (int64_t c = 0; c < d; ++c)
            p[j] += q.get(qAt(c)) * ka.get(kAt(j, c));
          p[j] *= desc.scale;
          if (test.cap > 0) {
            double capped = std::tanh(p[j] / test.cap);
            slope[j] = 1 - capped * capped;
            p[j] = test.cap * capped;
          }
          p[j] = std::exp(p[j]);
          sum += p[j];
          uint64_t key =
              uint64_t(uint32_t(keys[2 * b + 1])) << 32 | uint32_t(keys[2 * b]);
          uint64_t element = (h * T + i) * T + j;
          uint64_t bits = splitMix(
              key + 0x9E3779B97F4A7C15 * ((uint64_t(5) << 40) + element + 1));
          if (test.dropout > 0)
            keep[j] = double(bits >> 40) / (1 << 24) >= test.dropout
                          ? 1 / (1 - test.dropout)
                          : 0;
        }
        ASSERT_NEAR(lse[(b * H + h) * T + i], std::log(sum), 2e-5);
        for (int64_t j = 0; j < T; ++j)
          p[j] /= sum;
        for (int64_t c = 0; c < d; ++c) {
          double y = 0;
          for (int64_t j = 0; j < T; ++j)
            y += p[j] * keep[j] * va.get(vAt(j, c));
          ASSERT_NEAR(out.get(yAt(c)), y, tolerance * (1 + std::abs(y)))
              << "out b " << b << " h " << h << " i " << i << " c " << c;
        }
        for (int64_t j = 0; j < T; ++j) {
          for (int64_t c = 0; c < d; ++c) {
            dp[j] += dy.get(yAt(c)) * va.get(vAt(j, c)) * keep[j];
            gv[((b * T + j) * K + g) * d + c] +=
                p[j] * keep[j] * dy.get(yAt(c));
          }
          delta += p[j] * dp[j];
        }
        for (int64_t j = 0; j < T; ++j)
          for (int64_t c = 0; c < d; ++c) {
            double ds = p[j] * (dp[j] - delta) * desc.scale * slope[j];
            gq[((b * T + i) * H + h) * d + c] += ds * ka.get(kAt(j, c));
            gk[((b * T + j) * K + g) * d + c] += ds * q.get(qAt(c));
          }
      }
  auto check = [&](const char *name, const Array &got, int64_t stride,
                   int64_t offset, const std::vector<double> &expected,
                   int64_t width) {
    double norm = 0, error = 0;
    for (int64_t row = 0; row < batch * T; ++row)
      for (int64_t c = 0; c < width; ++c) {
        double e = expected[row * width + c];
        double x = got.get(row * stride + offset + c);
        norm += e * e;
        error += (x - e) * (x - e);
      }
    EXPECT_LE(std::sqrt(error), (test.isBF16 ? 1e-2 : 1e-5) * std::sqrt(norm))
        << name;
  };
  check("dq", dq, desc.q_stride, 0, gq, H * d);
  check("dk", dka, desc.k_stride, desc.k_offset, gk, K * d);
  check("dv", dva, desc.v_stride, desc.v_offset, gv, K * d);
}

INSTANTIATE_TEST_SUITE_P(
    Variants, AttentionTest,
    testing::Values(
        Case{"causal", 128, 2, 2, 64, true, false, false, 0, 0},
        Case{"full", 128, 2, 2, 64, false, false, false, 0, 0},
        Case{"short", 5, 2, 2, 8, true, false, false, 0, 0},
        Case{"ragged", 100, 3, 3, 20, false, false, false, 0, 0},
        Case{"packed", 70, 2, 2, 16, true, true, false, 0, 0},
        Case{"grouped", 130, 4, 2, 32, true, false, false, 0, 0},
        Case{"groupedPacked", 65, 4, 1, 32, true, true, false, 0, 0},
        Case{"window", 200, 2, 1, 16, true, false, false, 70, 0},
        Case{"narrowWindow", 200, 1, 1, 16, true, false, false, 3, 0},
        Case{"dropout", 90, 2, 2, 16, true, false, false, 0, 0.25},
        Case{"wide", 70, 1, 1, 256, true, false, false, 0, 0},
        // Low enough that most scores are changed, and some saturate.
        Case{"cap", 130, 4, 2, 32, true, false, false, 70, 0, 0.7},
        Case{"capWide", 70, 2, 1, 256, true, false, false, 0, 0, 5},
        Case{"sinks", 130, 6, 2, 20, true, false, false, 70, 0, 0, {}, true},
        Case{"bf16Sinks", 70, 4, 1, 32, true, false, true, 0, 0, 0, {}, true},
        Case{"documents",
             300,
             2,
             2,
             16,
             true,
             false,
             false,
             0,
             0,
             0,
             {100, 130, 1, 1, 1, 67}},
        Case{"longDocuments",
             400,
             2,
             1,
             16,
             true,
             true,
             false,
             70,
             0.1,
             0.7,
             {64, 192, 144}},
        Case{"bf16Documents",
             270,
             4,
             2,
             24,
             true,
             false,
             true,
             0,
             0,
             0,
             {3, 140, 127}},
        Case{"bf16", 130, 2, 2, 64, true, false, true, 0, 0},
        Case{"bf16Everything", 150, 4, 2, 24, true, true, true, 66, 0.1}),
    [](const auto &info) { return info.param.name; });

} // namespace
