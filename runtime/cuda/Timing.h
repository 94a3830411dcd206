//===- Timing.h - How long each kernel of a GPU takes -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With POPLAR_CUDA_TIMES=FILE, events surround every kernel and every product,
// no graphs are made, and a table is written to FILE when the device goes:
//
//   what,calls,microseconds,flops,bytes
//
// The first call of each kind is left out: libraries load code then.
// `microseconds`, `flops` and `bytes` are sums over the other calls; bytes are
// those of all operands and results, each element once.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_TIMING_H
#define POPLAR_RUNTIME_CUDA_TIMING_H

#include "cuda/Driver.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace poplar::runtime::cuda {

class Timing {
public:
  /// Whether POPLAR_CUDA_TIMES names a file.
  static bool isWanted();

  explicit Timing(Stream Queue);
  ~Timing();
  Timing(const Timing &) = delete;
  Timing &operator=(const Timing &) = delete;

  /// FLOPs and bytes of a call.
  struct Cost {
    double Flops = 0, Bytes = 0;
  };

  /// Runs `Work`, which gives the stream something to do.
  template <typename Function>
  void measure(const std::string &What, Cost Each, Function &&Work) {
    begin();
    Work();
    end(What, Each);
  }

private:
  struct Entry {
    int64_t Calls = 0;
    double Microseconds = 0;
    Cost Total;
  };
  struct Pair {
    Event Begin = nullptr, End = nullptr;
    std::string What;
    Cost Each;
  };

  void begin();
  void end(const std::string &What, Cost Each);
  /// Waits for all pairs in use, and adds their times to the table.
  void collect();

  Stream Queue;
  std::string Path;
  std::vector<Pair> Pairs;
  size_t Used = 0;
  std::map<std::string, Entry> Table;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_TIMING_H
