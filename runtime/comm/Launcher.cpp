//===- Launcher.cpp - A process among those of a launcher -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Launcher.h"
#include "support/CommandName.h"
#include "support/Error.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <sys/prctl.h>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

bool comm::isStartedByMpi() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE"))
    return true;
  // srun may start what tells its processes their ranks: torchrun's agents, or
  // the script that poplar build writes. They inherit what srun has set.
  if (isToldItsRank())
    return false;
  // Anything that speaks PMIx; MPICH and its kin; srun. A shell in a Slurm
  // allocation has SLURM_JOB_ID, but only tasks of srun have a step.
  for (const char *Name : {"PMIX_RANK", "PMI_RANK"})
    if (std::getenv(Name))
      return true;
  return std::getenv("SLURM_PROCID") && std::getenv("SLURM_STEP_NUM_TASKS");
}

bool comm::isToldItsRank() {
  return std::getenv("RANK") && std::getenv("WORLD_SIZE");
}

int comm::getNumStarted() {
  for (const char *Name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char *Text = isStartedByMpi() ? std::getenv(Name) : nullptr)
      return std::atoi(Text);
  return isToldItsRank() ? std::atoi(std::getenv("WORLD_SIZE")) : 1;
}

void comm::endWithLauncher() {
  if (!isStartedByMpi())
    return;
  // It may die in between. That it is process 1 means nothing: in a container,
  // mpirun may be.
  pid_t Parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != Parent)
    std::_Exit(1);
}

static volatile std::sig_atomic_t StopRequested = 0;
static std::atomic<pid_t> Launcher{0};

static void requestStop(int) { StopRequested = 1; }

static void continued(int, siginfo_t *Info, void *) {
  // Anyone may continue a stopped process; only the launcher means more by it.
  if (Info->si_code == SI_USER && Info->si_pid == Launcher)
    StopRequested = 1;
}

StopSignals::StopSignals() {
  StopRequested = 0;
  Launcher = isStartedByMpi() ? getppid() : -1;
  struct sigaction Action = {};
  Action.sa_handler = requestStop;
  // Who types it a second time means it; but Slurm repeats its SIGTERM.
  Action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &Action, &OldInterrupt);
  Action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &Action, &OldTerminate);
  sigaction(SIGUSR1, &Action, &OldUser);
  Action.sa_sigaction = continued;
  Action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(SIGCONT, &Action, &OldContinue);
}

StopSignals::~StopSignals() {
  // The process is about to end well; launchers may repeat what they ask for.
  if (StopRequested)
    return;
  sigaction(SIGINT, &OldInterrupt, nullptr);
  sigaction(SIGTERM, &OldTerminate, nullptr);
  sigaction(SIGUSR1, &OldUser, nullptr);
  sigaction(SIGCONT, &OldContinue, nullptr);
}

bool StopSignals::isRequested() { return StopRequested != 0; }

double comm::getStartSeconds() {
  const char *Text = std::getenv("POPLAR_START_SECONDS");
  if (!Text)
    return 60;
  int Seconds = 0;
  const char *End = Text + std::strlen(Text);
  auto [Stop, Code] = std::from_chars(Text, End, Seconds);
  if (Code != std::errc() || Stop != End || Seconds < 1 || Seconds > 1000000)
    fail("POPLAR_START_SECONDS=", Text,
         ": expected a number of seconds, at least 1");
  return Seconds;
}

/// Prints string literals: a signal handler may not compose one.
[[noreturn]] static void endWith(const char *Message) {
  for (const char *Part : {CommandName, Message})
    if (write(STDERR_FILENO, Part, std::strlen(Part)) < 0)
      _exit(2);
  _exit(1);
}

static void endAtStartLimit(int) {
  endWith(": error: the ranks have not all arrived in time: one of them "
          "is stopped, or its host is lost; POPLAR_START_SECONDS allows for "
          "more\n");
}

static void endAfterConnection(int) {
  endWith(": error: all ranks have connected, but one of them does not go "
          "on: it is stopped, or its host is lost\n");
}

StartLimit::StartLimit() {
  signal(SIGALRM, endAtStartLimit);
  // Ranks that call each other have the same limit, and know who is missing.
  constexpr unsigned Grace = 5;
  alarm(static_cast<unsigned>(getStartSeconds()) +
        (isStartedByMpi() ? 0 : Grace));
}

void StartLimit::setConnected() {
  signal(SIGALRM, endAfterConnection);
  alarm(ConnectedSeconds);
}

StartLimit::~StartLimit() {
  alarm(0);
  signal(SIGALRM, SIG_DFL);
}
