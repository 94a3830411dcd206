//===- NNOps.cpp - Verifiers of nn ops ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar::nn;

/// Frequencies are printed so that they parse back to the last bit; a
/// DenseArray prints seven digits, which is an angle off by 1e-4 at long
/// sequences.
static ParseResult parseFrequencies(OpAsmParser &parser,
                                    DenseF64ArrayAttr &frequencies) {
  SmallVector<double> values;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] {
        return parser.parseFloat(values.emplace_back());
      }))
    return failure();
  frequencies = parser.getBuilder().getDenseF64ArrayAttr(values);
  return success();
}

static void printFrequencies(OpAsmPrinter &printer, Operation *,
                             DenseF64ArrayAttr frequencies) {
  printer << "[";
  llvm::interleaveComma(frequencies.asArrayRef(), printer, [&](double value) {
    printer.printFloat(APFloat(value));
  });
  printer << "]";
}

#define GET_OP_CLASSES
#include "Poplar/Dialect/NN/NNOps.cpp.inc"

//===----------------------------------------------------------------------===//
// What verifiers share
//===----------------------------------------------------------------------===//

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static ArrayRef<int64_t> getShape(Value value) {
  return getTensor(value).getShape();
}

static int64_t getDim(Value value, unsigned index) {
  return getShape(value)[index];
}

/// `[?,64,128]`
static std::string show(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(shape))
    text += (i ? "," : "") +
            (ShapedType::isDynamic(size) ? "?" : std::to_string(size));
  return text + "]";
}

namespace {
/// An operand or result with its name in messages.
struct Named {
  StringRef name;
  Value value;
};
} // namespace

/// `subject` must have this shape; `reference` is what asks for it.
static LogicalResult expectShape(Operation *op, Named subject,
                                 ArrayRef<int64_t> expected, Named reference) {
  if (getShape(subject.value) == expected)
    return success();
  return op->emitOpError() << subject.name << " is "
                           << show(getShape(subject.value)) << ", expected "
                           << show(expected) << " to fit " << reference.name
                           << " " << show(getShape(reference.value));
}

/// All must have the element type of the first.
static LogicalResult expectSameElements(Operation *op, ArrayRef<Named> values) {
  Type expected = getTensor(values.front().value).getElementType();
  for (Named other : values.drop_front()) {
    Type found = getTensor(other.value).getElementType();
    if (found != expected)
      return op->emitOpError()
             << other.name << " has elements " << found << ", expected "
             << expected << " as " << values.front().name << " has";
  }
  return success();
}

static LogicalResult expectSameType(Operation *op, Named subject,
                                    Named reference) {
  if (failed(expectShape(op, subject, getShape(reference.value), reference)))
    return failure();
  return expectSameElements(op, {reference, subject});
}

/// [B,T] beside x [B,T,D].
static LogicalResult expectPerToken(Operation *op, Named subject, Named x) {
  return expectShape(op, subject, getShape(x.value).take_front(2), x);
}

/// [D] beside x [B,T,D].
static LogicalResult expectPerColumn(Operation *op, Named subject, Named x) {
  return expectShape(op, subject, getShape(x.value).take_back(1), x);
}

static LogicalResult expectKeys(Operation *op, Value keys, Named x) {
  return expectShape(op, {"keys", keys}, {getDim(x.value, 0), 2}, x);
}

static LogicalResult expectProbability(Operation *op, StringRef name,
                                       double p) {
  if (p >= 0 && p < 1)
    return success();
  return op->emitOpError() << name << " is " << p
                           << ", expected a probability in [0, 1)";
}

/// Shape of a [out,in] or [in,out] weight.
static SmallVector<int64_t> getWeightShape(int64_t outputs, int64_t inputs,
                                           WeightLayout layout) {
  if (layout == WeightLayout::OutIn)
    return {outputs, inputs};
  return {inputs, outputs};
}

static LogicalResult verifyWeight(Operation *op, Named weight, Named x,
                                  int64_t outputs, WeightLayout layout) {
  SmallVector<int64_t> expected =
      getWeightShape(outputs, getDim(x.value, 2), layout);
  if (getShape(weight.value) == ArrayRef<int64_t>(expected))
    return success();
  return op->emitOpError() << weight.name
                           << (layout == WeightLayout::OutIn ? " [out,in]"
                                                             : " [in,out]")
                           << " is " << show(getShape(weight.value))
                           << ", expected " << show(expected) << " to fit x "
                           << show(getShape(x.value)) << " and " << outputs
                           << " outputs";
}

