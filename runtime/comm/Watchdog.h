//===- Watchdog.h - Ends the whole job when one rank fails ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread on every rank. Those of ranks 1, 2, ... hold a TCP connection to
// that of rank 0, over which both send what they are doing five times a second:
//
//   rank 1 --\
//   rank 2 ---+-- rank 0: judges, and tells all
//   rank 3 --/
//
// Rank 0 ends the job, with one line that names rank, host, device type and
// last collective, when
// - a connection breaks: the process is gone, at once,
// - nothing was heard for `LostAfter`: it is stopped, or its host is dead,
// - a rank reports an error of its own: fail(),
// - no progress was made for max(MinStall, StallFactor x the phase's predicted
//   time) by a rank that lives. Those that wait for others are not named.
// The others do the same about rank 0. TCP, so that a rank that hangs inside
// the communication library is found, too, and whatever this library is.
//
// At the end, watchdogs run until the library has ended on all ranks: ranks 1,
// 2, ... send goodbye to rank 0, and leave when rank 0, which has received it
// from all, sends it back. Rank 0 leaves when their connections are closed.
//
// The launcher deals with a process that ends before the watchdog runs, and
// with a stopped process that is left: mpirun continues and then kills it when
// the first one has ended.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_WATCHDOG_H
#define POPLAR_RUNTIME_COMM_WATCHDOG_H

#include "comm/CommStream.h"

#include <string>

namespace poplar::runtime::comm {

struct WatchdogOptions {
  double LostAfter = 4;   // seconds
  double MinStall = 10;   // seconds
  double StallFactor = 5; // times the predicted seconds of a phase
  /// A file that gets the line instead of the terminal, if the path is not
  /// empty: mpirun may lose the last words of its processes.
  std::string ReportPath;
};

/// Writes the line of an error to `ReportPath`, which a launcher prints when
/// the job has ended; if another process has written there already, does
/// nothing. Prints it where the path is empty or cannot be written.
void reportFailure(const std::string &Message, const std::string &ReportPath);

/// The same, with the path that the launcher has set, if it has.
void reportFailure(const std::string &Message);

class Watchdog {
public:
  /// Collective. The stream outlives the watchdog. Throws an Error if a rank
  /// cannot reach rank 0.
  Watchdog(CommStream &Stream, const std::string &DeviceType,
           const WatchdogOptions &O = {});
  /// Without close(), the other ranks take this one for lost.
  ~Watchdog();
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  /// Names the phase that begins, by a literal of less than 32 characters, and
  /// the expected seconds between two signs of progress; 0 if unknown. Called
  /// from the rank's own thread.
  void setPhase(const char *Name, double PredictedSeconds);
  /// A sign of progress; so is the completion of a collective.
  void progress();

  /// Ends the job: rank 0 prints the message with this rank's name, and all
  /// processes exit with status 1. For errors of one rank.
  [[noreturn]] void fail(const std::string &Message);

  /// Orderly end of the stream, and then of the watchdogs; collective. Throws
  /// what goes wrong in the stream: then comes fail().
  void close();

  /// `vm, host:avx2-f32`
  const std::string &getName() const;

private:
  struct Impl;
  std::unique_ptr<Impl> I;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_WATCHDOG_H
