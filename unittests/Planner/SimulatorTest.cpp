//===- SimulatorTest.cpp - An iteration, event by event -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/BatchProblem.h"
#include "SimulatorTesting.h"
#include <cmath>
#include <random>

using namespace poplar;

namespace {

using Operation = SimulationProblem::Operation;
using Phase = SimulationProblem::Phase;
using Activity = Timeline::Activity;

constexpr double tolerance = 1e-12;

//===----------------------------------------------------------------------===//
// Timelines computed by hand
//===----------------------------------------------------------------------===//

// Rank 0 is done at 1, rank 1 at 3; the collective takes 1 + 2.
TEST(SimulatorTest, synchronousCollective) {
  SimulationProblem problem =
      makeProblem({{Operation::compute(0, 1), Operation::start(0, 0),
                    Operation::wait(0), Operation::compute(0, 1)},
                   {Operation::compute(0, 3), Operation::start(0, 0),
                    Operation::wait(0), Operation::compute(0, 2)}},
                  {{"a", 1, {{0, 2}, {1, 0.5}}, {}}});
  Simulation result = run(problem);
  EXPECT_DOUBLE_EQ(result.seconds, 8);
  EXPECT_EQ(format(result.timeline.classes[0].computation),
            "compute 0-1, wait for ranks 1-3, wait for link 3-6, compute 6-7");
  EXPECT_EQ(format(result.timeline.classes[1].computation),
            "compute 0-3, wait for link 3-6, compute 6-8");
  EXPECT_EQ(format(result.timeline.classes[1].communication), "collective 3-6");
  EXPECT_DOUBLE_EQ(result.classes[0].computing, 2);
  EXPECT_DOUBLE_EQ(result.classes[0].waiting, 3);
  EXPECT_DOUBLE_EQ(result.classes[0].exposed, 3);
  EXPECT_DOUBLE_EQ(result.classes[0].hidden, 0);
  checkConsistency(problem, result, 1);
}

// A collective behind which there is computation enough costs nothing.
TEST(SimulatorTest, hiddenCollective) {
  SimulationProblem problem = makeProblem(
      {{Operation::start(0, 0), Operation::compute(0, 4), Operation::wait(0)}},
      {{"a", 1, {{0, 2}}, {}}});
  Simulation result = run(problem);
  EXPECT_DOUBLE_EQ(result.seconds, 4);
  EXPECT_DOUBLE_EQ(result.classes[0].hidden, 3);
  EXPECT_DOUBLE_EQ(result.classes[0].exposed, 0);
}

// Copies on the cores that compute: 2 of 3 seconds, hidden by 4.
TEST(SimulatorTest, overheadOfHiddenCollective) {
  SimulationProblem problem =
      makeProblem({{Operation::start(0, 0), Operation::compute(0, 4),
                    Operation::wait(0), Operation::compute(0, 1)}},
                  {{"a", 1, {{0, 2}}, {}, 2}});
  Simulation result = run(problem);
  EXPECT_DOUBLE_EQ(result.seconds, 7);
  EXPECT_DOUBLE_EQ(result.classes[0].computing, 7);
  EXPECT_DOUBLE_EQ(result.classes[0].hidden, 3);
  EXPECT_EQ(format(result.timeline.classes[0].computation),
            "compute 0-4, compute 4-6, compute 6-7");
  checkConsistency(problem, result, 1);
}

// Nobody computes while the collective goes on.
TEST(SimulatorTest, noOverheadWhileWaiting) {
  SimulationProblem problem =
      makeProblem({{Operation::compute(0, 1), Operation::start(0, 0),
                    Operation::wait(0), Operation::compute(0, 1)}},
                  {{"a", 1, {{0, 2}}, {}, 2}});
  Simulation result = run(problem);
  EXPECT_DOUBLE_EQ(result.seconds, 5);
  EXPECT_DOUBLE_EQ(result.classes[0].computing, 2);
  checkConsistency(problem, result, 1);
}

// The first rank computes in 1 of 4 seconds of the collective, the second in
// all.
TEST(SimulatorTest, overheadInPart) {
  SimulationProblem problem = makeProblem(
      {{Operation::start(0, 0), Operation::compute(0, 1), Operation::wait(0)},
       {Operation::start(0, 0), Operation::compute(0, 6), Operation::wait(0)}},
      {{"a", 1, {{0, 3}}, {}, 2}});
  Simulation result = run(problem);
  EXPECT_EQ(format(result.timeline.classes[0].computation),
            "compute 0-1, compute 1-1.5, wait for link 1.5-4");
  EXPECT_DOUBLE_EQ(result.seconds, 8);
  EXPECT_DOUBLE_EQ(result.classes[1].computing, 8);
  checkConsistency(problem, result, 1);
}

// Both are started at once, but a stream does one after the other.
TEST(SimulatorTest, streamIsFirstInFirstOut) {
  SimulationProblem problem = makeProblem(
      {{Operation::start(0, 0), Operation::start(1, 1), Operation::wait(0),
        Operation::compute(0, 1), Operation::wait(1)}},
      {{"a", 0, {{0, 2}}, {}}, {"b", 0, {{1, 3}}, {}}});
  Simulation result = run(problem);
  EXPECT_EQ(format(result.timeline.classes[0].communication),
            "collective 0-2, collective 2-5");
  EXPECT_EQ(format(result.timeline.classes[0].computation),
            "wait for link 0-2, compute 2-3, wait for link 3-5");
  EXPECT_DOUBLE_EQ(result.classes[0].hidden, 1);
}

// With depth 1, bucket i + 1 is gathered while unit i computes: gathers of 2
// and units of 3 expose the first gather only.
TEST(SimulatorTest, prefetchExposesFirstGather) {
  Phase phase = {Operation::start(0, 0)};
  constexpr int units = 5;
  for (int i = 0; i < units; ++i) {
    phase.push_back(Operation::wait(i));
    if (i + 1 < units)
      phase.push_back(Operation::start(0, i + 1));
    phase.push_back(Operation::compute(0, 3));
  }
  Simulation result = run(makeProblem({phase}, {{"gather", 0, {{0, 2}}, {}}}));
  EXPECT_DOUBLE_EQ(result.seconds, 2 + 3 * units);
  EXPECT_DOUBLE_EQ(result.classes[0].exposed, 2);
  EXPECT_DOUBLE_EQ(result.classes[0].hidden, 2 * (units - 1));
}

// a is alone on port 0; b and c share port 1 from when c begins.
TEST(SimulatorTest, transfersShareAPort) {
  SimulationProblem problem = makeProblem(
      {{Operation::start(0, 0), Operation::wait(0)},
       {Operation::start(1, 0), Operation::wait(0)},
       {Operation::compute(0, 1), Operation::start(2, 0), Operation::wait(0)}},
      {{"a", 0, {{0, 2}}, {0}},
       {"b", 0, {{1, 3}}, {1}},
       {"c", 0, {{1, 4}}, {2}}});
  Simulation result = run(problem);
  EXPECT_EQ(format(result.timeline.classes[0].communication), "collective 0-2");
  // b has 2 left at 1, and half of the port: 4 seconds.
  EXPECT_EQ(format(result.timeline.classes[1].communication), "collective 0-5");
  // c then has 2 left, and all of the port.
  EXPECT_EQ(format(result.timeline.classes[2].communication), "collective 1-7");
  EXPECT_EQ(format(result.timeline.classes[2].computation),
            "compute 0-1, wait for link 1-7");
  checkConsistency(problem, result, 1);
}

// a and b share port 0, b and c port 1. Max-min: a and b go at half their
// speed; c, which alone takes half of port 1, has that and goes at full speed.
TEST(SimulatorTest, freeCapacityIsUsed) {
  SimulationProblem problem =
      makeProblem({{Operation::start(0, 0), Operation::wait(0)},
                   {Operation::start(1, 0), Operation::wait(0)},
                   {Operation::start(2, 0), Operation::wait(0)}},
                  {{"a", 0, {{0, 1}}, {0}},
                   {"b", 0, {{0, 1}, {1, 1}}, {1}},
                   {"c", 0, {{1, 1}, {2, 2}}, {2}}},
                  /*ports=*/3);
  Simulation result = run(problem);
  EXPECT_EQ(format(result.timeline.classes[0].communication), "collective 0-2");
  EXPECT_EQ(format(result.timeline.classes[1].communication), "collective 0-2");
  EXPECT_EQ(format(result.timeline.classes[2].communication), "collective 0-2");
}

TEST(SimulatorTest, iterationsAndRuns) {
  SimulationProblem problem =
      makeProblem({{Operation::compute(0, 2)}}, {{"a", 0.5, {{0, 1}}, {}}});
  problem.classes[0].phases.push_back(
      {Operation::start(0, 0), Operation::wait(0)});
  problem.classes[0].iteration = {{0, 3}, {1, 1}, {0, 0}};
  Simulation result = run(problem, 4);
  EXPECT_DOUBLE_EQ(result.seconds, 7.5);
  EXPECT_DOUBLE_EQ(result.timeline.seconds, 30);
  EXPECT_DOUBLE_EQ(result.classes[0].exposed, 1.5);
  EXPECT_EQ(result.timeline.classes[0].computation.size(), 16u);
  checkConsistency(problem, result, 4);
}

//===----------------------------------------------------------------------===//
// Against closed forms and against itself
//===----------------------------------------------------------------------===//

Curve makeCurve(double fixed, double perSample) {
  std::string error;
  return Curve::fit({{1, fixed + perSample}, {16, fixed + 16 * perSample}},
                    error)
      .value();
}

/// A synchronous micro-step of stage 3: gather, compute a part; reduce.
Phase makeSynchronousStep(double seconds, int units) {
  Phase phase;
  for (int i = 0; i < units; ++i) {
    phase.push_back(Operation::start(0, 2 * i));
    phase.push_back(Operation::wait(2 * i));
    phase.push_back(Operation::compute(0, seconds / units));
    phase.push_back(Operation::start(1, 2 * i + 1));
    phase.push_back(Operation::wait(2 * i + 1));
  }
  return phase;
}

// BatchProblem.h, stages 2 and 3: T = (s - 1) (S(n) + Tc) + S(m) + Tc.
TEST(SimulatorTest, synchronousStagesMatchClosedForm) {
  constexpr int units = 7;
  SimulationProblem::Collective gather = {"gather", 0.01, {{0, 0.02}}, {}};
  SimulationProblem::Collective reduce = {"reduce", 0.01, {{1, 0.05}}, {}};
  BatchProblem batch;
  batch.zeroStage = 3;
  batch.globalBatch = 3 * (5 + 9) + 2 + 3;
  batch.stepSync = units * (gather.seconds() + reduce.seconds());
  batch.types = {{"slow", 1, makeCurve(0.1, 0.3), 16},
                 {"fast", 1, makeCurve(0.2, 0.1), 16}};
  Allocation allocation;
  allocation.types = {{{{1, {5, 4, 2}}}}, {{{1, {9, 4, 3}}}}};
  allocation.seconds = allocation.predict(batch);
  ASSERT_EQ(allocation.verify(batch), "");

  SimulationProblem problem = makeProblem({{}, {}}, {gather, reduce});
  for (size_t i = 0; i < 2; ++i) {
    RankShare share = allocation.shareOf(i, 0);
    const Curve &curve = batch.types[i].curve;
    problem.classes[i].phases = {
        makeSynchronousStep(curve.seconds(share.microBatch), units),
        makeSynchronousStep(curve.seconds(share.last), units)};
    problem.classes[i].iteration = {{0, share.steps - 1}, {1, 1}};
  }
  EXPECT_NEAR(run(problem).seconds, allocation.seconds, tolerance);
}

// Stages 0 and 1: T = max_i [ (s_i - 1) t_i(b_i) + t_i(l_i) ] + Tc.
TEST(SimulatorTest, iterationMatchesClosedForm) {
  SimulationProblem::Collective reduce = {"reduce", 0.01, {{1, 0.05}}, {}};
  BatchProblem batch;
  batch.zeroStage = 1;
  batch.globalBatch = 3 * 5 + 2 + 9 + 4;
  batch.iterationSync = reduce.seconds();
  batch.types = {{"slow", 1, makeCurve(0.1, 0.3), 16},
                 {"fast", 1, makeCurve(0.2, 0.1), 16}};
  Allocation allocation;
  allocation.types = {{{{1, {5, 4, 2}}}}, {{{1, {9, 2, 4}}}}};
  allocation.seconds = allocation.predict(batch);
  ASSERT_EQ(allocation.verify(batch), "");

  SimulationProblem problem = makeProblem({{}, {}}, {reduce});
  for (size_t i = 0; i < 2; ++i) {
    RankShare share = allocation.shareOf(i, 0);
    const Curve &curve = batch.types[i].curve;
    problem.classes[i].phases = {
        {Operation::compute(0, curve.seconds(share.microBatch))},
        {Operation::compute(0, curve.seconds(share.last)),
         Operation::start(0, 0), Operation::wait(0)}};
    problem.classes[i].iteration = {{0, share.steps - 1}, {1, 1}};
  }
  EXPECT_NEAR(run(problem).seconds, allocation.seconds, tolerance);
}

/// A random program that all classes can run together, with waits at random
/// places. Collectives are of all classes, or of those with an even index.
SimulationProblem makeRandomProblem(std::mt19937 &random) {
  auto pick = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  auto seconds = [&] {
    return std::uniform_real_distribution<double>(0, 1)(random);
  };
  int classes = 1 + pick(4), collectives = 1 + pick(4);
  SimulationProblem problem = makeProblem(std::vector<Phase>(classes), {}, 3);
  std::vector<int> even;
  for (int i = 0; i < classes; i += 2)
    even.push_back(i);
  for (int i = 0; i < collectives; ++i)
    problem.collectives.push_back({"c" + std::to_string(i),
                                   seconds() / 4,
                                   {{0, seconds()}, {pick(2) + 1, seconds()}},
                                   pick(2) ? even : std::vector<int>()});
  std::vector<int> order;
  for (int i = pick(8); i >= 0; --i)
    order.push_back(pick(collectives));
  for (int i = 0; i < classes; ++i) {
    problem.classes[i].ranks = 1 + pick(3);
    Phase &phase = problem.classes[i].phases[0];
    std::vector<int> open;
    auto waitForSome = [&](int most) {
      for (; most > 0 && !open.empty(); --most) {
        phase.push_back(Operation::wait(open.front()));
        open.erase(open.begin());
      }
    };
    for (size_t next = 0; next < order.size(); ++next) {
      phase.push_back(Operation::compute(0, pick(3) ? seconds() : 0));
      if (problem.collectives[order[next]].group.empty() || i % 2 == 0) {
        phase.push_back(Operation::start(order[next], static_cast<int>(next)));
        open.push_back(static_cast<int>(next));
      }
      waitForSome(pick(3));
    }
    waitForSome(static_cast<int>(open.size()));
    problem.classes[i].iteration = {{0, 1 + pick(3)}};
  }
  // All run equally often.
  for (auto &rankClass : problem.classes)
    rankClass.iteration = problem.classes[0].iteration;
  return problem;
}

/// Every rank a class of its own.
SimulationProblem expand(const SimulationProblem &problem,
                         std::vector<size_t> &classOf) {
  SimulationProblem expanded = problem;
  expanded.classes.clear();
  std::vector<std::vector<int>> members(problem.classes.size());
  for (size_t i = 0; i < problem.classes.size(); ++i)
    for (int64_t rank = 0; rank < problem.classes[i].ranks; ++rank) {
      members[i].push_back(static_cast<int>(expanded.classes.size()));
      classOf.push_back(i);
      expanded.classes.push_back(problem.classes[i]);
      expanded.classes.back().ranks = 1;
    }
  for (SimulationProblem::Collective &collective : expanded.collectives) {
    std::vector<int> group;
    for (int index : collective.group)
      group.insert(group.end(), members[index].begin(), members[index].end());
    collective.group = group;
  }
  return expanded;
}

// Rank by rank or class by class is the same, to the last bit.
TEST(SimulatorTest, classesAreWhatTheirRanksAre) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    SimulationProblem problem = makeRandomProblem(random);
    std::vector<size_t> classOf;
    SimulationProblem expanded = expand(problem, classOf);
    Simulation byClass = run(problem, 2), byRank = run(expanded, 2);
    checkConsistency(problem, byClass, 2);
    ASSERT_EQ(byClass.seconds, byRank.seconds) << "trial " << trial;
    for (size_t i = 0; i < classOf.size(); ++i) {
      const auto &one = byClass.timeline.classes[classOf[i]];
      const auto &other = byRank.timeline.classes[i];
      ASSERT_EQ(format(one.computation), format(other.computation));
      ASSERT_EQ(format(one.communication), format(other.communication));
    }
  }
}

