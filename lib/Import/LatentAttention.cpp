//===- LatentAttention.cpp - Multi-head latent attention ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include <algorithm>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

/// The norms of latents have an epsilon of their own.
static constexpr double kLatentEps = 1e-6;

namespace {
/// Builds one layer's attention. A head's queries and keys have columns that
/// are not rotated before those that are.
class LatentBuilder {
public:
  LatentBuilder(Unit &unit, const LatentAttention &latent,
                const Unit::Attention &shape, const Rope &rope, double stdDev)
      : unit(unit), latent(latent), shape(shape), rope(rope), stdDev(stdDev),
        heads(shape.heads), plain(heads * latent.plainDim),
        rotated(heads * latent.rotatedDim), values(heads * latent.valueDim) {}

  Value build(Value x);

private:
  Value project(StringRef name, Value x, int64_t width, bool bias = false) {
    return unit.linear(name, x, width, stdDev, bias);
  }
  Value rotate(Value x) {
    return unit.rope("self_attn.rotary_emb", x, latent.rotatedDim, rope);
  }
  Value repeat(Value x);
  Value joinHeads(StringRef name, Value ofPlain, Value ofRotated);
  Value projectQueries(Value x);
  /// Keys and values.
  std::pair<Value, Value> projectKeys(Value x);

  Unit &unit;
  const LatentAttention &latent;
  const Unit::Attention &shape;
  const Rope &rope;
  double stdDev;
  int64_t heads;
  /// Columns of all heads.
  int64_t plain, rotated, values;
};
} // namespace

/// The columns of one head for all heads, each time twice as many.
Value LatentBuilder::repeat(Value x) {
  const char *name = "self_attn.k_rotated";
  int64_t width = latent.rotatedDim;
  for (int64_t count = 1; count < heads;) {
    int64_t added = std::min(count, heads - count);
    Value more = added == count ? x : unit.slice(name, x, 0, added * width);
    count += added;
    x = unit.join(name, x, more, count * width);
  }
  return x;
}

/// The columns of all heads together, then those of each head.
Value LatentBuilder::joinHeads(StringRef name, Value ofPlain, Value ofRotated) {
  Value both = unit.join(name, ofPlain, ofRotated, plain + rotated);
  return unit.regroupParts(name, both, heads,
                           {latent.plainDim, latent.rotatedDim},
                           /*inverse=*/true);
}

Value LatentBuilder::projectQueries(Value x) {
  std::string name = "self_attn.q_proj";
  if (latent.queryRank) {
    x = project("self_attn.q_a_proj", x, latent.queryRank, latent.bias);
    x = unit.rmsNorm("self_attn.q_a_layernorm", x, kLatentEps);
    name = "self_attn.q_b_proj";
  }
  Value both = project(name, x, plain + rotated);
  both = unit.regroupParts(name, both, heads,
                           {latent.plainDim, latent.rotatedDim});
  return joinHeads(name, unit.slice(name, both, 0, plain),
                   rotate(unit.slice(name, both, plain, rotated)));
}

std::pair<Value, Value> LatentBuilder::projectKeys(Value x) {
  const char *narrow = "self_attn.kv_a_proj_with_mqa";
  const char *wide = "self_attn.kv_b_proj";
  Value both =
      project(narrow, x, latent.keyRank + latent.rotatedDim, latent.bias);
  Value ofAll =
      rotate(unit.slice(narrow, both, latent.keyRank, latent.rotatedDim));
  Value vector =
      unit.rmsNorm("self_attn.kv_a_layernorm",
                   unit.slice(narrow, both, 0, latent.keyRank), kLatentEps);
  Value expanded = project(wide, vector, plain + values);
  expanded = unit.regroupParts(wide, expanded, heads,
                               {latent.plainDim, latent.valueDim});
  return {joinHeads(wide, unit.slice(wide, expanded, 0, plain), repeat(ofAll)),
          unit.slice(wide, expanded, plain, values)};
}

/// Where heads of values are narrower than those of keys, zeros are behind
/// their columns, and behind those of the result.
Value LatentBuilder::build(Value x) {
  const char *name = "self_attn";
  Value query = projectQueries(x);
  auto [key, value] = projectKeys(x);
  SmallVector<int64_t> padded = {latent.valueDim,
                                 shape.headDim - latent.valueDim};
  if (padded[1] > 0) {
    value = unit.join(name, value, Value(), heads * shape.headDim);
    value = unit.regroupParts(name, value, heads, padded, /*inverse=*/true);
  }
  Value attended = unit.attention(name, query, key, value, shape);
  if (padded[1] == 0)
    return attended;
  attended = unit.regroupParts(name, attended, heads, padded);
  return unit.slice(name, attended, 0, values);
}

Value import::attendLatent(Unit &unit, Value x, const LatentAttention &latent,
                           const Unit::Attention &shape, const Rope &rope,
                           double stdDev) {
  return LatentBuilder(unit, latent, shape, rope, stdDev).build(x);
}
