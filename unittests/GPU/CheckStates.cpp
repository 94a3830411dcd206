//===- CheckStates.cpp - 8-bit optimizer states on the GPU at hand --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckStates.h"
#include "Poplar/Runtime/Quantized.h"
#include "cuda/WireKernels.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

namespace {

constexpr int64_t Block = POPLAR_STATE_BLOCK;

/// Both moments, as a program has them and in f32.
struct States {
  States(int64_t Count, int32_t Bits)
      : Wide{std::vector<float>(Count), std::vector<float>(Count)} {
    int64_t Blocks = (Count + Block - 1) / Block;
    for (int M = 0; M < 2; ++M) {
      Codes[M].resize(static_cast<size_t>(Blocks * Block * Bits / 8));
      Scales[M].resize(static_cast<size_t>(Blocks));
    }
  }
  std::vector<uint8_t> Codes[2];
  std::vector<float> Scales[2], Wide[2];
};

/// Middles between codes, values next to them, zeros, tiny and large blocks.
void fill(States &S) {
  std::mt19937 Random(11);
  std::normal_distribution<float> Normal;
  for (int M = 0; M < 2; ++M) {
    const auto &Map = M ? getUnsignedDynamicMap() : getDynamicMap();
    std::array<float, 256> Middles = getCodeMiddles(Map);
    for (size_t I = 0; I < S.Wide[M].size(); ++I) {
      size_t Code = I % 256;
      float Middle = Code == 255 ? 1.0f : Middles[Code];
      float Value = I / 256 % 4 == 0   ? Middle
                    : I / 256 % 4 == 1 ? std::nextafter(Middle, 2.0f)
                    : I / 256 % 4 == 2 ? Normal(Random) * 1e-3f
                    : I % 3 == 0       ? 0.0f
                                       : Normal(Random) * 1e-42f;
      S.Wide[M][I] = M ? std::fabs(Value) : Value;
    }
  }
  // A block of zeros.
  for (int M = 0; M < 2; ++M)
    std::fill_n(S.Wide[M].end() - Block, Block, 0.0f);
}

template <typename T> void copyIn(const std::vector<T> &From, Allocation &To) {
  check(Driver::get().cuMemcpyHtoDAsync_v2(addressOf(To.data()), From.data(),
                                           From.size() * sizeof(T), nullptr),
        "copy to the GPU");
}
template <typename T> void copyOut(Allocation &From, std::vector<T> &To) {
  check(Driver::get().cuMemcpyDtoHAsync_v2(To.data(), addressOf(From.data()),
                                           To.size() * sizeof(T), nullptr),
        "copy from the GPU");
  check(Driver::get().cuStreamSynchronize(nullptr), "copy from the GPU");
}

template <typename T>
std::string compare(const char *What, const std::vector<T> &Expected,
                    const std::vector<T> &Found) {
  for (size_t I = 0; I < Expected.size(); ++I)
    if (std::memcmp(&Expected[I], &Found[I], sizeof(T)) != 0)
      return std::string(What) + "[" + std::to_string(I) + "] should be " +
             std::to_string(Expected[I]) + " and is " +
             std::to_string(Found[I]);
  return "";
}

} // namespace

std::string gputest::findWrongStates(int64_t Count, int32_t Bits) {
  States Host(Count, Bits), Got(Count, Bits);
  fill(Host);
  std::vector<float> Back[2] = {Host.Wide[0], Host.Wide[1]};
  for (int M = 0; M < 2; ++M)
    for (int64_t First = 0; First < Count; First += Block) {
      int64_t Size = std::min(Block, Count - First), B = First / Block;
      MomentFormat Format{Bits, M == 0};
      uint8_t Codes[Block];
      float Scale = Format.quantize(Host.Wide[M].data() + First, Size, Codes);
      packCodes(Bits, Codes, Size, Host.Codes[M].data() + First * Bits / 8);
      Host.Scales[M][static_cast<size_t>(B)] = Scale;
      Format.dequantize(Codes, Scale, Size, Back[M].data() + First);
    }
  auto Bytes = static_cast<int64_t>(Host.Codes[0].size());
  WireKernels Kernels;
  Kernels.prepareTables();
  Allocation Codes[2] = {Allocation(Bytes), Allocation(Bytes)},
             Scales[2] = {Allocation(4 * (Count / Block + 1)),
                          Allocation(4 * (Count / Block + 1))},
             Wide[2] = {Allocation(4 * Count), Allocation(4 * Count)};
  MomentBlocks Blocks[2];
  float *Values[2];
  for (int M = 0; M < 2; ++M) {
    Blocks[M] = {reinterpret_cast<uint8_t *>(Codes[M].data()),
                 reinterpret_cast<float *>(Scales[M].data()), Bits};
    Values[M] = reinterpret_cast<float *>(Wide[M].data());
    copyIn(Host.Wide[M], Wide[M]);
    // What lies behind the last element stays as it is.
    copyIn(Host.Codes[M], Codes[M]);
  }
  Kernels.roundStates(Values[0], Values[1], Blocks[0], Blocks[1], Count,
                      nullptr);
  Kernels.widenStates(Blocks[0], Blocks[1], Values[0], Values[1], Count,
                      nullptr);
  for (int M = 0; M < 2; ++M) {
    copyOut(Codes[M], Got.Codes[M]);
    copyOut(Scales[M], Got.Scales[M]);
    copyOut(Wide[M], Got.Wide[M]);
    for (const std::string &Wrong :
         {compare("code", Host.Codes[M], Got.Codes[M]),
          compare("scale", Host.Scales[M], Got.Scales[M]),
          compare("moment", Back[M], Got.Wide[M])})
      if (!Wrong.empty())
        return (M ? "second moment: " : "first moment: ") + Wrong;
  }
  return "";
}
