//===- Wire.cpp - Elements as collectives carry them, on a GPU ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Unlike the other kernels here, these are in no program's image: the runtime
// holds them as PTX of their own. So are those for products whose epilogue the
// library refuses, for quantised weights, for operands in fp8, and for moments
// of AdamW in 8 bits.
// Types of elements are those of PoplarType.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/FP8.h"
#include "QuantizedValues.h"
#include "WireSums.h"

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

/// 1 / (1 + exp(-2 u)) for GELU's u(x), which is x times that.
POPLAR_INLINE float gate(float x) {
  float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return 1 / (1 + exp2(-2 * 1.4426950408889634f * u));
}

POPLAR_INLINE float geluGrad(float x) {
  float s = gate(x);
  float slope = 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
  return s + 2 * x * s * (1 - s) * slope;
}

/// What a PoplarEpilogue does to a product in memory, which is scaled before if
/// there are scales.
extern "C" __attribute__((device_kernel)) void
poplar_wire_epilogue(void *result, const void *bias, void *aux,
                     const float *rowScales, const float *columnScales,
                     int64_t epilogue, int64_t type, int64_t columns,
                     int64_t count) {
  int64_t i = place();
  if (i >= count)
    return;
  auto kind = int32_t(type);
  float value = loadElement(result, kind, i);
  if (rowScales)
    value *= rowScales[i / columns] * columnScales[i % columns];
  if (bias)
    value += loadElement(bias, kind, i % columns);
  if (epilogue == POPLAR_GELU_AUX)
    storeElement(aux, kind, i, value);
  if (epilogue == POPLAR_GELU_AUX || epilogue == POPLAR_GELU)
    value *= gate(value);
  if (epilogue == POPLAR_GELU_GRAD)
    value *= geluGrad(loadElement(aux, kind, i));
  storeElement(result, kind, i, value);
}

namespace {
/// Stores the elements of a thread in whole words of 16 bytes.
POPLAR_INLINE void storeTogether(void *to, int32_t type, int64_t i,
                                 const float (&values)[kTogether]) {
  using Words = uint32_t __attribute__((ext_vector_type(4)));
  if (type == POPLAR_F32) {
    for (int64_t j = 0; j < kTogether; j += 4) {
      Words words;
      for (int64_t k = 0; k < 4; ++k)
        words[k] = __builtin_bit_cast(uint32_t, values[j + k]);
      *(Words *)((float *)to + i + j) = words;
    }
    return;
  }
  Words words;
  for (int64_t k = 0; k < 4; ++k)
    words[k] = roundTo16(type, values[2 * k]) |
               uint32_t(roundTo16(type, values[2 * k + 1])) << 16;
  *(Words *)((uint16_t *)to + i) = words;
}
} // namespace

/// The values of a quantised matrix in another type, kTogether of them by a
/// thread. `tables` are those of WireKernels.
extern "C" __attribute__((device_kernel)) void
poplar_wire_dequantize(const uint8_t *codes, const uint8_t *scales,
                       const float *factors, const float *mean, void *to,
                       const float *tables, int64_t quantized, int64_t type,
                       int64_t columns, int64_t count) {
  int64_t i = place() * kTogether;
  QuantizedValues from = {
      codes, scales, factors, mean, tables, int32_t(quantized), columns};
  if (i + kTogether > count) {
    for (; i < count; ++i)
      storeElement(to, int32_t(type), i, from.findOne(i));
    return;
  }
  float values[kTogether];
  from.findTogether(i, values);
  storeTogether(to, int32_t(type), i, values);
}

