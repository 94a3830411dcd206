//===- Wire.cpp - Elements as collectives carry them, on a GPU ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Unlike the other kernels here, these are in no program's image: the runtime
// holds them as PTX of their own. Types of elements are those of PoplarType.
//
//===----------------------------------------------------------------------===//

#include "GPU.h"

using namespace poplar;

POPLAR_INLINE int64_t place() {
  return blockX() * POPLAR_GPU_FLAT_THREADS + threadX();
}

POPLAR_INLINE float carry(float value, int32_t wire) {
  if (wire == POPLAR_F16)
    return static_cast<_Float16>(value);
  if (wire != POPLAR_BF16)
    return value;
  uint16_t bits;
  storeElement(&bits, POPLAR_BF16, 0, value);
  return asFloat(uint32_t(bits) << 16);
}

/// `types`: two bits each of what is read, of what the wire would carry, and of
/// what is written.
extern "C" __attribute__((device_kernel)) void
poplar_wire_convert(const void *source, void *target, int64_t types,
                    int64_t count) {
  int64_t i = place();
  if (i >= count)
    return;
  float value = loadElement(source, types & 3, i);
  storeElement(target, (types >> 4) & 3, i, carry(value, (types >> 2) & 3));
}

extern "C" __attribute__((device_kernel)) void
poplar_wire_add(float *sum, const float *source, int64_t count) {
  int64_t i = place();
  if (i < count)
    sum[i] += source[i];
}
