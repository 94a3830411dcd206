//===- Wire.h - Element types on the wire -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives carry f32, bf16 or f16; memory may hold another of these. Sums
// are taken in f32 whatever the wire carries.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_WIRE_H
#define POPLAR_RUNTIME_COMM_WIRE_H

#include <cstdint>

namespace poplar::runtime::comm {

/// The first three are PoplarType's. Raw elements are only moved.
enum class Type : int32_t { F32 = 0, BF16 = 1, F16 = 2, Raw8 = 3, Raw64 = 4 };

inline int64_t getBytes(Type T) {
  constexpr int64_t Bytes[] = {4, 2, 2, 1, 8};
  return Bytes[static_cast<int32_t>(T)];
}

const char *getName(Type T);

/// Writes `Count` elements of `Source` in another type, rounded to nearest,
/// ties to even. The memory must not overlap, unless it and the types are the
/// same, which does nothing.
void convert(const void *Source, Type From, void *Destination, Type To,
             int64_t Count);

/// Sum[i] += Source[i]; `From` is F32, BF16 or F16.
void accumulate(float *Sum, const void *Source, Type From, int64_t Count);

/// Sum[i] += Source[i] as `Wire` would carry it, or = if `Overwrite`.
void addRounded(float *Sum, const float *Source, Type Wire, int64_t Count,
                bool Overwrite);

/// Values[i] = Values[i] as `Wire` would carry it.
void roundTo(float *Values, Type Wire, int64_t Count);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_WIRE_H
