//===- Wire.h - Element types on the wire -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives carry f32, bf16, f16, or blocks of int8; memory may hold another
// of the first three. Sums are taken in f32 whatever the wire carries.
//
// Blocks of int8. Of BlockElements values x, of which m is the largest in
// magnitude, the wire carries the scale s = m / 127, in f32, and the integers
// q = x / s, rounded to nearest, ties to even, between -127 and 127. They stand
// for q * s. All scales of a message lie in front of all integers. The last
// block of a message may be shorter. Values of a block that has one that is not
// finite become NaN; those of a block without one of at least SmallestScaled
// become 0.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_WIRE_H
#define POPLAR_RUNTIME_COMM_WIRE_H

#include <cstdint>

namespace poplar::runtime::comm {

/// The first four are PoplarWire's. I8 is on the wire only. Raw elements are
/// only moved.
enum class Type : int32_t {
  F32 = 0,
  BF16 = 1,
  F16 = 2,
  I8 = 3,
  Raw8 = 4,
  Raw64 = 5
};

constexpr int64_t BlockElements = 256;
/// The reciprocal of a smaller value's scale might be infinite.
constexpr float SmallestScaled = 1e-35f;

/// Bytes of an element in memory.
inline int64_t getBytes(Type T) {
  constexpr int64_t Bytes[] = {4, 2, 2, 1, 1, 8};
  return Bytes[static_cast<int32_t>(T)];
}

/// Bytes of a message of `Count` elements.
inline int64_t getBytes(Type T, int64_t Count) {
  int64_t Blocks = (Count + BlockElements - 1) / BlockElements;
  return Count * getBytes(T) + (T == Type::I8 ? Blocks * 4 : 0);
}

const char *getName(Type T);

/// Writes `Count` elements of `Source` in another type, rounded to nearest,
/// ties to even. The memory must not overlap, unless it and the types are the
/// same, which does nothing.
void convert(const void *Source, Type From, void *Destination, Type To,
             int64_t Count);

/// Sum[i] += Source[i]; `From` is not raw.
void accumulate(float *Sum, const void *Source, Type From, int64_t Count);

/// Sum[i] += Source[i] as `Wire` would carry it, or = if `Overwrite`.
void addRounded(float *Sum, const float *Source, Type Wire, int64_t Count,
                bool Overwrite);

/// Values[i] = Values[i] as `Wire` would carry it.
void roundTo(float *Values, Type Wire, int64_t Count);

/// Error feedback: writes Source[i] + Residual[i] as `Wire` carries it, and
/// leaves in Residual[i] by how much that is less; 0 where it is not finite.
void convertWithFeedback(const float *Source, float *Residual,
                         void *Destination, Type Wire, int64_t Count);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_WIRE_H
