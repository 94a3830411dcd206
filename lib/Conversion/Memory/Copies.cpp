//===- Copies.cpp - Whole copies of buckets in the fixed region -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Copies.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;

/// The buckets whose copies lie one behind the other, since a parameter of the
/// program consists of what they hold, by the first of them.
static DenseMap<StringAttr, SmallVector<zero::BucketOp>>
findChains(ModuleOp module) {
  DenseMap<StringAttr, zero::BucketOp> bucketOf;
  for (auto bucket : module.getOps<zero::BucketOp>())
    for (auto name : bucket.getParameters().getAsRange<FlatSymbolRefAttr>())
      bucketOf[name.getAttr()] = bucket;
  DenseMap<StringAttr, SmallVector<zero::BucketOp>> chains;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    SmallVector<zero::BucketOp> chain;
    for (FlatSymbolRefAttr part : zero::getParts(parameter))
      if (zero::BucketOp bucket = bucketOf.lookup(part.getAttr()))
        chain.push_back(bucket);
    if (!chain.empty())
      chains[chain.front().getSymNameAttr()] = chain;
  }
  return chains;
}

int64_t poplar::placeCopies(ModuleOp module, SharedPlaces &places,
                            OpBuilder &builder) {
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  bool sharded = info.worldSize > 1;
  places.hasReplicas = info.replicas > 1;
  int64_t end = 0;
  auto place = [&](int64_t elements, int64_t width) {
    int64_t offset = end;
    end += llvm::alignTo(elements * width, POPLAR_ALIGNMENT);
    return offset;
  };
  SymbolTableCollection symbols;
  for (auto bucket : module.getOps<zero::BucketOp>())
    places.buckets.insert({bucket.getSymNameAttr(),
                           {*zero::BucketLayout::get(bucket, symbols),
                            {},
                            {},
                            bucket.getStorageType(places.workingType)}});
  auto getEntry = [&](zero::BucketOp bucket) -> SharedPlaces::Bucket & {
    return places.buckets.find(bucket.getSymNameAttr())->second;
  };
  auto chains = findChains(module);
  llvm::SmallDenseSet<Operation *> placed;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    SmallVector<zero::BucketOp> chain = chains.lookup(bucket.getSymNameAttr());
    if (chain.empty())
      chain = {bucket};
    if (!placed.insert(bucket).second)
      continue;
    placed.insert(chain.begin(), chain.end());
    int64_t stage = info.getStage(bucket);
    if (!info.holds(bucket) || (sharded && stage == 3))
      continue;
    for (zero::BucketOp link : chain) {
      SharedPlaces::Bucket &entry = getEntry(link);
      entry.working =
          place(entry.layout.elements, entry.type.getIntOrFloatBitWidth() / 8);
    }
    if (bucket.getFrozen() || (sharded && stage == 2))
      continue;
    for (zero::BucketOp link : chain)
      getEntry(link).gradient = place(getEntry(link).layout.elements, 4);
  }
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    const SharedPlaces::Bucket &entry = getEntry(bucket);
    for (auto [name, offset] :
         llvm::zip_equal(bucket.getParameters().getAsRange<FlatSymbolRefAttr>(),
                         entry.layout.offsets))
      places.parameters[name.getAttr()] = {bucket.getSymNameAttr(), offset};
    auto toAttr = [&](std::optional<int64_t> offset) {
      return offset ? builder.getI64IntegerAttr(*offset) : IntegerAttr();
    };
    exec::CopiesOp::create(builder, bucket.getLoc(),
                           FlatSymbolRefAttr::get(bucket.getSymNameAttr()),
                           TypeAttr::get(entry.type), toAttr(entry.working),
                           toAttr(entry.gradient));
  }
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    SmallVector<FlatSymbolRefAttr> parts = zero::getParts(parameter);
    if (parts.empty())
      continue;
    auto first = places.parameters.find(parts.front().getAttr());
    if (first != places.parameters.end())
      places.parameters.insert({parameter.getSymNameAttr(), first->second});
  }
  return end;
}
