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

/// A group, and a place among those of its ranks that share units
/// (Plan::Place).
using Holder = std::pair<int64_t, int64_t>;

/// What a holder reads of a parameter: the share of its position, or, of a
/// holder that computes whole units, that of each.
struct Use {
  Holder holder;
  ParameterShare share;
  int64_t position;
  bool isOfAll;
};

/// A part that a parameter is cut into, and who holds it.
struct Part {
  ParameterShare share;
  std::set<Holder> holders;
};

/// What a parameter becomes: a parameter, who holds it, and whether some of
/// them have other parts next to it in memory.
struct Made {
  StringAttr name;
  std::set<Holder> holders;
  bool isChained = false;
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
  SmallVector<int64_t> getPositions(zero::GroupOp group);

  ModuleOp module;
  zero::PlanOp plan;
  SmallVector<zero::GroupOp, 0> groups;
  ModelUnits units;
  /// By parts and position: what is held there.
  using Shares = llvm::MapVector<StringAttr, ModelSharding::Shares>;
  std::map<std::pair<SmallVector<int64_t>, int64_t>, Shares> shares;
  std::map<StringRef, SmallVector<Made>> made;
};

} // namespace

/// Those of the ranks that share units, and the one of those that compute whole
/// units beside them.
SmallVector<int64_t> Slicing::getPositions(zero::GroupOp group) {
  int64_t largest = group.getLargestTensorDegree();
  bool hasWhole = largest > 1 && llvm::is_contained(group.getTensor(), 1);
  return llvm::to_vector(llvm::seq<int64_t>(0, largest + (hasWhole ? 1 : 0)));
}

/// Tries the rewriting that each device's program will go through.
LogicalResult Slicing::findShares() {
  for (zero::GroupOp group : groups) {
    SmallVector<int64_t> parts = group.getPartsOfRanks();
    if (parts.size() == 1)
      continue;
    for (int64_t position : getPositions(group)) {
      auto [entry, isNew] = shares.insert({{parts, position}, {}});
      if (!isNew)
        continue;
      OwningOpRef<ModuleOp> trial = module.clone();
      ModelSharding sharding(*trial, parts, position);
      if (failed(sharding.run()))
        return failure();
      entry->second = sharding.getShares();
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
    for (int64_t own : getPositions(groups[index])) {
      ModelSharding::Shares held(1);
      if (parts.size() > 1)
        held = shares[{parts, own}].lookup(name);
      bool isOfAll = own == int64_t(parts.size());
      for (auto [position, share] : llvm::enumerate(held))
        if (share.kind != ParameterShare::First || isOfAll || own == 0)
          uses.push_back({{index, own},
                          share,
                          isOfAll ? int64_t(position) : own,
                          isOfAll});
    }
  }
  return uses;
}

/// Where all groups divide a parameter in the same way, what its positions
/// hold.
static SmallVector<Part> findPositions(ArrayRef<Use> uses) {
  SmallVector<Part> parts;
  // By group, those that share a unit and those that have all of its parts.
  std::map<std::pair<int64_t, bool>, size_t> counts;
  for (const Use &use : uses) {
    auto position = size_t(use.position);
    ++counts[{use.holder.first, use.isOfAll}];
    if (position == parts.size())
      parts.push_back({use.share, {}});
    if (use.share.kind != ParameterShare::Slice || position > parts.size() ||
        !(parts[position].share == use.share))
      return {};
    parts[position].holders.insert(use.holder);
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
  for (const Use &use : uses) {
    const ParameterShare &share = use.share;
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
    for (const Use &use : uses)
      if (auto [first, end] = getRows(use.share);
          first <= *begin && *begin < end)
        part.holders.insert(use.holder);
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
  bool isChained = parts.empty();
  if (isChained) {
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
    entry.push_back({partName, part.holders, isChained});
  }
  // The whole one stays until --zero-shard-units: @model reads it.
  return success();
}

/// One bucket for each set of holders; parts of quantised weights may be of
/// other formats than the whole, which are in buckets of their own. So are
/// parts that lie next to others, whose buckets do.
void Slicing::divideBucket(zero::BucketOp bucket) {
  using Kind = std::tuple<std::set<Holder>, std::optional<nn::QuantizedFormat>,
                          StringRef>;
  llvm::MapVector<Kind, SmallVector<Attribute>, std::map<Kind, unsigned>>
      content;
  for (auto name : bucket.getParameters().getAsRange<FlatSymbolRefAttr>())
    for (const Made &held : made[name.getValue()]) {
      auto parameter = module.lookupSymbol<nn::ParameterOp>(held.name);
      Kind kind = {held.holders, std::nullopt,
                   held.isChained ? held.name.getValue() : StringRef()};
      if (auto element = dyn_cast<nn::QuantizedType>(
              getElementTypeOrSelf(parameter.getType())))
        std::get<1>(kind) = element.getFormat();
      content[kind].push_back(FlatSymbolRefAttr::get(held.name));
    }
  OpBuilder builder(bucket);
  for (auto &[kind, parameters] : content) {
    const std::set<Holder> &holders = std::get<0>(kind);
    // Moments in blocks come first, which not all parts have.
    std::stable_partition(
        parameters.begin(), parameters.end(), [&](Attribute name) {
          auto symbol = cast<FlatSymbolRefAttr>(name).getAttr();
          return zero::hasBlockStates(
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
