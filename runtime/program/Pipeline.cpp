//===- Pipeline.cpp - Turns of a pipeline stage ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Pipeline.h"
#include "Poplar/Runtime/Alignment.h"
#include "program/Collectives.h"
#include "program/Executor.h"

#include <algorithm>
#include <chrono>

using namespace poplar::runtime;

/// How many buffers a rank has of a port, see Runtime/ABI.h.
static int64_t countBuffers(const PoplarPipeline &Stage, const PoplarRank &Rank,
                            int64_t Chunk, int Port) {
  int64_t InFlight = Rank.in_flight[Chunk];
  if (Port == POPLAR_SLOT)
    return InFlight;
  bool IsKept =
      Port == POPLAR_ACTIVATION_IN ||
      (Port == POPLAR_ACTIVATION_OUT && Stage.chunks[Chunk].keeps_sent);
  return std::min<int64_t>(Rank.steps,
                           IsKept ? InFlight + 1 : POPLAR_MESSAGE_BUFFERS);
}

/// Bytes of a sample in a buffer.
static int64_t getPortBytes(const PoplarChunk &Chunk, int Port) {
  if (Port == POPLAR_SLOT)
    return Chunk.slot_bytes;
  return poplar_align(Chunk.message_bytes[Port]);
}

int64_t Pipeline::getBytesPerSample(const PoplarProgram &Program, int Rank) {
  // Buffers of ranks in other groups follow from other programs.
  if (!Program.pipeline || Program.ranks[Rank].group != Program.pipeline->group)
    return 0;
  const PoplarPipeline &Stage = *Program.pipeline;
  int64_t Bytes = 0;
  for (int64_t Chunk = 0; Chunk < Stage.num_chunks; ++Chunk)
    for (int Port = 0; Port < POPLAR_NUM_PORTS; ++Port)
      Bytes += countBuffers(Stage, Program.ranks[Rank], Chunk, Port) *
               getPortBytes(Stage.chunks[Chunk], Port);
  return Bytes;
}

Pipeline::Pipeline(Executor &Exec, char *Memory)
    : Exec(Exec), Stage(*Exec.program().pipeline),
      Rank(Exec.program().ranks[Exec.state().rank()]),
      Chunks(static_cast<size_t>(Stage.num_chunks)) {
  for (int64_t Number = 0; Number < Stage.num_chunks; ++Number) {
    Chunk &C = Chunks[static_cast<size_t>(Number)];
    C.Program = &Stage.chunks[Number];
    C.HasLoss =
        Stage.group + 1 == Stage.num_groups && Number + 1 == Stage.num_chunks;
    for (int Port = 0; Port < POPLAR_NUM_PORTS; ++Port) {
      addRing(C, Number, Port);
      C.Rings[Port].Base = Memory;
      Memory += C.Rings[Port].Count * C.Rings[Port].Stride;
    }
  }
  Order.reserve(static_cast<size_t>(Rank.steps));
}

void Pipeline::addRing(Chunk &C, int64_t Number, int Port) {
  Ring &R = C.Rings[Port];
  R.Count = countBuffers(Stage, Rank, Number, Port);
  R.Stride = Exec.largestBatch() * getPortBytes(*C.Program, Port);
  if (Port == POPLAR_SLOT)
    return;
  R.Bytes = C.Program->message_bytes[Port];
  bool IsActivation =
      Port == POPLAR_ACTIVATION_IN || Port == POPLAR_ACTIVATION_OUT;
  bool IsSent = Port == POPLAR_ACTIVATION_OUT || Port == POPLAR_GRADIENT_OUT;
  bool GoesOn = IsActivation == IsSent; // to or from the stage behind
  R.IsSent = IsSent;
  R.Links = GoesOn ? Rank.next : Rank.previous;
  R.NumLinks = GoesOn ? Rank.num_next : Rank.num_previous;
  R.Messages.assign(static_cast<size_t>(R.Count * R.NumLinks), -1);
  R.Rows = 0;
  for (int64_t L = 0; L < R.NumLinks; ++L)
    R.Rows += R.Links[L].count;
  // The next chunk of the first stage follows the last stage.
  int64_t Receiver = Number;
  if (IsSent && GoesOn && Stage.group + 1 == Stage.num_groups)
    ++Receiver;
  if (IsSent && !GoesOn && Stage.group == 0)
    --Receiver;
  R.Kind = static_cast<int>(2 * Receiver) +
           (IsActivation ? POPLAR_ACTIVATION : POPLAR_GRADIENT);
}

