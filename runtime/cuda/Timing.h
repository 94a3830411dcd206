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
//   what,calls,microseconds,flops
//
// The first call of each kind is left out: libraries load code then.
// `microseconds` and `flops` are sums over the other calls.
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

  /// Runs `Work`, which gives the stream something to do.
  template <typename Function>
  void measure(const std::string &What, double Flops, Function &&Work) {
    begin();
    Work();
    end(What, Flops);
  }

private:
  struct Entry {
    int64_t Calls = 0;
    double Microseconds = 0, Flops = 0;
  };
  struct Pair {
    Event Begin = nullptr, End = nullptr;
    std::string What;
    double Flops = 0;
  };

  void begin();
  void end(const std::string &What, double Flops);
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
