//===- Buffer.h - Numbers in memory, of any format --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_BUFFER_H
#define POPLAR_UNITTESTS_GPU_BUFFER_H

#include "Poplar/Dialect/Exec/Exec.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace poplar::gputest {

/// With 12 bits of fraction: more than TF32 keeps, and files of such numbers
/// are packed to half.
inline float shorten(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  bits &= 0xFFFFF800u;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

/// Elements of a type of MLIR: floating-point numbers, or i32.
struct Buffer {
  std::vector<char> bytes;
  mlir::Type element;

  /// NaN, or -1.
  Buffer(mlir::Type element, int64_t count)
      : element(element), elementBytes(element.getIntOrFloatBitWidth() / 8) {
    bytes.assign(static_cast<size_t>(count) * elementBytes, '\xff');
  }

  /// Fills a tensor: numbers away from zero, so that no square root or
  /// logarithm is of nothing; indices that are valid everywhere.
  Buffer(mlir::RankedTensorType type, int64_t batch, std::mt19937 &random)
      : Buffer(type.getElementType(), countElements(type, batch)) {
    std::uniform_real_distribution<float> real(0.25f, 1.25f);
    std::uniform_int_distribution<int32_t> integer(0, 1);
    for (size_t i = 0; i < size(); ++i)
      if (isFloat())
        set(i, shorten(real(random)));
      else
        setBits(i, static_cast<uint64_t>(integer(random)));
  }

  bool isFloat() const { return mlir::isa<mlir::FloatType>(element); }
  size_t width() const { return elementBytes; }
  size_t size() const { return bytes.size() / width(); }
  void setBits(size_t i, uint64_t bits) {
    std::memcpy(&bytes[i * width()], &bits, width());
  }
  /// Rounded to nearest, ties to even.
  void set(size_t i, float value) {
    if (element.isF32())
      return setBits(i, llvm::bit_cast<uint32_t>(value));
    llvm::APFloat number(value);
    bool ignored;
    number.convert(mlir::cast<mlir::FloatType>(element).getFloatSemantics(),
                   llvm::APFloat::rmNearestTiesToEven, &ignored);
    setBits(i, number.bitcastToAPInt().getZExtValue());
  }
  double at(size_t i) const {
    uint64_t value = 0;
    std::memcpy(&value, &bytes[i * width()], width());
    if (!isFloat())
      return static_cast<double>(static_cast<int32_t>(value));
    // APFloat takes most of the time that millions of elements take.
    if (element.isF32() || element.isBF16())
      return llvm::bit_cast<float>(
          static_cast<uint32_t>(value << (element.isF32() ? 0 : 16)));
    llvm::APFloat number(
        mlir::cast<mlir::FloatType>(element).getFloatSemantics(),
        llvm::APInt(static_cast<unsigned>(8 * width()), value));
    bool ignored;
    number.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &ignored);
    return number.convertToDouble();
  }
  /// The same numbers in another format.
  Buffer as(mlir::Type other) const {
    Buffer result(other, static_cast<int64_t>(size()));
    for (size_t i = 0; i < size(); ++i)
      result.set(i, static_cast<float>(at(i)));
    return result;
  }
  void *data() { return bytes.data(); }

private:
  size_t elementBytes;

  static int64_t countElements(mlir::RankedTensorType type, int64_t batch) {
    int64_t count = 1;
    for (int64_t size : type.getShape())
      count *= mlir::ShapedType::isDynamic(size) ? batch : size;
    return exec::hasPaddedRows(type)
               ? count / type.getShape().back() * exec::getRowElements(type)
               : count;
  }
};

/// The relative distance of two buffers, in 2-norms.
inline double distance(const Buffer &a, const Buffer &b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
    size += a.at(i) * a.at(i);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
}

} // namespace poplar::gputest

#endif // POPLAR_UNITTESTS_GPU_BUFFER_H
