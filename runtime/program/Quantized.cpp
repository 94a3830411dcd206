//===- Quantized.cpp - Rounding matrices to few bits ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Quantized.h"
#include "Poplar/Runtime/QuantizedMaps.h"
#include "comm/Wire.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace poplar;
using namespace poplar::runtime;

template <size_t Size>
static constexpr std::array<float, Size> copy(const float (&Values)[Size]) {
  std::array<float, Size> Copy = {};
  for (size_t I = 0; I < Size; ++I)
    Copy[I] = Values[I];
  return Copy;
}

const std::array<float, 16> poplar::runtime::NF4Values = copy(nf4Values);

const std::array<float, 256> &poplar::runtime::getDynamicMap() {
  static constexpr std::array<float, 256> Map =
      copy(makeDynamicMap(/*isSigned=*/true).values);
  return Map;
}

const std::array<float, 256> &poplar::runtime::getUnsignedDynamicMap() {
  static constexpr std::array<float, 256> Map =
      copy(makeDynamicMap(/*isSigned=*/false).values);
  return Map;
}

/// The middles between the values of a map. The number of middles below a value
/// is the code of the nearest value of the map; of two, the lesser.
template <size_t Size>
static std::array<float, Size - 1>
findMiddles(const std::array<float, Size> &Map) {
  std::array<float, Size - 1> Middles;
  for (size_t I = 0; I + 1 < Size; ++I)
    Middles[I] = (Map[I] + Map[I + 1]) / 2;
  return Middles;
}

std::array<float, 256>
poplar::runtime::getCodeMiddles(const std::array<float, 256> &Map) {
  std::array<float, 256> Middles;
  std::array<float, 255> Found = findMiddles(Map);
  std::copy(Found.begin(), Found.end(), Middles.begin());
  Middles[255] = std::numeric_limits<float>::infinity();
  return Middles;
}

static float scale(float Value, float Inverse) {
  return std::clamp(Value * Inverse, -1.0f, 1.0f);
}

static float findLargest(const float *Values, int64_t Count) {
  float Largest = 0;
  for (int64_t I = 0; I < Count; ++I)
    Largest = std::max(Largest, std::fabs(Values[I]));
  return Largest;
}

/// This holds for a block of zeros, too.
static float invert(float Largest) { return 1.0f / std::max(Largest, 1e-38f); }

namespace {
/// Finds codes of a map of 8 bits by the leading bits of a value: a cell holds
/// at most one of the map's middles.
class CodeTable {
public:
  explicit CodeTable(const std::array<float, 256> &Map);

  /// How many middles are below `Value`, of magnitude 1 at most.
  uint8_t find(float Value) const {
    const auto &Cells = std::signbit(Value) ? Below : Above;
    uint8_t Code = Cells[getCell(Value)];
    return static_cast<uint8_t>(Code + (Middles[Code] < Value));
  }

private:
  /// Bits of the fraction that tell cells apart, and the exponent under which
  /// all is one cell.
  static constexpr int Shift = 16, Least = (127 - 23) << 7;
  static constexpr size_t NumCells = (127 << 7) - Least + 1;

  static size_t getCell(float Value) {
    uint32_t Bits;
    std::memcpy(&Bits, &Value, sizeof(Bits));
    int32_t Cell = static_cast<int32_t>((Bits & 0x7FFFFFFFu) >> Shift) - Least;
    return static_cast<size_t>(
        std::clamp(Cell, 0, static_cast<int32_t>(NumCells) - 1));
  }

  /// The last is above everything.
  std::array<float, 256> Middles;
  /// Codes of the least value of each cell: of positive ones and 0, of negative
  /// ones.
  std::array<uint8_t, NumCells> Above, Below;
};
} // namespace

