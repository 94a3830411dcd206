//===- EventFile.h - The record of a run for TensorBoard --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RUN/events.out.tfevents.*: what metrics.csv holds, in the form that
// TensorBoard reads. Two formats meet in it, both of which are fixed for good:
// the records of TensorFlow's TFRecord files
//
//   uint64 length, uint32 masked CRC-32C of it, data, uint32 masked CRC-32C
//
// and in each an Event in the wire format of Protocol Buffers, of which four
// fields are used. A library for them would be larger than the executables.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EVENTFILE_H
#define POPLAR_RUNTIME_EVENTFILE_H

#include "job/Metrics.h"

namespace poplar::runtime {

/// Castagnoli's checksum, as RFC 3720 defines it.
uint32_t getCRC32C(const std::string &Data);

/// Each part of a run has a file of its own, which says from which step on it
/// counts: TensorBoard drops later steps of earlier files, as metrics.csv does.
class EventFile {
public:
  EventFile(const std::string &Run, int64_t Resumed);
  ~EventFile();
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;

  /// Adds what is measured of a step.
  void add(const Metrics &Row);
  /// Hands what was added to the system.
  void flush();

private:
  void write(const std::string &Event);

  std::string Path;
  std::FILE *File = nullptr;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EVENTFILE_H