//===----------------------------------------------------------------------===//
// Embeddings and linear layers
//===----------------------------------------------------------------------===//

static LogicalResult verifyPaddingIdx(Operation *op,
                                      std::optional<int64_t> paddingIdx,
                                      int64_t rows) {
  if (paddingIdx && (*paddingIdx < 0 || *paddingIdx >= rows))
    return op->emitOpError() << "padding_idx " << *paddingIdx
                             << " is not a row of a table of " << rows;
  return success();
}

// - result [B,T,D] for ids [B,T] and table [V,D], elements as the table's
// - padding_idx, if there, is a row of the table
LogicalResult EmbeddingOp::verify() {
  Named ids{"ids", getIds()}, result{"result", getResult()};
  if (failed(expectPerToken(*this, ids, result)) ||
      failed(expectShape(*this, {"table", getTable()},
                         {getDim(getTable(), 0), getDim(getResult(), 2)},
                         result)))
    return failure();
  if (failed(verifyPaddingIdx(*this, getPaddingIdx(), getDim(getTable(), 0))))
    return failure();
  return expectSameElements(*this, {{"table", getTable()}, result});
}

/// A table with a row for each position of x, or at least one.
static LogicalResult verifyPositionTable(Operation *op, Named table, Named x,
                                         bool constantRow) {
  int64_t rows = getDim(table.value, 0);
  if (failed(expectShape(op, table, {rows, getDim(x.value, 2)}, x)))
    return failure();
  int64_t needed = constantRow ? 1 : getDim(x.value, 1);
  if (rows < needed)
    return op->emitOpError() << table.name << " has " << rows
                             << " rows, expected at least " << needed;
  return success();
}

/// positions [B,T] beside x [B,T,D], if there are any.
static LogicalResult verifyPositions(Operation *op, Value positions, Named x) {
  return positions ? expectPerToken(op, {"positions", positions}, x)
                   : success();
}

// - result as x [B,T,D]; table [P,D], P >= T (1 with constant_row)
// - positions [B,T], and not with constant_row
LogicalResult PositionEmbeddingOp::verify() {
  Named x{"x", getX()}, table{"table", getTable()};
  if (getPositions() && getConstantRow())
    return emitOpError("has positions and a constant row");
  if (failed(verifyPositions(*this, getPositions(), x)))
    return failure();
  if (failed(expectSameType(*this, {"result", getResult()}, x)) ||
      failed(verifyPositionTable(*this, table, x, getConstantRow())))
    return failure();
  return expectSameElements(*this, {x, table});
}

/// What holds for the ops that multiply x by a weight:
// - x [B,T,K], result [B,T,N], weight [N,K] (out_in) or [K,N], bias [N] if any
// - one element type
template <typename Op>
static LogicalResult verifyLinear(Op op, Value biasValue) {
  Named x{"x", op.getX()}, result{"result", op.getResult()};
  Named weight{"weight", op.getWeight()};
  int64_t outputs = getDim(op.getResult(), 2);
  if (failed(expectShape(op, result,
                         {getDim(op.getX(), 0), getDim(op.getX(), 1), outputs},
                         x)) ||
      failed(verifyWeight(op, weight, x, outputs, op.getLayout())) ||
      failed(expectSameElements(op, {x, result})) ||
      (!isQuantized(weight.value.getType()) &&
       failed(expectSameElements(op, {x, weight}))))
    return failure();
  if (op.getFp8() && isQuantized(weight.value.getType()))
    return op.emitOpError("multiplies in fp8 by a quantised weight, which is "
                          "in few bits already: leave out --fp8-products, or "
                          "--frozen-format");
  if (!biasValue)
    return success();
  Named bias{"bias", biasValue};
  if (failed(expectPerColumn(op, bias, result)))
    return failure();
  return expectSameElements(op, {x, bias});
}

LogicalResult LinearOp::verify() { return verifyLinear(*this, getBias()); }

