//===- DeviceRecord.h - What the devices of a run do ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_DEVICERECORD_H
#define POPLAR_RUNTIME_DEVICERECORD_H

#include "Poplar/Runtime/ABI.h"
#include "program/Collectives.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace poplar::runtime {

/// RUN/devices.csv: every few steps, a row for each rank.
///
///   step           the last of these steps
///   rank, device, host
///   seconds        what the steps since the last row took
///   waiting        of them, in which the rank waited for others
///   communicating  in which it communicated, also while it computed
///   memory         bytes that the program holds on its device
///
/// A rank alone neither waits nor communicates.
class DeviceRecord {
public:
  /// Collective; `Group` is null where the rank is alone. `Bytes` is what this
  /// rank's program holds.
  DeviceRecord(Collectives *Group, const PoplarProgram &Program, int64_t Bytes);
  ~DeviceRecord();
  DeviceRecord(const DeviceRecord &) = delete;
  DeviceRecord &operator=(const DeviceRecord &) = delete;

  /// On the first rank: opens the file in the run's directory, and keeps its
  /// rows up to step `Resumed`.
  void open(const std::string &Run, int64_t Resumed);
  /// Around a step, which took `Seconds`.
  void beginStep();
  void endStep(double Seconds);
  /// Collective: the first rank writes a row for each rank.
  void write(int64_t Step);

private:
  struct Rank {
    std::string Device, Host;
    int64_t Bytes = 0;
  };

  Collectives *Group;
  std::vector<Rank> Ranks;
  std::vector<double> Values;
  /// Since the last row.
  double Seconds = 0;
  Collectives::Times Sums;
  /// Before the step.
  Collectives::Times Before;
  std::string Path;
  std::FILE *File = nullptr;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_DEVICERECORD_H