/// The same simulation in small steps of time: what is under way goes on at the
/// rates of the moment, ranks look every `step` seconds whether they can go on.
/// Only for collectives that never share a port.
double simulateInSteps(const SimulationProblem &problem, double step) {
  struct Rank {
    std::vector<Operation> program;
    size_t next = 0;
    double busyUntil = 0;
    std::vector<std::pair<int, int>> stream; // collective, token
    std::vector<bool> done;
  };
  std::vector<Rank> ranks;
  for (const auto &rankClass : problem.classes) {
    Rank &rank = ranks.emplace_back();
    for (const auto &part : rankClass.iteration)
      for (int64_t i = 0; i < part.times; ++i)
        for (Operation operation : rankClass.phases[part.phase]) {
          operation.token += static_cast<int>(
              i * static_cast<int64_t>(rankClass.phases[part.phase].size()));
          rank.program.push_back(operation);
        }
    rank.done.resize(rank.program.size() + 1);
  }
  int underWay = -1;
  double rest = 0;
  for (int64_t tick = 0;; ++tick) {
    double now = static_cast<double>(tick) * step;
    bool finished = true;
    for (Rank &rank : ranks) {
      while (rank.next < rank.program.size() && rank.busyUntil <= now) {
        const Operation &operation = rank.program[rank.next];
        if (operation.kind == Operation::Wait && !rank.done[operation.token])
          break;
        if (operation.kind == Operation::Start)
          rank.stream.emplace_back(operation.index, operation.token);
        if (operation.kind == Operation::Compute)
          rank.busyUntil =
              std::max(rank.busyUntil, now - step) + operation.seconds;
        ++rank.next;
      }
      finished &= rank.next == rank.program.size() && rank.busyUntil <= now;
    }
    if (finished)
      return now;
    if (underWay >= 0) {
      rest -= step;
      if (rest > 0)
        continue;
      for (Rank &rank : ranks) {
        rank.done[rank.stream.front().second] = true;
        rank.stream.erase(rank.stream.begin());
      }
      underWay = -1;
    }
    bool all = true;
    for (const Rank &rank : ranks)
      all &= !rank.stream.empty();
    if (all) {
      underWay = ranks.front().stream.front().first;
      rest = problem.collectives[underWay].seconds();
    }
  }
}

