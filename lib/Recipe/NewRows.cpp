//===- NewRows.cpp - Values of rows for new tokens ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NewRows.h"
#include "Poplar/Runtime/Dropout.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include <cmath>
#include <optional>
#include <vector>

using namespace poplar;

/// The part of the covariance of old rows that new ones have.
static constexpr double kSpread = 1e-9;

bool poplar::findRowFormat(llvm::StringRef name, RowFormat &format) {
  auto found = llvm::StringSwitch<std::optional<RowFormat>>(name)
                   .Case("F32", RowFormat::F32)
                   .Case("BF16", RowFormat::BF16)
                   .Case("F16", RowFormat::F16)
                   .Default(std::nullopt);
  format = found.value_or(RowFormat::F32);
  return found.has_value();
}

int64_t poplar::getBytes(RowFormat format) {
  return format == RowFormat::F32 ? 4 : 2;
}

static const llvm::fltSemantics &getSemantics(RowFormat format) {
  return format == RowFormat::F32    ? llvm::APFloat::IEEEsingle()
         : format == RowFormat::BF16 ? llvm::APFloat::BFloat()
                                     : llvm::APFloat::IEEEhalf();
}

/// Appends numbers, rounded to the nearest.
static void append(std::string &bytes, RowFormat format, double number) {
  llvm::APFloat value(number);
  bool losesInfo = false;
  value.convert(getSemantics(format), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  uint64_t bits = value.bitcastToAPInt().getZExtValue();
  for (int64_t i = 0; i < getBytes(format); ++i)
    bytes.push_back(static_cast<char>(bits >> (8 * i)));
}

/// Number `index` of the standard normal sequence of a key (Box and Muller).
static double drawNormal(uint64_t key, uint64_t index) {
  uint64_t state = mixBits(key + kGoldenGamma) + index * 2 * kGoldenGamma;
  constexpr double kUnit = 0x1p-53;
  double radius = double((mixBits(state + kGoldenGamma) >> 11) + 1) * kUnit,
         angle = double(mixBits(state + 2 * kGoldenGamma) >> 11) * kUnit;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * M_PI * angle);
}

std::string poplar::drawRandom(const NewRows &rows, double stdDev) {
  std::string bytes;
  for (int64_t i = 0, end = rows.count * rows.columns; i < end; ++i)
    append(bytes, rows.format,
           stdDev > 0 ? stdDev * drawNormal(rows.key, i) : 0);
  return bytes;
}

/// Reads numbers of two bytes by a table, and others as they are.
static std::vector<float> makeTable(RowFormat format) {
  std::vector<float> table;
  if (format == RowFormat::F32)
    return table;
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    llvm::APFloat value(getSemantics(format), llvm::APInt(16, bits));
    bool losesInfo = false;
    value.convert(llvm::APFloat::IEEEsingle(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    table.push_back(value.convertToFloat());
  }
  return table;
}

std::string poplar::drawNearMean(const NewRows &rows, llvm::StringRef old) {
  namespace endian = llvm::support::endian;
  std::vector<float> table = makeTable(rows.format);
  std::vector<float> row(rows.columns);
  auto read = [&](int64_t index) {
    const char *at = old.data() + index * rows.columns * getBytes(rows.format);
    for (int64_t i = 0; i < rows.columns; ++i)
      row[i] = table.empty()
                   ? llvm::bit_cast<float>(endian::read32le(at + 4 * i))
                   : table[endian::read16le(at + 2 * i)];
  };
  std::vector<double> mean(rows.columns);
  for (int64_t r = 0; r < rows.oldRows; ++r) {
    read(r);
    for (int64_t i = 0; i < rows.columns; ++i)
      mean[i] += row[i];
  }
  for (double &each : mean)
    each /= double(rows.oldRows);
  // The sums of z_i (r_i - m), for all new rows.
  std::vector<double> sums(rows.count * rows.columns);
  bool isSpread = rows.oldRows > rows.columns;
  for (int64_t r = 0; isSpread && r < rows.oldRows; ++r) {
    read(r);
    for (int64_t n = 0; n < rows.count; ++n) {
      double z = drawNormal(rows.key, n * rows.oldRows + r);
      double *sum = sums.data() + n * rows.columns;
      for (int64_t i = 0; i < rows.columns; ++i)
        sum[i] += z * (row[i] - mean[i]);
    }
  }
  std::string bytes;
  double spread = rows.columns == 1 ? kSpread * kSpread : kSpread,
         scale = std::sqrt(spread / double(rows.oldRows));
  for (int64_t i = 0, end = rows.count * rows.columns; i < end; ++i)
    append(bytes, rows.format, mean[i % rows.columns] + scale * sums[i]);
  return bytes;
}
