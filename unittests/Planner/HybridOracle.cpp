//===- HybridOracle.cpp - Every hybrid plan of a small problem ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridOracle.h"
#include <algorithm>
#include <functional>
#include <limits>

using namespace poplar;

using Lane = HybridPlan::Lane;
using Mode = HybridProblem::Mode;

static HybridProblem makeRandomHybrid(std::mt19937 &random, int units);

static constexpr double never = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

/// All units between the first and the last as the second.
static void makeEqual(HybridProblem &problem) {
  for (int i = 2; i + 1 < problem.units(); ++i) {
    problem.parameters.units[i] = problem.parameters.units[1];
    for (HybridProblem::DeviceType &type : problem.types)
      for (Mode &mode : type.modes)
        mode.units[i] = mode.units[1];
  }
}

HybridProblem poplar::makeRandomInterleaved(std::mt19937 &random) {
  HybridProblem problem = ::makeRandomHybrid(random, 4 + int(random() % 3));
  problem.globalBatch += 6;
  problem.schedules = {PipelineSchedule::Interleaved};
  problem.chunks = 2 + random() % 4 / 3;
  // There are many plans.
  problem.zeroStages.resize(1);
  for (HybridProblem::DeviceType &type : problem.types) {
    std::vector<Mode> modes;
    for (const Mode &mode : type.modes)
      if (mode.microBatch == 1)
        modes.push_back(mode);
    type.modes = std::move(modes);
  }
  makeEqual(problem);
  return problem;
}

HybridProblem poplar::makeRandomHybrid(std::mt19937 &random) {
  return ::makeRandomHybrid(random, 1 + int(random() % 8) / 2);
}

static HybridProblem makeRandomHybrid(std::mt19937 &random, int units) {
  auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  HybridProblem problem;
  UnitElements &parameters = problem.parameters;
  parameters.units.resize(units);
  for (ParameterElements &unit : parameters.units)
    unit.trained = 10 * (1 + below(5));
  parameters.tied.trained = below(3) ? 0 : 5;
  // This makes half of all problems.
  if (parameters.units[0].trained > 20) {
    for (ParameterElements &unit : parameters.units)
      unit.int8States = unit.trained / 4 * 3;
    parameters.tied.int8States = parameters.tied.trained;
  }
  if (below(2)) {
    for (ParameterElements &unit : parameters.units)
      unit.frozen = 20 * (1 + below(5));
    parameters.tied.frozen = below(3) ? 0 : 15;
  }
  if (below(2))
    problem.wholeStep = {50 + below(99), 50 + below(99), 50 + below(99)};
  problem.boundaryBytes = below(50);
  problem.globalBatch = 1 + below(9);
  problem.zeroStages.clear();
  for (int stage = below(3); stage < 4; stage += 1 + below(3))
    problem.zeroStages.push_back(stage);
  if (below(2))
    problem.schedules = {PipelineSchedule::OneForwardOneBackward};
  int count = 1 + below(2), batches = 1 + below(2);
  for (int k = 0; k < count; ++k) {
    HybridProblem::DeviceType type;
    type.name = "type" + std::to_string(k);
    type.perNode = 1 << below(2);
    type.count = type.perNode * (1 + below(4 / type.perNode));
    type.memory = below(3) ? 100000 : 600 + below(3000);
    type.scratchBytes = below(20);
    type.inside = {below(3) * 0.1, 50.0 + below(500)};
    type.optimizerSeconds = below(3) * 0.01;
    for (int t = 1; t <= type.perNode; ++t)
      for (int b = 1; b <= batches; ++b)
        for (int r = 0; r <= below(2); ++r) {
          Mode mode;
          mode.tensorDegree = t;
          mode.microBatch = b;
          for (int i = 0; i < units; ++i) {
            HybridProblem::UnitCost unit;
            unit.forward = 0.25 * (1 + below(8)) * b / t;
            unit.backward = unit.forward * (1 + below(3));
            unit.communication = unit.forward / 4;
            unit.savedBytes = below(200);
            unit.workBytes = below(100);
            mode.units.push_back(unit);
          }
          type.modes.push_back(mode);
        }
    problem.types.push_back(type);
  }
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j) {
      HybridProblem::Link link{
          {below(3) * 0.05, 5.0 + below(300), below(2) * 0.002}, below(3) > 0};
      if (j < i)
        link = problem.links[j * count + i];
      problem.links.push_back(link);
    }
  return problem;
}

