//===- SimulatorMessagesTest.cpp - Messages of a simulation ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimulatorTesting.h"

using namespace poplar;

namespace {

using Operation = SimulationProblem::Operation;
using Phase = SimulationProblem::Phase;

/// Rank 0 sends, rank 1 receives, by channel 0.
SimulationProblem
makeChannel(Phase sender, Phase receiver,
            std::vector<SimulationProblem::Collective> messages) {
  SimulationProblem problem = makeProblem(
      {std::move(sender), std::move(receiver)}, std::move(messages));
  problem.channels = {{"activations", 0, 1}};
  return problem;
}

// The message leaves at 1 and takes 0.5 + 2; its receiver is ready at 0.
TEST(SimulatorTest, messageIsWaitedFor) {
  SimulationProblem problem = makeChannel(
      {Operation::compute(0, 1), Operation::send(0, 0),
       Operation::compute(0, 4)},
      {Operation::post(0), Operation::receive(0), Operation::compute(0, 1)},
      {{"m", 0.5, {{0, 2}}, {}}});
  Simulation result = run(problem);
  EXPECT_EQ(format(result.timeline.classes[0].computation),
            "compute 0-1, compute 1-5");
  EXPECT_EQ(format(result.timeline.classes[1].computation),
            "wait for ranks 0-1, wait for link 1-3.5, compute 3.5-4.5");
  ASSERT_EQ(result.timeline.classes[0].channels.size(), 1u);
  EXPECT_EQ(result.timeline.classes[0].channels[0].name, "activations, out");
  EXPECT_EQ(format(result.timeline.classes[1].channels[0].messages),
            "collective 1-3.5");
  EXPECT_DOUBLE_EQ(result.seconds, 5);
  EXPECT_DOUBLE_EQ(result.classes[0].hidden, 2.5);
  EXPECT_DOUBLE_EQ(result.classes[1].exposed, 2.5);
  EXPECT_DOUBLE_EQ(result.classes[1].waiting, 1.5);
}

// The second message waits for memory at 6, the third for the second.
TEST(SimulatorTest, messagesNeedMemory) {
  SimulationProblem problem = makeChannel(
      {Operation::send(0, 0), Operation::send(0, 0), Operation::send(0, 0),
       Operation::flush(0, 1), Operation::compute(0, 1),
       Operation::flush(0, 0)},
      {Operation::post(0), Operation::receive(0), Operation::compute(0, 5),
       Operation::post(0), Operation::post(0), Operation::receive(0),
       Operation::receive(0)},
      {{"m", 0, {{0, 1}}, {}}});
  Simulation result = run(problem);
  EXPECT_EQ(format(result.timeline.classes[1].channels[0].messages),
            "collective 0-1, collective 6-7, collective 7-8");
  EXPECT_EQ(format(result.timeline.classes[0].computation),
            "wait for ranks 0-6, wait for link 6-7, compute 7-8");
  EXPECT_EQ(format(result.timeline.classes[1].computation),
            "wait for link 0-1, compute 1-6, wait for link 6-7, wait for link "
            "7-8");
}

// A message and a collective share a port while both are under way; the
// sender pays for what it copies while it computes, as the receiver does not.
TEST(SimulatorTest, messagesSharePortsAndCores) {
  SimulationProblem problem =
      makeChannel({Operation::send(1, 0), Operation::start(0, 0),
                   Operation::compute(0, 4), Operation::wait(0)},
                  {Operation::post(0), Operation::start(0, 0),
                   Operation::receive(0), Operation::wait(0)},
                  {{"c", 0, {{0, 2}}, {}}, {"m", 0, {{0, 2}}, {}, 0.5}});
  Simulation result = run(problem);
  EXPECT_EQ(format(result.timeline.classes[0].communication), "collective 0-4");
  EXPECT_EQ(format(result.timeline.classes[0].channels[0].messages),
            "collective 0-4");
  EXPECT_DOUBLE_EQ(result.classes[0].computing, 4.5);
  EXPECT_DOUBLE_EQ(result.classes[1].computing, 0);
}

TEST(SimulatorTest, errorsOfMessages) {
  SimulationProblem problem =
      makeChannel({Operation::send(0, 0)},
                  {Operation::post(0), Operation::receive(0),
                   Operation::post(0), Operation::receive(0)},
                  {{"m", 0, {{0, 1}}, {}}});
  EXPECT_EQ(getError(problem), "ranks 'rank 1' wait for ever for 'rank 0' to "
                               "send message 1 of 'activations'");
  problem.classes[0].phases[0].push_back(Operation::send(0, 0));
  problem.classes[0].phases[0].push_back(Operation::flush(0, 0));
  problem.classes[1].phases[0] = {Operation::post(0), Operation::receive(0)};
  EXPECT_EQ(getError(problem), "ranks 'rank 0' wait for ever for 'rank 1' to "
                               "take message 1 of 'activations'");
  problem.classes[1].phases[0].push_back(Operation::send(0, 0));
  EXPECT_EQ(getError(problem),
            "class 'rank 1': phases[0]: operations[2]: channel 'activations' "
            "does not begin at the class");
  problem.classes[1].phases[0].back() = Operation::receive(1);
  EXPECT_EQ(getError(problem), "class 'rank 1': phases[0]: operations[2]: "
                               "there is no channel 1");
  problem.classes[1].phases[0].pop_back();
  problem.classes[0].phases[0].back() = Operation::send(3, 0);
  EXPECT_EQ(getError(problem), "class 'rank 0': phases[0]: operations[2]: "
                               "there is no message 3");
  problem.channels[0].to = 2;
  EXPECT_EQ(getError(problem),
            "channel 'activations' is of a class that there is not");
}

} // namespace
