//===- HybridSearch.cpp - Finding a hybrid plan ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridSearch.h"
#include "Division.h"
#include "Pipeline/StageSearch.h"
#include <algorithm>
#include <limits>
#include <memory>
#include <set>

using namespace poplar;

/// Partial plans gone on with from a unit, where a good plan is wanted soon.
static constexpr size_t narrow = 16;
/// The effort for the bound of a shape, in partial plans.
static constexpr int64_t boundEffort = 50;
/// The share of the effort for that.
static constexpr int64_t partsOfSoon = 4, partsOfSoonCoarse = 16;
/// Beyond so many shapes the search is coarse, has its effort divided by this,
/// and proves nothing: then bounds are far below plans anyway.
static constexpr size_t manyShapes = 20000;
static constexpr int64_t partsOfCoarse = 6;
static constexpr size_t unlimited = std::numeric_limits<size_t>::max();

/// The most types whose tensor degrees are chosen freely in layered plans, and
/// their degrees and micro-batches side by side.
static constexpr size_t mostFreeDegrees = 3, mostFreeSizes = 2;

/// The alignment of a parameter's elements that buckets hold in parts, as
/// zero::BucketLayout has it.
static constexpr int64_t tiedAlignment = 32;

namespace {

/// All shapes of plans of a problem.
class ShapeList {
public:
  explicit ShapeList(const HybridProblem &problem);
  std::vector<StageShape> shapes;

private:
  /// Calls `use` with every choice of one entry of each list.
  template <typename T, typename Use>
  static void forEachChoice(const std::vector<std::vector<T>> &lists, Use use);
  void add(StageShape shape);
  void addOfMoreSamples(StageShape shape);
  void addLayered();
  void addLayered(const std::vector<int> &degrees, int64_t microBatch);
  void addSideBySide(const std::vector<int> &types);
  void addSideBySide(const std::vector<int> &types,
                     const std::vector<std::pair<int, int64_t>> &sizes);

  const HybridProblem &problem;
  /// By type: tensor degrees, and degrees with micro-batches, that it has modes
  /// for.
  std::vector<std::vector<int>> degrees;
  std::vector<std::vector<std::pair<int, int64_t>>> sizes;
  std::set<int64_t> microBatches;
};

} // namespace

ShapeList::ShapeList(const HybridProblem &problem) : problem(problem) {
  for (const HybridProblem::DeviceType &type : problem.types) {
    std::set<int> ofType;
    std::set<std::pair<int, int64_t>> both;
    for (const HybridProblem::Mode &mode : type.modes) {
      ofType.insert(mode.tensorDegree);
      both.insert({mode.tensorDegree, mode.microBatch});
      microBatches.insert(mode.microBatch);
    }
    degrees.emplace_back(ofType.begin(), ofType.end());
    sizes.emplace_back(both.begin(), both.end());
  }
  addLayered();
  // Sets of two or more types, of the first if there are many.
  size_t count = std::min<size_t>(problem.types.size(), 16);
  for (unsigned set = 1; set < 1u << count; ++set) {
    std::vector<int> types;
    for (size_t type = 0; type < count; ++type)
      if (set >> type & 1)
        types.push_back(static_cast<int>(type));
    if (types.size() > 1 && types.size() <= StageShape::mostLanes)
      addSideBySide(types);
  }
}

template <typename T, typename Use>
void ShapeList::forEachChoice(const std::vector<std::vector<T>> &lists,
                              Use use) {
  std::vector<size_t> at(lists.size());
  while (true) {
    std::vector<T> choice;
    for (size_t i = 0; i < lists.size(); ++i)
      choice.push_back(lists[i][at[i]]);
    use(choice);
    size_t i = 0;
    while (i < lists.size() && ++at[i] == lists[i].size())
      at[i++] = 0;
    if (i == lists.size())
      return;
  }
}

/// With many types, all share units as far as their nodes allow, so that there
/// are not more choices than can be looked at.
void ShapeList::addLayered() {
  for (int64_t microBatch : microBatches) {
    auto add = [&](const std::vector<int> &choice) {
      addLayered(choice, microBatch);
    };
    if (problem.types.size() <= mostFreeDegrees) {
      forEachChoice(degrees, add);
      continue;
    }
    std::set<int> all;
    for (const std::vector<int> &ofType : degrees)
      all.insert(ofType.begin(), ofType.end());
    std::set<std::vector<int>> choices;
    for (int degree : all) {
      std::vector<int> choice;
      for (const std::vector<int> &ofType : degrees) {
        auto above = std::upper_bound(ofType.begin(), ofType.end(), degree);
        choice.push_back(above == ofType.begin() ? *above : *(above - 1));
      }
      choices.insert(choice);
    }
    std::for_each(choices.begin(), choices.end(), add);
  }
}

/// Whether the parts of one stage, or of several where tied parameters cannot
/// be divided otherwise, share alike.
static bool sharesAlike(const HybridProblem &problem,
                        const std::vector<GroupPart> &parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const GroupPart &part) {
    return part.tensorDegree == parts.front().tensorDegree &&
           problem.types[part.type].parts ==
               problem.types[parts.front().type].parts;
  });
}

