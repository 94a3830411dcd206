//===- ExecDialect.cpp - The exec dialect ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/ExecExperts.h"
#include "Poplar/Dialect/Exec/ExecRecurrent.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

#include "Poplar/Dialect/Exec/ExecDialect.cpp.inc"
#include "Poplar/Dialect/Exec/ExecEnums.cpp.inc"
#include "Poplar/Dialect/Exec/ExecInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Poplar/Dialect/Exec/ExecTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "Poplar/Dialect/Exec/ExecAttrs.cpp.inc"

void ExecDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/Exec/ExecOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/Exec/ExecExpertOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/Exec/ExecRecurrentOps.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "Poplar/Dialect/Exec/ExecTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Poplar/Dialect/Exec/ExecAttrs.cpp.inc"
      >();
}

BufferSize exec::getBufferSize(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank())
    return {0, false}; // no buffer
  if (nn::isQuantized(shaped))
    return {
        int64_t(llvm::alignTo(nn::getStoredElements(shaped), POPLAR_ALIGNMENT)),
        false};
  int64_t elements = 1;
  bool perSample = false;
  SmallVector<int64_t> shape(shaped.getShape());
  if (hasPaddedRows(shaped))
    shape.back() = getRowElements(shaped);
  for (int64_t size : shape) {
    if (ShapedType::isDynamic(size))
      perSample = true;
    else if (llvm::MulOverflow(elements, size, elements) ||
             elements > kLargestBuffer)
      return {std::numeric_limits<int64_t>::max(), perSample};
  }
  // Other elements have no size: exec.buffer refuses them.
  Type element = shaped.getElementType();
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
  int64_t bytes = elements * bits / 8;
  return {int64_t(llvm::alignTo(bytes, POPLAR_ALIGNMENT)), perSample};
}

LogicalResult
RowAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                        function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() < 2 || ShapedType::isDynamic(shape.back()) ||
      getElements() < shape.back())
    return emitError() << "rows of " << shape << " cannot be " << getElements()
                       << " elements apart";
  return success();
}

/// A buffer of this shape, with `row` elements from one row to the next.
static MemRefType getRowsType(ArrayRef<int64_t> shape, Type elementType,
                              int64_t row) {
  if (shape.empty() || shape.back() == row)
    return MemRefType::get(shape, elementType);
  SmallVector<int64_t> strides(shape.size(), 1);
  int64_t stride = row;
  for (size_t dim = shape.size() - 1; dim-- > 0; stride *= shape[dim])
    strides[dim] = stride;
  auto layout =
      StridedLayoutAttr::get(elementType.getContext(), /*offset=*/0, strides);
  return MemRefType::get(shape, elementType, layout);
}

MemRefType exec::getBufferType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return getRowsType(type.getShape(), type.getElementType(),
                     getRowElements(type));
}

MemRefType exec::getTokensType(MemRefType whole, int64_t tokens) {
  SmallVector<int64_t> shape(whole.getShape());
  shape[1] = tokens;
  // Numbers of tokens have no rows of their own.
  return getRowsType(shape, whole.getElementType(),
                     whole.getRank() > 2 ? getRowElements(whole) : tokens);
}

int64_t exec::getRowElements(ShapedType type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    if (auto row = dyn_cast_or_null<RowAttr>(tensor.getEncoding()))
      return row.getElements();
  if (auto buffer = dyn_cast<MemRefType>(type))
    if (auto layout = dyn_cast<StridedLayoutAttr>(buffer.getLayout());
        layout && buffer.getRank() > 1)
      return layout.getStrides()[buffer.getRank() - 2];
  return type.getRank() ? type.getShape().back() : 1;
}

bool exec::hasPaddedRows(ShapedType type) {
  return type.getRank() && getRowElements(type) != type.getShape().back();
}

int64_t exec::getTokenBytes(ShapedType type) {
  int64_t elements = ShapedType::getNumElements(type.getShape().drop_front(2));
  if (hasPaddedRows(type))
    elements = elements / type.getShape().back() * getRowElements(type);
  return elements * type.getElementTypeBitWidth() / 8;
}

int32_t exec::getPoplarType(Type elementType) {
  if (auto quantized = dyn_cast<nn::QuantizedType>(elementType))
    return nn::getPoplarType(quantized.getFormat());
  if (elementType.isUnsignedInteger(8))
    return POPLAR_BYTES;
  if (elementType.isBF16())
    return POPLAR_BF16;
  return elementType.isF16() ? POPLAR_F16 : POPLAR_F32;
}

int32_t exec::getPoplarWire(Type wire) {
  return wire.isSignlessInteger() ? int32_t(POPLAR_I8) : getPoplarType(wire);
}
