//===- ZeroPlan.cpp - Plans, groups and buckets as ops --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/Zero.h"
#include "ZeroVerifiers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

SmallVector<RankOp, 0> PlanOp::getRanks() {
  return llvm::to_vector<0>(getBody().getOps<RankOp>());
}

SmallVector<GroupOp, 0> PlanOp::getGroups() {
  return llvm::to_vector<0>(getBody().getOps<GroupOp>());
}

SmallVector<int64_t> PlanOp::getRanksOf(int64_t group) {
  SmallVector<int64_t> indices;
  for (auto [index, rank] : llvm::enumerate(getRanks()))
    if (int64_t(rank.getGroup()) == group)
      indices.push_back(index);
  return indices;
}

SmallVector<SmallVector<int64_t>> PlanOp::getPipelinesOf(int64_t group) {
  SmallVector<SmallVector<int64_t>> pipelines;
  SmallVector<int64_t> ranks = getRanksOf(group);
  GroupOp op = getGroups()[group];
  for (ArrayRef<int64_t> rest = ranks; !rest.empty();) {
    int64_t degree = op.getTensorDegree(int64_t(pipelines.size()));
    pipelines.emplace_back(rest.take_front(degree));
    rest = rest.drop_front(degree);
  }
  return pipelines;
}

int64_t PlanOp::findPipeline(int64_t rank) {
  auto pipelines = getPipelinesOf(int64_t(getRanks()[rank].getGroup()));
  return llvm::find_if(pipelines,
                       [&](ArrayRef<int64_t> members) {
                         return llvm::is_contained(members, rank);
                       }) -
         pipelines.begin();
}

int64_t PlanOp::getPosition(int64_t rank) {
  auto pipelines = getPipelinesOf(int64_t(getRanks()[rank].getGroup()));
  for (ArrayRef<int64_t> members : pipelines)
    if (const int64_t *found = llvm::find(members, rank);
        found != members.end())
      return found - members.begin();
  return 0;
}

int64_t PlanOp::getNumChunks() {
  auto groups = getBody().getOps<GroupOp>();
  return groups.empty() ? 1 : (*groups.begin()).getNumChunks();
}

int64_t PlanOp::findVirtualStage(int64_t unit) {
  SmallVector<GroupOp, 0> groups = getGroups();
  int64_t count = groups.size(), all = count * getNumChunks(), index = 0;
  while (index < all && groups[index % count].getEnd(index / count) <= unit)
    ++index;
  return index;
}

/// The turns that a rank of schedule "custom" has written down.
static std::vector<Turn> readTurns(RankOp rank) {
  std::vector<Turn> turns;
  for (int64_t turn : rank.getTurns().value_or(ArrayRef<int64_t>()))
    turns.push_back({turn < 0, std::abs(turn) - 1});
  for (auto [turn, chunk] :
       llvm::zip(turns, rank.getChunks().value_or(ArrayRef<int64_t>())))
    turn.chunk = chunk;
  return turns;
}

std::optional<PipelineSchedule> zero::getScheduleOfPipelines(PlanOp plan) {
  std::optional<PlanSchedule> schedule = plan.getSchedule();
  return schedule ? getPipelineSchedule(*schedule) : std::nullopt;
}

Timetable PlanOp::getTimetable(int64_t index) {
  SmallVector<RankOp, 0> ranks = getRanks();
  size_t groups = getGroups().size();
  std::optional<PipelineSchedule> schedule = getScheduleOfPipelines(*this);
  if (schedule)
    return Timetable::make(
        *schedule,
        {int64_t(groups), getNumChunks(),
         int64_t(ranks[getPipelinesOf(0)[index].front()].getSteps())});
  Timetable table;
  table.chunks = getNumChunks();
  for (size_t group = 0; group < groups; ++group)
    table.stages.push_back(
        readTurns(ranks[getPipelinesOf(group)[index].front()]));
  return table;
}

bool GroupOp::owns(int64_t unit) {
  for (int64_t chunk = 0; chunk < getNumChunks(); ++chunk)
    if (getFirst(chunk) <= unit && unit < getEnd(chunk))
      return true;
  return false;
}

int64_t GroupOp::getLargestTensorDegree() {
  return *llvm::max_element(getTensor());
}

SmallVector<int64_t> GroupOp::getPartsOfRanks() {
  if (getParts())
    return SmallVector<int64_t>(*getParts());
  return SmallVector<int64_t>(getLargestTensorDegree(), 1);
}

bool BucketOp::isUsedBy(int64_t group, int64_t position) {
  std::optional<ArrayRef<int64_t>> groups = getGroups(),
                                   positions = getPositions();
  if (!groups)
    return true;
  for (size_t i = 0; i < groups->size(); ++i)
    if ((*groups)[i] == group && (!positions || (*positions)[i] == position))
      return true;
  return false;
}

Type BucketOp::getStorageType(Type working) {
  return getQuantized()
             ? IntegerType::get(getContext(), 8, IntegerType::Unsigned)
             : working;
}
