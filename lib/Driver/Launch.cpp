//===- Launch.cpp - How a job is started ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/Launch.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Support/Names.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <unistd.h>

using namespace poplar;

namespace {
/// Ranks in a row that share node and device type.
struct Run {
  int64_t first, count;
  std::string node, program;
};
} // namespace

static std::vector<Run> findRuns(zero::PlanOp plan) {
  std::vector<Run> runs;
  for (auto [index, rank, program] : llvm::enumerate(
           plan.getRanks(), zero::getProgramNames(zero::readPlan(plan)))) {
    if (!runs.empty() && runs.back().node == rank.getNode() &&
        runs.back().program == program)
      ++runs.back().count;
    else
      runs.push_back({int64_t(index), 1, rank.getNode().str(), program});
  }
  return runs;
}

/// Stopping. mpirun kills its processes soon after a SIGTERM, but passes
/// SIGUSR1 on without a time limit: the ranks agree on a step, save, and leave.
/// It is in a session of its own, which a terminal's Ctrl-C does not reach. The
/// time-out is that of its clean-up after a fault, which it always sleeps out.
static constexpr const char *kLaunchHead = R"sh(#!/bin/sh
# Starts the job: launch.sh train --data FILE --steps N --out RUN ...
#
# Options of mpirun go into MPIRUN_OPTIONS. Its own accounts of failures are left
# out, unless POPLAR_MPIRUN_MESSAGES=1. With POPLAR_LOCAL=1 all ranks run on this
# machine, whatever nodes the plan names. On SIGINT, SIGTERM or SIGHUP the job
# saves a checkpoint and ends, with status 0; a second SIGINT ends it at once.
here=$(dirname "$(readlink -f "$0")") # also through a link
)sh";

/// A Poplar without MPI builds jobs whose ranks meet over TCP.
static constexpr const char *kLaunchMPI =
    R"sh(if [ ! -e "$here/lib/libpoplar_mpi.so" ] && [ -z "$POPLAR_MPI_PLUGIN" ]; then
  if [ -n "$remote" ]; then
    echo "launch.sh: this job was built without MPI and has several nodes;" \
      "start every rank by rank.sh, or all of them here with POPLAR_LOCAL=1" >&2
    exit 1
  fi
  if ! command -v python3 >/dev/null; then
    echo "launch.sh: this job was built without MPI, and there is no python3 to" \
      "start the ranks; on Debian: apt-get install python3" >&2
    exit 1
  fi
  exec python3 "$here/lib/start-ranks.py" "$here" -- "$@"
fi
if ! command -v mpirun >/dev/null; then
  echo "launch.sh: there is no mpirun; on Debian: apt-get install openmpi-bin" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# A directory of its own: mpirun removes the one that jobs would share when it
# is empty, which may be just when another job starts. One that was left by a
# launch.sh that was killed goes as soon as its processes have gone.
sessions=${TMPDIR:-/tmp}/poplar-launch-$(uname -n)
for old in "$sessions".*; do
  [ -O "$old" ] && [ ! -h "$old" ] || continue
  lives=
  for pid in $(cat "$old/processes" 2>/dev/null); do
    [ ! -d "/proc/$pid" ] || lives=yes
  done
  [ -n "$lives" ] || [ ! -e "$old/processes" ] || rm -rf "$old"
done
session=
trap 'rm -rf "$session"; exit 130' INT TERM HUP # until there is a job to stop
session=$(mktemp -d "$sessions.XXXXXX") || exit 1
echo $$ >"$session/processes"
export POPLAR_FAILURE_REPORT="$session/failure"
quiet=--quiet
[ -z "$POPLAR_MPIRUN_MESSAGES" ] || quiet=
)sh";

/// Where no rank can be on another host, mpirun stays off the network
/// (runtime/comm/LauncherGuard.cpp), and so do the ranks (MpiPlugin.cpp).
/// The guard is a link, as paths in LD_PRELOAD have no spaces.
static constexpr const char *kLaunchGuard = R"sh(guard=
if [ -z "$remote$SLURM_JOB_ID$PBS_JOBID$LSB_JOBID$PE_HOSTFILE" ]; then
  case " $MPIRUN_OPTIONS $OMPI_MCA_orte_default_hostfile " in
  *host* | *machinefile* | *" -H "*) ;;
  *) [ ! -e "$here/lib/libpoplar_guard.so" ] || guard=$session/guard.so ;;
  esac