TEST(SimulatorTest, matchesSmallSteps) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 100; ++trial) {
    SimulationProblem problem = makeRandomProblem(random);
    for (auto &collective : problem.collectives)
      collective.group.clear();
    // With all of them of all classes, every class starts each.
    SimulationProblem::Phase longest = problem.classes[0].phases[0];
    for (auto &rankClass : problem.classes) {
      rankClass.phases[0] = longest;
      for (Operation &operation : rankClass.phases[0])
        operation.seconds *=
            std::uniform_real_distribution<double>(0.5, 2)(random);
    }
    constexpr double step = 1e-4;
    double expected = simulateInSteps(problem, step);
    // A step late at most for every operation.
    double slack =
        step * static_cast<double>(3 * longest.size() *
                                   problem.classes[0].iteration[0].times);
    EXPECT_NEAR(run(problem).seconds, expected, slack) << "trial " << trial;
  }
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

TEST(SimulatorTest, deadlocksAreNamed) {
  Phase ab = {Operation::start(0, 0), Operation::wait(0),
              Operation::start(1, 1), Operation::wait(1)};
  Phase ba = {Operation::start(1, 0), Operation::wait(0),
              Operation::start(0, 1), Operation::wait(1)};
  std::vector<SimulationProblem::Collective> both = {{"a", 0, {}, {}},
                                                     {"b", 0, {}, {}}};
  EXPECT_EQ(getError(makeProblem({ab, ba}, both)),
            "ranks 'rank 0' wait for ever for collective 'a', to which ranks "
            "'rank 1' do not come");
  EXPECT_EQ(getError(makeProblem({ab, {}}, both)),
            "ranks 'rank 0' wait for ever for collective 'a', to which ranks "
            "'rank 1' do not come");
}

