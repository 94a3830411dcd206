//===- SliceParameters.cpp - Parameters of sharers ------------------------===//
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

/// What a holder reads of a parameter.
struct Use {
  Holder holder;
  ParameterShare share;
};

/// A part that a parameter is cut into, and who holds it.
struct Part {
  ParameterShare share;
  std::set<Holder> holders;
};

class Slicing {
public:
  Slicing(ModuleOp module, zero::PlanOp plan)
      : module(module), plan(plan), groups(plan.getGroups()) {}

  LogicalResult run();

private:
  LogicalResult findShares();
  SmallVector<Use> findUses(StringAttr name);
  FailureOr<SmallVector<Part>> cutRows(nn::ParameterOp parameter,
                                       ArrayRef<Use> uses);
  LogicalResult divide(nn::ParameterOp parameter);
  void addPart(nn::ParameterOp parameter, StringAttr name,
               const ParameterShare &share);
  void divideBucket(zero::BucketOp bucket);

  ModuleOp module;
  zero::PlanOp plan;
  SmallVector<zero::GroupOp, 0> groups;
  ModelUnits units;
  /// By parts: what each position holds.
  using Shares = SmallVector<llvm::MapVector<StringAttr, ParameterShare>>;
  std::map<SmallVector<int64_t>, Shares> shares;
  /// What a parameter becomes, with who holds it.
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

void Slicing::addPart(nn::ParameterOp parameter, StringAttr name,
                      const ParameterShare &share) {
  OpBuilder builder(parameter);
  auto type = cast<RankedTensorType>(parameter.getType());
  SmallVector<int64_t> ranges;
  for (auto [begin, end] : share.ranges)
    ranges.append({begin, end});
  auto part = cast<nn::ParameterOp>(builder.clone(*parameter));
  part.setSymNameAttr(name);
  part.setType(nn::getShareType(type, share));
  part.setSliceAttr(nn::SliceAttr::get(module.getContext(),
                                       parameter.getSymName(), type.getShape(),
                                       share.dim, ranges));
}

/// Group by group, in the order of the positions.
SmallVector<Use> Slicing::findUses(StringAttr name) {
  SmallVector<Use> uses;
  for (int64_t index = 0; index < int64_t(groups.size()); ++index) {
    if (llvm::none_of(units.getReaders(name),
                      [&](int64_t unit) { return groups[index].owns(unit); }))
      continue;
    SmallVector<int64_t> parts = groups[index].getPartsOfRanks();
    for (int64_t position = 0; position < int64_t(parts.size()); ++position) {
      ParameterShare share;
      if (parts.size() > 1)
        share = shares[parts][position].lookup(name);
      if (share.kind != ParameterShare::First || position == 0)
        uses.push_back({{index, position}, share});
    }
  }
  return uses;
}

/// Where all groups divide a parameter in the same way, what its positions
/// hold.
static SmallVector<Part> findPositions(ArrayRef<Use> uses) {
  SmallVector<Part> parts;
  llvm::DenseMap<int64_t, size_t> counts;
  for (const auto &[holder, share] : uses) {
    size_t position = holder.second;
    ++counts[holder.first];
    if (position == parts.size())
      parts.push_back({share, {}});
    if (share.kind != ParameterShare::Slice || position > parts.size() ||
        !(parts[position].share == share))
      return {};
    parts[position].holders.insert(holder);
  }
  bool isAlike = llvm::all_of(
      counts, [&](auto entry) { return entry.second == parts.size(); });
  return isAlike ? parts : SmallVector<Part>();
}

/// Cuts rows at the bounds of all groups. A device whose share is several parts
/// has them one behind the other (Dialect/Zero/ParameterParts.h).
FailureOr<SmallVector<Part>> Slicing::cutRows(nn::ParameterOp parameter,
                                              ArrayRef<Use> uses) {
  auto type = cast<RankedTensorType>(parameter.getType());
  int64_t rows = type.getDimSize(0), rowElements = type.getNumElements() / rows;
  auto getRows = [&](const ParameterShare &share) {
    return share.kind == ParameterShare::Slice ? share.ranges.front()
                                               : std::pair(int64_t(0), rows);
  };
  std::set<int64_t> bounds;
  for (const auto &[holder, share] : uses) {
    if (nn::isQuantized(type) || (share.kind == ParameterShare::Slice &&
                                  (share.dim != 0 || share.ranges.size() != 1)))
      return parameter.emitOpError(
          "is used by groups that divide it in unlike ways, and not by rows; "
          "give them the same parts");
    auto [begin, end] = getRows(share);
    bounds.insert({begin, end});
    // Parts lie next to each other, without gaps, in buckets of their own.
    if (begin * rowElements % zero::BucketLayout::kAlignment != 0)
      return parameter.emitOpError("is used by groups that divide it in unlike "
                                   "ways, at row ")
             << begin << " of " << rowElements
             << " elements, which is no multiple of "
             << zero::BucketLayout::kAlignment
             << " elements; give them the same parts";
  }
  SmallVector<Part> parts;
  for (auto begin = bounds.begin(); std::next(begin) != bounds.end(); ++begin) {
    Part part;
    part.share = {
        ParameterShare::Slice, /*dim=*/0, {{*begin, *std::next(begin)}}};
    for (const auto &[holder, share] : uses)
      if (auto [first, end] = getRows(share); first <= *begin && *begin < end)
        part.holders.insert(holder);
    parts.push_back(std::move(part));
  }
  return parts;
}

LogicalResult Slicing::divide(nn::ParameterOp parameter) {
  StringAttr name = parameter.getSymNameAttr();
  SmallVector<Use> uses = findUses(name);
  auto &entry = made[name];
  if (llvm::none_of(uses, [](const Use &use) {
        return use.share.kind == ParameterShare::Slice;
      })) {
    std::set<Holder> holders;
    for (const Use &use : uses)
      holders.insert(use.holder);
    entry.push_back({name, std::move(holders)});
    return success();
  }
  SmallVector<Part> parts = findPositions(uses);
  if (parts.empty()) {
    FailureOr<SmallVector<Part>> cut = cutRows(parameter, uses);
    if (failed(cut))
      return failure();
    parts = std::move(*cut);
  }
  for (const auto &[index, part] : llvm::enumerate(parts)) {
    auto partName =
        StringAttr::get(module.getContext(), getPartName(name, int64_t(index)));
    if (module.lookupSymbol(partName))
      return parameter.emitOpError("cannot be divided: there is a symbol @")
             << partName.getValue() << " already";
    addPart(parameter, partName, part.share);
    entry.push_back({partName, part.holders});
  }
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
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
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