fi
if [ -n "$guard" ]; then
  ln -s "$here/lib/libpoplar_guard.so" "$guard"
  export OMPI_MCA_orte_default_hostfile=none
fi
job=
stopped=
asker=
stop() {
  if [ "$stopped$1" = 130130 ]; then
    kill -KILL $job # and with it, by the kernel, the ranks
  elif [ -z "$asker" ] && [ -n "$job" ]; then
    # Until the ranks listen, mpirun loses what it should pass on.
    while kill -USR1 $job && sleep 1; do :; done >/dev/null 2>&1 &
    asker=$!
  fi
  stopped=$1
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP
(trap '' USR1
exec $(command -v setsid) ${guard:+env "POPLAR_OTHER_PRELOAD=$LD_PRELOAD" \
  "LD_PRELOAD=$guard${LD_PRELOAD:+ $LD_PRELOAD}"} \
  )sh";

static constexpr const char *kLaunchTail = R"sh() &
job=$!
echo $job >>"$session/processes"
early=$stopped
stopped=
[ -z "$early" ] || stop $early
wait $job
status=$?
# A signal interrupts the wait, not the job.
while kill -0 $job 2>/dev/null; do
  wait $job
  status=$?
done
if [ -n "$stopped" ] && { [ $status -eq 137 ] || [ $status -eq 138 ]; }; then
  # 137, 138: SIGKILL, and SIGUSR1 to ranks that did not listen yet
  echo "launch.sh: stopped by a signal before the ranks could save" >&2
  status=$stopped
elif [ $status -ne 0 ] && [ -s "$POPLAR_FAILURE_REPORT" ]; then
  cat "$POPLAR_FAILURE_REPORT" >&2
elif [ $status -ne 0 ] && [ $status -ne 141 ] && [ -n "$quiet" ]; then
  # 141: a reader that is gone
  echo "launch.sh: error: mpirun ended with status $status, and no rank has said" \
    "why; POPLAR_MPIRUN_MESSAGES=1 shows what mpirun says" >&2
fi
[ -z "$asker" ] || kill $asker 2>/dev/null
rm -rf "$session"
exit $status
)sh";

static std::string formatLaunchScript(zero::PlanOp plan) {
  std::vector<Run> runs = findRuns(plan);
  llvm::SmallSet<llvm::StringRef, 8> nodes;
  for (const Run &run : runs)
    nodes.insert(run.node);
  std::string script = kLaunchHead;
  bool several = nodes.size() > 1;
  script += several ? "remote=yes\n[ -z \"$POPLAR_LOCAL\" ] || remote=\n"
                    : "remote=\n";
  script += kLaunchMPI;
  script += kLaunchGuard;
  script +=
      "mpirun $quiet --bind-to none --oversubscribe -x POPLAR_FAILURE_REPORT "
      "${POPLAR_MAX_ISA:+-x POPLAR_MAX_ISA} \\\n  --mca orte_tmpdir_base "
      "\"$session\" "
      "--mca odls_base_sigkill_timeout 2 $MPIRUN_OPTIONS";
  for (const Run &run : runs) {
    script += &run == &runs.front() ? " \\\n  " : " : \\\n  ";
    script += llvm::formatv("-np {0} ", run.count).str();
    if (several)
      script += "${remote:+-host " +
                quoteForShell(run.node + ":" + std::to_string(run.count)) +
                "} ";
    script += "\"$here\"/" + quoteForShell(run.program) + "/train \"$@\"";
  }
  return script + kLaunchTail;
}

static constexpr const char *kRankHead = R"sh(#!/bin/sh
# Runs the program of one rank, the one that RANK says, for launchers that start
# the same command everywhere:
#
#   torchrun --nnodes N --nproc-per-node K ... --no-python rank.sh train --data ...
#
# WORLD_SIZE, MASTER_ADDR and MASTER_PORT say where the ranks meet.
here=$(dirname "$(readlink -f "$0")") # also through a link
case $RANK in
'' | *[!0-9]* | ????????*)
  echo "rank.sh: error: RANK='$RANK': expected the number of a rank" >&2
  exit 1
  ;;
esac
)sh";