TEST(SimulatorTest, nonsenseIsRefused) {
  std::vector<SimulationProblem::Collective> one = {{"a", 0, {{0, 1}}, {}}};
  auto withPhase = [&](Phase phase) { return makeProblem({phase}, one); };
  EXPECT_EQ(getError({}), "there are no ranks");
  EXPECT_EQ(getError(withPhase({Operation::compute(1, 1)})),
            "class 'rank 0': phases[0]: operations[0]: there is no computation "
            "1");
  EXPECT_EQ(getError(withPhase({Operation::compute(0, NAN)})),
            "class 'rank 0': phases[0]: operations[0]: seconds must be finite "
            "and not negative");
  EXPECT_EQ(getError(withPhase({Operation::wait(0)})),
            "class 'rank 0': phases[0]: operations[0]: waits for token 0, "
            "which nothing has started");
  EXPECT_EQ(getError(withPhase({Operation::start(3, 0), Operation::wait(0)})),
            "class 'rank 0': phases[0]: operations[0]: there is no collective "
            "3");
  EXPECT_EQ(getError(withPhase({Operation::start(0, 0)})),
            "class 'rank 0': phases[0]: does not wait for a collective that it "
            "starts");
  EXPECT_EQ(getError(withPhase({Operation::start(0, 9), Operation::wait(9)})),
            "class 'rank 0': phases[0]: operations[0]: token 9 is not between "
            "0 and the number of operations");

  SimulationProblem problem = makeProblem({{}}, one);
  problem.collectives[0].latency = -1;
  EXPECT_EQ(getError(problem),
            "collective 'a': latency must be finite and not negative");
  problem.collectives[0] = {"a", 0, {{2, 1}}, {}};
  EXPECT_EQ(getError(problem), "collective 'a': uses[0]: there is no port 2");
  problem.collectives[0] = {"a", 0, {{1, 1}, {1, 1}}, {}};
  EXPECT_EQ(getError(problem),
            "collective 'a': uses[1]: ports must be increasing");
  problem.collectives[0] = {"a", 0, {}, {1}};
  EXPECT_EQ(getError(problem), "collective 'a': group: there is no class 1");
  problem.collectives[0] = one[0];
  problem.classes[0].iteration = {{1, 1}};
  EXPECT_EQ(getError(problem),
            "class 'rank 0': iteration: there is no phase 1");
  problem.classes[0].iteration = {{0, -1}};
  EXPECT_EQ(getError(problem),
            "class 'rank 0': iteration: a phase runs -1 times");
  problem.classes[0].iteration = {{0, 1}};
  problem.classes[0].ranks = 0;
  EXPECT_EQ(getError(problem), "class 'rank 0': has 0 ranks");

  SimulationProblem others =
      makeProblem({{Operation::start(0, 0), Operation::wait(0)}, {}}, one);
  others.collectives[0].group = {1};
  EXPECT_EQ(getError(others),
            "class 'rank 0': phases[0]: operations[0]: collective 'a' is of a "
            "group that the class is not in");
  std::string error;
  EXPECT_FALSE(simulate(makeProblem({{}}, one), {0}, error));
  EXPECT_EQ(error, "iterations: 0 is less than one");
}

