//===- LinalgBuilder.cpp - Building linalg.generic row by row -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/LinalgBuilder.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace poplar;

//===----------------------------------------------------------------------===//
// ElementBuilder
//===----------------------------------------------------------------------===//

Value ElementBuilder::f32(double value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(value));
}
Value ElementBuilder::i32(int64_t value) {
  return arith::ConstantOp::create(*this, getI32IntegerAttr(value));
}
Value ElementBuilder::i64(int64_t value) {
  return arith::ConstantOp::create(*this, getI64IntegerAttr(value));
}
Value ElementBuilder::index(int64_t value) {
  return arith::ConstantOp::create(*this, getIndexAttr(value));
}

Value ElementBuilder::add(Value lhs, Value rhs) {
  return arith::AddFOp::create(*this, lhs, rhs);
}
Value ElementBuilder::sub(Value lhs, Value rhs) {
  return arith::SubFOp::create(*this, lhs, rhs);
}
Value ElementBuilder::mul(Value lhs, Value rhs) {
  return arith::MulFOp::create(*this, lhs, rhs);
}
Value ElementBuilder::div(Value lhs, Value rhs) {
  return arith::DivFOp::create(*this, lhs, rhs);
}
Value ElementBuilder::neg(Value value) {
  return arith::NegFOp::create(*this, value);
}
Value ElementBuilder::sqrt(Value value) {
  return math::SqrtOp::create(*this, value);
}
Value ElementBuilder::accumulate(Value running, Value value) {
  return arith::AddFOp::create(*this, running, value,
                               arith::FastMathFlags::reassoc);
}

Value ElementBuilder::position(int64_t dim) {
  return linalg::IndexOp::create(*this, dim);
}
Value ElementBuilder::extract(Value tensor, ValueRange indices) {
  return tensor::ExtractOp::create(*this, tensor, indices);
}
Value ElementBuilder::convert(Value value, Type type) {
  auto from = dyn_cast<FloatType>(value.getType());
  auto to = dyn_cast<FloatType>(type);
  if (!from || !to || from == to)
    return value;
  if (from.getWidth() < to.getWidth())
    return arith::ExtFOp::create(*this, to, value);
  if (from.getWidth() > to.getWidth())
    return arith::TruncFOp::create(*this, to, value);
  return convert(convert(value, getF32Type()), type);
}

//===----------------------------------------------------------------------===//
// LinalgBuilder
//===----------------------------------------------------------------------===//

Value LinalgBuilder::empty(Value like, RankedTensorType type) {
  SmallVector<Value> sizes;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(size))
      sizes.push_back(tensor::DimOp::create(rewriter, loc, like, dim));
  return tensor::EmptyOp::create(rewriter, loc, type, sizes);
}

Value LinalgBuilder::empty(Value like, ArrayRef<int64_t> shape,
                           Type elementType) {
  return empty(like, RankedTensorType::get(shape, elementType));
}

Value LinalgBuilder::filledPerToken(Value like, double value, int64_t heads) {
  auto shape = cast<RankedTensorType>(like.getType()).getShape();
  Value init = empty(like, {shape[0], shape[1] * heads}, rewriter.getF32Type());
  Value scalar =
      arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(value));
  return linalg::FillOp::create(rewriter, loc, scalar, init).getResult(0);
}