//===----------------------------------------------------------------------===//
// The cost
//===----------------------------------------------------------------------===//

namespace {
/// Stage j of lane l.
struct Place {
  const HybridProblem &problem;
  const HybridPlan &plan;
  size_t l;
  int j;

  const Lane &lane() const { return plan.lanes[l]; }
  int typeIndex() const { return lane().stages[j].type; }
  const HybridProblem::DeviceType &type() const {
    return problem.types[typeIndex()];
  }
  const Mode &mode() const { return type().modes[lane().stages[j].mode]; }
  const HybridPlan::Group &group() const { return plan.groups[j]; }
  int degree() const { return mode().tensorDegree; }
  int64_t replicasInNode() const {
    return std::min<int64_t>(lane().pipelines, type().perNode / degree());
  }
  GroupPart part() const { return {typeIndex(), degree(), lane().pipelines}; }
  template <typename Part> double sum(Part part) const {
    double all = 0;
    for (int i = group().first; i < group().end; ++i)
      all += static_cast<double>(part(mode().units[i]));
    return all;
  }
};
} // namespace

static const Mode &problemMode(const Place &here, const Lane::Stage &stage) {
  return here.problem.types[stage.type].modes[stage.mode];
}

static int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Everything that holds group j.
static std::vector<GroupPart> getHolders(const HybridProblem &problem,
                                         const HybridPlan &plan, int j) {
  std::vector<GroupPart> holders = problem.elsewhere;
  for (size_t l = 0; l < plan.lanes.size(); ++l)
    holders.push_back(Place{problem, plan, l, j}.part());
  return holders;
}

/// Every element of group j once around, `bytes` each.
static double once(const HybridProblem &problem, const HybridPlan &plan, int j,
                   int64_t bytes, double elements) {
  std::vector<GroupPart> holders = getHolders(problem, plan, j);
  int64_t nodes = 0;
  double time = 0, latencyInside = 0, latencyBetween = 0;
  auto countReplicas = [&](const GroupPart &it) {
    return std::min<int64_t>(it.pipelines,
                             problem.types[it.type].perNode / it.tensorDegree);
  };
  for (const GroupPart &here : holders)
    nodes += here.pipelines / countReplicas(here);
  for (const GroupPart &here : holders) {
    const HybridProblem::DeviceType &type = problem.types[here.type];
    double r = static_cast<double>(countReplicas(here));
    if (r > 1) {
      time = std::max(time, (r - 1) / r * elements / here.tensorDegree *
                                static_cast<double>(bytes) /
                                type.inside.bandwidth);
      latencyInside = std::max(latencyInside, type.inside.latency);
    }
    for (const GroupPart &there : holders) {
      if (&there == &here && here.pipelines == countReplicas(here))
        continue;
      const HybridProblem::Link &link = problem.getLink(here.type, there.type);
      double n = static_cast<double>(nodes), part = elements;
      // Stages that have devices in the same node share its link.
      int64_t devices = here.pipelines * here.tensorDegree;
      if (!link.isShared)
        part /= std::min(here.tensorDegree, there.tensorDegree);
      else if (devices < type.perNode)
        part *= static_cast<double>(type.perNode / devices);
      time = std::max(time, (n - 1) / n * part * static_cast<double>(bytes) /
                                link.speed.bandwidth);
      latencyBetween = std::max(latencyBetween, link.speed.latency);
    }
  }
  return time + (plan.groups[j].end - plan.groups[j].first) *
                    (latencyInside + latencyBetween);
}

