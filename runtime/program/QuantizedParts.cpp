//===- QuantizedParts.cpp - Parts of quantised matrices -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/QuantizedParts.h"
#include "program/Quantized.h"
#include "program/Tensors.h"

#include <algorithm>
#include <cstring>

using namespace poplar::runtime;

int32_t poplar::runtime::getRoundedFormat(const PoplarParameter &P,
                                          int32_t OfModel) {
  bool HasWideScales = P.slice && P.quantized == POPLAR_NF4;
  return HasWideScales && OfModel == POPLAR_NF4_DOUBLE ? OfModel : P.quantized;
}

namespace {
/// A matrix and a part of it, which cuts no block of values.
struct Division {
  const char *Whole;
  PoplarQuantizedLayout From;
  char *Part;
  PoplarQuantizedLayout To;

  /// Values [Begin, Begin + Count) of the whole, from `At` on of the part.
  void copyInt8(int64_t Columns, int64_t PartColumns, int64_t Begin, int64_t At,
                int64_t Count) const {
    std::memcpy(Part + At, Whole + Begin, static_cast<size_t>(Count));
    // A run may be of several rows, or a part of one.
    for (int64_t Done = 0; Done < Count; Done += PartColumns)
      copyScale((Begin + Done) / Columns, (At + Done) / PartColumns);
  }

  void copyNF4(int32_t FromType, int32_t ToType, int64_t Begin, int64_t At,
               int64_t Count) const {
    std::memcpy(Part + At / 2, Whole + Begin / 2,
                static_cast<size_t>((Count + 1) / 2));
    for (int64_t Done = 0; Done < Count; Done += POPLAR_NF4_BLOCK) {
      int64_t Block = (Begin + Done) / POPLAR_NF4_BLOCK,
              Mine = (At + Done) / POPLAR_NF4_BLOCK;
      if (FromType == POPLAR_NF4) {
        copyScale(Block, Mine);
      } else if (ToType == POPLAR_NF4) {
        float Scale = getScale(FromType, From, Whole, Block);
        std::memcpy(Part + To.scales + 4 * Mine, &Scale, 4);
      } else {
        Part[To.scales + Mine] = Whole[From.scales + Block];
        std::memcpy(Part + To.factors + Mine / POPLAR_SCALE_BLOCK * 4,
                    Whole + From.factors + Block / POPLAR_SCALE_BLOCK * 4, 4);
        std::memcpy(Part + To.mean, Whole + From.mean, 4);
      }
    }
  }

private:
  void copyScale(int64_t Block, int64_t Mine) const {
    std::memcpy(Part + To.scales + 4 * Mine, Whole + From.scales + 4 * Block,
                4);
  }
};
} // namespace

std::vector<char>
poplar::runtime::quantizeParameter(const PoplarParameter &P, int32_t OfModel,
                                   const std::vector<float> &Tensor) {
  const int64_t *Shape = P.slice ? P.slice->shape : P.shape;
  int32_t Format = getRoundedFormat(P, OfModel);
  PoplarQuantizedLayout Layout =
      poplar_quantized_layout(Format, Shape[0], Shape[1]);
  std::vector<char> Whole(static_cast<size_t>(Layout.bytes));
  if (!quantize(Format, Shape[0], Shape[1], Tensor.data(), Whole.data()))
    return {};
  if (!P.slice)
    return Whole;
  PoplarQuantizedLayout Own =
      poplar_quantized_layout(P.quantized, P.shape[0], P.shape[1]);
  std::vector<char> Part(static_cast<size_t>(Own.bytes));
  Division D{Whole.data(), Layout, Part.data(), Own};
  forEachRun(P, 0, P.elements, [&](int64_t Begin, int64_t At, int64_t Count) {
    if (Format == POPLAR_INT8)
      D.copyInt8(Shape[1], P.shape[1], Begin, At, Count);
    else
      D.copyNF4(Format, P.quantized, Begin, At, Count);
  });
  return Part;
}
