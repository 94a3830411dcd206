//===- EmbeddingGradTest.cpp - Scattered sums -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/ABI.h"
#include <gtest/gtest.h>

#include <vector>

namespace {

TEST(EmbeddingGradTest, AddsTokensOfTheSameRow) {
  const int64_t batch = 2, length = 3, width = 37, rows = 4;
  const int32_t ids[] = {1, 3, 1, 0, 1, 3};
  std::vector<float> dy(batch * length * width), acc(rows * width, 1.0f);
  for (size_t i = 0; i < dy.size(); ++i)
    dy[i] = float(i % 11) - 5;
  std::vector<float> expected = acc;
  for (int64_t token = 0; token < batch * length; ++token)
    for (int64_t d = 0; d < width; ++d)
      expected[ids[token] * width + d] += dy[token * width + d];
  PoplarEmbeddingGrad desc = {length, width, POPLAR_F32, -1};
  void *args[] = {dy.data(), const_cast<int32_t *>(ids), acc.data()};
  poplar_embedding_grad(&desc, args, batch, 0, 20);
  poplar_embedding_grad(&desc, args, batch, 20, width);
  EXPECT_EQ(acc, expected);
}

TEST(EmbeddingGradTest, ReadsBF16) {
  const uint16_t dy[] = {0x3F80, 0xC000}; // 1, -2
  const int32_t ids[] = {0};
  float acc[] = {0.5f, 0.5f};
  PoplarEmbeddingGrad desc = {1, 2, POPLAR_BF16, -1};
  void *args[] = {const_cast<uint16_t *>(dy), const_cast<int32_t *>(ids), acc};
  poplar_embedding_grad(&desc, args, 1, 0, 2);
  EXPECT_EQ(acc[0], 1.5f);
  EXPECT_EQ(acc[1], -1.5f);
}

} // namespace