/// Whether lanes of one stage share units alike, or compute whole units beside
/// those that do.
static bool sharesBeside(const HybridProblem &problem,
                         const std::vector<GroupPart> &parts) {
  std::vector<GroupPart> sharing;
  for (const GroupPart &part : parts)
    if (part.tensorDegree > 1)
      sharing.push_back(part);
  if (sharing.empty() || sharing.size() == parts.size())
    return sharesAlike(problem, parts);
  const GroupPart &first = sharing.front();
  return sharesAlike(problem, sharing) &&
         problem.types[first.type].parts.empty() &&
         problem.joined.count(first.tensorDegree) > 0;
}

/// Whether stages that share units in unlike ways can all hold what is tied,
/// which is cut between rows, at multiples of `tiedAlignment`. If degrees are
/// powers of two, that is so if equal parts are such multiples: rows that no
/// degree divides are then such multiples themselves.
static bool dividesTied(const HybridProblem &problem,
                        const std::vector<GroupPart> &parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const GroupPart &part) {
    return problem.types[part.type].parts.empty() &&
           (part.tensorDegree & (part.tensorDegree - 1)) == 0 &&
           problem.parameters.tied.trained %
                   (tiedAlignment * part.tensorDegree) ==
               0;
  });
}

void ShapeList::addLayered(const std::vector<int> &choice, int64_t microBatch) {
  int64_t most = 0;
  for (size_t type = 0; type < choice.size(); ++type)
    most = std::max(most, problem.types[type].count / choice[type]);
  if (!problem.takesMoreSamples)
    most = std::min(most, problem.globalBatch);
  for (int64_t pipelines = 1; pipelines <= most; ++pipelines) {
    StageShape shape;
    shape.microBatches = {microBatch};
    bool isNew = true;
    for (size_t i = 0; i < choice.size(); ++i) {
      const HybridProblem::DeviceType &type = problem.types[i];
      int64_t slots = type.count / (pipelines * choice[i]);
      bool isUsed =
          slots > 0 && isAligned(type, choice[i], pipelines) &&
          std::find(sizes[i].begin(), sizes[i].end(),
                    std::pair(choice[i], microBatch)) != sizes[i].end();
      if (isUsed)
        shape.kinds.push_back(
            {{{static_cast<int>(i), choice[i], pipelines}},
             static_cast<int>(std::min<int64_t>(slots, problem.units()))});
      else if (choice[i] != degrees[i].front())
        isNew = false; // The degree of a type without stages is no choice.
    }
    if (!isNew || shape.kinds.empty())
      continue;
    std::vector<GroupPart> parts;
    for (const StageShape::Kind &kind : shape.kinds)
      parts.push_back(kind.parts.front());
    if (problem.sharesAlike && problem.parameters.tied.trained > 0 &&
        !sharesAlike(problem, parts) && !dividesTied(problem, parts))
      continue;
    for (PipelineSchedule schedule : problem.schedules) {
      shape.schedule = schedule;
      add(shape);
    }
  }
}

void ShapeList::addSideBySide(const std::vector<int> &types) {
  std::vector<std::vector<std::pair<int, int64_t>>> lists;
  for (int type : types)
    lists.push_back(sizes[type]);
  if (types.size() <= mostFreeSizes) {
    forEachChoice(lists,
                  [&](const std::vector<std::pair<int, int64_t>> &choice) {
                    addSideBySide(types, choice);
                  });
    return;
  }
  // With more types, all have the same.
  for (std::pair<int, int64_t> size : lists[0])
    if (std::all_of(lists.begin(), lists.end(), [&](const auto &list) {
          return std::find(list.begin(), list.end(), size) != list.end();
        }))
      addSideBySide(types, {types.size(), size});
}

/// With chunks, where there are units and micro-batches enough. How many stages
/// there are has to be known then, as what is in flight depends on it; so it
/// does on how many micro-batches, at least.
void ShapeList::add(StageShape shape) {
  if (!takesChunks(shape.schedule)) {
    shapes.push_back(std::move(shape));
    return;
  }
  shape.chunks = problem.chunks;
  shape.usesAllSlots = true;
  int64_t stages = shape.countSlots();
  if (stages < 2 || stages * shape.chunks > problem.units())
    return;
  if (problem.takesMoreSamples)
    return addOfMoreSamples(std::move(shape));
  for (int64_t blocks : {1, 2, 4}) {
    shape.leastMicroBatches = blocks * stages;
    int64_t samples = 0;
    for (size_t lane = 0; lane < shape.lanes(); ++lane)
      samples += (shape.leastMicroBatches - 1) * shape.getStep(lane) + 1;
    if (samples > problem.globalBatch)
      return;
    if (shape.lanes() > 1) {
      shapes.push_back(shape);
      continue;
    }
    // They are known. A block that is too short would not be seen by the cost.
    PipelineShape pipeline{stages, shape.chunks,
                           shape.countMicroBatches(problem)};
    if (pipeline.hasEvenBlocks())
      shapes.push_back(std::move(shape));
    return;
  }
}