/// The units of each chunk of a stage.
static std::vector<std::pair<int, int>> cutChunks(const Place &here,
                                                  int chunks) {
  std::vector<double> middles;
  double sum = 0;
  for (int i = here.group().first; i < here.group().end; ++i) {
    const HybridProblem::UnitCost &unit =
        problemMode(here, here.plan.lanes[0].stages[here.j]).units[i];
    middles.push_back(sum + (unit.forward + unit.backward) / 2);
    sum += unit.forward + unit.backward;
  }
  std::vector<std::pair<int, int>> cuts;
  int units = static_cast<int>(middles.size()), at = 0;
  for (int v = 1; v <= chunks; ++v) {
    auto inside = [&](double middle) {
      return middle <= sum * v / chunks * (1 + 1e-9);
    };
    int end =
        static_cast<int>(std::count_if(middles.begin(), middles.end(), inside));
    end = v == chunks ? units : std::clamp(end, at + 1, units - (chunks - v));
    cuts.emplace_back(here.group().first + at, here.group().first + end);
    at = end;
  }
  return cuts;
}

double poplar::defineHybridCost(const HybridProblem &problem,
                                const HybridPlan &plan, FirstSync *firstSync) {
  int stages = static_cast<int>(plan.groups.size()), units = problem.units();
  double longest = 0;
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane &lane = plan.lanes[l];
    std::vector<double> f(stages), b(stages), s(stages), c(stages);
    std::vector<std::vector<double>> ofChunks(stages);
    int V = plan.chunks;
    int64_t size = Place{problem, plan, l, 0}.mode().microBatch,
            m = ceilDivide(ceilDivide(lane.samples, lane.pipelines), size);
    for (int j = 0; j < stages; ++j) {
      Place here{problem, plan, l, j};
      HybridPlan::Group group = here.group();
      f[j] = here.sum([](const auto &unit) { return unit.forward; });
      b[j] = here.sum([](const auto &unit) { return unit.backward; });
      int64_t elements = 0, int8States = 0, largest = 0, work = 0, ranks = 0,
              replicas = 0;
      int64_t frozen = 0, largestFrozen = 0;
      for (int i = group.first; i < group.end; ++i) {
        const ParameterElements &unit = problem.parameters.units[i];
        elements += unit.trained;
        int8States += unit.int8States;
        frozen += unit.frozen;
        largest = std::max(largest, unit.trained);
        largestFrozen = std::max(largestFrozen, unit.frozen);
        work = std::max(work, here.mode().units[i].workBytes);
      }
      const ParameterElements &ofBoth = problem.parameters.tied;
      if (group.first == 0 && group.end == units && units > 1) {
        elements -= ofBoth.trained;
        int8States -= ofBoth.int8States;
        frozen -= ofBoth.frozen;
      }
      for (const GroupPart &holder : getHolders(problem, plan, j)) {
        ranks += holder.pipelines * holder.tensorDegree;
        replicas += holder.pipelines;
      }
      int t = here.degree(), z = group.zeroStage;
      const StateFormat &state = here.type().state;
      // What the first and the last group share is no group's own.
      int64_t tied = (j == 0) != (j == stages - 1) ? ofBoth.trained : 0,
              bytes = 0;
      elements -= tied;
      int64_t tiedInt8 = tied ? ofBoth.int8States : 0;
      auto hold = [&](int64_t count, int64_t int8, int stage) {
        int64_t whole = ceilDivide(count, t),
                shard = ceilDivide(whole * t, ranks);
        s[j] += here.type().optimizerSeconds *
                static_cast<double>(stage >= 1 ? shard : whole);
        bytes += state.replicated(stage) * whole + state.sharded(stage) * shard;
        // All that is f32 may be in one shard.
        int64_t ofRank = ceilDivide(int8, t);
        if (stage >= 1)
          ofRank = std::max<int64_t>(ofRank - (whole - shard), 0);
        bytes -= 8 * ofRank - 2 * ofRank - ofRank / 32;
      };
      hold(elements, int8States - tiedInt8, z);
      hold(tied, tiedInt8, z ? 1 : 0);
      // Frozen parameters have working copies, and nothing else.
      bytes += state.parameter * ceilDivide(frozen, z == 3 ? ranks : t);
      if (replicas > 1) {
        StepElements step = {elements + frozen, elements + frozen, elements};
        if (stages == 1 && problem.wholeStep.reduced > 0)
          step = problem.wholeStep;
        auto gradients = [&](int64_t n) {
          return once(problem, plan, j, problem.gradientBytes,
                      static_cast<double>(n));
        };
        auto parameters = [&](int64_t n) {
          return once(problem, plan, j, problem.parameterBytes,
                      static_cast<double>(n));
        };
        double g = gradients(elements), p = parameters(elements),
               reduced = gradients(step.reduced);
        double perIteration[] = {2 * g, g + p, p, 0},
               perForward[] = {0, 0, 0, parameters(step.gatheredForward)},
               perBackward[] = {0, 0, reduced,
                                parameters(step.gatheredBackward) + reduced};
        s[j] += perIteration[z];
        f[j] += perForward[z];
        b[j] += perBackward[z];
      }
      if (tied) {
        double slowest = 0;
        int64_t twice = problem.gradientBytes +
                        (z ? problem.parameterBytes : problem.gradientBytes);
        for (size_t k = 0; k < problem.types.size(); ++k) {
          const HybridProblem::Link &link =
              problem.getLink(here.typeIndex(), static_cast<int>(k));
          slowest = std::max(slowest, 2 * link.speed.latency +
                                          static_cast<double>(tied * twice) /
                                              (link.isShared ? 1 : t) /
                                              link.speed.bandwidth);
        }
        s[j] += slowest;
      }
      double copying = 0;
      for (size_t k = 0; k < problem.types.size(); ++k)
        if (problem.types[k].count > 0)
          copying = std::max(
              copying, problem.getLink(here.typeIndex(), static_cast<int>(k))
                           .speed.overhead);
      copying *=
          static_cast<double>(ceilDivide(size * problem.boundaryBytes, t));
      for (std::vector<double> *pass : {&f, &b})
        (*pass)[j] += copying * (2 * V - (j == 0) - (j + 1 == stages));
      if (j + 1 < stages) {
        Place next{problem, plan, l, j + 1};
        const HybridProblem::Link &link =
            problem.getLink(here.typeIndex(), next.typeIndex());
        double bytes = static_cast<double>(size * problem.boundaryBytes);
        bytes = link.isShared
                    ? bytes * static_cast<double>(std::max(
                                  here.replicasInNode(), next.replicasInNode()))
                    : bytes / std::min(t, next.degree());
        c[j] = link.speed.latency + bytes / link.speed.bandwidth;
      }
      // The search does not know how many micro-batches each of several lanes
      // will have.
      int64_t flights = stages - j;
      if (plan.schedule == PipelineSchedule::GPipe)
        flights = m;
      else if (plan.lanes.size() == 1)
        flights = std::min(flights, m);
      bytes += here.type().scratchBytes + work +
               V * 4 * ceilDivide(size * problem.boundaryBytes, t);
      // One in use and two under way, as long as there is so much.
      largest = std::min(largest, elements);
      largestFrozen = std::min(largestFrozen, frozen);
      int64_t n = largest ? ceilDivide(elements, largest) : 0,
              all = largestFrozen ? n + ceilDivide(frozen, largestFrozen) : n;
      if (z >= 2)
        bytes += (n < 3 ? n : 3) * state.gradient * ceilDivide(largest, t);
      if (z >= 3)
        bytes += (2 * all < 3 ? 2 * all : 3) * state.parameter *
                 ceilDivide(std::max(largest, largestFrozen), t);
      auto both = [](const auto &it) { return it.forward + it.backward; };
      double other = f[j] + b[j] - here.sum(both);
      std::vector<std::pair<int, int>> cuts = cutChunks(here, V);
      for (int v = 0; v < V; ++v) {
        if (V > 1)
          flights =
              Timetable::boundInFlight(plan.schedule, {stages, V, m}, j, v);
        double seconds = other / V;
        for (int i = cuts[v].first; i < cuts[v].second; ++i) {
          bytes += flights * here.mode().units[i].savedBytes;
          seconds += both(here.mode().units[i]);
        }
        ofChunks[j].push_back(seconds);
      }
      if (bytes > here.type().memory)
        return never;
    }
    double period = 0, forward = 0, backward = 0, end = 0;
    for (int j = stages; j-- > 0;) {
      double trip = 0;
      for (int i = j; i < stages; ++i)
        trip += (f[i] + b[i]) / V + 2 * c[i];
      end = j + 1 == stages ? trip + s[j]
                            : std::max(trip + s[j], f[j] / V + c[j] + end);
      double ahead = V == 1 ? stages - j : (2.0 * (stages - j) - 1) / V;
      period = std::max({period, f[j] + b[j], V * c[j], trip / ahead});
      if (j + 1 < stages) {
        double two = f[j] + b[j] + f[j + 1] + b[j + 1], longer = 0;
        for (double own : ofChunks[j])
          for (double next : ofChunks[j + 1])
            longer += std::max(own, next);
        period = std::max({period,
                           V == 1 ? two / 2 + c[j] : (two + 2 * V * c[j]) / 3,
                           longer / V});
      }
      forward = std::max({forward, f[j], c[j]});
      backward = std::max({backward, b[j], c[j]});
    }
    if (plan.schedule == PipelineSchedule::GPipe)
      period = forward + backward;
    double before = (static_cast<double>(m) - 1.0 / V) * period;
    longest = std::max(longest, before + end);
    if (firstSync) {
      firstSync->seconds = s[0];
      firstSync->before = before;
      for (int i = 0; i < stages; ++i)
        firstSync->before += (f[i] + b[i]) / V + 2 * c[i];
    }
  }
  return longest;
}

