//===- ExecDialect.cpp - The exec dialect ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/ExecExperts.h"
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
  for (int64_t size : shaped.getShape()) {
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

MemRefType exec::getBufferType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get(type.getShape(), type.getElementType());
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
