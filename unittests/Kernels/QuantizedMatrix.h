//===- QuantizedMatrix.h - A matrix of few bits, for tests ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_KERNELS_QUANTIZEDMATRIX_H
#define POPLAR_UNITTESTS_KERNELS_QUANTIZEDMATRIX_H

#include "Poplar/Runtime/ABI.h"
#include "Poplar/Runtime/Quantized.h"
#include "Poplar/Runtime/QuantizedMaps.h"

#include <cstring>
#include <random>
#include <vector>

/// Random codes and scales, and their values by the definition, one by one.
struct QuantizedMatrix {
  QuantizedMatrix(int32_t Format, int64_t Rows, int64_t Width,
                  std::mt19937 &Random)
      : Format(Format), Width(Width),
        Layout(poplar_quantized_layout(Format, Rows, Width)),
        Bytes(static_cast<size_t>(Layout.bytes)) {
    for (char &Byte : Bytes)
      Byte = static_cast<char>(Random());
    std::uniform_real_distribution<float> Scale(0.1f, 0.9f);
    int64_t Floats =
        Format == POPLAR_NF4_DOUBLE ? Layout.factors : Layout.scales;
    for (; Floats < Layout.bytes; Floats += 4) {
      float Value = Scale(Random);
      std::memcpy(&Bytes[static_cast<size_t>(Floats)], &Value, 4);
    }
  }

  float readFloat(int64_t Part, int64_t I) const {
    float Value;
    std::memcpy(&Value, &Bytes[static_cast<size_t>(Part + 4 * I)], 4);
    return Value;
  }
  float get(int64_t I) const {
    if (Format == POPLAR_INT8)
      return static_cast<float>(
                 static_cast<int8_t>(Bytes[static_cast<size_t>(I)])) *
             readFloat(Layout.scales, I / Width) * 7.874015718698502e-3f;
    auto Pair = static_cast<uint8_t>(Bytes[static_cast<size_t>(I / 2)]);
    float Value = poplar::nf4Values[I % 2 ? Pair & 15 : Pair >> 4];
    int64_t Block = I / POPLAR_NF4_BLOCK;
    if (Format == POPLAR_NF4)
      return Value * readFloat(Layout.scales, Block);
    auto Code =
        static_cast<uint8_t>(Bytes[static_cast<size_t>(Layout.scales + Block)]);
    float Scale = poplar::makeDynamicMap(/*isSigned=*/true).values[Code] *
                  readFloat(Layout.factors, Block / POPLAR_SCALE_BLOCK);
    return Value * (Scale + readFloat(Layout.mean, 0));
  }

  int32_t Format;
  int64_t Width;
  PoplarQuantizedLayout Layout;
  std::vector<char> Bytes;
};

inline float roundToBF16(float Value) {
  uint32_t Bits;
  std::memcpy(&Bits, &Value, 4);
  Bits = (Bits + 0x7FFF + (Bits >> 16 & 1)) & 0xFFFF0000;
  std::memcpy(&Value, &Bits, 4);
  return Value;
}

#endif // POPLAR_UNITTESTS_KERNELS_QUANTIZEDMATRIX_H
