//===- Wire.cpp - Element types on the wire -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Wire.h"
#include "support/Error.h"

#include <cstring>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

// Both conversions to 16 bits are straight-line integer code with selects, so
// that compilers vectorise them for any CPU.

static inline uint32_t toBits(float Value) {
  uint32_t Bits;
  std::memcpy(&Bits, &Value, sizeof Bits);
  return Bits;
}

static inline float toFloat(uint32_t Bits) {
  float Value;
  std::memcpy(&Value, &Bits, sizeof Value);
  return Value;
}

namespace {

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

} // namespace

const char *comm::getName(Type T) {
  constexpr const char *Names[] = {"f32", "bf16", "f16", "raw8", "raw64"};
  return Names[static_cast<int32_t>(T)];
}

/// Calls F with the trait of T.
template <typename Function> static void dispatch(Type T, Function F) {
  switch (T) {
  case Type::F32:
    return F(F32());
  case Type::BF16:
    return F(BF16());
  case Type::F16:
    return F(F16());
  case Type::Raw8:
  case Type::Raw64:
    fail("there is no arithmetic on elements of type ", getName(T));
  }
}

void comm::convert(const void *Source, Type From, void *Destination, Type To,
                   int64_t Count) {
  if (From == To) {
    // Nothing may lie nowhere, which memcpy does not like.
    if (Source != Destination && Count > 0)
      std::memcpy(Destination, Source,
                  static_cast<size_t>(Count * getBytes(From)));
    return;
  }
  dispatch(From, [&](auto FromTrait) {
    dispatch(To, [&](auto ToTrait) {
      using FromT = decltype(FromTrait);
      using ToT = decltype(ToTrait);
      auto *In = static_cast<const typename FromT::Storage *>(Source);
      auto *Out = static_cast<typename ToT::Storage *>(Destination);
      for (int64_t I = 0; I < Count; ++I)
        Out[I] = ToT::narrow(FromT::widen(In[I]));
    });
  });
}

void comm::accumulate(float *Sum, const void *Source, Type From,
                      int64_t Count) {
  dispatch(From, [&](auto Trait) {
    using T = decltype(Trait);
    auto *In = static_cast<const typename T::Storage *>(Source);
    for (int64_t I = 0; I < Count; ++I)
      Sum[I] += T::widen(In[I]);
  });
}

void comm::addRounded(float *Sum, const float *Source, Type Wire, int64_t Count,
                      bool Overwrite) {
  dispatch(Wire, [&](auto Trait) {
    using T = decltype(Trait);
    for (int64_t I = 0; I < Count; ++I) {
      float Rounded = T::widen(T::narrow(Source[I]));
      Sum[I] = Overwrite ? Rounded : Sum[I] + Rounded;
    }
  });
}

void comm::roundTo(float *Values, Type Wire, int64_t Count) {
  if (Wire == Type::F32)
    return;
  dispatch(Wire, [&](auto Trait) {
    using T = decltype(Trait);
    for (int64_t I = 0; I < Count; ++I)
      Values[I] = T::widen(T::narrow(Values[I]));
  });
}
