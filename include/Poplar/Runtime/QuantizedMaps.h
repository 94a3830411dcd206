//===- QuantizedMaps.h - Values of the codes of few bits --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the codes of Runtime/Quantized.h stand for. Kernels, which are compiled
// for devices, and the runtime have the same values.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_QUANTIZEDMAPS_H
#define POPLAR_RUNTIME_QUANTIZEDMAPS_H

namespace poplar {

/// Quantiles of the normal distribution (Dettmers et al., QLoRA, 2023, appendix
/// E), as bitsandbytes prints them; ascending.
constexpr float nf4Values[16] = {-1.0f,
                                 -0.6961928009986877f,
                                 -0.5250730514526367f,
                                 -0.39491748809814453f,
                                 -0.28444138169288635f,
                                 -0.18477343022823334f,
                                 -0.09105003625154495f,
                                 0.0f,
                                 0.07958029955625534f,
                                 0.16093020141124725f,
                                 0.24611230194568634f,
                                 0.33791524171829224f,
                                 0.44070982933044434f,
                                 0.5626170039176941f,
                                 0.7229568362236023f,
                                 1.0f};

/// The two values that a byte stands for.
struct NF4Pairs {
  float values[256][2];
};

constexpr NF4Pairs makeNF4Pairs() {
  NF4Pairs pairs = {};
  for (int byte = 0; byte < 256; ++byte) {
    pairs.values[byte][0] = nf4Values[byte >> 4];
    pairs.values[byte][1] = nf4Values[byte & 15];
  }
  return pairs;
}

/// Values of the codes of a dynamic map, ascending.
struct DynamicMap {
  float values[256];
};

/// The dynamic map of 8 bits (Dettmers, 8-Bit Approximations for Parallelism in
/// Deep Learning, 2016): decades from 1e-6 on, each cut into twice as many
/// parts as the one before, whose middles are the values; with both signs or
/// twice as many parts, 0 and 1.
constexpr DynamicMap makeDynamicMap(bool isSigned) {
  DynamicMap map = {};
  constexpr double decades[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  int zero = isSigned ? 127 : 0, found = 0, parts = isSigned ? 1 : 2;
  for (double decade : decades) {
    for (int part = 0; part < parts; ++part) {
      double middle = 0.1 + 0.9 * (2 * part + 1) / (2 * parts);
      auto value = static_cast<float>(decade * middle);
      ++found;
      map.values[zero + found] = value;
      if (isSigned)
        map.values[zero - found] = -value;
    }
    parts *= 2;
  }
  map.values[255] = 1;
  return map;
}

/// The map of 4 bits with signs: three decades of the same kind.
constexpr float signedMap4[16] = {-0.8875f, -0.6625f, -0.4375f, -0.21249999f,
                                  -0.0775f, -0.0325f, -0.0055f, 0.0f,
                                  0.0055f,  0.0325f,  0.0775f,  0.21249999f,
                                  0.4375f,  0.6625f,  0.8875f,  1.0f};

/// The one without: sixteenths. 0 is none of them.
constexpr float unsignedMap4[16] = {
    0.0625f, 0.125f, 0.1875f, 0.25f, 0.3125f, 0.375f, 0.4375f, 0.5f,
    0.5625f, 0.625f, 0.6875f, 0.75f, 0.8125f, 0.875f, 0.9375f, 1.0f};

} // namespace poplar

#endif // POPLAR_RUNTIME_QUANTIZEDMAPS_H