CodeTable::CodeTable(const std::array<float, 256> &Map)
    : Middles(getCodeMiddles(Map)) {
  auto Count = [&](float Value) {
    return static_cast<uint8_t>(
        std::lower_bound(Middles.begin(), Middles.end(), Value) -
        Middles.begin());
  };
  for (size_t Cell = 0; Cell < NumCells; ++Cell) {
    // The least magnitude of this cell, and the largest.
    float Low = 0, High;
    auto First = static_cast<uint32_t>(static_cast<int>(Cell) + Least) << Shift,
         Last = First | ((1u << Shift) - 1);
    if (Cell > 0)
      std::memcpy(&Low, &First, sizeof(Low));
    std::memcpy(&High, &Last, sizeof(High));
    Above[Cell] = Count(Low);
    Below[Cell] = Count(-High);
  }
}

static const CodeTable &getCodeTable(bool IsSigned) {
  static const CodeTable Signed(getDynamicMap()),
      Unsigned(getUnsignedDynamicMap());
  return IsSigned ? Signed : Unsigned;
}

/// In 8 bits; returns the scale.
static float quantizeBlock(bool IsSigned, const float *Values, int64_t Count,
                           uint8_t *Codes) {
  const CodeTable &Table = getCodeTable(IsSigned);
  float Largest = findLargest(Values, Count), Inverse = invert(Largest);
  for (int64_t I = 0; I < Count; ++I)
    Codes[I] = Table.find(scale(Values[I], Inverse));
  return Largest;
}

/// The code of the nearest value of a map of 4 bits; of two, the greater.
static uint8_t findCode4(const float (&Map)[16], float Value) {
  uint8_t Code = 0;
  for (int Step = 8; Step; Step /= 2)
    Code = static_cast<uint8_t>(Code + (Value >= Map[Code + Step] ? Step : 0));
  int Next = std::min(Code + 1, 15);
  bool IsAbove = Value - Map[Code] >= (Map[Next] - Map[Code]) * 0.5f;
  return static_cast<uint8_t>(IsAbove ? Next : Code);
}

float MomentFormat::quantize(const float *Values, int64_t Count,
                             uint8_t *Codes) const {
  if (Bits == 4) {
    const auto &Map = IsSigned ? signedMap4 : unsignedMap4;
    float Largest = std::max(findLargest(Values, Count), 1e-12f);
    for (int64_t I = 0; I < Count; ++I)
      Codes[I] = findCode4(Map, Values[I] / Largest);
    return Largest;
  }
  return quantizeBlock(IsSigned, Values, Count, Codes);
}

void MomentFormat::dequantize(const uint8_t *Codes, float Scale, int64_t Count,
                              float *Values) const {
  const float *Map =
      Bits == 4 ? (IsSigned ? signedMap4 : unsignedMap4)
                : (IsSigned ? getDynamicMap() : getUnsignedDynamicMap()).data();
  for (int64_t I = 0; I < Count; ++I)
    Values[I] = Map[Codes[I]] * Scale;
}

void poplar::runtime::packCodes(int32_t Bits, const uint8_t *Codes,
                                int64_t Count, uint8_t *Out) {
  if (Bits == 8)
    std::copy_n(Codes, Count, Out);
  else
    for (int64_t I = 0; I < Count; I += 2)
      Out[I / 2] = static_cast<uint8_t>(Codes[I] << 4 | Codes[I + 1]);
}

void poplar::runtime::unpackCodes(int32_t Bits, const uint8_t *From,
                                  int64_t Count, uint8_t *Codes) {
  if (Bits == 8)
    std::copy_n(From, Count, Codes);
  else
    for (int64_t I = 0; I < Count; ++I)
      Codes[I] = I % 2 ? From[I / 2] & 15 : From[I / 2] >> 4;
}

static bool areFinite(const float *Values, int64_t Count) {
  float Rest = 0;
  for (int64_t I = 0; I < Count; ++I)
    Rest += Values[I] - Values[I]; // NOLINT(misc-redundant-expression)
  return Rest == 0;
}