//===----------------------------------------------------------------------===//
// The trace
//===----------------------------------------------------------------------===//

TEST(TimelineTest, chromeTrace) {
  Timeline timeline;
  timeline.names = {"work", "a \"b\""};
  timeline.classes = {
      {"fast,\tranks 0-1",
       {{0, 0.5, Activity::Compute, 0}, {0.5, 0.75, Activity::WaitForLink, 1}},
       {{0.25, 0.75, Activity::Collective, 1}}}};
  EXPECT_EQ(
      formatChromeTrace(timeline, "plan"),
      R"({"displayTimeUnit": "ms", "otherData": {"title": "plan"}, "traceEvents": [
{"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "fast,\u0009ranks 0-1"}},
{"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "compute"}},
{"name": "thread_name", "ph": "M", "pid": 0, "tid": 1, "args": {"name": "communication"}},
{"name": "work", "ph": "X", "pid": 0, "tid": 0, "ts": 0.000, "dur": 500000.000, "cat": "compute"},
{"name": "wait for link", "ph": "X", "pid": 0, "tid": 0, "ts": 500000.000, "dur": 250000.000, "cat": "wait for link", "args": {"for": "a \"b\""}},
{"name": "a \"b\"", "ph": "X", "pid": 0, "tid": 1, "ts": 250000.000, "dur": 500000.000, "cat": "collective"}
]}
)");
}

} // namespace
