//===- Cores.h - Which cores threads run on ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CORES_H
#define POPLAR_RUNTIME_CORES_H

#include <cstdint>
#include <ctime>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
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

/// The cores that the process could run on when this was first called, before
/// it binds itself to some of them.
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

/// Linux's struct sched_attr, which the C library does not declare.
struct SchedulerAttributes {
  uint32_t Size, Policy;
  uint64_t Flags;
  int32_t Nice;
  uint32_t Priority;
  uint64_t Slice, Deadline, Period;
};

/// Lets this thread, which mostly sleeps and shares a core with computation,
/// have the core as soon as it wakes up. Since version 6.6, Linux lets a thread
/// that computes finish its slice first, until the next tick of up to 4 ms, and
/// since 6.12 it does not if the other asks for shorter slices. A refusal costs
/// speed, not correctness. Until its end, the slices are as before.
class ShortSlices {
public:
  ShortSlices() {
    if (syscall(SYS_sched_getattr, 0, &Before, sizeof(Before), 0) != 0 ||
        Before.Policy != SCHED_OTHER)
      return;
    constexpr uint64_t ShortestNanoseconds = 100'000; // that there is
    SchedulerAttributes Short = Before;
    Short.Size = sizeof(Short);
    Short.Slice = ShortestNanoseconds;
    IsSet = syscall(SYS_sched_setattr, 0, &Short, 0) == 0;
  }
  ~ShortSlices() {
    if (!IsSet)
      return;
    Before.Size = sizeof(Before);
    syscall(SYS_sched_setattr, 0, &Before, 0);
  }
  ShortSlices(const ShortSlices &) = delete;
  ShortSlices &operator=(const ShortSlices &) = delete;

private:
  SchedulerAttributes Before = {};
  bool IsSet = false;
};

/// Processor seconds of this thread.
inline double getThreadSeconds() {
  timespec Time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &Time);
  return static_cast<double>(Time.tv_sec) +
         1e-9 * static_cast<double>(Time.tv_nsec);
}

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CORES_H