namespace {
/// Columns that a block adds up, and its warps.
constexpr int32_t kSums = POPLAR_WIRE_SUMS;
constexpr int32_t kSumWarps = POPLAR_GPU_FLAT_THREADS / kWarp;
static_assert(kSums == kWarp && kSums % kSumWarps == 0);

/// Adds up some of the values at `first`, `first + stride`, ...: those from
/// `from` on, each `step` behind the last, below `to`. Four are under way at a
/// time, and are added in order.
POPLAR_INLINE float addUp(const void *values, int32_t type, int64_t first,
                          int64_t stride, int64_t from, int64_t to,
                          int64_t step) {
  constexpr int32_t kUnderWay = 4;
  float sum = 0;
  int64_t j = from;
  for (; j + (kUnderWay - 1) * step < to; j += kUnderWay * step) {
    float read[kUnderWay];
    for (int32_t k = 0; k < kUnderWay; ++k)
      read[k] = loadElement(values, type, first + (j + k * step) * stride);
    for (float value : read)
      sum += value;
  }
  for (; j < to; j += step)
    sum += loadElement(values, type, first + j * stride);
  return sum;
}
} // namespace

/// The first stage of `count` gradients of a bias, each of which is a sum of
/// `depth` values: a block adds `rows` of the values of kSums of them, always
/// in the same order, and stores partial sums as a row of [depth / rows,
/// count].
extern "C" __attribute__((device_kernel)) void
poplar_wire_partial_sums(float *partials, const void *values, int64_t type,
                         int64_t step, int64_t stride, int64_t depth,
                         int64_t rows, int64_t count) {
  POPLAR_SHARED float parts[kSumWarps][kSums];
  int64_t tiles = (count + kSums - 1) / kSums;
  int64_t chunk = blockX() / tiles, column = blockX() % tiles * kSums;
  int64_t begin = chunk * rows;
  int64_t end = begin + rows < depth ? begin + rows : depth;
  int32_t lane = threadX() % kWarp, warp = threadX() / kWarp;
  auto kind = int32_t(type);
  int64_t own = column + lane;
  if (stride == 1) {
    // What is added lies together: a warp adds a few sums, one after another.
    constexpr int32_t kOwn = kSums / kSumWarps;
    for (int32_t k = 0; k < kOwn; ++k) {
      int64_t i = column + warp * kOwn + k;
      float sum = 0;
      if (i < count)
        sum = addUp(values, kind, i * step, 1, begin + lane, end, kWarp);
      sum = warpSum(sum);
      if (lane == 0 && i < count)
        partials[chunk * count + i] = sum;
    }
    return;
  }
  if (own < count)
    parts[warp][lane] =
        addUp(values, kind, own * step, stride, begin + warp, end, kSumWarps);
  barrier();
  if (warp != 0 || own >= count)
    return;
  float sum = 0;
  for (auto &part : parts)
    sum += part[lane];
  partials[chunk * count + own] = sum;
}

/// The second stage: adds the partial sums of each of `count` in order.
extern "C" __attribute__((device_kernel)) void
poplar_wire_add_partials(float *sums, const float *partials, int64_t chunks,
                         int64_t count) {
  int64_t i = place();
  if (i < count)
    sums[i] += addUp(partials, POPLAR_F32, i, count, 0, chunks, 1);
}

//===----------------------------------------------------------------------===//
// Operands in fp8 (Runtime/FP8.h), from bf16
//===----------------------------------------------------------------------===//

POPLAR_INLINE int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

POPLAR_INLINE float wide(uint64_t bf16) {
  return asFloat(uint32_t(bf16 & 0xFFFF) << 16);
}

/// A block rounds a row, four values of a thread at a time, and stores 2^-e.
extern "C" __attribute__((device_kernel)) void
poplar_wire_round_rows(const void *from, void *codes, float *scales,
                       int64_t columns) {
  POPLAR_SHARED int32_t parts[kSumWarps];
  const auto *words = (const uint64_t *)from + blockX() * columns / 4;
  auto *to = (uint32_t *)codes + blockX() * columns / 4;
  int32_t thread = threadX(), largest = 0;
  for (int64_t i = thread; i < columns / 4; i += POPLAR_GPU_FLAT_THREADS)
    for (int32_t j = 0; j < 4; ++j)
      largest = larger(
          largest, int32_t(poplar_magnitude_bits(wide(words[i] >> 16 * j))));
  for (int32_t lanes = kWarp / 2; lanes; lanes /= 2)
    largest = larger(largest, shuffleXor(largest, lanes));
  if (thread % kWarp == 0)
    parts[thread / kWarp] = largest;
  barrier();
  for (int32_t part : parts)
    largest = larger(largest, part);
  float scale = poplar_fp8_scale(uint32_t(largest));
  for (int64_t i = thread; i < columns / 4; i += POPLAR_GPU_FLAT_THREADS) {
    uint32_t four = 0;
    for (int32_t j = 0; j < 4; ++j)
      four |= uint32_t(poplar_fp8_code(wide(words[i] >> 16 * j) * scale))
              << 8 * j;
    to[i] = four;
  }
  if (thread == 0)
    scales[blockX()] = poplar_fp8_inverse(scale);
}

