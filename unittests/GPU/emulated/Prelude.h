//===- Prelude.h - What translated PTX is made of ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers hold bits; an instruction looks at them as its types say.
//
// Kernels have thousands of instructions: a function of more than a few
// statements is not inlined, which halves the time that the compiler takes.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_PRELUDE_H
#define POPLAR_UNITTESTS_GPU_EMULATED_PRELUDE_H

#include "../BlockCalls.h"
#include "Accesses.h"
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

/// Addresses of the emulated GPU's memory are those of the host that many bytes
/// further, where no program may read or write.
constexpr uint64_t kDeviceBit = uint64_t(1) << 52;

/// A table in global memory.
struct PoplarTable {
  void *data;
  int64_t bytes;
};

extern "C" {
/// The host's address of `bytes` bytes of the GPU's memory, with the range
/// around it that is valid. Ends the process where there is none.
char *poplar_emulated_global(uint64_t address, int64_t bytes, uint64_t *begin,
                             uint64_t *end);
[[noreturn]] void poplar_emulated_fault(uint64_t address, int64_t bytes,
                                        const char *space);
}

/// In front of a function that is not inlined.
#define POPLAR_CALLED __attribute__((noinline, unused))

namespace {

template <typename To, typename From> inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

struct f16 {
  uint16_t data;
};
struct bf16 {
  uint16_t data;
};

inline float toFloat(float x) { return x; }
inline float toFloat(bf16 x) { return bits<float>(uint32_t(x.data) << 16); }
inline float toFloat(f16 x) { return float(bits<_Float16>(x.data)); }

/// Nearest, ties to even.
template <typename T> T fromFloat(float x);
template <> inline float fromFloat<float>(float x) { return x; }
template <> POPLAR_CALLED bf16 fromFloat<bf16>(float x) {
  uint32_t word = bits<uint32_t>(x);
  if (x != x)
    return {0x7FFF};
  return {uint16_t((word + 0x7FFF + (word >> 16 & 1)) >> 16)};
}
template <> inline f16 fromFloat<f16>(float x) {
  if (x != x)
    return {0x7FFF};
  return {bits<uint16_t>(_Float16(x))};
}

/// The bits of a register as a value of type T, and back.
template <typename T, typename Register> inline T as(Register r) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(r);
  else if constexpr (sizeof(T) == 8)
    return bits<T>(static_cast<uint64_t>(r));
  else if constexpr (sizeof(T) == 4)
    return bits<T>(static_cast<uint32_t>(r));
  else
    return T{static_cast<uint16_t>(r)};
}
template <typename Register, typename T> inline void set(Register &r, T value) {
  if constexpr (std::is_same_v<Register, bool>)
    r = value;
  else if constexpr (std::is_integral_v<T>)
    r = static_cast<Register>(value);
  else if constexpr (sizeof(T) == 8)
    r = bits<uint64_t>(value);
  else if constexpr (sizeof(T) == 4)
    r = bits<uint32_t>(value);
  else
    r = value.data;
}

template <typename T> inline T fma(T a, T b, T c) {
  if constexpr (sizeof(T) == 2)
    // Exact in f64 but for the sum, which no test is near enough to a tie for.
    return fromFloat<T>(
        float(double(toFloat(a)) * double(toFloat(b)) + double(toFloat(c))));
  else
    return std::fma(a, b, c);
}
/// One that is NaN loses, or wins where `nan`.
template <typename T> POPLAR_CALLED T larger(T a, T b, bool nan) {
  if (nan && (a != a || b != b))
    return std::numeric_limits<T>::quiet_NaN();
  return std::fmax(a, b);
}
/// 0, with its sign, instead of a number that is subnormal (.ftz).
POPLAR_CALLED inline float flush(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min()
             ? std::copysign(0.0f, x)
             : x;
}
template <typename T> POPLAR_CALLED T smaller(T a, T b, bool nan) {
  if (nan && (a != a || b != b))
    return std::numeric_limits<T>::quiet_NaN();
  return std::fmin(a, b);
}

