//===- ZeroPlanStages.cpp - Pipeline stages as they are described ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Plan/Lanes.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROPLANSTAGES
#include "Poplar/Transforms/Plan/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Pipelines of a kind in a stage: TYPE[*PIPELINES][/DEGREE][=SHARE]. Instead
/// of TYPE and DEGREE, devices that share units by unequal parts are listed:
/// TYPE:PART,TYPE:PART.
struct Lane {
  /// As it was written.
  std::string type;
  int64_t pipelines = 1;
  /// How much of the batch each pipeline has, relative to the others.
  int64_t share = 1;
  /// Types of the devices that share a unit, and their parts.
  SmallVector<std::string> sharers;
  std::vector<int64_t> parts;
};

/// A stage as it is described: LANE[|LANE...][@END]..., an end for each chunk;
/// -1 of those that say none.
struct Described {
  /// As the lanes were written.
  std::string text;
  SmallVector<Lane> lanes;
  SmallVector<int64_t> ends;

  /// By pipeline.
  std::vector<int64_t> getShares() const {
    std::vector<int64_t> shares;
    for (const Lane &lane : lanes)
      shares.insert(shares.end(), lane.pipelines, lane.share);
    return shares;
  }
  bool sharesUnits() const {
    return llvm::any_of(
        lanes, [](const Lane &lane) { return lane.sharers.size() > 1; });
  }
};