namespace {
/// Rows of a tile of kSums columns, and bytes from one column of its transpose
/// to the next: what a warp stores lies in unlike banks.
constexpr int32_t kTile = kWarp, kTileRow = kTile + 4;
} // namespace

/// A block rounds kSums columns of a matrix [rows, columns], and stores them as
/// rows, with 2^-e for each.
extern "C" __attribute__((device_kernel)) void
poplar_wire_round_columns(const void *from, void *codes, float *scales,
                          int64_t rows, int64_t columns) {
  POPLAR_SHARED int32_t parts[kSumWarps][kSums];
  POPLAR_SHARED __attribute__((aligned(4))) uint8_t tile[kSums][kTileRow];
  const auto *values = (const uint16_t *)from;
  int32_t lane = threadX() % kWarp, warp = threadX() / kWarp;
  int64_t first = blockX() * kSums, own = first + lane;
  int32_t largest = 0;
  if (own < columns)
    for (int64_t r = warp; r < rows; r += kSumWarps)
      largest = larger(largest, int32_t(poplar_magnitude_bits(
                                    wide(values[r * columns + own]))));
  parts[warp][lane] = largest;
  barrier();
  for (auto &part : parts)
    largest = larger(largest, part[lane]);
  float scale = poplar_fp8_scale(uint32_t(largest));
  // What a thread stores of a tile: four rows of a column, as a word.
  int32_t column = threadX() / (kTile / 4), row = threadX() % (kTile / 4) * 4;
  for (int64_t base = 0; base < rows; base += kTile) {
    for (int32_t r = warp; r < kTile; r += kSumWarps)
      if (own < columns && base + r < rows)
        tile[lane][r] =
            poplar_fp8_code(wide(values[(base + r) * columns + own]) * scale);
    barrier();
    if (first + column < columns && base + row < rows)
      *(uint32_t *)((uint8_t *)codes + (first + column) * rows + base + row) =
          *(const __attribute__((address_space(3)))
            uint32_t *)&tile[column][row];
    barrier();
  }
  if (warp == 0 && own < columns)
    scales[own] = poplar_fp8_inverse(scale);
}

namespace {
constexpr int32_t kBlock = POPLAR_STATE_BLOCK, kWarps = kBlock / kWarp;
static_assert(kBlock == POPLAR_GPU_FLAT_THREADS);
/// Values of a map of 8 bits, and of 4.
constexpr int32_t kCodes = 256, kCodes4 = 16;
} // namespace

POPLAR_INLINE int32_t getCode(const uint8_t *codes, int64_t i, int64_t bits) {
  if (bits == 8)
    return codes[i];
  return i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
}

/// Both moments in f32. `maps` are the signed and the unsigned map of so many
/// bits.
extern "C" __attribute__((device_kernel)) void
poplar_wire_widen_states(const uint8_t *codes1, const float *scales1,
                         const uint8_t *codes2, const float *scales2,
                         float *wide1, float *wide2, const float *maps,
                         int64_t bits, int64_t count) {
  int64_t i = place();
  if (i >= count)
    return;
  const float *unsignedMap = maps + (bits == 8 ? kCodes : kCodes4);
  wide1[i] = maps[getCode(codes1, i, bits)] * scales1[blockX()];
  wide2[i] = unsignedMap[getCode(codes2, i, bits)] * scales2[blockX()];
}

/// How many of a map's middles, which ascend, are below `value`.
POPLAR_INLINE uint8_t findCode(const float *middles, float value) {
  int32_t code = 0;
  for (int32_t step = kCodes / 2; step; step /= 2)
    code += middles[code + step - 1] < value ? step : 0;
  return uint8_t(code);
}