//===----------------------------------------------------------------------===//
// All plans
//===----------------------------------------------------------------------===//

/// Calls `use` with `plan` completed by every list of stages of its lanes that
/// `allows` a stage of a lane.
static void forEachCompletion(
    const HybridProblem &problem, HybridPlan &plan,
    const std::function<bool(size_t, const Lane::Stage &)> &allows,
    const std::function<void()> &use) {
  int units = problem.units(),
      begin = plan.groups.empty() ? 0 : plan.groups.back().end;
  if (begin == units)
    return use();
  for (int end = begin + 1; end <= units; ++end)
    for (int zero : problem.zeroStages) {
      if (plan.lanes.size() > 1 && zero > 1)
        continue;
      plan.groups.push_back({begin, end, zero});
      std::function<void(size_t)> choose = [&](size_t lane) {
        if (lane == plan.lanes.size())
          return forEachCompletion(problem, plan, allows, use);
        for (size_t k = 0; k < problem.types.size(); ++k)
          for (size_t i = 0; i < problem.types[k].modes.size(); ++i) {
            Lane::Stage stage{static_cast<int>(k), static_cast<int>(i)};
            if (!allows(lane, stage))
              continue;
            plan.lanes[lane].stages.push_back(stage);
            choose(lane + 1);
            plan.lanes[lane].stages.pop_back();
          }
      };
      choose(0);
      plan.groups.pop_back();
    }
}