// - as nn.linear; pre has the type of the result
LogicalResult LinearGeluOp::verify() {
  if (failed(verifyLinear(*this, getBias())))
    return failure();
  if (!getPre())
    return success();
  return expectSameType(*this, {"pre", getPre()}, {"result", getResult()});
}
LogicalResult LinearGeluGradOp::verify() {
  if (failed(verifyLinear(*this, Value())))
    return failure();
  return expectSameType(*this, {"pre", getPre()}, {"result", getResult()});
}

// - ids [B,T] and acc [V,D] for dy [B,T,D]
LogicalResult EmbeddingGradOp::verify() {
  Named dy{"dy", getDy()};
  if (failed(expectPerToken(*this, {"ids", getIds()}, dy)) ||
      failed(verifyPaddingIdx(*this, getPaddingIdx(), getDim(getAcc(), 0))))
    return failure();
  return expectShape(*this, {"acc", getAcc()},
                     {getDim(getAcc(), 0), getDim(getDy(), 2)}, dy);
}

// - acc [P,D], P >= T (1 with constant_row)
LogicalResult PositionEmbeddingGradOp::verify() {
  return verifyPositionTable(*this, {"acc", getAcc()}, {"dy", getDy()},
                             getConstantRow());
}

// - dy [B,T,N] and x [B,T,K] of one element type, acc [N,K] or [K,N]
template <typename Op> static LogicalResult verifyWeightGradient(Op op) {
  Named dy{"dy", op.getDy()}, x{"x", op.getX()};
  int64_t outputs = getDim(dy.value, 2);
  if (failed(expectShape(
          op, dy, {getDim(x.value, 0), getDim(x.value, 1), outputs}, x)) ||
      failed(
          verifyWeight(op, {"acc", op.getAcc()}, x, outputs, op.getLayout())))
    return failure();
  return expectSameElements(op, {x, dy});
}
LogicalResult LinearGradWeightOp::verify() {
  return verifyWeightGradient(*this);
}
// - as nn.linear_grad_weight and nn.sum_rows
LogicalResult LinearGradWeightBiasOp::verify() {
  if (failed(verifyWeightGradient(*this)))
    return failure();
  return expectPerColumn(*this, {"bias_acc", getBiasAcc()}, {"dy", getDy()});
}

