//===- ExecOps.cpp - Buffers, products and calls of the runtime -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

LogicalResult GPUKernelOp::verify() {
  if (getDescriptor() && !getCallee())
    return emitOpError("has a descriptor, but calls no function to pass it to");
  return success();
}

//===----------------------------------------------------------------------===//
// The arena
//===----------------------------------------------------------------------===//

LogicalResult ArenaOp::verify() {
  for (auto [name, value] : {std::pair("fixed", getFixed()),
                             {"per_sample", getPerSample()},
                             {"transient", getTransientOffset()},
                             {"scratch", getScratchOffset()}})
    if (value % POPLAR_ALIGNMENT != 0)
      return emitOpError(name) << " is " << value << ", expected a multiple of "
                               << POPLAR_ALIGNMENT;
  if (getCachesOffset() && (*getCachesOffset() < getPerSample() ||
                            *getCachesOffset() % POPLAR_ALIGNMENT != 0 ||
                            *getSamplingPerSample() < *getCachesOffset()))
    return emitOpError("has caches at ")
           << *getCachesOffset() << ", which is not behind the "
           << getPerSample() << " bytes of other functions, or beyond the end";
  if (getTransientOffset() + getTransientBytes() > getFixed() ||
      getScratchOffset() + getScratchBytes() > getFixed())
    return emitOpError("has transient memory or scratch beyond the ")
           << getFixed() << " bytes of the fixed region";
  return success();
}

/// The bucket that an op of the exec dialect names, null with an error if there
/// is none.
static zero::BucketOp findBucket(Operation *op, FlatSymbolRefAttr name,
                                 SymbolTableCollection &symbols) {
  auto bucket = symbols.lookupNearestSymbolFrom<zero::BucketOp>(op, name);
  if (!bucket)
    op->emitOpError("names ") << name << ", which is not a zero.bucket";
  return bucket;
}

/// Whether `buffer` holds all of a bucket.
static LogicalResult verifyWhole(Operation *op, FlatSymbolRefAttr name,
                                 Value buffer, SymbolTableCollection &symbols) {
  zero::BucketOp bucket = findBucket(op, name, symbols);
  if (!bucket)
    return failure();
  FailureOr<zero::BucketLayout> layout =
      zero::BucketLayout::get(bucket, symbols);
  auto type = cast<MemRefType>(buffer.getType());
  if (failed(layout)) // The bucket's own verifier says why.
    return failure();
  if (type.getRank() != 1 || type.getDimSize(0) != layout->elements)
    return op->emitOpError("works on ") << type << ", but " << name << " has "
                                        << layout->elements << " elements";
  return success();
}

