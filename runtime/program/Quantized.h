//===- Quantized.h - Rounding matrices to few bits --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// To and from the formats of Runtime/Quantized.h. Every operation is one of
// IEEE's in a fixed order: all ranks have the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_QUANTIZED_VALUES_H
#define POPLAR_RUNTIME_QUANTIZED_VALUES_H

#include "Poplar/Runtime/Quantized.h"

#include <array>

namespace poplar::runtime {

/// Values of codes (Runtime/QuantizedMaps.h), ascending: of NF4.
extern const std::array<float, 16> NF4Values;

/// Values of the signed dynamic map of 8 bits.
const std::array<float, 256> &getDynamicMap();

/// Values of the unsigned one.
const std::array<float, 256> &getUnsignedDynamicMap();

/// The middles between the values of such a map, then infinity. The number of
/// middles below a value is the code of the nearest value; of two, the lesser.
std::array<float, 256> getCodeMiddles(const std::array<float, 256> &Map);

/// A moment of AdamW in blocks of POPLAR_STATE_BLOCK elements.
struct MomentBlocks {
  uint8_t *Codes;
  float *Scales;
  /// Bits of an element: 8 or 4.
  int32_t Bits;

  /// The blocks from the one that begins at `Element` on.
  MomentBlocks from(int64_t Element) const {
    return {Codes + Element * Bits / 8, Scales + Element / POPLAR_STATE_BLOCK,
            Bits};
  }
};

/// How a moment is quantised: the first one has signs.
struct MomentFormat {
  int32_t Bits;
  bool IsSigned;

  /// Quantises a block to codes of a byte each; returns its scale.
  float quantize(const float *Values, int64_t Count, uint8_t *Codes) const;
  void dequantize(const uint8_t *Codes, float Scale, int64_t Count,
                  float *Values) const;
};

/// Codes of a byte each, as they lie in blocks of `Bits` bits, and back.
void packCodes(int32_t Bits, const uint8_t *Codes, int64_t Count, uint8_t *Out);
void unpackCodes(int32_t Bits, const uint8_t *From, int64_t Count,
                 uint8_t *Codes);

/// Quantises a matrix; false if a value is not finite. `Out` has the bytes of
/// the layout, of which those between parts become 0.
bool quantize(int32_t Type, int64_t Rows, int64_t Columns, const float *Values,
              char *Out);

/// The scale of a block of NF4.
float getScale(int32_t Type, const PoplarQuantizedLayout &Layout,
               const char *From, int64_t Block);

/// Writes the values [Begin, End), in f32 or, rounded to nearest, in 16 bits.
/// With NF4, `Begin` is a multiple of POPLAR_NF4_BLOCK.
void dequantize(int32_t Type, int64_t Rows, int64_t Columns, const char *From,
                int64_t Begin, int64_t End, int32_t OutType, void *Out);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_QUANTIZED_VALUES_H