/// To an integer, cut off at its range; NaN is 0.
template <typename To, typename From> POPLAR_CALLED To truncate(From x) {
  if (x != x)
    return 0;
  double whole = std::trunc(double(x));
  if (whole <= double(std::numeric_limits<To>::min()))
    return std::numeric_limits<To>::min();
  if (whole >= double(std::numeric_limits<To>::max()))
    return std::numeric_limits<To>::max();
  return static_cast<To>(whole);
}

template <typename T> inline T shiftLeft(T a, uint32_t by) {
  return by < sizeof(T) * 8 ? T(a << by) : T(0);
}
template <typename T> inline T shiftRight(T a, uint32_t by) {
  if (by >= sizeof(T) * 8)
    return a < 0 ? T(-1) : T(0);
  return T(a >> by);
}
template <typename T> inline T multiplyHigh(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide =
        std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return T((Wide(a) * Wide(b)) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return T((Wide(a) * Wide(b)) >> (sizeof(T) * 8));
  }
}
template <typename T> inline T bitField(T a, uint32_t at, uint32_t count) {
  using Bits = std::make_unsigned_t<T>;
  constexpr uint32_t width = 8 * sizeof(T);
  at &= 255, count &= 255;
  Bits field = shiftRight(Bits(a), at) & ~shiftLeft(Bits(~Bits(0)), count);
  if (std::is_unsigned_v<T> || count == 0)
    return T(field);
  // Copies of the last bit of the field, or of all, stand before it.
  uint32_t last = std::min(at + count - 1, width - 1),
           inside = at < width ? std::min(count, width - at) : 0;
  if (Bits(a) >> last & 1)
    field |= shiftLeft(Bits(~Bits(0)), inside);
  return T(field);
}
POPLAR_CALLED uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t both = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t pick = selector >> 4 * i & 15;
    uint8_t byte = uint8_t(both >> 8 * (pick & 7));
    if (pick & 8)
      byte = byte & 0x80 ? 0xFF : 0;
    result |= uint32_t(byte) << 8 * i;
  }
  return result;
}

/// shfl.sync: mode 'b' for bfly, 'i' for idx, 'u' for up, 'd' for down.
POPLAR_CALLED uint32_t shuffle(char mode, uint32_t value, uint32_t by,
                               uint32_t c, uint32_t members, bool &valid) {
  int32_t lane = poplar_test_lane();
  int32_t step = by & 31, limit = c & 31, mask = c >> 8 & 31;
  int32_t last = (lane & mask) | (limit & ~mask), source;
  switch (mode) {
  case 'b':
    source = lane ^ step;
    valid = source <= last;
    break;
  case 'i':
    source = (lane & mask) | (step & ~mask);
    valid = source <= last;
    break;
  case 'u':
    source = lane - step;
    valid = source >= last;
    break;
  default:
    source = lane + step;
    valid = source <= last;
  }
  return poplar_test_shuffle(value, valid ? source : lane, members);
}

/// vote.sync.ballot of a whole warp.
POPLAR_CALLED uint32_t ballot(bool value) {
  const uint64_t own = value;
  const uint64_t *all = poplar_test_gather(&own, 1);
  uint32_t lanes = 0;
  for (int lane = 0; lane < 32; ++lane)
    lanes |= uint32_t(all[lane]) << lane;
  return lanes;
}