static void quantizeInt8(int64_t Rows, int64_t Columns, const float *Values,
                         char *Codes, float *Scales) {
  for (int64_t R = 0; R < Rows; ++R, Values += Columns, Codes += Columns) {
    float Largest = Scales[R] = findLargest(Values, Columns);
    // As PyTorch divides a number by a tensor. Rows of the smallest numbers,
    // whose factor would be infinite, are rows of zeros.
    float Factor = Largest > 1e-37f ? 1.0f / Largest * 127.0f : 0;
    for (int64_t C = 0; C < Columns; ++C)
      Codes[C] = static_cast<char>(
          static_cast<int8_t>(std::nearbyint(Values[C] * Factor)));
  }
}

/// Codes of a byte each for `Count` scales, and what their values are of.
static void quantizeScales(std::vector<float> &Scales, char *Codes,
                           char *Factors, char *Mean) {
  double Sum = 0;
  for (float Scale : Scales)
    Sum += Scale;
  auto Count = static_cast<int64_t>(Scales.size());
  auto Average = static_cast<float>(Sum / static_cast<double>(Count));
  std::memcpy(Mean, &Average, 4);
  for (float &Scale : Scales)
    Scale -= Average;
  for (int64_t First = 0; First < Count; First += POPLAR_SCALE_BLOCK) {
    int64_t Last = std::min<int64_t>(First + POPLAR_SCALE_BLOCK, Count);
    float Largest =
        quantizeBlock(/*IsSigned=*/true, Scales.data() + First, Last - First,
                      reinterpret_cast<uint8_t *>(Codes) + First);
    std::memcpy(Factors + First / POPLAR_SCALE_BLOCK * 4, &Largest, 4);
  }
}

/// Codes of a block, whose first value is even.
static void quantizeNF4(const float *Values, int64_t Count, float Inverse,
                        char *Codes) {
  static const std::array<float, 15> Middles = findMiddles(NF4Values);
  float Scaled[POPLAR_NF4_BLOCK] = {};
  int32_t Found[POPLAR_NF4_BLOCK] = {};
  for (int64_t I = 0; I < Count; ++I)
    Scaled[I] = scale(Values[I], Inverse);
  for (float Middle : Middles)
    for (int64_t I = 0; I < POPLAR_NF4_BLOCK; ++I)
      Found[I] += Middle < Scaled[I];
  // Zeros follow the last of an odd number of values.
  for (int64_t I = Count; I < POPLAR_NF4_BLOCK; ++I)
    Found[I] = 0;
  for (int64_t I = 0; I < Count; I += 2)
    Codes[I / 2] = static_cast<char>(Found[I] << 4 | Found[I + 1]);
}

bool poplar::runtime::quantize(int32_t Type, int64_t Rows, int64_t Columns,
                               const float *Values, char *Out) {
  PoplarQuantizedLayout Layout = poplar_quantized_layout(Type, Rows, Columns);
  std::memset(Out, 0, static_cast<size_t>(Layout.bytes));
  int64_t Count = Rows * Columns;
  if (!areFinite(Values, Count))
    return false;
  std::vector<float> Scales(static_cast<size_t>(Layout.num_scales));
  if (Type == POPLAR_INT8) {
    quantizeInt8(Rows, Columns, Values, Out, Scales.data());
    std::memcpy(Out + Layout.scales, Scales.data(), Scales.size() * 4);
    return true;
  }
  for (int64_t First = 0; First < Count; First += POPLAR_NF4_BLOCK) {
    int64_t Last = std::min<int64_t>(First + POPLAR_NF4_BLOCK, Count);
    float Largest = findLargest(Values + First, Last - First);
    Scales[static_cast<size_t>(First / POPLAR_NF4_BLOCK)] = Largest;
    quantizeNF4(Values + First, Last - First, invert(Largest), Out + First / 2);
  }
  if (Type == POPLAR_NF4)
    std::memcpy(Out + Layout.scales, Scales.data(), Scales.size() * 4);
  else
    quantizeScales(Scales, Out + Layout.scales, Out + Layout.factors,
                   Out + Layout.mean);
  return true;
}

