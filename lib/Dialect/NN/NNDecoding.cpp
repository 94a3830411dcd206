//===- NNDecoding.cpp - nn ops of a few new tokens ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar::nn;

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

Type Decoding::convert(Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() < 2 || !tensor.isDynamicDim(0) ||
      tensor.isDynamicDim(1) || tensor.getDimSize(1) % length != 0)
    return type;
  SmallVector<int64_t> shape(tensor.getShape());
  shape[1] = shape[1] / length * tokens;
  return tensor.clone(shape);
}

Operation *Decoding::clone(Operation *op) {
  Operation *made = builder.clone(*op, mapping);
  for (OpResult result : made->getResults())
    result.setType(convert(result.getType()));
  return made;
}

//===----------------------------------------------------------------------===//
// Ops that know where a token is
//===----------------------------------------------------------------------===//

void PositionEmbeddingOp::buildDecoding(Decoding &decoding) {
  auto made = cast<PositionEmbeddingOp>(decoding.clone(*this));
  if (!getConstantRow())
    made.getPositionsMutable().assign(decoding.positions);
}

void RopeOp::buildDecoding(Decoding &decoding) {
  auto made = cast<RopeOp>(decoding.clone(*this));
  made.getPositionsMutable().assign(decoding.positions);
  made.setLength(decoding.length);
}

bool AttentionOp::isDecodable() { return getCausal(); }

void AttentionOp::buildDecoding(Decoding &decoding) {
  OpBuilder &builder = decoding.builder;
  auto type = cast<RankedTensorType>(getResult().getType());
  auto cacheType = RankedTensorType::get(
      {type.getDimSize(0), static_cast<int64_t>(getNumKvHeads()),
       CachedAttentionOp::getRoom(decoding.length), getHeadDim()},
      type.getElementType());
  Value keys = decoding.addCache(cacheType),
        values = decoding.addCache(cacheType);
  auto lookup = [&](Value value) {
    return value ? decoding.lookup(value) : Value();
  };
  auto made = CachedAttentionOp::create(
      builder, getLoc(), decoding.convert(type), cacheType, cacheType,
      lookup(getQ()), lookup(getK()), lookup(getV()), decoding.positions, keys,
      values, lookup(getSinks()), getNumHeads(), getNumKvHeads(), getScale(),
      getWindow(), getCap());
  decoding.map(getResult(), made.getResult());
  decoding.setCache(made.getNewKeyCache());
  decoding.setCache(made.getNewValueCache());
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult GetCacheOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto cache = symbols.lookupNearestSymbolFrom<CacheOp>(*this, getCacheAttr());
  if (!cache)
    return emitOpError() << getCacheAttr() << " is not the name of an nn.cache";
  if (cache.getType() == getType())
    return success();
  InFlightDiagnostic diagnostic = emitOpError()
                                  << "has type " << getType()
                                  << ", but the cache is " << cache.getType();
  diagnostic.attachNote(cache.getLoc()) << "cache declared here";
  return diagnostic;
}

// - q [B,T,H*d] with k, v [B,T,Hkv*d], or q packed [B,T,(H+2Hkv)*d]; positions
//   [B,T]; result [B,T,H*d]
// - caches [B,Hkv,P,d], P a multiple of 16; all of one element type
LogicalResult CachedAttentionOp::verify() {
  auto heads = static_cast<int64_t>(getNumHeads());
  auto kvHeads = static_cast<int64_t>(getNumKvHeads());
  auto type = cast<RankedTensorType>(getResult().getType());
  auto cache = cast<RankedTensorType>(getKeyCache().getType());
  if (heads < 1 || kvHeads < 1 || heads % kvHeads || type.getDimSize(2) % heads)
    return emitOpError() << "cannot divide " << type << " into " << heads
                         << " heads and " << kvHeads << " heads of keys";
  int64_t headDim = type.getDimSize(2) / heads;
  if (!getK() != !getV())
    return emitOpError("needs both k and v, or a packed q alone");
  auto withWidth = [&](int64_t width) {
    return RankedTensorType::get(
        {type.getDimSize(0), type.getDimSize(1), width}, type.getElementType());
  };
  RankedTensorType keys = withWidth(kvHeads * headDim),
                   queries = getK()
                                 ? type
                                 : withWidth((heads + 2 * kvHeads) * headDim);
  for (auto [name, value, expected] :
       {std::tuple<StringRef, Value, Type>("q", getQ(), queries),
        {"k", getK(), keys},
        {"v", getV(), keys}})
    if (value && value.getType() != expected)
      return emitOpError() << name << " is " << value.getType() << ", expected "
                           << expected;
  if (getSinks() && getSinks().getType() !=
                        RankedTensorType::get({heads}, type.getElementType()))
    return emitOpError() << "sinks are " << getSinks().getType()
                         << ", expected one for each head of " << type;
  if (getPositions().getType().getShape() != type.getShape().take_front(2))
    return emitOpError() << "positions are " << getPositions().getType()
                         << ", expected one for each row of " << type;
  if (cache.getElementType() != type.getElementType() ||
      cache.getDimSize(1) != kvHeads || cache.getDimSize(2) < 1 ||
      cache.getDimSize(2) != getRoom(cache.getDimSize(2)) ||
      cache.getDimSize(3) != headDim)
    return emitOpError() << "has a cache " << cache << ", expected [?,"
                         << kvHeads << ",P," << headDim << "] of "
                         << type.getElementType() << " with P a multiple of 16";
  for (Value other : {Value(getValueCache()), Value(getNewKeyCache()),
                      Value(getNewValueCache())})
    if (other.getType() != cache)
      return emitOpError() << "has caches of different types, " << cache
                           << " and " << other.getType();
  return success();
}