/// Whether a plan of several chunks is one that the search looks at.
static bool isInterleavable(const HybridProblem &problem,
                            const HybridPlan &plan) {
  auto stages = static_cast<int64_t>(plan.groups.size());
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    int64_t m = plan.countMicroBatches(problem, l);
    if (m < stages ||
        (plan.lanes.size() == 1 && m / stages > 1 &&
         m > m / stages * (stages + 2 * Timetable::messageBuffers - 1)))
      return false;
  }
  for (const HybridPlan::Group &group : plan.groups)
    if (group.end - group.first < plan.chunks)
      return false;
  return stages > 1;
}

/// In a layered plan that uses all the devices that it has room for: of a type
/// without stages, that its least tensor degree does not allow any.
static bool usesAllSlots(const HybridProblem &problem, const HybridPlan &plan) {
  const Lane &lane = plan.lanes[0];
  int64_t microBatch = plan.getMicroBatch(problem, 0);
  for (size_t k = 0; k < problem.types.size(); ++k) {
    const auto &type = problem.types[k];
    int64_t stages = 0;
    int degree = 0;
    for (const Lane::Stage &stage : lane.stages)
      if (stage.type == static_cast<int>(k)) {
        ++stages;
        degree = type.modes[stage.mode].tensorDegree;
      }
    bool isOffered = true;
    if (!degree) {
      degree = std::min_element(type.modes.begin(), type.modes.end(),
                                [](const Mode &a, const Mode &b) {
                                  return a.tensorDegree < b.tensorDegree;
                                })
                   ->tensorDegree;
      isOffered = std::any_of(
          type.modes.begin(), type.modes.end(), [&](const Mode &mode) {
            return mode.tensorDegree == degree && mode.microBatch == microBatch;
          });
    }
    int64_t devices = lane.pipelines * degree, slots = type.count / devices;
    if (devices % type.perNode && type.perNode % devices)
      slots = 0;
    slots = std::min<int64_t>(slots, problem.units());
    if (isOffered && stages != slots)
      return false;
  }
  return true;
}