static float readFloat(const char *From, int64_t Index) {
  float Value;
  std::memcpy(&Value, From + Index * 4, 4);
  return Value;
}

float poplar::runtime::getScale(int32_t Type,
                                const PoplarQuantizedLayout &Layout,
                                const char *From, int64_t Block) {
  if (Type == POPLAR_NF4)
    return readFloat(From + Layout.scales, Block);
  auto Code = static_cast<uint8_t>(From[Layout.scales + Block]);
  return getDynamicMap()[Code] *
             readFloat(From + Layout.factors, Block / POPLAR_SCALE_BLOCK) +
         readFloat(From + Layout.mean, 0);
}

/// Blocks of NF4, whose 16 values are made once for each. `T` has the width of
/// an element.
template <typename T>
static void dequantizeNF4(int32_t Type, const PoplarQuantizedLayout &Layout,
                          const char *From, int64_t Begin, int64_t End,
                          comm::Type Format, T *Out) {
  for (int64_t First = Begin; First < End; First += POPLAR_NF4_BLOCK) {
    float Scale = getScale(Type, Layout, From, First / POPLAR_NF4_BLOCK);
    float Wide[16];
    for (size_t I = 0; I < 16; ++I)
      Wide[I] = NF4Values[I] * Scale;
    T Table[16];
    comm::convert(Wide, comm::Type::F32, Table, Format, 16);
    int64_t Last = std::min<int64_t>(First + POPLAR_NF4_BLOCK, End);
    const auto *Codes = reinterpret_cast<const uint8_t *>(From) + First / 2;
    T *To = Out + (First - Begin);
    int64_t Pairs = (Last - First) / 2;
    for (int64_t I = 0; I < Pairs; ++I) {
      To[2 * I] = Table[Codes[I] >> 4];
      To[2 * I + 1] = Table[Codes[I] & 15];
    }
    if ((Last - First) % 2)
      To[2 * Pairs] = Table[Codes[Pairs] >> 4];
  }
}

static void dequantizeInt8(const PoplarQuantizedLayout &Layout, int64_t Columns,
                           const char *From, int64_t Begin, int64_t End,
                           comm::Type Format, char *Out) {
  const auto *Codes = reinterpret_cast<const int8_t *>(From);
  constexpr int64_t Block = 256;
  for (int64_t First = Begin; First < End;) {
    int64_t Row = First / Columns;
    int64_t Last = std::min({(Row + 1) * Columns, First + Block, End});
    float Scale = readFloat(From + Layout.scales, Row), Wide[Block];
    for (int64_t I = First; I < Last; ++I)
      Wide[I - First] =
          static_cast<float>(Codes[I]) * Scale * 7.874015718698502e-3f;
    comm::convert(Wide, comm::Type::F32, Out, Format, Last - First);
    Out += (Last - First) * comm::getBytes(Format);
    First = Last;
  }
}

void poplar::runtime::dequantize(int32_t Type, int64_t Rows, int64_t Columns,
                                 const char *From, int64_t Begin, int64_t End,
                                 int32_t OutType, void *Out) {
  PoplarQuantizedLayout Layout = poplar_quantized_layout(Type, Rows, Columns);
  auto Format = static_cast<comm::Type>(OutType);
  if (Type == POPLAR_INT8)
    return dequantizeInt8(Layout, Columns, From, Begin, End, Format,
                          static_cast<char *>(Out));
  if (OutType == POPLAR_F32)
    return dequantizeNF4(Type, Layout, From, Begin, End, Format,
                         static_cast<float *>(Out));
  dequantizeNF4(Type, Layout, From, Begin, End, Format,
                static_cast<uint16_t *>(Out));
}