/// With as few micro-batches as suffice, and with as few as fill all blocks:
/// together these stand for any number (StageSearch::getPipelines()).
void ShapeList::addOfMoreSamples(StageShape shape) {
  int64_t stages = shape.countSlots(),
          microBatches = shape.countMicroBatches(problem),
          full = divideUp(microBatches, stages) * stages;
  if (full > microBatches && microBatches > stages &&
      PipelineShape{stages, shape.chunks, microBatches}.hasEvenBlocks()) {
    shape.leastMicroBatches = stages;
    shapes.push_back(shape);
  }
  shape.leastMicroBatches = full;
  shapes.push_back(std::move(shape));
}

void ShapeList::addSideBySide(
    const std::vector<int> &types,
    const std::vector<std::pair<int, int64_t>> &choice) {
  for (int stages = 1; stages <= problem.units(); ++stages) {
    StageShape shape;
    shape.kinds.push_back({{}, stages});
    shape.usesAllSlots = true;
    for (size_t i = 0; i < types.size(); ++i) {
      const HybridProblem::DeviceType &type = problem.types[types[i]];
      auto [degree, microBatch] = choice[i];
      int64_t pipelines = type.count / (int64_t(stages) * degree);
      while (pipelines > 0 && !isAligned(type, degree, pipelines))
        --pipelines;
      if (pipelines == 0)
        return;
      shape.kinds[0].parts.push_back({types[i], degree, pipelines});
      shape.microBatches.push_back(microBatch);
    }
    if (problem.sharesAlike && !sharesBeside(problem, shape.kinds[0].parts))
      return;
    // Each lane has a sample at least.
    if (static_cast<int64_t>(types.size()) > problem.globalBatch)
      continue;
    for (PipelineSchedule schedule : problem.schedules) {
      shape.schedule = schedule;
      if (schedule != PipelineSchedule::GPipe)
        add(shape);
    }
  }
}

HybridSearchResult poplar::searchHybridPlan(const HybridProblem &problem,
                                            int64_t effort, double limit) {
  return searchColumnPlan(problem, FirstStage(), effort, limit);
}

HybridSearchResult poplar::searchColumnPlan(const HybridProblem &problem,
                                            const FirstStage &first,
                                            int64_t effort, double limit) {
  HybridSearchResult result;
  result.error = problem.check();
  if (!result.error.empty())
    return result;
  HybridCosts costs(problem, /*communicates=*/true, first);
  UnitBounds bounds(problem);
  ShapeList list(problem);
  struct Candidate {
    double bound;
    const StageShape *shape;
    std::unique_ptr<StageSearch> search;
  };
  std::vector<Candidate> candidates;
  for (const StageShape &shape : list.shapes)
    candidates.push_back(
        {StageSearch(problem, costs, bounds, shape, /*isCoarse=*/false)
             .getLowerBound(),
         &shape, nullptr});
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate &a, const Candidate &b) { return a.bound < b.bound; });
  bool isTooSlow = limit < std::numeric_limits<double>::infinity() &&
                   !candidates.empty() && candidates.front().bound >= limit;
  auto isWorse = [&](const Candidate &candidate) {
    double best = result.plan ? result.plan->seconds : limit;
    return candidate.bound >= best * (1 - 1e-12);
  };
  bool isCoarse = candidates.size() > manyShapes;
  if (isCoarse)
    effort /= partsOfCoarse;
  // A shape that is searched twice has its options found once.
  auto run = [&](Candidate &candidate, size_t width, int64_t &left) {
    if (!candidate.search)
      candidate.search = std::make_unique<StageSearch>(
          problem, costs, bounds, *candidate.shape, isCoarse);
    bool isDone = candidate.search->run(width, limit, result.plan, left);
    if (isCoarse)
      return false;
    candidate.bound = std::max(candidate.bound, candidate.search->getBound());
    return isDone;
  };
  int64_t given = effort;
  // A good plan first, as it drops most of what is then left to prove.
  int64_t soon = effort / (isCoarse ? partsOfSoonCoarse : partsOfSoon);
  effort -= soon;
  for (Candidate &candidate : candidates) {
    if (soon <= 0 || isWorse(candidate))
      break;
    run(candidate, narrow, soon);
  }
  result.lowerBound = limit;
  for (Candidate &candidate : candidates) {
    // What is left unproven counts with its bound.
    if (!isWorse(candidate) &&
        (effort <= 0 || !run(candidate, unlimited, effort)))
      result.lowerBound = std::min(result.lowerBound, candidate.bound);
    candidate.search.reset();
  }
  result.effort = given - effort - std::max<int64_t>(soon, 0) +
                  boundEffort * static_cast<int64_t>(candidates.size());
  if (!result.plan) {
    result.error =
        effort <= 0 ? "no plan was found before the search was cut short"
        : isTooSlow ? "no plan is as fast as required"
                    : "no plan fits: of every cut into stages some stage "
                      "exceeds the memory of its devices; add devices, or "
                      "devices with more memory";
    return result;
  }
  result.lowerBound = std::min(result.lowerBound, result.plan->seconds);
  return result;
}
