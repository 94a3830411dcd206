//===- SliceParameters.cpp - Parameters of devices that share units
//-----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parameter that devices divide becomes one for each of them, of which each
// is a part. Devices that share units are thus like pipeline stages that share
// samples: what follows of state, collectives and the norm knows no difference.
//
//===----------------------------------------------------------------------===//

#include "SliceParameters.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Transforms/Plan/ModelSharding.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "mlir/IR/TypeUtilities.h"
#include <map>
#include <optional>
#include <set>

using namespace mlir;
using namespace poplar;
using nn::ParameterShare;

namespace {

/// A group, and a place among those of its ranks that share units.
using Holder = std::pair<int64_t, int64_t>;

class Slicing {
public:
  Slicing(ModuleOp module, zero::PlanOp plan)
      : module(module), plan(plan), groups(plan.getGroups()) {}

  LogicalResult run();

private:
  LogicalResult findShares();
  LogicalResult divide(nn::ParameterOp parameter);
  void addPart(nn::ParameterOp parameter, int64_t position,
               const ParameterShare &share);
  void divideBucket(zero::BucketOp bucket);

  ModuleOp module;
  zero::PlanOp plan;
  SmallVector<zero::GroupOp, 0> groups;
  ModelUnits units;
  /// By parts: what each position holds.
  using Shares = SmallVector<llvm::MapVector<StringAttr, ParameterShare>>;
  std::map<SmallVector<int64_t>, Shares> shares;
  /// Of a parameter: what it becomes, with who holds it.
  std::map<StringRef, SmallVector<std::pair<StringAttr, std::set<Holder>>>>
      made;
};

} // namespace

/// Tries the rewriting that each device's program will go through.
LogicalResult Slicing::findShares() {
  for (zero::GroupOp group : groups) {
    SmallVector<int64_t> parts = group.getPartsOfRanks();
    if (parts.size() == 1 || shares.count(parts))
      continue;
    Shares &entry = shares[parts];
    for (int64_t position = 0; position < int64_t(parts.size()); ++position) {
      OwningOpRef<ModuleOp> trial = module.clone();
      ModelSharding sharding(*trial, parts, position);
      if (failed(sharding.run()))
        return failure();
      entry.push_back(sharding.getShares());
    }
  }
  return success();
}

void Slicing::addPart(nn::ParameterOp parameter, int64_t position,
                      const ParameterShare &share) {
  OpBuilder builder(parameter);
  auto type = cast<RankedTensorType>(parameter.getType());
  SmallVector<int64_t> ranges;
  for (auto [begin, end] : share.ranges)
    ranges.append({begin, end});
  auto part = cast<nn::ParameterOp>(builder.clone(*parameter));
  part.setSymName(getPartName(parameter.getSymName(), position));
  part.setType(nn::getShareType(type, share));
  part.setSliceAttr(nn::SliceAttr::get(module.getContext(),
                                       parameter.getSymName(), type.getShape(),
                                       share.dim, ranges));
}

LogicalResult Slicing::divide(nn::ParameterOp parameter) {
  StringAttr name = parameter.getSymNameAttr();
  std::map<StringRef, std::set<Holder>> holders;
  std::map<std::string, ParameterShare> parts;
  bool isWhole = false;
  for (auto [index, group] : llvm::enumerate(groups)) {
    bool uses = false;
    for (int64_t unit : units.getReaders(name))
      uses |= group.owns(unit);
    if (!uses)
      continue;
    SmallVector<int64_t> degrees = group.getPartsOfRanks();
    for (int64_t position = 0; position < int64_t(degrees.size()); ++position) {
      ParameterShare share;
      if (degrees.size() > 1)
        share = shares[degrees][position].lookup(name);
      Holder holder = {int64_t(index), position};
      if (share.kind == ParameterShare::Slice) {
        std::string part = getPartName(name, position);
        auto [known, isNew] = parts.insert({part, share});
        if (!isNew && !(known->second == share))
          return parameter.emitOpError(
              "is used by groups that divide it in unlike ways; give them the "
              "same parts");
        holders[StringAttr::get(module.getContext(), part).getValue()].insert(
            holder);
        continue;
      }
      isWhole = true;
      if (share.kind == ParameterShare::Whole || position == 0)
        holders[name].insert(holder);
    }
  }
  if (isWhole && !parts.empty())
    return parameter.emitOpError(
        "is used whole by a group and divided by another; share units in both "
        "in the same way, or put their units into one group");
  auto &entry = made[name];
  int64_t position = 0;
  for (const auto &[part, share] : parts) {
    if (module.lookupSymbol(part))
      return parameter.emitOpError("cannot be divided: there is a symbol @")
             << part << " already";
  }
  for (size_t count = parts.size(); position < int64_t(count); ++position)
    addPart(parameter, position, parts[getPartName(name, position)]);
  for (auto &[held, by] : holders)
    entry.push_back({StringAttr::get(module.getContext(), held), by});
  // The whole one stays until --zero-shard-units: @model reads it.
  return success();
}