// - acc [D] for dy [B,T,D]
LogicalResult SumRowsOp::verify() {
  return expectPerColumn(*this, {"acc", getAcc()}, {"dy", getDy()});
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

static LogicalResult verifyEps(Operation *op, const APFloat &eps) {
  double value = eps.convertToDouble();
  if (value > 0 && !eps.isInfinity())
    return success();
  return op->emitOpError() << "eps is " << value
                           << ", expected a finite number above 0";
}

static LogicalResult verifyOffset(Operation *op, const APFloat &offset) {
  if (offset.isFinite())
    return success();
  return op->emitOpError() << "offset is " << offset.convertToDouble()
                           << ", expected a finite number";
}

// - result as x [B,T,D]; gamma and beta [D] of its element type; mean and rstd
//   [B,T]; eps > 0; offset finite
LogicalResult LayerNormOp::verify() {
  Named x{"x", getX()}, gamma{"gamma", getGamma()}, beta{"beta", getBeta()};
  if (failed(expectSameType(*this, {"result", getResult()}, x)) ||
      failed(expectPerColumn(*this, gamma, x)) ||
      failed(expectSameElements(*this, {x, gamma})) ||
      failed(expectPerToken(*this, {"mean", getMean()}, x)) ||
      failed(expectPerToken(*this, {"rstd", getRstd()}, x)) ||
      failed(verifyOffset(*this, getOffset())))
    return failure();
  if (getBeta() && (failed(expectPerColumn(*this, beta, x)) ||
                    failed(expectSameElements(*this, {x, beta}))))
    return failure();
  return verifyEps(*this, getEps());
}

/// A norm over each of `heads` parts of the rows of x [B,T,D]: `gamma` is
/// [D/heads], `rstd` [B,T*heads].
static LogicalResult verifyHeads(Operation *op, int64_t heads, Named gamma,
                                 Named rstd, Named x) {
  ArrayRef<int64_t> shape = getShape(x.value);
  if (heads < 1 || shape[2] % heads)
    return op->emitOpError() << x.name << " " << show(shape)
                             << " does not divide into " << heads << " heads";
  if (failed(expectShape(op, gamma, {shape[2] / heads}, x)))
    return failure();
  return expectShape(op, rstd, {shape[0], shape[1] * heads}, x);
}

// - result as x [B,T,D]; gamma [D/heads] of its element type; rstd
//   [B,T*heads]; eps > 0; offset finite
LogicalResult RMSNormOp::verify() {
  Named x{"x", getX()}, gamma{"gamma", getGamma()};
  if (failed(expectSameType(*this, {"result", getResult()}, x)) ||
      failed(verifyHeads(*this, getHeads(), gamma, {"rstd", getRstd()}, x)) ||
      failed(expectSameElements(*this, {x, gamma})) ||
      failed(verifyOffset(*this, getOffset())))
    return failure();
  return verifyEps(*this, getEps());
}

// - dy as x [B,T,D]; rstd [B,T*heads]; acc [D/heads]; mean [B,T], without heads
LogicalResult NormGradGammaOp::verify() {
  Named x{"x", getX()};
  if (failed(expectSameType(*this, {"dy", getDy()}, x)) ||
      failed(verifyHeads(*this, getHeads(), {"acc", getAcc()},
                         {"rstd", getRstd()}, x)))
    return failure();
  if (!getMean())
    return success();
  if (getHeads() != 1)
    return emitOpError("has a mean and several heads");
  return expectPerToken(*this, {"mean", getMean()}, x);
}

/// What the gradients of both norms have.
static LogicalResult verifyNormGrad(Operation *op, Named dy, Named x,
                                    Named gamma, Named rstd, Named result,
                                    int64_t heads) {
  if (failed(expectSameType(op, dy, x)) ||
      failed(expectSameType(op, result, x)) ||
      failed(expectSameElements(op, {x, gamma})))
    return failure();
  return verifyHeads(op, heads, gamma, rstd, x);
}

// - dy and result as x [B,T,D]; gamma [D]; mean and rstd [B,T]; offset finite
LogicalResult LayerNormGradOp::verify() {
  Named x{"x", getX()};
  if (failed(verifyOffset(*this, getOffset())) ||
      failed(verifyNormGrad(*this, {"dy", getDy()}, x, {"gamma", getGamma()},
                            {"rstd", getRstd()}, {"result", getResult()},
                            /*heads=*/1)))
    return failure();
  return expectPerToken(*this, {"mean", getMean()}, x);
}

// - dy and result as x [B,T,D]; gamma [D/heads]; rstd [B,T*heads]
LogicalResult RMSNormGradOp::verify() {
  if (failed(verifyOffset(*this, getOffset())))
    return failure();
  return verifyNormGrad(*this, {"dy", getDy()}, {"x", getX()},
                        {"gamma", getGamma()}, {"rstd", getRstd()},
                        {"result", getResult()}, getHeads());
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// - head_dim even, a divisor of x's width; at least one inv_freq and at most
//   one per pair of a head; no more heads than x has; positions [B,T]
LogicalResult RopeOp::verify() {
  auto headDim = static_cast<int64_t>(getHeadDim());
  int64_t width = getDim(getX(), 2);
  if (headDim < 2 || headDim % 2)
    return emitOpError() << "head_dim is " << headDim
                         << ", expected an even number above 0";
  if (width % headDim)
    return emitOpError() << "x " << show(getShape(getX()))
                         << " does not consist of heads of " << headDim;
  auto pairs = static_cast<int64_t>(getInvFreq().size());
  if (pairs < 1 || pairs > headDim / 2)
    return emitOpError() << "has " << pairs
                         << " frequencies, expected 1 to head_dim / 2 = "
                         << headDim / 2;
  auto heads = static_cast<int64_t>(getHeads());
  if (heads < 0 || heads > width / headDim)
    return emitOpError() << "rotates " << heads << " heads, but x has "
                         << width / headDim;
  if (!getPositions() != (getLength() == 0))
    return emitOpError("needs a length with positions, and only then");
  // Programs hold a table of sines and cosines.
  constexpr int64_t kLargestTable = int64_t(1) << 28;
  int64_t length = getPositions() ? getLength() : getDim(getX(), 1);
  if (length > kLargestTable / pairs)
    return emitOpError() << "has " << length << " positions with " << pairs
                         << " frequencies, more than 2^28 angles";
  return verifyPositions(*this, getPositions(), {"x", getX()});
}

/// What attention and its gradient have in common: `out` [B,T,H*d] is divided
/// into heads, and q, k, v, lse, keys and positions fit it.
template <typename Op> static LogicalResult verifyAttention(Op op, Named out) {
  auto heads = static_cast<int64_t>(op.getNumHeads());
  auto kvHeads = static_cast<int64_t>(op.getNumKvHeads());
  ArrayRef<int64_t> shape = getShape(out.value);
  if (heads < 1 || shape[2] % heads)
    return op.emitOpError() << out.name << " " << show(shape)
                            << " does not divide into " << heads << " heads";
  if (kvHeads < 1 || heads % kvHeads)
    return op.emitOpError() << heads << " heads cannot share " << kvHeads
                            << " key-value heads evenly";
  if (!op.getK() != !op.getV())
    return op.emitOpError() << "needs both k and v, or a packed q alone";
  int64_t headDim = shape[2] / heads;
  auto withWidth = [&](int64_t width) {
    return SmallVector<int64_t>{shape[0], shape[1], width};
  };
  Named q{"q", op.getQ()};
  if (op.isPacked()) {
    q.name = "packed q";
    if (failed(expectShape(op, q, withWidth((heads + 2 * kvHeads) * headDim),
                           out)))
      return failure();
  } else {
    Named k{"k", op.getK()}, v{"v", op.getV()};
    if (failed(expectShape(op, q, shape, out)) ||
        failed(expectShape(op, k, withWidth(kvHeads * headDim), out)) ||
        failed(expectShape(op, v, withWidth(kvHeads * headDim), out)) ||
        failed(expectSameElements(op, {q, k, v})))
      return failure();
  }
  if (failed(expectSameElements(op, {q, out})) ||
      failed(expectShape(op, {"lse", op.getLse()}, {shape[0], heads, shape[1]},
                         out)))
    return failure();
  if (static_cast<int64_t>(op.getWindow()) < 0)
    return op.emitOpError()
           << "window is " << static_cast<int64_t>(op.getWindow())
           << ", expected 0 (none) or more";
  double dropout = op.getDropout().convertToDouble();
  if (failed(expectProbability(op, "dropout", dropout)))
    return failure();
  if (!(op.getCap().convertToDouble() >= 0) || op.getCap().isInfinity())
    return op.emitOpError() << "cap is " << op.getCap().convertToDouble()
                            << ", expected 0 (none) or a finite number above";
  if (op.getPositions() && !op.getCausal())
    return op.emitOpError("has positions, but is not causal: where a document "
                          "ends is not known");
  if (failed(verifyPositions(op, op.getPositions(), out)))
    return failure();
  if (op.getKeys())
    return expectKeys(op, op.getKeys(), out);
  if (dropout > 0)
    return op.emitOpError("draws dropout but has no keys");
  return success();
}

// - q [B,T,H*d] with k, v [B,T,Hkv*d], or q packed [B,T,(H+2Hkv)*d]; H is a
//   multiple of Hkv; result [B,T,H*d]; lse [B,H,T]
// - keys [B,2] if dropout > 0; dropout in [0,1); window >= 0; cap >= 0
// - positions [B,T] of causal attention
// - sinks are one for each head, of the elements of q
LogicalResult AttentionOp::verify() {
  if (failed(verifyAttention(*this, {"result", getResult()})))
    return failure();
  if (!getSinks())
    return success();
  if (failed(expectSameElements(*this, {{"q", getQ()}, {"sinks", getSinks()}})))
    return failure();
  return expectShape(*this, {"sinks", getSinks()},
                     {static_cast<int64_t>(getNumHeads())}, {"q", getQ()});
}

// - as for attention, with dy and out in the place of its result
// - dq, dk, dv have the types of q, k, v
LogicalResult AttentionGradOp::verify() {
  Named dy{"dy", getDy()};
  if (failed(expectSameType(*this, {"out", getOut()}, dy)) ||
      failed(verifyAttention(*this, dy)) ||
      failed(expectSameType(*this, {"dq", getDq()}, {"q", getQ()})))
    return failure();
  if (!getDk() != isPacked() || !getDv() != isPacked())
    return emitOpError("needs dk and dv exactly if it has k and v");
  if (isPacked())
    return success();
  if (failed(expectSameType(*this, {"dk", getDk()}, {"k", getK()})))
    return failure();
  return expectSameType(*this, {"dv", getDv()}, {"v", getV()});
}

//===----------------------------------------------------------------------===//
// Elementwise ops, dropout, loss, optimizer
//===----------------------------------------------------------------------===//

// The types are equal by trait.
LogicalResult GeluOp::verify() { return success(); }

// - the same shape, floats on both sides
LogicalResult CastOp::verify() {
  Named x{"x", getX()}, result{"result", getResult()};
  for (Named value : {x, result})
    if (!isa<FloatType>(getTensor(value.value).getElementType()))
      return emitOpError() << value.name << " has elements "
                           << getTensor(value.value).getElementType()
                           << ", expected floats";
  return expectShape(*this, result, getShape(getX()), x);
}

/// What a device draws for the rows and columns that it has.
template <typename Op> static LogicalResult verifyDraws(Op op) {
  if (failed(expectKeys(op, op.getKeys(), {"x", op.getX()})))
    return failure();
  std::optional<ArrayRef<int64_t>> tokens = op.getTokens();
  if (!tokens)
    return success();
  if ((tokens->size() != 2 && tokens->size() != 4) || (*tokens)[0] < 0 ||
      (*tokens)[0] > (*tokens)[1] - getDim(op.getX(), 1) ||
      (tokens->size() == 4 &&
       ((*tokens)[2] < 0 ||
        (*tokens)[2] > (*tokens)[3] - getDim(op.getX(), 2))))
    return op.emitOpError()
           << "tokens [" << *tokens
           << "], expected the first of the rows and how many tokens a sample "
              "has, and as much of columns where these are divided";
  return success();
}

// - keys [B,2]; p in [0,1)
LogicalResult DropoutOp::verify() {
  if (failed(verifyDraws(*this)))
    return failure();
  return expectProbability(*this, "p", getP().convertToDouble());
}

// - keys [B,2]; magnitude >= 0
LogicalResult NoiseOp::verify() {
  if (failed(verifyDraws(*this)))
    return failure();
  double magnitude = getMagnitude().convertToDouble();
  if (magnitude >= 0 && !getMagnitude().isInfinity())
    return success();
  return emitOpError() << "magnitude is " << magnitude
                       << ", expected a finite number that is not below 0";
}

// - targets, loss and lse [B,T] for logits [B,T,V]
LogicalResult CrossEntropyOp::verify() {
  Named logits{"logits", getLogits()};
  if (failed(expectPerToken(*this, {"targets", getTargets()}, logits)) ||
      failed(expectPerToken(*this, {"loss", getLoss()}, logits)))
    return failure();
  return expectPerToken(*this, {"lse", getLse()}, logits);
}

// - targets, lse and dloss [B,T]; result as logits
LogicalResult CrossEntropyGradOp::verify() {
  Named logits{"logits", getLogits()};
  if (failed(expectPerToken(*this, {"targets", getTargets()}, logits)) ||
      failed(expectPerToken(*this, {"lse", getLse()}, logits)) ||
      failed(expectPerToken(*this, {"dloss", getDloss()}, logits)))
    return failure();
  return expectSameType(*this, {"result", getResult()}, logits);
}

// - g, m, v and the results as p [n]; hyper [8]
LogicalResult AdamWOp::verify() {
  Named p{"p", getP()};
  for (Named other : {Named{"g", getG()}, Named{"m", getM()},
                      Named{"v", getV()}, Named{"new_p", getNewP()},
                      Named{"new_m", getNewM()}, Named{"new_v", getNewV()}})
    if (failed(expectSameType(*this, other, p)))
      return failure();
  if (getShape(getHyper()) != ArrayRef<int64_t>{8})
    return emitOpError() << "hyper is " << show(getShape(getHyper()))
                         << ", expected [8]";
  return success();
}