/// The GPU's memory: what is accessed has to be there, and aligned as a whole.
POPLAR_CALLED char *global(uint64_t address, int64_t bytes, AccessKind kind,
                           int32_t site) {
  static thread_local uint64_t begin = 0, end = 0;
  if (address % uint64_t(bytes) != 0)
    poplar_emulated_fault(address, bytes, "global");
  auto *place = reinterpret_cast<char *>(address - kDeviceBit);
  if (address < begin || address + uint64_t(bytes) > end)
    place = poplar_emulated_global(address, bytes, &begin, &end);
  if (poplar_emulated_watches)
    poplar_emulated_access(place, bytes, kind, false, site);
  return place;
}
/// That of a block or a thread: an address of the host. `space` has `size`
/// bytes from `start` on.
POPLAR_CALLED char *inside(uint64_t address, int64_t bytes, const char *start,
                           int64_t size, const char *space) {
  uint64_t first = reinterpret_cast<uint64_t>(start);
  if (address < first || address + uint64_t(bytes) > first + uint64_t(size) ||
      address % uint64_t(bytes) != 0)
    poplar_emulated_fault(address, bytes, space);
  return reinterpret_cast<char *>(address);
}
POPLAR_CALLED char *shared(uint64_t address, int64_t size, int64_t bytes,
                           AccessKind kind, int32_t site) {
  char *place = inside(address, bytes, poplar_test_shared(), size, "shared");
  if (poplar_emulated_watches && kind != AccessKind::Address)
    poplar_emulated_access(place, bytes, kind, true, site);
  return place;
}

/// d = a b + c, of which every lane has its parts (PTX ISA 8.7, "Matrix
/// fragments for mma.m16n8k16"); sums in f64, rounded once.
template <typename T>
POPLAR_CALLED void multiplyMatrices(const uint64_t (&own)[6],
                                    const float (&c)[4], float (&d)[4]) {
  // Two rows of a by two columns of b.
  using Vector = double __attribute__((vector_size(32)));
  const uint64_t *all = poplar_test_gather(own, 6);
  int lane = poplar_test_lane(), group = lane / 4, column = lane % 4 * 2;
  Vector sums = {c[0], c[1], c[2], c[3]};
  for (int k = 0; k < 16; k += 2) {
    // Rows group and group + 8, columns `column` and `column` + 1; registers
    // hold two elements.
    const uint64_t *left = all + 6 * (group * 4 + k % 8 / 2) + k / 8 * 2;
    const uint64_t *right = all + 6 * (column * 4 + k % 8 / 2) + 4 + k / 8;
    for (int shift = 0; shift < 32; shift += 16) {
      auto element = [&](uint64_t pair) {
        return double(toFloat(T{static_cast<uint16_t>(pair >> shift)}));
      };
      double a = element(left[0]), b = element(left[1]);
      double x = element(right[0]), y = element(right[6 * 4]);
      sums += Vector{a, a, b, b} * Vector{x, y, x, y};
    }
  }
  for (int i = 0; i < 4; ++i)
    d[i] = static_cast<float>(sums[i]);
}
/// ldmatrix.m8n8.x4 of elements of 16 bits: lanes 8 i to 8 i + 7 name the rows
/// of matrix i, of which every lane gets two elements.
POPLAR_CALLED void loadMatrices(const char *row, bool transposed,
                                uint32_t (&parts)[4], int32_t site) {
  const uint64_t own = reinterpret_cast<uint64_t>(row);
  const uint64_t *rows = poplar_test_gather(&own, 1);
  int lane = poplar_test_lane(), group = lane / 4, column = lane % 4 * 2;
  auto element = [&](int matrix, int r, int c) {
    uint16_t value;
    auto *at = reinterpret_cast<const char *>(rows[8 * matrix + r]) + 2 * c;
    std::memcpy(&value, at, sizeof(value));
    if (poplar_emulated_watches)
      poplar_emulated_access(at, sizeof(value), AccessKind::Read, true, site);
    return uint32_t(value);
  };
  for (int m = 0; m < 4; ++m)
    parts[m] =
        transposed
            ? element(m, column, group) | element(m, column + 1, group) << 16
            : element(m, group, column) | element(m, group, column + 1) << 16;
}

template <typename T> inline T read(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T> inline void write(char *at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

} // namespace

#endif // POPLAR_UNITTESTS_GPU_EMULATED_PRELUDE_H