/// Waits for the message of a buffer, if there is one.
void Pipeline::finish(Ring &R, int64_t Number) {
  for (int64_t L = 0; L < R.NumLinks; ++L) {
    int &Message = R.message(Number, L);
    if (Message >= 0)
      Exec.collectives->waitMessage(Message);
    Message = -1;
  }
}

/// Whether messages go over a link. Where ranks share units, each has all of
/// the new tokens when it decodes, and gets them from the first that has its
/// own when it trains.
bool Pipeline::isUsed(const Ring &R, int64_t Link) const {
  if (!Tokens)
    return true;
  if (!R.IsSent)
    return Link == 0;
  const PoplarRank &Receiver = Exec.program().ranks[R.Links[Link].rank];
  return Receiver.previous[0].rank == Exec.state().rank();
}

/// Asks for what is received next: as many messages ahead of the `Done` passes
/// as there are buffers for, of which those of `Free` passes have been used.
void Pipeline::post(Ring &R, int64_t &Posted, int64_t Done, int64_t Free) {
  auto Count = static_cast<int64_t>(Order.size());
  while (Posted <
         std::min({Count, Done + POPLAR_MESSAGE_BUFFERS, Free + R.Count})) {
    int64_t Samples = Work->size(Order[static_cast<size_t>(Posted)]);
    for (int64_t L = 0; Samples && L < R.NumLinks; ++L)
      if (isUsed(R, L))
        R.message(Posted, L) = Exec.collectives->receive(
            static_cast<int>(R.Links[L].rank), R.Kind,
            R.at(Posted, L, Samples, Tokens), R.bytes(L, Samples, Tokens));
    ++Posted;
  }
}

void Pipeline::postReceives(Chunk &C) {
  if (C.Rings[POPLAR_ACTIVATION_IN].exists())
    post(C.Rings[POPLAR_ACTIVATION_IN], C.PostedActivations, C.Forwards,
         HasBackward ? C.Backwards : C.Forwards);
  if (HasBackward && C.Rings[POPLAR_GRADIENT_IN].exists())
    post(C.Rings[POPLAR_GRADIENT_IN], C.PostedGradients, C.Backwards,
         C.Backwards);
}

void Pipeline::receive(int64_t Kind) {
  Chunk &C = *Current;
  bool IsActivation = Kind == POPLAR_ACTIVATION;
  finish(C.Rings[IsActivation ? POPLAR_ACTIVATION_IN : POPLAR_GRADIENT_IN],
         IsActivation ? C.Forwards : C.Backwards);
}

void Pipeline::send(int64_t Kind) {
  Chunk &C = *Current;
  bool IsActivation = Kind == POPLAR_ACTIVATION;
  Ring &R = C.Rings[IsActivation ? POPLAR_ACTIVATION_OUT : POPLAR_GRADIENT_OUT];
  int64_t Number = IsActivation ? C.Forwards : C.Backwards;
  int64_t Samples = Work->size(Order[static_cast<size_t>(Number)]);
  for (int64_t L = 0; Samples && L < R.NumLinks; ++L)
    if (isUsed(R, L))
      R.message(Number, L) = Exec.collectives->send(
          static_cast<int>(R.Links[L].rank), R.Kind,
          R.at(Number, L, Samples, Tokens), R.bytes(L, Samples, Tokens));
}

