//===- Cores.h - Which cores threads run on ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CORES_H
#define POPLAR_RUNTIME_CORES_H

#include <ctime>
#include <sched.h>
#include <vector>

namespace poplar::runtime {

/// The cores that this thread may run on, in order; none if that is unknown.
inline std::vector<int> getCores() {
  std::vector<int> Cores;
  cpu_set_t Allowed;
  if (sched_getaffinity(0, sizeof(Allowed), &Allowed) == 0)
    for (int Core = 0; Core < CPU_SETSIZE; ++Core)
      if (CPU_ISSET(Core, &Allowed))
        Cores.push_back(Core);
  return Cores;
}

/// Those that the process could run on when this was first called, which is
/// before it binds itself to some of them.
inline const std::vector<int> &getGivenCores() {
  static const std::vector<int> Cores = getCores();
  return Cores;
}

/// Binds this thread, and those it starts, to `Cores`[First, End). A refusal
/// costs speed, not correctness.
inline void pinToCores(const std::vector<int> &Cores, size_t First,
                       size_t End) {
  cpu_set_t Own;
  CPU_ZERO(&Own);
  for (size_t I = First; I < End; ++I)
    CPU_SET(Cores[I], &Own);
  sched_setaffinity(0, sizeof(Own), &Own);
}

/// For how long this thread has had a core.
inline double getThreadSeconds() {
  timespec Time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &Time);
  return static_cast<double>(Time.tv_sec) +
         1e-9 * static_cast<double>(Time.tv_nsec);
}

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CORES_H
