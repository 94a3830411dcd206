//===- NumberFormats.h - Elements of a type as numbers in f32 ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each format has `Storage`, what an element is in memory, `widen` to f32, and
// `narrow` from it: to the nearest, ties to even. Both conversions to 16 bits
// are straight-line integer code with selects, so that compilers vectorise them
// for any CPU.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_NUMBERFORMATS_H
#define POPLAR_RUNTIME_NUMBERFORMATS_H

#include <cstdint>
#include <cstring>

namespace poplar::runtime {

inline uint32_t toBits(float Value) {
  uint32_t Bits;
  std::memcpy(&Bits, &Value, sizeof Bits);
  return Bits;
}

inline float toFloat(uint32_t Bits) {
  float Value;
  std::memcpy(&Value, &Bits, sizeof Value);
  return Value;
}

struct F32 {
  using Storage = float;
  static float widen(float Value) { return Value; }
  static float narrow(float Value) { return Value; }
};

struct BF16 {
  using Storage = uint16_t;
  static float widen(uint16_t Bits) {
    return toFloat(static_cast<uint32_t>(Bits) << 16);
  }
  static uint16_t narrow(float Value) {
    uint32_t Bits = toBits(Value);
    uint32_t Rounded = (Bits + 0x7fff + ((Bits >> 16) & 1)) >> 16;
    uint32_t Quiet = (Bits >> 16) | 0x40;
    bool IsNaN = (Bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>(IsNaN ? Quiet : Rounded);
  }
};

struct F16 {
  using Storage = uint16_t;
  static float widen(uint16_t Half) {
    uint32_t Sign = static_cast<uint32_t>(Half & 0x8000) << 16;
    uint32_t Rest = static_cast<uint32_t>(Half & 0x7fff) << 13;
    // The exponent's bias differs by 112. Subnormals are normalised by the
    // subtraction of a float.
    uint32_t Normal = Rest + (112u << 23);
    uint32_t Special = Rest | 0x7f800000;
    float Subnormal = toFloat(Rest + (113u << 23)) - toFloat(113u << 23);
    uint32_t Exponent = Rest & (0x7c00u << 13);
    uint32_t Bits = Exponent == (0x7c00u << 13) ? Special : Normal;
    Bits = Exponent == 0 ? toBits(Subnormal) : Bits;
    return toFloat(Bits | Sign);
  }
  static uint16_t narrow(float Value) {
    uint32_t Bits = toBits(Value);
    uint32_t Sign = (Bits >> 16) & 0x8000;
    uint32_t Rest = Bits & 0x7fffffff;
    // Adding one half makes the FPU round subnormals of f16 in the last place.
    uint32_t Subnormal =
        toBits(toFloat(Rest < 0x38800000 ? Rest : 0) + 0.5f) - 0x3f000000;
    uint32_t Normal = (Rest - (112u << 23) + 0xfff + ((Rest >> 13) & 1)) >> 13;
    uint32_t Half = Rest < 0x38800000 ? Subnormal : Normal;
    Half = Rest >= 0x47800000 ? 0x7c00 : Half;
    Half = Rest > 0x7f800000 ? 0x7e00 : Half;
    return static_cast<uint16_t>(Half | Sign);
  }
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_NUMBERFORMATS_H
