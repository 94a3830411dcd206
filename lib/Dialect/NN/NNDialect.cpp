//===- NNDialect.cpp - The nn dialect -------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Dialect/NN/NNRecurrentOps.h"
#include "Poplar/Runtime/Quantized.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace poplar::nn;

#include "Poplar/Dialect/NN/NNDialect.cpp.inc"
#include "Poplar/Dialect/NN/NNEnums.cpp.inc"
#include "Poplar/Dialect/NN/NNInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "Poplar/Dialect/NN/NNAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Poplar/Dialect/NN/NNTypes.cpp.inc"

void NNDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/NN/NNOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/NN/NNGroupOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/NN/NNRecurrentOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Poplar/Dialect/NN/NNAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "Poplar/Dialect/NN/NNTypes.cpp.inc"
      >();
}

bool poplar::nn::isQuantized(Type type) {
  return isa<QuantizedType>(getElementTypeOrSelf(type));
}

int32_t poplar::nn::getPoplarType(QuantizedFormat format) {
  switch (format) {
  case QuantizedFormat::NF4:
    return POPLAR_NF4;
  case QuantizedFormat::NF4Double:
    return POPLAR_NF4_DOUBLE;
  case QuantizedFormat::Int8:
    return POPLAR_INT8;
  }
  llvm_unreachable("unknown format");
}

int64_t poplar::nn::getStoredElements(ShapedType type) {
  auto element = dyn_cast<QuantizedType>(type.getElementType());
  if (!element)
    return type.getNumElements();
  return poplar_quantized_layout(getPoplarType(element.getFormat()),
                                 type.getDimSize(0), type.getDimSize(1))
      .bytes;
}

std::string poplar::nn::getFingerprint(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  // A number format is chosen for a device, and is no part of the model.
  if (Model model = Model::of(module)) {
    model.clearPrecision();
    stream << model.getDictionary();
  }
  for (auto parameter : module.getOps<ParameterOp>())
    stream << parameter.getSymName() << parameter.getType()
           << (parameter.getFrozen() ? "frozen" : "");
  return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true, 16);
}