class ZeroPlanStagesPass
    : public poplar::impl::ZeroPlanStagesBase<ZeroPlanStagesPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    if (failed(plan(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult plan(ModuleOp module);
  LogicalResult checkOptions(ModuleOp module, int64_t &zeroStage);
  FailureOr<Described> parseStage(ModuleOp module, StringRef text);
  FailureOr<SmallVector<Described>> parse(ModuleOp module);
  LogicalResult placeEnds(ModuleOp module, MutableArrayRef<Described> described,
                          int64_t units);
};

} // namespace

/// None where it is wrong.
static std::optional<Lane> parseLane(StringRef type) {
  Lane lane;
  bool isWrong = false;
  // What is behind `mark`, if there is one.
  auto readCount = [&](char mark, int64_t limit, int64_t &count) {
    auto [before, number] = type.split(mark);
    if (before.size() == type.size())
      return;
    isWrong |=
        number.trim().getAsInteger(10, count) || count < 1 || count > limit;
    type = before;
  };
  int64_t degree = 0;
  readCount('=', 1000, lane.share);
  readCount('/', 1 << 20, degree);
  readCount('*', 1 << 20, lane.pipelines);
  lane.type = type.trim().str();
  SmallVector<StringRef> sharers;
  type.split(sharers, ',');
  for (StringRef sharer : sharers) {
    auto [name, part] = sharer.split(':');
    lane.sharers.push_back(name.trim().str());
    isWrong |= lane.sharers.back().empty();
    bool hasPart = name.size() < sharer.size();
    int64_t share = 1;
    isWrong |= hasPart && (part.trim().getAsInteger(10, share) || share < 1 ||
                           share > 1000000);
    isWrong |= hasPart && sharers.size() == 1;
    lane.parts.push_back(share);
  }
  // All of one type, in equal parts.
  if (degree > 0) {
    isWrong |= sharers.size() > 1;
    lane.sharers.assign(degree, lane.sharers.front());
    lane.parts.assign(degree, 1);
  }
  return isWrong ? std::nullopt : std::optional(std::move(lane));
}

FailureOr<Described> ZeroPlanStagesPass::parseStage(ModuleOp module,
                                                    StringRef text) {
  Described stage;
  SmallVector<StringRef> ends, lanes;
  text.split(ends, '@');
  stage.text = ends.front().trim().str();
  ends.front().split(lanes, '|');
  bool isWrong = false;
  for (StringRef lane : lanes) {
    std::optional<Lane> parsed = parseLane(lane);
    isWrong |= !parsed;
    stage.lanes.push_back(parsed.value_or(Lane()));
  }
  for (StringRef end : ArrayRef(ends).drop_front()) {
    stage.ends.push_back(-1);
    isWrong |= end.getAsInteger(10, stage.ends.back()) || stage.ends.back() < 1;
  }
  if (isWrong)
    return module.emitError("stage '")
           << text
           << "' is not TYPE[*PIPELINES][/DEGREE][@END], such as a100*2/4@12, "
              "or TYPE:PART,TYPE:PART[*PIPELINES][@END], such as "
              "rtx4090:3,rtx3060:1, or several of these side by side, such as "
              "a100=3|rtx4090/2=2@12";
  if (int64_t(stage.ends.size()) > chunks)
    return module.emitError("stage '")
           << text << "' has " << stage.ends.size() << " ends, but "
           << chunks.getValue()
           << (chunks == 1 ? " chunk" : " chunks: give one for each");
  return stage;
}

/// Pipelines go through all stages, and have a share of the batch in all.
static LogicalResult verifyPipelines(ModuleOp module,
                                     ArrayRef<Described> stages) {
  std::vector<int64_t> first = stages.front().getShares();
  for (const Described &stage : stages.drop_front()) {
    std::vector<int64_t> shares = stage.getShares();
    if (shares.size() != first.size())
      return module.emitError("stage '")
             << stage.text << "' is of " << shares.size()
             << " pipelines, but the first one of " << first.size()
             << ": pipelines go through all stages, so give all as many; "
                "TYPE*N/D is of N pipelines, in each of which D devices share "
                "units";
    if (shares != first && !llvm::all_equal(shares))
      return module.emitError("stage '")
             << stage.text
             << "' gives pipelines other shares of the batch than the first "
                "stage: pipelines have theirs in all stages, so say them in "
                "the first one alone";
  }
  return success();
}

FailureOr<SmallVector<Described>> ZeroPlanStagesPass::parse(ModuleOp module) {
  SmallVector<Described> result;
  SmallVector<StringRef> parts;
  StringRef(stages).split(parts, '+');
  for (StringRef part : parts) {
    FailureOr<Described> stage = parseStage(module, part);
    if (failed(stage))
      return failure();
    result.push_back(*stage);
  }
  if (result.size() < 2 && !result.front().sharesUnits())
    return module.emitError("'")
           << stages
           << "' is one stage; a pipeline has at least two, joined by +, or "
              "devices share units in one: TYPE/2";
  if (result.size() < 2 && chunks > 1)
    return module.emitError("'")
           << stages << "' is one stage, which has no chunks";
  if (failed(verifyPipelines(module, result)))
    return failure();
  return result;
}

/// Shares the units of virtual stages in a row, of which only the last may say
/// its end.
LogicalResult ZeroPlanStagesPass::placeEnds(
    ModuleOp module, MutableArrayRef<Described> described, int64_t units) {
  size_t count = described.size(), all = count * chunks;
  auto getEnd = [&](size_t place) -> int64_t & {
    return described[place % count].ends[place / count];
  };
  if (int64_t(all) > units)
    return module.emitError("the pipeline wants ")
           << all << " parts of the model (" << count << " stages of "
           << chunks.getValue() << (chunks == 1 ? " chunk" : " chunks")
           << "), which has only " << units
           << " units (its layers, one unit before and one after them)";
  for (Described &stage : described)
    stage.ends.resize(chunks, -1);
  if (getEnd(all - 1) >= 0 && getEnd(all - 1) != units)
    return module.emitError("the last stage ends with unit ")
           << getEnd(all - 1) << ", but the model has " << units
           << " (its layers, one unit before and one after them)";
  getEnd(all - 1) = units;
  int64_t begin = 0;
  for (size_t first = 0; first < all;) {
    size_t last = first;
    while (getEnd(last) < 0)
      ++last;
    auto row = static_cast<int64_t>(last - first + 1);
    int64_t share = getEnd(last) - begin;
    if (share < row)
      return module.emitError("the stage of '")
             << described[last % count].text << "' that ends before unit "
             << getEnd(last) << " leaves no unit to some stage";
    for (int64_t i = 1; i < row; ++i)
      getEnd(first + i - 1) = begin + share * i / row;
    begin = getEnd(last);
    first = last + 1;
  }
  return success();
}

/// Sets the stage of ZeRO.
LogicalResult ZeroPlanStagesPass::checkOptions(ModuleOp module,
                                               int64_t &zeroStage) {
  PipelineSchedule order = schedule;
  if (chunks < 1)
    return module.emitError("stages have ")
           << chunks.getValue() << " chunks, expected 1 or more";
  if (chunks > 1 && !takesChunks(order))
    return module.emitError("stages of schedule '")
           << toString(order) << "' have one chunk, not " << chunks.getValue()
           << ": take the schedule interleaved";
  if (chunks == 1 && takesChunks(order))
    return module.emitError("stages of schedule '")
           << toString(order)
           << "' have 2 chunks or more; with one it would be 1f1b";
  if (stage != "auto" && (StringRef(stage).getAsInteger(10, zeroStage) ||
                          zeroStage < 0 || zeroStage > 3))
    return module.emitError("unknown stage of ZeRO '")
           << stage << "', expected 0, 1, 2, 3 or auto";
  return success();
}

/// By pipeline, ranks of the lane's types that are not taken, those of a
/// pipeline on one node; for fewer pipelines if there are no more.
static std::vector<std::vector<int>> takeRanks(const ClusterView &cluster,
                                               const Lane &lane,
                                               std::vector<bool> &taken) {
  std::vector<std::vector<int>> pipelines;
  for (size_t node = 0; node < cluster.nodes.size(); ++node)
    while (int64_t(pipelines.size()) < lane.pipelines) {
      std::vector<int> members;
      for (StringRef type : lane.sharers)
        for (size_t index = 0; index < cluster.ranks.size(); ++index) {
          const ClusterRank &rank = cluster.ranks[index];
          if (taken[index] || rank.node != int(node) ||
              cluster.types[rank.type].name != type ||
              llvm::is_contained(members, int(index)))
            continue;
          members.push_back(int(index));
          break;
        }
      if (members.size() < lane.sharers.size())
        break;
      for (int member : members)
        taken[member] = true;
      pipelines.push_back(std::move(members));
    }
  return pipelines;
}

/// Gives a lane's ranks and parts to its stage, which is the `index`th.
static LogicalResult takeLane(ModuleOp module, const ClusterView &cluster,
                              const Lane &lane, size_t index,
                              std::vector<bool> &taken, StageRanks &stage) {
  std::vector<std::vector<int>> ranks = takeRanks(cluster, lane, taken);
  auto found = int64_t(ranks.size());
  if (found < lane.pipelines && lane.sharers.size() == 1)
    return module.emitError("stage ")
           << index << " wants " << lane.pipelines << " devices of type '"
           << lane.type << "', but only " << found
           << " are left in the cluster";
  if (found < lane.pipelines)
    return module.emitError("stage ")
           << index << " wants " << lane.pipelines << " times "
           << lane.sharers.size() << " devices of type '" << lane.type
           << "' that share a node, but only " << found << " times as many "
           << "are left in the cluster";
  stage.ranks.insert(stage.ranks.end(), ranks.begin(), ranks.end());
  if (lane.sharers.size() == 1)
    return success();
  std::vector<int64_t> parts;
  if (!llvm::all_equal(lane.parts))
    parts = lane.parts;
  bool isFirst = llvm::none_of(
      ArrayRef(stage.ranks).drop_back(ranks.size()),
      [](const std::vector<int> &sharers) { return sharers.size() > 1; });
  if (!isFirst && parts != stage.parts)
    return module.emitError("stage ")
           << index << " has pipelines that share units by unlike parts, '"
           << lane.type << "' and another: give all the same parts";
  stage.parts = std::move(parts);
  return success();
}

LogicalResult ZeroPlanStagesPass::plan(ModuleOp module) {
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  if (!model || model.isExternal())
    return module.emitError("has no function @model to cut into stages");
  if (!module.getOps<zero::PlanOp>().empty())
    return (*module.getOps<zero::PlanOp>().begin())
        .emitOpError("is there already: a module has one plan");
  int64_t zeroStage = 0;
  if (failed(checkOptions(module, zeroStage)))
    return failure();
  FailureOr<SmallVector<Described>> described = parse(module);
  if (failed(described))
    return failure();
  FailureOr<ModelUnits> units = ModelUnits::get(model);
  if (failed(units) || failed(placeEnds(module, *described, units->size())))
    return failure();
  std::vector<int64_t> shares = described->front().getShares();
  auto pipelines = int64_t(shares.size());
  if (zeroStage >= 2 && !llvm::all_equal(shares))
    return module.emitError("pipelines have unlike shares of the batch, but in "
                            "ZeRO stage ")
           << zeroStage
           << " they meet in every micro-batch: leave out the shares, or take "
              "stage 0 or 1";
  if (globalBatch < pipelines || microBatch < 1)
    return module.emitError("a global batch of ")
           << globalBatch.getValue() << " samples in micro-batches of "
           << microBatch.getValue() << " cannot be shared by " << pipelines
           << " pipelines";

  ClusterView cluster = cluster::buildClusterView(module);
  std::vector<StageRanks> stages;
  std::vector<bool> taken(cluster.ranks.size());
  for (auto [place, stage] : llvm::enumerate(*described)) {
    StageRanks planned;
    for (auto [chunk, end] : llvm::enumerate(stage.ends)) {
      int64_t begin = place   ? (*described)[place - 1].ends[chunk]
                      : chunk ? described->back().ends[chunk - 1]
                              : 0;
      planned.units.insert(planned.units.end(), {begin, end});
    }
    planned.zeroStage = zeroStage;
    for (const Lane &lane : stage.lanes)
      if (failed(takeLane(module, cluster, lane, place, taken, planned)))
        return failure();
    stages.push_back(std::move(planned));
  }
  // Ranks meet in every step in stages 2 and 3.
  Plan plan = writeStages(
      cluster, "stages", getPlanSchedule(schedule), stages,
      sharePipelines(globalBatch, shares, microBatch, zeroStage >= 2));
  for (auto [index, group] : llvm::enumerate(plan.groups))
    if (std::string reason = explainUnlikeDegrees(group); !reason.empty())
      return module.emitError("stage ") << index << " " << reason;
  zero::addPlan(module, plan);
  return success();
}