void Pipeline::takeTurn(Chunk &C, PoplarTurn Function, bool IsBackward) {
  int64_t Number = IsBackward ? C.Backwards : C.Forwards;
  Ring &Out = C.Rings[IsBackward ? POPLAR_GRADIENT_OUT : POPLAR_ACTIVATION_OUT];
  if (Out.exists()) {
    // Its buffer's last message has left; so have all but the last.
    if (Number >= Out.Count)
      finish(Out, Number - Out.Count);
    if (Number >= POPLAR_MESSAGE_BUFFERS)
      finish(Out, Number - POPLAR_MESSAGE_BUFFERS);
  }
  char *Ports[POPLAR_NUM_PORTS];
  for (int Port = 0; Port < POPLAR_NUM_PORTS; ++Port)
    Ports[Port] = C.Rings[Port].Count ? C.Rings[Port].at(Number) : nullptr;
  int64_t MicroBatch = Order[static_cast<size_t>(Number)];
  if (!IsBackward)
    Work->fill(MicroBatch, Ports[POPLAR_SLOT], C.HasLoss);
  Current = &C;
  auto Begin = std::chrono::steady_clock::now();
  Exec.turn(Function, Ports, Work->size(MicroBatch));
  if (Exec.collectives)
    Exec.collectives->recordTurn(IsBackward, MicroBatch, Begin);
  if (!IsBackward && C.HasLoss)
    Work->take(MicroBatch);
  ++(IsBackward ? C.Backwards : C.Forwards);
  postReceives(C);
  if (Exec.collectives)
    Exec.collectives->progress();
}

/// `Order` is set.
void Pipeline::begin(MicroBatches &NewWork, bool Trains) {
  Work = &NewWork;
  HasBackward = Trains;
  for (Chunk &C : Chunks) {
    C.Forwards = C.Backwards = C.PostedActivations = C.PostedGradients = 0;
    postReceives(C);
  }
}

void Pipeline::end() {
  for (Chunk &C : Chunks)
    for (int Port : {POPLAR_ACTIVATION_OUT, POPLAR_GRADIENT_OUT})
      for (int64_t I = 0; I < C.Rings[Port].Count; ++I)
        finish(C.Rings[Port], I);
}

void Pipeline::train(MicroBatches &NewWork) {
  int64_t Count = NewWork.count(), NumTurns = 2 * Count * Stage.num_chunks;
  Order.clear();
  for (int64_t I = 0; I < NumTurns; ++I)
    if (Rank.chunks[I] == 0 && Rank.turns[I] > 0)
      Order.push_back(Rank.turns[I] - 1);
  begin(NewWork, /*Trains=*/true);
  for (int64_t I = 0; I < NumTurns; ++I) {
    Chunk &C = Chunks[static_cast<size_t>(Rank.chunks[I])];
    const PoplarChunk &Program = *C.Program;
    if (Rank.turns[I] > 0)
      takeTurn(C, Program.forward, /*IsBackward=*/false);
    else
      takeTurn(C,
               C.Backwards + 1 == Count ? Program.backward_last
                                        : Program.backward,
               /*IsBackward=*/true);
  }
  end();
}

/// Passes as many micro-batches as there are stages through a chunk, then
/// through the next one: when the last has passed through it, the first is
/// back.
void Pipeline::runForward(MicroBatches &NewWork,
                          PoplarTurn PoplarChunk::*Function) {
  int64_t Count = NewWork.count();
  Order.clear();
  for (int64_t I = 0; I < Count; ++I)
    Order.push_back(I);
  begin(NewWork, /*Trains=*/false);
  for (int64_t First = 0; First < Count; First += Stage.num_groups)
    for (Chunk &C : Chunks)
      for (int64_t I = First; I < std::min(Count, First + Stage.num_groups);
           ++I)
        takeTurn(C, C.Program->*Function, /*IsBackward=*/false);
  end();
}

void Pipeline::evaluate(MicroBatches &NewWork) {
  runForward(NewWork, &PoplarChunk::evaluate);
}

void Pipeline::infer(MicroBatches &NewWork) {
  runForward(NewWork, &PoplarChunk::infer);
}

void Pipeline::decode(MicroBatches &NewWork, bool IsPrompt) {
  const PoplarProgram &Program = Exec.program();
  Tokens = (IsPrompt ? Program.prefill : Program.decode)->tokens;
  runForward(NewWork, IsPrompt ? &PoplarChunk::prefill : &PoplarChunk::decode);
  Tokens = 0;
}