/// The largest magnitude in a block of threads; NaN counts as 0.
POPLAR_INLINE float findLargest(float value, float *partial) {
  float largest = warpMax(__builtin_fabsf(value));
  int32_t thread = threadX();
  if (thread % kWarp == 0)
    partial[thread / kWarp] = largest;
  barrier();
  largest = partial[0];
  for (int32_t warp = 1; warp < kWarps; ++warp)
    largest = __builtin_fmaxf(largest, partial[warp]);
  return largest;
}

POPLAR_INLINE float scaleBy(float value, float inverse) {
  float scaled = value * inverse;
  return scaled < -1 ? -1.0f : scaled > 1 ? 1.0f : scaled;
}

/// The reverse, as a CPU does it, to the bit: a block of threads is a block of
/// elements. `middles` are those between the values of the maps.
extern "C" __attribute__((device_kernel)) void
poplar_wire_round_states(const float *wide1, const float *wide2,
                         uint8_t *codes1, float *scales1, uint8_t *codes2,
                         float *scales2, const float *middles, int64_t count) {
  POPLAR_SHARED float middles1[kCodes], middles2[kCodes];
  POPLAR_SHARED float partial1[kWarps], partial2[kWarps];
  int64_t i = place();
  int32_t thread = threadX();
  middles1[thread] = middles[thread];
  middles2[thread] = middles[kCodes + thread];
  float value1 = i < count ? wide1[i] : 0, value2 = i < count ? wide2[i] : 0;
  float largest1 = findLargest(value1, partial1),
        largest2 = findLargest(value2, partial2);
  if (i >= count)
    return;
  codes1[i] = findCode(middles1,
                       scaleBy(value1, 1 / __builtin_fmaxf(largest1, 1e-38f)));
  codes2[i] = findCode(middles2,
                       scaleBy(value2, 1 / __builtin_fmaxf(largest2, 1e-38f)));
  if (thread == 0) {
    scales1[blockX()] = largest1;
    scales2[blockX()] = largest2;
  }
}

/// As findCode4() on a CPU, to the bit.
POPLAR_INLINE uint8_t findCode4(const float *map, float value) {
  int32_t code = 0;
  for (int32_t step = kCodes4 / 2; step; step /= 2)
    code += value >= map[code + step] ? step : 0;
  int32_t next = code < kCodes4 - 1 ? code + 1 : code;
  return uint8_t(value - map[code] >= (map[next] - map[code]) * 0.5f ? next
                                                                     : code);
}

/// The same in 4 bits, of whole blocks.
extern "C" __attribute__((device_kernel)) void
poplar_wire_round_states4(const float *wide1, const float *wide2,
                          uint8_t *codes1, float *scales1, uint8_t *codes2,
                          float *scales2, const float *maps, int64_t count) {
  POPLAR_SHARED float values[2 * kCodes4];
  POPLAR_SHARED uint8_t own1[kBlock], own2[kBlock];
  POPLAR_SHARED float partial1[kWarps], partial2[kWarps];
  int64_t i = place();
  int32_t thread = threadX();
  if (thread < 2 * kCodes4)
    values[thread] = maps[thread];
  float value1 = i < count ? wide1[i] : 0, value2 = i < count ? wide2[i] : 0;
  float largest1 = __builtin_fmaxf(findLargest(value1, partial1), 1e-12f),
        largest2 = __builtin_fmaxf(findLargest(value2, partial2), 1e-12f);
  own1[thread] = findCode4(values, value1 / largest1);
  own2[thread] = findCode4(values + kCodes4, value2 / largest2);
  barrier();
  if (i < count && thread % 2 == 0) {
    codes1[i / 2] = uint8_t(own1[thread] << 4 | own1[thread + 1]);
    codes2[i / 2] = uint8_t(own2[thread] << 4 | own2[thread + 1]);
  }
  if (thread == 0) {
    scales1[blockX()] = largest1;
    scales2[blockX()] = largest2;
  }
}
