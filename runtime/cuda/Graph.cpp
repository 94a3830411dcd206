//===- Graph.cpp - Steps that are recorded and replayed -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Graph.h"
#include "cuda/Timing.h"
#include "support/Error.h"

#include <cstdlib>
#include <cstring>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

static bool areGraphsWanted() {
  const char *Given = std::getenv("POPLAR_CUDA_GRAPHS");
  // Events within a graph have no times.
  if (Timing::isWanted())
    return false;
  return !Given || std::strcmp(Given, "0") != 0;
}

Recorder::Recorder(Stream Queue) : Queue(Queue), Enabled(areGraphsWanted()) {}

Recorder::~Recorder() {
  for (auto &[Key, Known] : Recordings)
    for (const Segment &S : Known.Segments)
      Driver::get().cuGraphExecDestroy(S.Graph);
}

void Recorder::run(PoplarFunction F, void *Context, char *Arena,
                   int64_t Batch) {
  if (!Enabled)
    return F(Context, Arena, Batch);
  Now = &Recordings[{F, Batch}];
  ++Now->Calls;
  if (Now->Calls > 1)
    State = Now->Calls == 2 ? Capturing : Replaying;
  Open = {};
  Number = 0;
  F(Context, Arena, Batch);
  if (State == Off)
    return;
  endSegment();
  if (State == Replaying && Number != Now->Segments.size())
    fail("a step ended before its graphs did; this is a bug, and "
         "POPLAR_CUDA_GRAPHS=0 disables graphs");
  State = Off;
}

bool Recorder::note(uint64_t Work) {
  // Only threads of this one's may not touch the stream: others, such as that
  // of a communicator, have nothing to do with it.
  constexpr int ThreadLocal = 1;
  if (State == Capturing && Open.Count == 0)
    check(Driver::get().cuStreamBeginCapture_v2(Queue, ThreadLocal),
          "begin to capture a graph");
  Open.Work = (Open.Work ^ Work) * 0x100000001B3;
  ++Open.Count;
  return State == Capturing;
}

void Recorder::endSegment() {
  if (Open.Count == 0)
    return;
  const Driver &D = Driver::get();
  if (State == Capturing) {
    Graph Captured = nullptr;
    check(D.cuStreamEndCapture(Queue, &Captured), "capture a graph");
    check(D.cuGraphInstantiateWithFlags(&Open.Graph, Captured, 0),
          "make a graph");
    check(D.cuGraphDestroy(Captured), "make a graph");
    Now->Segments.push_back(Open);
  } else if (Number >= Now->Segments.size() ||
             Now->Segments[Number].Work != Open.Work ||
             Now->Segments[Number].Count != Open.Count) {
    fail("a step is not what was captured of it; this is a bug, and "
         "POPLAR_CUDA_GRAPHS=0 disables graphs");
  }
  check(D.cuGraphLaunch(Now->Segments[Number++].Graph, Queue), "start a graph");
  Open = {};
}