static std::string formatRankScript(zero::PlanOp plan) {
  std::string script = kRankHead;
  for (const Run &run : findRuns(plan))
    script += llvm::formatv("[ \"$RANK\" -ge {0} ] || exec "
                            "\"$here\"/{1}/train \"$@\"\n",
                            run.first + run.count, quoteForShell(run.program))
                  .str();
  return script +
         llvm::formatv("echo \"rank.sh: error: RANK=$RANK: the plan has "
                       "ranks 0 to {0}\" >&2\nexit 1\n",
                       plan.getRanks().size() - 1)
             .str();
}

/// A line `FIRST-LAST PROGRAM ARGUMENTS` per run; srun replaces nothing in them
/// that could be "$@", so the user adds the arguments.
static std::string formatSlurmConfiguration(zero::PlanOp plan) {
  std::string text = "# srun --mpi=pmix -n " +
                     std::to_string(plan.getRanks().size()) +
                     " --multi-prog job.conf\n# Append the arguments of train "
                     "to every line.\n";
  for (const Run &run : findRuns(plan))
    text += llvm::formatv("{0}-{1} {2}/train train\n", run.first,
                          run.first + run.count - 1, run.program)
                .str();
  return text;
}

static std::string formatRankTable(zero::PlanOp plan) {
  std::string text = "# rank node program threads micro_batch steps last\n";
  for (auto [index, rank, program] : llvm::enumerate(
           plan.getRanks(), zero::getProgramNames(zero::readPlan(plan))))
    text += llvm::formatv("{0} {1} {2} {3} {4} {5} {6}\n", index,
                          rank.getNode(), program, rank.getThreads(),
                          rank.getMicroBatch(), rank.getSteps(), rank.getLast())
                .str();
  return text;
}

static bool writeScript(const std::string &path, const std::string &text,
                        std::string &error) {
  namespace fs = llvm::sys::fs;
  if (!writeFile(path, text, error))
    return false;
  std::error_code code =
      fs::setPermissions(path, fs::all_read | fs::all_exe | fs::owner_write);
  if (code)
    error = path + ": " + code.message();
  return !code;
}

/// Names that the verifiers let through need no quotes anywhere. Lines of
/// job.conf and ranks.txt could not have any.
static bool checkNames(zero::PlanOp plan, std::string &error) {
  for (zero::RankOp rank : plan.getRanks())
    for (llvm::StringRef name : {rank.getNode(), rank.getDeviceType()})
      if (!isName(name)) {
        error = "the plan names " + showName(name) + ": " + describeNameRule();
        return false;
      }
  return true;
}

bool poplar::isJobFile(llvm::StringRef name) {
  return llvm::any_of(
      llvm::ArrayRef<llvm::StringRef>{kPluginDirectory, "launch.sh", "rank.sh",
                                      "job.conf", "ranks.txt", "slurm.sh",
                                      "plan.mlir", kTokenizerDirectory},
      [&](llvm::StringRef file) { return name.equals_insensitive(file); });
}

bool poplar::copyPlugins(const std::string &libraries,
                         const std::string &directory, std::string &error) {
  namespace fs = llvm::sys::fs;
  std::vector<std::string> files;
  for (const char *name :
       {"libpoplar_mpi.so", "libpoplar_tcp.so", "libpoplar_guard.so"})
    if (fs::exists(libraries + "/" + name))
      files.push_back(libraries + "/" + name);
  files.push_back(libraries + "/../share/poplar/scripts/start-ranks.py");
  // What an installation brings along of the libraries that the runtime is
  // linked with; others are those of the system.
  std::string own = libraries + "/poplar/libraries";
  std::error_code code;
  if (fs::exists(own))
    for (fs::directory_iterator entry(own, code), end; !code && entry != end;
         entry.increment(code))
      files.push_back(entry->path());
  if (code) {
    error = own + ": " + code.message();
    return false;
  }
  std::string destination = directory + "/" + kPluginDirectory.str();
  if (!files.empty() && (code = createDirectories(destination))) {
    error = destination + ": " + code.message();
    return false;
  }
  return llvm::all_of(files, [&](llvm::StringRef from) {
    return copyExecutable(
        from.str(), destination + "/" + llvm::sys::path::filename(from).str(),
        error);
  });
}

