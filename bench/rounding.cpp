//===- rounding.cpp - What rounding between nodes takes of a core ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: rounding
//
// Prints, for each format on the wire, the seconds that a core takes for a
// value that it rounds with error feedback and sends, that it receives and
// adds, and that it receives and writes. Buffers are larger than caches, as
// gradients are. The median of eleven runs.
//
//===----------------------------------------------------------------------===//

#include "comm/Wire.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

using namespace poplar::runtime::comm;

static constexpr int64_t Count = int64_t(16) << 20;

static double measure(const std::function<void()> &Run) {
  std::vector<double> Seconds;
  for (int I = 0; I < 11; ++I) {
    auto Start = std::chrono::steady_clock::now();
    Run();
    Seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - Start)
            .count());
  }
  std::nth_element(Seconds.begin(), Seconds.begin() + 5, Seconds.end());
  return Seconds[5] / double(Count);
}

int main() {
  std::vector<float> Values(Count), Sum(Count), Residual(Count);
  std::vector<char> Wire(getBytes(Type::F32, Count));
  for (int64_t I = 0; I < Count; ++I)
    Values[I] = float(I % 1009) / 1009 - 0.5f;
  std::printf("%-6s %12s %12s %12s\n", "wire", "round, ns", "add, ns",
              "write, ns");
  for (Type Format : {Type::F32, Type::BF16, Type::I8})
    std::printf("%-6s %12.2f %12.2f %12.2f\n", getName(Format),
                1e9 * measure([&] {
                  convertWithFeedback(Values.data(), Residual.data(),
                                      Wire.data(), Format, Count);
                }),
                1e9 * measure([&] {
                  accumulate(Sum.data(), Wire.data(), Format, Count);
                }),
                1e9 * measure([&] {
                  convert(Wire.data(), Format, Sum.data(), Type::F32, Count);
                }));
}