LogicalResult CopiesOp::verifySymbolUses(SymbolTableCollection &symbols) {
  zero::BucketOp bucket = findBucket(*this, getBucketAttr(), symbols);
  if (!bucket)
    return failure();
  if (bucket.getQuantized() != getType().isUnsignedInteger(8))
    return emitOpError("is of ")
           << getType() << ", but " << getBucketAttr() << " is "
           << (bucket.getQuantized() ? "quantized" : "not quantized");
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

int64_t BufferOp::getBytes() { return getBufferSize(getType()).bytes; }

LogicalResult BufferOp::verify() {
  auto type = cast<MemRefType>(getType());
  if (!nn::isQuantized(type) && !type.getElementType().isIntOrFloat())
    return emitOpError("is of type ")
           << type << ", whose elements have no size in memory";
  if (getOffset() % POPLAR_ALIGNMENT != 0 && getRegion() != Region::Fixed)
    return emitOpError("begins at ")
           << getOffset() << ", expected a multiple of " << POPLAR_ALIGNMENT;
  if (getBufferSize(getType()).perSample != isPerSample())
    return emitOpError("of type ")
           << getType() << (isPerSample() ? " has no batch" : " has a batch")
           << " dimension, so it cannot lie in the region "
           << stringifyRegion(getRegion());
  return success();
}

LogicalResult EndOp::verify() {
  auto buffer = getBuffer().getDefiningOp<BufferOp>();
  if (!buffer || !buffer.hasLifetime())
    return emitOpError("ends a value that is not a buffer with a lifetime");
  return success();
}

LogicalResult ViewOp::verify() {
  MemRefType whole = getBucket().getType(), part = getTensor().getType();
  bool fits = nn::isQuantized(part)
                  ? whole.getElementType().isUnsignedInteger(8)
                  : part.getElementType() == whole.getElementType();
  if (whole.getRank() != 1 || !part.hasStaticShape() || !fits ||
      int64_t(getOffset()) + nn::getStoredElements(part) >
          whole.getNumElements())
    return emitOpError("takes ") << part << " at " << getOffset()
                                 << ", which does not lie in " << whole;
  return success();
}

LogicalResult PortOp::verify() {
  if (!getBufferSize(getType()).perSample)
    return emitOpError("gives ")
           << getType() << ", which has no batch dimension";
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

PoplarGemm ProductOp::getDescriptor() {
  PoplarGemm gemm = {};
  MemRefType a = getA().getType(), b = getB().getType(), c = getC().getType();
  bool isOfBatch = c.getRank() == 3;
  if (isOfBatch) {
    gemm.m = c.getDimSize(1);
    gemm.n = c.getDimSize(2);
    gemm.k = a.getDimSize(2);
    gemm.batched = 1;
    gemm.trans_b = getTransB();
    gemm.has_bias = getBias() != nullptr;
  } else {
    gemm.m = c.getDimSize(0);
    gemm.n = c.getDimSize(1);
    gemm.k = a.getDimSize(1);
    gemm.batched = 2;
    gemm.trans_a = 1;
    gemm.accumulate = 1;
  }
  gemm.a_type = getPoplarType(a.getElementType());
  gemm.b_type = getPoplarType(b.getElementType());
  gemm.c_type = getPoplarType(c.getElementType());
  gemm.epilogue = int32_t(getEpilogue());
  gemm.tf32 = getTf32();
  gemm.fp8 = getFp8();
  gemm.a_row = hasPaddedRows(a) ? getRowElements(a) : 0;
  gemm.c_row = hasPaddedRows(c) ? getRowElements(c) : 0;
  return gemm;
}

LogicalResult ProductOp::verify() {
  MemRefType a = getA().getType(), b = getB().getType(), c = getC().getType();
  auto fail = [&] {
    return emitOpError("has operands of shapes that do not match: ")
           << a << ", " << b << " into " << c;
  };
  if (a.getRank() != 3)
    return fail();
  if (nn::isQuantized(a) || nn::isQuantized(c) ||
      (nn::isQuantized(b) && c.getRank() != 3))
    return emitOpError("has a quantised operand that is not the weight: ")
           << a << ", " << b << " into " << c;
  if (c.getRank() == 3) {
    if (b.getRank() != 2 || c.getDimSize(1) != a.getDimSize(1) ||
        b.getDimSize(getTransB() ? 1 : 0) != a.getDimSize(2) ||
        b.getDimSize(getTransB() ? 0 : 1) != c.getDimSize(2))
      return fail();
  } else if (c.getRank() != 2 || b.getRank() != 3 || getTransB() || getBias() ||
             a.getDimSize(1) != b.getDimSize(1) ||
             a.getDimSize(2) != c.getDimSize(0) ||
             b.getDimSize(2) != c.getDimSize(1)) {
    return fail();
  }
  if (getBias() && (getBias().getType().getRank() != 1 ||
                    getBias().getType().getDimSize(0) != c.getDimSize(2)))
    return emitOpError("has a bias ")
           << getBias().getType() << " that is not one for each column of "
           << c;
  auto isWide = [](MemRefType type) {
    return type.getElementType().isF32() || type.getElementType().isBF16();
  };
  if (getFp8() && (c.getRank() != 3 || !isWide(a) || !isWide(b) ||
                   hasPaddedRows(a) || hasPaddedRows(c)))
    return emitOpError("is not one of dense rows in f32 or bf16, as products "
                       "in fp8 are: ")
           << a << ", " << b << " into " << c;
  bool isPlain = getEpilogue() == Epilogue::Store && !getBias();
  if (hasPaddedRows(b) ||
      (hasPaddedRows(c) && (hasPaddedRows(a) || c.getRank() != 3)) ||
      ((hasPaddedRows(a) || hasPaddedRows(c)) &&
       (!isPlain || nn::isQuantized(b))))
    return emitOpError("has padded rows that no product reads or writes: ")
           << a << ", " << b << " into " << c;
  bool wantsAux =
      getEpilogue() != Epilogue::Store && getEpilogue() != Epilogue::Gelu;
  if (wantsAux != (getAux() != nullptr))
    return emitOpError("has the epilogue ")
           << stringifyEpilogue(getEpilogue())
           << (wantsAux ? ", which takes aux" : ", which takes no aux");
  return success();
}

//===----------------------------------------------------------------------===//
// Attention and embeddings
//===----------------------------------------------------------------------===//

/// What ops of attention have in common.
template <typename Op> static void describeRows(Op op, PoplarAttention &desc) {
  MemRefType out = op.getOut().getType();
  desc.num_heads = op.getNumHeads();
  desc.num_kv_heads = op.getNumKvHeads();
  desc.head_dim = op.getHeadDim();
  desc.out_stride = out.getDimSize(2);
  desc.q_stride = op.getQ().getType().getDimSize(2);
  desc.k_stride =
      op.isPacked() ? desc.q_stride : op.getK().getType().getDimSize(2);
  desc.v_stride = desc.k_stride;
  if (op.isPacked()) {
    desc.k_offset = desc.num_heads * desc.head_dim;
    desc.v_offset = desc.k_offset + desc.num_kv_heads * desc.head_dim;
  }
  desc.window = op.getWindow();
  desc.cap = op.getCap().convertToDouble();
  desc.scale = op.getScale().convertToDouble();
  desc.type = getPoplarType(out.getElementType());
}

template <typename Op> static PoplarAttention describeAttention(Op op) {
  PoplarAttention desc = {};
  describeRows(op, desc);
  desc.seq_len = op.getOut().getType().getDimSize(1);
  desc.op_id = op.getOpId();
  desc.first_head = op.getFirstHead();
  desc.dropout = op.getKeys() ? op.getDropout().convertToDouble() : 0.0;
  desc.causal = op.getCausal();
  desc.documents = op.getPositions() != nullptr;
  return desc;
}

template <typename Op> static LogicalResult verifyHeads(Op op) {
  MemRefType out = op.getOut().getType(), q = op.getQ().getType();
  int64_t heads = op.getNumHeads(), kvHeads = op.getNumKvHeads();
  if (out.getRank() != 3 || q.getRank() != 3 || heads < 1 || kvHeads < 1 ||
      out.getDimSize(2) % heads != 0 || heads % kvHeads != 0)
    return op.emitOpError("cannot divide ")
           << out << " into " << heads << " heads and " << kvHeads
           << " heads of keys";
  int64_t headDim = op.getHeadDim(),
          width =
              op.isPacked() ? (heads + 2 * kvHeads) * headDim : heads * headDim;
  if (q.getDimSize(2) != width)
    return op.emitOpError("has queries of type ")
           << q << ", whose rows should have " << width << " elements";
  if (!op.isPacked() && op.getK().getType().getDimSize(2) != kvHeads * headDim)
    return op.emitOpError("has keys of type ")
           << op.getK().getType() << ", whose rows should have "
           << kvHeads * headDim << " elements";
  // The kernel's tiles lie on its stack.
  if (headDim > POPLAR_MAX_HEAD_DIM)
    return op.emitOpError("has heads of ")
           << headDim << " elements; the kernel takes at most "
           << POPLAR_MAX_HEAD_DIM;
  return success();
}

PoplarAttention AttentionOp::getDescriptor() {
  return describeAttention(*this);
}
PoplarAttention AttentionGradOp::getDescriptor() {
  return describeAttention(*this);
}
LogicalResult AttentionOp::verify() { return verifyHeads(*this); }
LogicalResult AttentionGradOp::verify() {
  if (isPacked() != !getDk())
    return emitOpError(
        "needs a gradient for each of q, k and v, or for a packed q alone");
  if (getLibrary()) {
    int64_t rows =
        getLse().getType().getDimSize(1) * getLse().getType().getDimSize(2);
    if (!getDelta() || getDelta().getType().getRank() != 2 ||
        getDelta().getType().getDimSize(1) < rows)
      return emitOpError("is a library's, and needs delta of at least ")
             << rows << " elements for each sample";
  } else if (getDelta() && getDelta().getType() != getLse().getType())
    return emitOpError("has delta of type ")
           << getDelta().getType() << ", which should be that of lse, "
           << getLse().getType();
  return verifyHeads(*this);
}

PoplarCachedAttention CachedAttentionOp::getDescriptor() {
  PoplarCachedAttention desc = {};
  PoplarAttention &shapes = desc.attention;
  describeRows(*this, shapes);
  shapes.seq_len = getKeyCache().getType().getDimSize(2);
  shapes.causal = 1;
  desc.tokens = getOut().getType().getDimSize(1);
  desc.sinks = getSinks() != nullptr;
  return desc;
}

PoplarAttention AttentionSinksOp::getDescriptor() {
  MemRefType out = getOut().getType();
  PoplarAttention desc = {};
  desc.seq_len = out.getDimSize(1);
  desc.num_heads = getSinks().getType().getDimSize(0);
  desc.head_dim = out.getDimSize(2) / desc.num_heads;
  desc.out_stride = out.getDimSize(2);
  desc.type = getPoplarType(out.getElementType());
  return desc;
}

LogicalResult CachedAttentionOp::verify() {
  MemRefType cache = getKeyCache().getType();
  if (failed(verifyHeads(*this)))
    return failure();
  if (cache != getValueCache().getType() || cache.getRank() != 4 ||
      cache.getDimSize(1) != int64_t(getNumKvHeads()) ||
      cache.getDimSize(2) % POPLAR_CACHE_BLOCK != 0 ||
      cache.getDimSize(3) != getHeadDim())
    return emitOpError("has caches ")
           << cache << " and " << getValueCache().getType()
           << ", whose shapes do not match its heads";
  return success();
}

PoplarEmbeddingGrad EmbeddingGradOp::getDescriptor() {
  PoplarEmbeddingGrad desc = {};
  MemRefType dy = getDy().getType();
  // The rows of a token's experts are side by side in dy.
  desc.seq_len = getIds().getType().getDimSize(1);
  desc.width = getAcc().getType().getDimSize(1);
  desc.type = getPoplarType(dy.getElementType());
  desc.padding_idx = int32_t(getPaddingIdx().value_or(-1));
  if (std::optional<uint64_t> first = getFirstRow()) {
    desc.first_row = int64_t(*first);
    desc.rows = getAcc().getType().getDimSize(0);
  }
  return desc;
}

//===----------------------------------------------------------------------===//
// Calls of the runtime
//===----------------------------------------------------------------------===//

LogicalResult ExchangeOp::verify() {
  ArrayRef<int64_t> bounds = getBounds();
  bool gathers = getKind() == zero::ExchangeKind::GatherTokens;
  if (bounds.size() < 2 || !llvm::is_sorted(bounds) || bounds.front() != 0)
    return emitOpError("has bounds [")
           << bounds
           << "], expected ascending bounds from 0, one more than ranks";
  if (getResults().size() != (gathers ? 1 : bounds.size() - 1))
    return emitOpError("has ") << getResults().size() << " results for "
                               << bounds.size() - 1 << " ranks";
  MemRefType source = getSource().getType(), all = source;
  if (gathers)
    all = cast<MemRefType>(getResults().front().getType());
  if (getKind() != zero::ExchangeKind::Collect &&
      (all.getRank() < 2 || all.getDimSize(1) != bounds.back()))
    return emitOpError("exchanges ")
           << all << ", expected the " << bounds.back()
           << " tokens that are divided";
  return success();
}

LogicalResult StartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getBuffer()) {
    if (getKind() != zero::CollectiveKind::AllReduce)
      return emitOpError("has no buffer, but only an all_reduce of shards is "
                         "without one");
    return success(findBucket(*this, getBucketAttr(), symbols) != nullptr);
  }
  return verifyWhole(*this, getBucketAttr(), getBuffer(), symbols);
}

LogicalResult UnscaleOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyWhole(*this, getBucketAttr(), getGradients(), symbols);
}

LogicalResult AdamWOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success(findBucket(*this, getBucketAttr(), symbols) != nullptr);
}

/// The word of a role, without quotes.
static ParseResult parseRole(OpAsmParser &parser, StringAttr &role) {
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  role = parser.getBuilder().getStringAttr(word);
  return success();
}

static void printRole(OpAsmPrinter &printer, EntryOp, StringAttr role) {
  printer << role.getValue();
}

#define GET_OP_CLASSES
#include "Poplar/Dialect/Exec/ExecOps.cpp.inc"