ValueRange LinalgBuilder::generic(StringRef dims, ArrayRef<Operand> inputs,
                                  ArrayRef<Operand> outputs, Body body) {
  MLIRContext *context = rewriter.getContext();
  SmallVector<utils::IteratorType> iterators;
  for (char dim : dims)
    iterators.push_back(llvm::toLower(dim) == dim
                            ? utils::IteratorType::parallel
                            : utils::IteratorType::reduction);
  std::string names = dims.lower();

  SmallVector<Value> inputValues, outputValues;
  SmallVector<AffineMap> maps;
  auto addOperand = [&](const Operand &operand, SmallVector<Value> &values) {
    values.push_back(operand.value);
    SmallVector<AffineExpr> exprs;
    for (char name : operand.dims) {
      size_t position = names.find(name);
      assert((name == '0' || position != std::string::npos) &&
             "operand indexed by a dimension that is not iterated");
      AffineExpr expr = name == '0' ? getAffineConstantExpr(0, context)
                                    : getAffineDimExpr(position, context);
      exprs.push_back(name == 't' && operand.modulo ? expr % operand.modulo
                                                    : expr);
    }
    if (operand.heads > 1) {
      assert(operand.dims == "btd" && "only rows consist of heads");
      int64_t width =
          cast<RankedTensorType>(operand.value.getType()).getDimSize(2) /
          operand.heads;
      exprs[2] = exprs[1] % operand.heads * width + exprs[2];
      exprs[1] = exprs[1].floorDiv(operand.heads);
    }
    maps.push_back(AffineMap::get(dims.size(), 0, exprs, context));
  };
  for (const Operand &input : inputs)
    addOperand(input, inputValues);
  for (const Operand &output : outputs)
    addOperand(output, outputValues);

  auto op = linalg::GenericOp::create(
      rewriter, loc, TypeRange(ValueRange(outputValues)), inputValues,
      outputValues, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange args) {
        ElementBuilder b(loc, nested);
        SmallVector<Value> extended;
        for (Value arg : args)
          extended.push_back(b.toF32(arg));
        ValueRange all(extended);
        SmallVector<Value> results = body(b, all.take_front(inputs.size()),
                                          all.drop_front(inputs.size()));
        for (auto [result, arg] :
             llvm::zip_equal(results, args.take_back(outputs.size())))
          result = b.convert(result, arg.getType());
        linalg::YieldOp::create(b, results);
        // Outputs that are only written do not need their old value.
        for (Value value : extended)
          if (Operation *def = value.getDefiningOp(); def && value.use_empty())
            def->erase();
      });
  return op.getResults();
}

Value LinalgBuilder::map(StringRef dims, Type type, ArrayRef<Operand> inputs,
                         MapBody body) {
  auto tensor = cast<RankedTensorType>(type);
  // The first operand that spans the result's dimensions gives their sizes.
  const Operand *like = llvm::find_if(inputs, [&](const Operand &input) {
    return input.dims.starts_with("b");
  });
  if (like == inputs.end())
    like = inputs.begin();
  Value init = empty(like->value, tensor);
  return generic(dims, inputs, {{init, dims}},
                 [&](ElementBuilder &b, ValueRange in, ValueRange) {
                   return SmallVector<Value>{body(b, in)};
                 })[0];
}

Value LinalgBuilder::mapElements(Type type, ValueRange inputs, MapBody body) {
  StringRef dims =
      StringRef("btdefghi").take_front(cast<RankedTensorType>(type).getRank());
  SmallVector<Operand> operands;
  for (Value input : inputs)
    operands.push_back({input, dims});
  return map(dims, type, operands, body);
}

Value LinalgBuilder::mapTokens(ArrayRef<Value> inputs, MapBody body) {
  SmallVector<Operand> operands;
  for (Value input : inputs)
    operands.push_back({input, "bt"});
  auto shape = cast<RankedTensorType>(inputs[0].getType()).getShape();
  return map("bt", RankedTensorType::get(shape, rewriter.getF32Type()),
             operands, body);
}

Value LinalgBuilder::reduceRows(ArrayRef<Operand> inputs, double initial,
                                ReduceBody body) {
  assert(inputs[0].dims == "btd" && "the first operand is reduced");
  int64_t heads = inputs[0].heads;
  Value init = filledPerToken(inputs[0].value, initial, heads);
  SmallVector<Operand> operands(inputs);
  if (heads > 1) {
    // Only says how many columns are iterated, which linalg takes from plain
    // dimensions.
    int64_t width =
        cast<RankedTensorType>(inputs[0].value.getType()).getDimSize(2) / heads;
    operands.push_back(
        {tensor::EmptyOp::create(rewriter, loc, {width}, rewriter.getF32Type()),
         "d"});
  }
  return generic("btD", operands, {{init, "bt"}},
                 [&](ElementBuilder &b, ValueRange in, ValueRange out) {
                   return SmallVector<Value>{body(b, in, out[0])};
                 })[0];
}

Value LinalgBuilder::sumRows(ArrayRef<Operand> inputs, MapBody body) {
  return reduceRows(inputs, 0.0,
                    [&](ElementBuilder &b, ValueRange in, Value running) {
                      return b.accumulate(running, body(b, in));
                    });
}
