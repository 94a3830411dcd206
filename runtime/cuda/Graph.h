//===- Graph.h - Steps that are recorded and replayed -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A micro-step is some hundreds of kernels of a few microseconds each, about
// what it takes the driver to start one. A CUDA graph starts all of them at
// once. For each (function, batch):
//
//   first call    issued as it comes: libraries load what they load lazily
//   second call   captured, and then started as graphs
//   from then on  the graphs are started; the function's calls are compared
//                 with what was captured and otherwise ignored
//
// Work that a graph cannot hold ends it, and the next work begins another:
// copies from and to the host, waits, and the events by which this stream and
// that of collectives wait for each other. An event is waited for as it is when
// the wait is given, and a graph gives all that it holds at once, when it is
// started: one that recorded "gradients are there" and later waited for "they
// are reduced" would have to be started before the reduction, which waits for
// the one, is queued, and after that, to wait for the other. So a function
// without collectives is one graph, and one with collectives is as many as the
// places where these begin and are needed leave. With POPLAR_CUDA_GRAPHS=0,
// nothing is captured.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_GRAPH_H
#define POPLAR_RUNTIME_CUDA_GRAPH_H

#include "Poplar/Runtime/ABI.h"
#include "cuda/Driver.h"

#include <map>
#include <utility>
#include <vector>

namespace poplar::runtime::cuda {

class Recorder {
public:
  /// Records work on a stream, which outlives this.
  explicit Recorder(Stream Queue);
  ~Recorder();
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  /// Calls a function of the program, which calls the two below.
  void run(PoplarFunction F, void *Context, char *Arena, int64_t Batch);

  /// Whether some work is to be given to the stream now: not where a graph does
  /// it. What makes it up is hashed, so that a graph never does something else
  /// than what it was asked for: that is an Error.
  template <typename... Ts> bool issues(Ts... Parts) {
    if (State == Off)
      return true;
    uint64_t Work = 0xCBF29CE484222325;
    ((Work = (Work ^ toWord(Parts)) * 0x100000001B3), ...);
    return note(Work);
  }
  /// To be called before anything that no graph can hold.
  void interrupt() {
    if (State != Off)
      endSegment();
  }

private:
  /// One graph of a function, with a hash of its work and the number of parts.
  struct Segment {
    GraphExec Graph = nullptr;
    uint64_t Work = 0;
    int64_t Count = 0;
  };
  struct Recording {
    int64_t Calls = 0;
    std::vector<Segment> Segments;
  };

  template <typename T> static uint64_t toWord(T Value) {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<uint64_t>(Value);
    else
      return static_cast<uint64_t>(Value);
  }
  bool note(uint64_t Work);
  void endSegment();

  Stream Queue;
  bool Enabled;
  enum { Off, Capturing, Replaying } State = Off;
  std::map<std::pair<PoplarFunction, int64_t>, Recording> Recordings;
  Recording *Now = nullptr;
  /// The segment under way; its number while replaying.
  Segment Open;
  size_t Number = 0;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_GRAPH_H
