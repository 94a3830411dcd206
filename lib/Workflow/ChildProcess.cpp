//===- ChildProcess.cpp - A command and its signals -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The child has a process group of its own. A terminal sends Ctrl-C to its
// foreground group, which would reach the child a second time beside the signal
// that is passed on; and a second one ends a job without a checkpoint.
//
//===----------------------------------------------------------------------===//

#include "ChildProcess.h"
#include "Poplar/Workflow/StageRunner.h"
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <iterator>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace poplar;

/// How commands learn that a workflow runs them, and says itself what is next.
static constexpr const char *kVariable = "POPLAR_WORKFLOW";

bool poplar::runsInWorkflow() { return std::getenv(kVariable) != nullptr; }

static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

/// What sends a signal to a process may send it to the process's group, too.
/// Nobody presses Ctrl-C twice in so many seconds.
static constexpr double kSameSignal = 0.2;

static volatile sig_atomic_t child = 0, lastSignal = 0;
static timespec lastTime;

static void passOn(int signal) {
  int code = errno;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double since = double(now.tv_sec - lastTime.tv_sec) +
                 1e-9 * double(now.tv_nsec - lastTime.tv_nsec);
  bool isNew = lastSignal != signal || since > kSameSignal;
  lastSignal = signal;
  lastTime = now;
  if (child > 0 && isNew)
    kill(-child, signal);
  errno = code;
}

namespace {
/// Passes signals on while it lives.
class SignalHandlers {
public:
  SignalHandlers() {
    struct sigaction action = {};
    action.sa_handler = passOn;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &action, &old[i]);
  }
  ~SignalHandlers() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &old[i], nullptr);
  }

private:
  struct sigaction old[std::size(kSignals)];
};
} // namespace

/// Replaces a descriptor of this process by a file.
static bool redirect(const char *path, int flags, int descriptor) {
  int file = open(path, flags, 0666);
  return file >= 0 && dup2(file, descriptor) >= 0 && close(file) == 0;
}

/// In the child: becomes the program, or reports an error of `errno`.
[[noreturn]] static void become(const std::vector<char *> &words,
                                const std::string &output, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (int signal : kSignals)
    std::signal(signal, SIG_DFL);
  setenv(kVariable, "1", /*overwrite=*/1);
  // A program in the background must not read from the terminal.
  if (redirect("/dev/null", O_RDONLY, STDIN_FILENO) &&
      (output.empty() ||
       (redirect(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO) &&
        dup2(STDOUT_FILENO, STDERR_FILENO) >= 0)))
    execv(words.front(), words.data());
  int code = errno;
  if (write(report, &code, sizeof(code)) < 0)
    _exit(126);
  _exit(127);
}

bool poplar::runChild(const std::vector<std::string> &words,
                      const std::string &output, ChildEnd &end,
                      std::string &error) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  // Closed by a program that starts.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    error = words.front() + ": " + std::strerror(errno);
    return false;
  }
  lastSignal = 0;
  SignalHandlers handlers;
  pid_t process = fork();
  if (process == 0)
    become(argv, output, report[1]);
  close(report[1]);
  if (process > 0) {
    setpgid(process, process);
    child = process;
    // One that came before the child had a number.
    if (lastSignal)
      kill(-process, lastSignal);
  }
  int code = process < 0 ? errno : 0;
  ssize_t got;
  while (process > 0 && (got = read(report[0], &code, sizeof(code))) < 0 &&
         errno == EINTR)
    continue;
  close(report[0]);
  int status = 0;
  while (process > 0 && waitpid(process, &status, 0) < 0 && errno == EINTR)
    continue;
  child = 0;
  if (code != 0) {
    error = words.front() + ": " + std::strerror(code);
    return false;
  }
  end.status =
      WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  end.stopped = lastSignal != 0;
  return true;
}
