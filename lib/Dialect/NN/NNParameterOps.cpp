//===- NNParameterOps.cpp - Verifiers of parameters and their uses --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Runtime/Quantized.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar::nn;

LogicalResult SliceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringRef tensor, ArrayRef<int64_t> shape,
                                int64_t dim, ArrayRef<int64_t> ranges) {
  if (dim < 0 || dim >= int64_t(shape.size()))
    return emitError() << "slice of dimension " << dim << " of a tensor of "
                       << shape.size();
  int64_t last = 0;
  bool rises = !ranges.empty() && ranges.size() % 2 == 0;
  for (size_t i = 0; rises && i < ranges.size(); i += 2) {
    rises = ranges[i] >= last && ranges[i] < ranges[i + 1] &&
            ranges[i + 1] <= shape[dim];
    last = ranges[i + 1];
  }
  if (!rises)
    return emitError() << "slice of ranges [" << ranges
                       << "], expected ascending pairs from 0 to "
                       << shape[dim];
  return success();
}

// - elements are f32 (lower formats are working copies), or quantised
// - std is finite and not negative, and zero unless the init is normal
LogicalResult ParameterOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (isQuantized(type)) {
    if (!getFrozen() || type.getRank() != 2)
      return emitOpError() << "is of type " << type
                           << ", but only frozen matrices are quantised";
    if (SliceAttr slice = getSliceAttr();
        slice &&
        type.getElementType() !=
            QuantizedType::get(getContext(), QuantizedFormat::Int8) &&
        poplar_cuts_blocks(int64_t(slice.getShape().size()),
                           slice.getShape().data(), slice.getDim(),
                           int64_t(slice.getRanges().size() / 2),
                           slice.getRanges().data(), POPLAR_NF4_BLOCK))
      return emitOpError() << "has a slice that cuts blocks of "
                           << POPLAR_NF4_BLOCK << " quantised values";
  } else if (!type.getElementType().isF32()) {
    return emitOpError() << "has elements " << type.getElementType()
                         << ", expected f32 (other types are working copies)";
  }
  // So that 64 bits hold the bytes of a model, and offsets into them.
  int64_t elements = 1;
  for (int64_t size : type.getShape())
    if (llvm::MulOverflow(elements, size, elements) || elements > int64_t(1)
                                                                      << 44)
      return emitOpError() << "has more than 2^44 elements";
  if (elements == 0)
    return emitOpError() << "is of type " << type << ", which has no elements";
  double stdDev = getStdDev().convertToDouble();
  if (!(stdDev >= 0) || getStdDev().isInfinity())
    return emitOpError() << "std is " << stdDev
                         << ", expected a finite number, not negative";
  if (stdDev != 0 && getInit() != InitKind::Normal &&
      getInit() != InitKind::Uniform)
    return emitOpError() << "std needs the init 'normal' or 'uniform', found '"
                         << stringifyInitKind(getInit()) << "'";
  SliceAttr slice = getSliceAttr();
  if (!slice)
    return success();
  SmallVector<int64_t> shape(slice.getShape());
  shape[slice.getDim()] = 0;
  for (size_t i = 0; i < slice.getRanges().size(); i += 2)
    shape[slice.getDim()] += slice.getRanges()[i + 1] - slice.getRanges()[i];
  if (type.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "is of type " << type << ", but its slice is of "
                         << type.clone(shape);
  return success();
}

/// The symbol names a parameter of the value's shape; working copies may be in
/// a lower format.
static LogicalResult verifyParameterUse(Operation *op, FlatSymbolRefAttr name,
                                        Type valueType, bool mayBeLower,
                                        SymbolTableCollection &symbols) {
  auto parameter =
      symbols.lookupNearestSymbolFrom<ParameterOp>(op, name.getAttr());
  if (!parameter)
    return op->emitOpError() << name << " is not the name of an nn.parameter";
  auto declared = cast<RankedTensorType>(parameter.getType());
  auto used = cast<RankedTensorType>(valueType);
  Type element = used.getElementType();
  bool sameElement = element == declared.getElementType() ||
                     (mayBeLower && !isQuantized(declared) &&
                      (element.isBF16() || element.isF16()));
  if (used.getShape() == declared.getShape() && sameElement)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError()
                                  << "has type " << used
                                  << ", but the parameter is " << declared;
  diagnostic.attachNote(parameter.getLoc()) << "parameter declared here";
  return diagnostic;
}

LogicalResult GetParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParameterUse(*this, getParameterAttr(), getValue().getType(),
                            /*mayBeLower=*/true, symbols);
}

LogicalResult GetGradientOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParameterUse(*this, getParameterAttr(), getValue().getType(),
                            /*mayBeLower=*/false, symbols);
}

LogicalResult SetGradientOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParameterUse(*this, getParameterAttr(), getValue().getType(),
                            /*mayBeLower=*/false, symbols);
}
