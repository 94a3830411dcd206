//===- Pipeline.cpp - Turns of a pipeline stage ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipeline.h"
#include "Collectives.h"
#include "Executor.h"

#include <algorithm>

using namespace poplar::runtime;

/// How many buffers a rank has of a port, see Runtime/ABI.h.
static int64_t countBuffers(const PoplarPipeline &Stage, const PoplarRank &Rank,
                            int Port) {
  if (Port == POPLAR_SLOT)
    return Rank.in_flight;
  bool IsKept = Port == POPLAR_ACTIVATION_IN ||
                (Port == POPLAR_ACTIVATION_OUT && Stage.keeps_sent);
  return std::min<int64_t>(Rank.steps, IsKept ? Rank.in_flight + 1
                                              : POPLAR_MESSAGE_BUFFERS);
}

static int64_t getPortBytes(const PoplarPipeline &Stage, int Port) {
  return Port == POPLAR_SLOT ? Stage.slot_bytes : Stage.message_bytes[Port];
}

int64_t Pipeline::getBytesPerSample(const PoplarProgram &Program, int Rank) {
  if (!Program.pipeline)
    return 0;
  int64_t Bytes = 0;
  for (int Port = 0; Port < POPLAR_NUM_PORTS; ++Port)
    Bytes += countBuffers(*Program.pipeline, Program.ranks[Rank], Port) *
             getPortBytes(*Program.pipeline, Port);
  return Bytes;
}

Pipeline::Pipeline(Executor &Exec, char *Memory)
    : Exec(Exec), Stage(*Exec.program().pipeline),
      Rank(Exec.program().ranks[Exec.state().rank()]) {
  for (int Port = 0; Port < POPLAR_NUM_PORTS; ++Port) {
    Ring &R = Rings[Port];
    R.Bytes = getPortBytes(Stage, Port);
    R.Count = countBuffers(Stage, Rank, Port);
    R.Stride = Exec.largestBatch() * R.Bytes;
    R.Base = Memory;
    bool IsBefore = Port == POPLAR_ACTIVATION_IN || Port == POPLAR_GRADIENT_OUT;
    R.Peer = static_cast<int>(IsBefore ? Rank.previous : Rank.next);
    R.Messages.assign(static_cast<size_t>(R.Count), -1);
    Memory += R.Count * R.Stride;
  }
  Order.reserve(static_cast<size_t>(Rank.steps));
}

/// Waits for the message of a buffer, if there is one.
void Pipeline::finish(Ring &R, int64_t Number) {
  int &Message = R.message(Number);
  if (Message >= 0)
    Exec.collectives->waitMessage(Message);
  Message = -1;
}

/// Asks for what is received next: as many messages ahead of the `Done` passes
/// as there are buffers for, of which those of `Free` passes have been used.
void Pipeline::post(Ring &R, int Kind, int64_t &Posted, int64_t Done,
                    int64_t Free) {
  auto Count = static_cast<int64_t>(Order.size());
  while (Posted <
         std::min({Count, Done + POPLAR_MESSAGE_BUFFERS, Free + R.Count})) {
    int64_t Bytes = Work->size(Order[static_cast<size_t>(Posted)]) * R.Bytes;
    if (Bytes)
      R.message(Posted) =
          Exec.collectives->receive(R.Peer, Kind, R.at(Posted), Bytes);
    ++Posted;
  }
}

void Pipeline::postReceives() {
  if (Rings[POPLAR_ACTIVATION_IN].exists() && Rank.previous >= 0)
    post(Rings[POPLAR_ACTIVATION_IN], POPLAR_ACTIVATION, PostedActivations,
         Forwards, HasBackward ? Backwards : Forwards);
  if (HasBackward && Rings[POPLAR_GRADIENT_IN].exists())
    post(Rings[POPLAR_GRADIENT_IN], POPLAR_GRADIENT, PostedGradients, Backwards,
         Backwards);
}

void Pipeline::receive(int64_t Kind) {
  bool IsActivation = Kind == POPLAR_ACTIVATION;
  finish(Rings[IsActivation ? POPLAR_ACTIVATION_IN : POPLAR_GRADIENT_IN],
         IsActivation ? Forwards : Backwards);
}

void Pipeline::send(int64_t Kind) {
  bool IsActivation = Kind == POPLAR_ACTIVATION;
  Ring &R = Rings[IsActivation ? POPLAR_ACTIVATION_OUT : POPLAR_GRADIENT_OUT];
  int64_t Number = IsActivation ? Forwards : Backwards;
  int64_t Bytes = Work->size(Order[static_cast<size_t>(Number)]) * R.Bytes;
  if (Bytes)
    R.message(Number) = Exec.collectives->send(R.Peer, static_cast<int>(Kind),
                                               R.at(Number), Bytes);
}

void Pipeline::takeTurn(PoplarTurn Function, int64_t Number, bool IsBackward) {
  Ring &Out = Rings[IsBackward ? POPLAR_GRADIENT_OUT : POPLAR_ACTIVATION_OUT];
  if (Out.exists()) {
    // Its buffer's last message has left; so have all but the last.
    if (Number >= Out.Count)
      finish(Out, Number - Out.Count);
    if (Number >= POPLAR_MESSAGE_BUFFERS)
      finish(Out, Number - POPLAR_MESSAGE_BUFFERS);
  }
  char *Ports[POPLAR_NUM_PORTS];
  for (int Port = 0; Port < POPLAR_NUM_PORTS; ++Port)
    Ports[Port] = Rings[Port].Count ? Rings[Port].at(Number) : nullptr;
  int64_t MicroBatch = Order[static_cast<size_t>(Number)];
  if (!IsBackward)
    Work->fill(MicroBatch, Ports[POPLAR_SLOT]);
  Exec.turn(Function, Ports, Work->size(MicroBatch));
  if (!IsBackward)
    Work->take(MicroBatch);
  ++(IsBackward ? Backwards : Forwards);
  postReceives();
  if (Exec.collectives)
    Exec.collectives->progress();
}

void Pipeline::run(MicroBatches &NewWork, PoplarTurn Forward,
                   const int32_t *Turns) {
  Work = &NewWork;
  HasBackward = Turns != nullptr;
  Forwards = Backwards = PostedActivations = PostedGradients = 0;
  Order.clear();
  int64_t Count = Work->count();
  for (int64_t I = 0; I < (Turns ? 2 * Count : Count); ++I)
    if (!Turns || Turns[I] > 0)
      Order.push_back(Turns ? Turns[I] - 1 : I);
  postReceives();
  for (int64_t I = 0; I < (Turns ? 2 * Count : Count); ++I) {
    bool IsBackward = Turns && Turns[I] < 0;
    if (!IsBackward)
      takeTurn(Forward, Forwards, false);
    else
      takeTurn(Backwards + 1 == Count ? Stage.backward_last : Stage.backward,
               Backwards, true);
  }
  for (int Port : {POPLAR_ACTIVATION_OUT, POPLAR_GRADIENT_OUT})
    for (int64_t I = 0; I < Rings[Port].Count; ++I)
      finish(Rings[Port], I);
}

void Pipeline::train(MicroBatches &Work) {
  run(Work, Stage.forward, Rank.turns);
}

void Pipeline::evaluate(MicroBatches &Work) {
  run(Work, Stage.evaluate, nullptr);
}

void Pipeline::infer(MicroBatches &Work) { run(Work, Stage.infer, nullptr); }