/// Copies the chat templates of the directory `from` to `to`, which then holds
/// no others.
static bool copyTemplates(llvm::StringRef from, llvm::StringRef to,
                          std::string &error) {
  namespace fs = llvm::sys::fs;
  fs::remove_directories(to);
  if (!fs::is_directory(from))
    return true;
  std::error_code code = createDirectories(to);
  for (fs::directory_iterator entry(from, code), end; !code && entry != end;
       entry.increment(code)) {
    llvm::SmallString<128> path(to);
    llvm::sys::path::append(path, llvm::sys::path::filename(entry->path()));
    if (llvm::sys::path::extension(path) == ".jinja")
      if ((code = fs::copy_file(entry->path(), path)))
        break;
  }
  if (code)
    error = (from + ": " + code.message()).str();
  return !code;
}

/// Copies what lies beside the tokenizer `from` and belongs to it, and removes
/// what is in `directory` of another one.
static bool copyTokenizerFiles(llvm::StringRef from,
                               const std::string &directory,
                               std::string &error) {
  namespace fs = llvm::sys::fs;
  llvm::StringRef beside = llvm::sys::path::parent_path(from),
                  name = llvm::sys::path::filename(from);
  // What transformers writes for a tokenizer, and reads.
  for (llvm::StringRef file :
       {"tokenizer.json", "tokenizer.model", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "vocab.json",
        "merges.txt", "vocab.txt", "chat_template.jinja", "chat_template.json",
        "generation_config.json"}) {
    if (file == name)
      continue;
    llvm::SmallString<128> source(beside);
    llvm::sys::path::append(source, file);
    std::string path = directory + "/" + file.str();
    if (!fs::exists(source)) {
      if (std::error_code code = fs::remove(path)) {
        error = path + ": " + code.message();
        return false;
      }
      continue;
    }
    auto content = llvm::MemoryBuffer::getFile(source);
    if (!content) {
      error = (source + ": " + content.getError().message()).str();
      return false;
    }
    if (!writeFile(path, (*content)->getBuffer().str(), error))
      return false;
  }
  const std::string templates = "/additional_chat_templates";
  return copyTemplates(beside.str() + templates, directory + templates, error);
}

bool poplar::copyTokenizer(mlir::ModuleOp program, const std::string &job,
                           std::string &error) {
  nn::Model model = nn::Model::of(program);
  llvm::StringRef name = model.getTokenizer().value_or(""),
                  from = model.getTokenizerPath().value_or("");
  if (name.empty())
    return true;
  if (name != "tokenizer.json" && name != "tokenizer.model") {
    error = "nn.model: tokenizer is neither tokenizer.json nor tokenizer.model";
    return false;
  }
  auto file = llvm::MemoryBuffer::getFile(from);
  if (!file) {
    error = (from + ": " + file.getError().message() +
             "; the model was imported with this tokenizer: put it back, or "
             "import the model again")
                .str();
    return false;
  }
  llvm::StringRef text = (*file)->getBuffer();
  uint64_t hash = llvm::xxh3_64bits(text);
  if (llvm::formatv("{0:x-16}", hash).str() != model.getTokenizerHash()) {
    error = (from + ": has changed since the model was imported with it; "
                    "import the model again")
                .str();
    return false;
  }
  std::string directory = job + "/" + kTokenizerDirectory.str();
  if (std::error_code code = createDirectories(directory)) {
    error = directory + ": " + code.message();
    return false;
  }
  return writeFile(directory + "/" + name.str(), text.str(), error) &&
         copyTokenizerFiles(from, directory, error);
}

/// Another plan may have been built there before.
static bool writeSlurmScript(const std::string &path, const std::string &script,
                             std::string &error) {
  if (!script.empty())
    return writeScript(path, script, error);
  std::error_code code = llvm::sys::fs::remove(path);
  if (code)
    error = path + ": " + code.message();
  return !code;
}

bool poplar::writeLaunchFiles(zero::PlanOp plan, const std::string &directory,
                              const std::string &slurmScript,
                              std::string &error) {
  return checkNames(plan, error) &&
         writeScript(directory + "/launch.sh", formatLaunchScript(plan),
                     error) &&
         writeScript(directory + "/rank.sh", formatRankScript(plan), error) &&
         writeFile(directory + "/job.conf", formatSlurmConfiguration(plan),
                   error) &&
         writeFile(directory + "/ranks.txt", formatRankTable(plan), error) &&
         writeSlurmScript(directory + "/slurm.sh", slurmScript, error);
}