/// Calls `use` with every plan of one lane; of so many pipelines and such a
/// degree, if `fixed`.
static void forEachLayered(const HybridProblem &problem, const GroupPart *fixed,
                           const std::function<void(const HybridPlan &)> &use) {
  for (PipelineSchedule schedule : problem.schedules)
    for (int64_t pipelines = 1; pipelines <= problem.globalBatch; ++pipelines) {
      if (fixed && pipelines != fixed->pipelines)
        continue;
      HybridPlan plan;
      plan.schedule = schedule;
      plan.chunks = takesChunks(schedule) ? problem.chunks : 1;
      plan.lanes.resize(1);
      Lane &lane = plan.lanes[0];
      lane.pipelines = pipelines;
      lane.samples = problem.globalBatch;
      auto allows = [&](size_t, const Lane::Stage &stage) {
        const auto &type = problem.types[stage.type];
        const Mode &mode = type.modes[stage.mode];
        if (fixed && mode.tensorDegree != fixed->tensorDegree)
          return false;
        int64_t devices = pipelines * mode.tensorDegree, used = devices;
        for (const Lane::Stage &other : lane.stages) {
          const Mode &its = problem.types[other.type].modes[other.mode];
          if (its.microBatch != mode.microBatch ||
              (other.type == stage.type &&
               its.tensorDegree != mode.tensorDegree))
            return false;
          used += other.type == stage.type ? devices : 0;
        }
        return used <= type.count &&
               (devices % type.perNode == 0 || type.perNode % devices == 0);
      };
      forEachCompletion(problem, plan, allows, [&] {
        if (plan.chunks == 1 ||
            (isInterleavable(problem, plan) && usesAllSlots(problem, plan)))
          use(plan);
      });
    }
}

