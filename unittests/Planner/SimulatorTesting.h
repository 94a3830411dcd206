//===- SimulatorTesting.h - Small simulations -------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_PLANNER_SIMULATORTESTING_H
#define POPLAR_UNITTESTS_PLANNER_SIMULATORTESTING_H

#include "Poplar/Planner/Simulation/Simulator.h"
#include <gtest/gtest.h>

namespace poplar {

/// A class whose iteration is one phase.
inline SimulationProblem::RankClass makeClass(std::string name,
                                              SimulationProblem::Phase phase) {
  return {std::move(name), 1, {std::move(phase)}, {{0, 1}}};
}

inline SimulationProblem
makeProblem(std::vector<SimulationProblem::Phase> phases,
            std::vector<SimulationProblem::Collective> list, int ports = 2) {
  SimulationProblem problem;
  problem.ports = ports;
  problem.collectives = std::move(list);
  problem.computations = {"work"};
  for (size_t i = 0; i < phases.size(); ++i)
    problem.classes.push_back(
        makeClass("rank " + std::to_string(i), std::move(phases[i])));
  return problem;
}

inline Simulation run(const SimulationProblem &problem,
                      int64_t iterations = 1) {
  std::string error;
  std::optional<Simulation> result =
      simulate(problem, {iterations, /*recordsTimeline=*/true}, error);
  EXPECT_TRUE(result) << error;
  return result.value_or(Simulation());
}

inline std::string getError(const SimulationProblem &problem) {
  std::string error;
  EXPECT_FALSE(simulate(problem, {}, error));
  return error;
}

/// "compute 0-2, wait for ranks 2-3": times in a stream, as whole numbers.
inline std::string format(const std::vector<Timeline::Interval> &stream) {
  std::string text;
  for (const Timeline::Interval &it : stream) {
    char part[64];
    std::snprintf(part, sizeof(part), "%s%s %g-%g", text.empty() ? "" : ", ",
                  toString(it.activity), it.begin, it.end);
    text += part;
  }
  return text;
}

/// What must hold of every simulation.
inline void checkConsistency(const SimulationProblem &problem,
                             const Simulation &result, int64_t iterations) {
  ASSERT_EQ(result.classes.size(), problem.classes.size());
  for (size_t i = 0; i < result.classes.size(); ++i) {
    const Simulation::ClassSeconds &seconds = result.classes[i];
    EXPECT_NEAR(seconds.computing + seconds.waiting + seconds.exposed,
                result.seconds, 1e-9);
    EXPECT_GE(seconds.waiting, -1e-9);
    EXPECT_GE(seconds.hidden, -1e-9);
    const Timeline::RankClass &lanes = result.timeline.classes[i];
    double computing = 0, exposed = 0, communicating = 0;
    for (const auto *stream : {&lanes.computation, &lanes.communication}) {
      double last = 0;
      for (const Timeline::Interval &it : *stream) {
        EXPECT_GE(it.begin, last - 1e-12);
        EXPECT_GT(it.end, it.begin);
        last = it.end;
        double length = it.end - it.begin;
        computing += it.activity == Timeline::Activity::Compute ? length : 0;
        exposed += it.activity == Timeline::Activity::WaitForLink ? length : 0;
        communicating +=
            it.activity == Timeline::Activity::Collective ? length : 0;
      }
      EXPECT_LE(last, result.timeline.seconds + 1e-12);
    }
    double count = static_cast<double>(iterations);
    EXPECT_NEAR(computing / count, seconds.computing, 1e-9);
    EXPECT_NEAR(exposed / count, seconds.exposed, 1e-9);
    EXPECT_NEAR(communicating / count, seconds.exposed + seconds.hidden, 1e-9);
  }
}

} // namespace poplar

#endif // POPLAR_UNITTESTS_PLANNER_SIMULATORTESTING_H