/// One bucket for each set of holders; parts of quantised weights may be of
/// other formats than the whole, which are in buckets of their own.
void Slicing::divideBucket(zero::BucketOp bucket) {
  using Kind = std::pair<std::set<Holder>, std::optional<nn::QuantizedFormat>>;
  llvm::MapVector<Kind, SmallVector<Attribute>, std::map<Kind, unsigned>>
      content;
  for (auto name : bucket.getParameters().getAsRange<FlatSymbolRefAttr>())
    for (const auto &[held, holders] : made[name.getValue()]) {
      auto parameter = module.lookupSymbol<nn::ParameterOp>(held);
      Kind kind = {holders, std::nullopt};
      if (auto element = dyn_cast<nn::QuantizedType>(
              getElementTypeOrSelf(parameter.getType())))
        kind.second = element.getFormat();
      content[kind].push_back(FlatSymbolRefAttr::get(held));
    }
  OpBuilder builder(bucket);
  for (auto &[kind, parameters] : content) {
    const std::set<Holder> &holders = kind.first;
    // Moments in 8 bits come first, which not all parts have.
    std::stable_partition(
        parameters.begin(), parameters.end(), [&](Attribute name) {
          auto symbol = cast<FlatSymbolRefAttr>(name).getAttr();
          return zero::hasInt8States(
              module.lookupSymbol<nn::ParameterOp>(symbol));
        });
    std::string name = bucket.getSymName().str();
    if (content.size() > 1)
      name += holders.size() == 1
                  ? ".part" + std::to_string(holders.begin()->second)
                  : ".shared";
    // Several stages may hold parts at the same position.
    std::string unique = name;
    for (int64_t i = 1;
         unique != bucket.getSymName() && module.lookupSymbol(unique); ++i)
      unique = name + "." + std::to_string(i);
    SmallVector<int64_t> users, positions;
    uint64_t lowest = 3;
    for (auto [group, position] : holders) {
      users.push_back(group);
      positions.push_back(position);
      lowest = std::min(lowest, groups[group].getStage());
    }
    auto divided = zero::BucketOp::create(
        builder, bucket.getLoc(), unique, builder.getArrayAttr(parameters),
        bucket.getFrozen(), bucket.getQuantized());
    divided.setGroups(users);
    divided.setPositions(positions);
    // Holders that are not of one group and position meet but once in an
    // iteration.
    divided.setStage(users.size() > 1 ? std::min<uint64_t>(lowest, 1) : lowest);
  }
  bucket.erase();
}

LogicalResult Slicing::run() {
  auto model = module.lookupSymbol<func::FuncOp>("model");
  if (!model || model.isExternal())
    return plan.emitOpError("has groups, but there is no @model to divide");
  FailureOr<ModelUnits> found = ModelUnits::get(model);
  if (failed(found) || failed(findShares()))
    return failure();
  units = std::move(*found);
  for (auto parameter :
       llvm::make_early_inc_range(module.getOps<nn::ParameterOp>()))
    if (failed(divide(parameter)))
      return failure();
  for (auto bucket :
       llvm::make_early_inc_range(module.getOps<zero::BucketOp>()))
    divideBucket(bucket);
  return success();
}

LogicalResult poplar::sliceParameters(ModuleOp module, zero::PlanOp plan) {
  return Slicing(module, plan).run();
}