/// Both types, one lane each.
static double searchSideBySide(const HybridProblem &problem,
                               PipelineSchedule schedule) {
  double best = never;
  int units = problem.units();
  for (int stages = 1; stages <= units; ++stages)
    for (const Mode &first : problem.types[0].modes)
      for (const Mode &second : problem.types[1].modes) {
        const Mode *shapes[] = {&first, &second};
        HybridPlan plan;
        plan.schedule = schedule;
        plan.chunks = takesChunks(schedule) ? problem.chunks : 1;
        plan.lanes.resize(2);
        for (int l = 0; l < 2; ++l) {
          const auto &type = problem.types[l];
          int64_t t = shapes[l]->tensorDegree, d = type.count / (stages * t);
          while (d > 0 && (d * t) % type.perNode && type.perNode % (d * t))
            --d;
          plan.lanes[l].pipelines = d;
        }
        if (!plan.lanes[0].pipelines || !plan.lanes[1].pipelines)
          continue;
        auto allows = [&](size_t l, const Lane::Stage &stage) {
          const Mode &mode = problem.types[stage.type].modes[stage.mode];
          return stage.type == static_cast<int>(l) &&
                 plan.groups.size() <= static_cast<size_t>(stages) &&
                 mode.tensorDegree == shapes[l]->tensorDegree &&
                 mode.microBatch == shapes[l]->microBatch;
        };
        forEachCompletion(problem, plan, allows, [&] {
          if (plan.groups.size() != static_cast<size_t>(stages))
            return;
          for (int64_t n = 1; n < problem.globalBatch; ++n) {
            plan.lanes[0].samples = n;
            plan.lanes[1].samples = problem.globalBatch - n;
            if (plan.chunks == 1 || isInterleavable(problem, plan))
              best = std::min(best, defineHybridCost(problem, plan));
          }
        });
      }
  return best;
}

double poplar::searchAllHybrids(const HybridProblem &problem) {
  double best = never;
  forEachLayered(problem, nullptr, [&](const HybridPlan &plan) {
    best = std::min(best, defineHybridCost(problem, plan));
  });
  for (PipelineSchedule schedule : problem.schedules)
    if (problem.types.size() == 2 && schedule != PipelineSchedule::GPipe)
      best = std::min(best, searchSideBySide(problem, schedule));
  return best;
}

double poplar::searchAllColumns(const HybridProblem &problem, int mostChunks) {
  // Pipelines and degrees that a type may have.
  std::vector<std::vector<GroupPart>> parts(2);
  for (int type = 0; type < 2; ++type)
    for (int degree = 1; degree <= problem.types[type].perNode; ++degree)
      for (int64_t d = 1; d * degree <= problem.types[type].count; ++d)
        parts[type].push_back({type, degree, d});
  struct Column {
    double alone;
    FirstSync first;
  };
  double best = never;
  auto search = [&](const GroupPart &own, const GroupPart &other,
                    int64_t samples) {
    HybridProblem column = problem;
    column.types[other.type].count = 0;
    column.elsewhere = {other};
    column.globalBatch = samples;
    std::vector<Column> columns;
    for (int chunks = 1; chunks <= mostChunks; ++chunks) {
      if (chunks > 1) {
        column.schedules = {PipelineSchedule::Interleaved};
        column.chunks = chunks;
      }
      forEachLayered(column, &own, [&](const HybridPlan &plan) {
        FirstSync first;
        double alone = defineHybridCost(column, plan, &first);
        if (alone < best)
          columns.push_back({alone, first});
      });
    }
    return columns;
  };
  for (const GroupPart &first : parts[0])
    for (const GroupPart &second : parts[1])
      for (int64_t n = 1; n < problem.globalBatch; ++n) {
        std::vector<Column> ofFirst = search(first, second, n);
        if (ofFirst.empty())
          continue;
        for (const Column &b : search(second, first, problem.globalBatch - n))
          for (const Column &a : ofFirst)
            best = std::min(
                best,
                std::max({a.alone, b.alone,
                          std::max(a.first.before, b.first.before) +
                              std::max(a.first.seconds, b.first.seconds)}));
      }
  return best;
}
