//===- ExpertWeight.h - The weight of an expert, on a GPU -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantised weights are dequantised on their way to shared memory, and rounded
// to the format of the activations.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GPU_EXPERTWEIGHT_H
#define POPLAR_RUNTIME_KERNELS_GPU_EXPERTWEIGHT_H

#include "Poplar/Runtime/Experts.h"
#include "Poplar/Runtime/QuantizedMaps.h"
#include "QuantizedValues.h"

namespace poplar {

/// The tables of QuantizedValues.
struct QuantizedTables {
  float values[16 + 256];
};

constexpr QuantizedTables makeQuantizedTables() {
  QuantizedTables tables = {};
  for (int code = 0; code < 16; ++code)
    tables.values[code] = nf4Values[code];
  constexpr DynamicMap map = makeDynamicMap(/*isSigned=*/true);
  for (int code = 0; code < 256; ++code)
    tables.values[16 + code] = map.values[code];
  return tables;
}

static constexpr QuantizedTables quantizedTables = makeQuantizedTables();

/// A matrix in the type of the activations, or a quantised one.
struct ExpertWeight {
  const void *array;
  int32_t type;
  bool isQuantized;
  QuantizedValues values;

  POPLAR_INLINE ExpertWeight(const PoplarExperts &shapes, const void *array)
      : array(array), type(shapes.type), isQuantized(shapes.quantized != 0),
        values{} {
    if (!isQuantized)
      return;
    int64_t rows = shapes.transposed ? shapes.outputs : shapes.inputs,
            columns = shapes.transposed ? shapes.inputs : shapes.outputs;
    PoplarQuantizedLayout layout =
        poplar_quantized_layout(int32_t(shapes.quantized), rows, columns);
    const auto *bytes = static_cast<const uint8_t *>(array);
    values = {bytes,
              bytes + layout.scales,
              (const float *)(bytes + layout.factors),
              (const float *)(bytes + layout.mean),
              quantizedTables.values,
              int32_t(shapes.quantized),
              columns};
  }

  /// The element at `i`.
  POPLAR_INLINE float load(int64_t i) const {
    if (!isQuantized)
      return loadElement(array, type, i);
    float value = values.findOne(i);
    if (type == POPLAR_F32)
      return value;
    uint16_t rounded = roundTo16(type, value);
    return loadElement(&rounded, type, 0);
  }
};

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_GPU_EXPERTWEIGHT_H
