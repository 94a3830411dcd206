//===- Launcher.h - A process among those of a launcher ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How mpirun and srun treat their processes, and what a process does about it.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_LAUNCHER_H
#define POPLAR_RUNTIME_COMM_LAUNCHER_H

#include <csignal>

namespace poplar::runtime::comm {

/// Whether this process was started by mpirun, or by srun or the like without
/// being told its rank.
bool isStartedByMpi();
/// Whether the environment tells this process its rank, as torchrun does: RANK
/// and WORLD_SIZE. Rank 0 is then found at MASTER_ADDR and MASTER_PORT.
bool isToldItsRank();
/// How many ranks the launcher says that it started; 1 without one.
int getNumStarted();

/// Makes the kernel kill this process when its parent, the launcher, dies. Call
/// it first thing in main, from the main thread; does nothing for a process
/// that was not started by a launcher.
void endWithLauncher();

/// How long ranks wait for each other at the start: POPLAR_START_SECONDS,
/// or 60. An Error if it is no number of seconds.
double getStartSeconds();

/// While one lives, the process has to get through its start: until the
/// watchdog runs, nobody else would notice that a rank does not arrive. Ends
/// the process, and with it the job, when getStartSeconds() are over, or
/// ConnectedSeconds after all ranks have connected: connected ranks have little
/// left to do, so one that does not finish it is stopped.
class StartLimit {
public:
  static constexpr unsigned ConnectedSeconds = 8;

  StartLimit();
  ~StartLimit();
  /// May be called from any thread.
  void setConnected();
  StartLimit(const StartLimit &) = delete;
  StartLimit &operator=(const StartLimit &) = delete;
};

/// While one lives, signals that ask for a stop are noted instead of ending the
/// process: SIGINT and SIGTERM; SIGUSR1, which mpirun passes on to all ranks,
/// without a time limit; and SIGCONT from mpirun, with which it announces,
/// when it got a SIGTERM itself, that it will kill its processes after twice
/// its odls_base_sigkill_timeout. A second SIGINT ends the process. Once a stop
/// is requested, the signals stay without effect to the end of the process.
///
/// Ranks get signals at different moments, so they stop at the step on which
/// they agree: by an allReduceMax of isRequested().
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  static bool isRequested();

private:
  struct sigaction OldInterrupt, OldTerminate, OldUser, OldContinue;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_LAUNCHER_H
