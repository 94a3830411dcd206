//===- SlurmScript.cpp - A job as Slurm starts it -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/SlurmScript.h"
#include "Poplar/Support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

using namespace poplar;

namespace {

/// The devices of a node that the plan uses.
struct Node {
  std::string name, partition;
  std::vector<int64_t> ranks;
  std::set<std::string> types;
  /// GPUs by Slurm's name for their type.
  std::map<std::string, int64_t> gpus;
  int64_t threads = 1;

  bool isLike(const Node &other) const {
    return partition == other.partition && ranks.size() == other.ranks.size() &&
           types == other.types && gpus == other.gpus &&
           threads == other.threads;
  }
};

/// A row of nodes that are alike, as in the plan.
struct Component {
  Node like;
  int64_t nodes = 1;

  int64_t getTasks() const { return nodes * int64_t(like.ranks.size()); }
};

} // namespace

bool poplar::parseSlurmPlaces(const std::vector<std::string> &texts,
                              SlurmPlaces &places, std::string &error) {
  for (llvm::StringRef text : texts) {
    auto [type, place] = text.split('=');
    auto [partition, gpu] = place.split(':');
    if (!isName(type) || !isName(partition) ||
        (place.contains(':') && !isName(gpu))) {
      error = "--slurm: expected TYPE=PARTITION or TYPE=PARTITION:GPU, found " +
              showName(text) + "; " + describeNameRule();
      return false;
    }
    if (!places.insert({type.str(), {partition.str(), gpu.str()}}).second) {
      error = "--slurm: device type '" + type.str() + "' has two partitions";
      return false;
    }
  }
  return true;
}

static std::string joinTypes(const std::map<std::string, bool> &types) {
  std::vector<std::string> names;
  for (const auto &entry : types)
    names.push_back(entry.first);
  return llvm::join(names, ", ");
}

/// Every type of the plan has a place, and every place belongs to one.
static bool checkTypes(const SlurmPlaces &places,
                       const std::map<std::string, bool> &isGPU,
                       std::string &error) {
  for (const auto &[type, place] : places) {
    auto found = isGPU.find(type);
    if (found == isGPU.end()) {
      error = "--slurm: the plan has no device type '" + type +
              "' (it has: " + joinTypes(isGPU) + ")";
      return false;
    }
    if (!place.gpu.empty() && !found->second) {
      error = "--slurm: device type '" + type +
              "' is no GPU, so Slurm has no '" + place.gpu + "' for it";
      return false;
    }
  }
  for (const auto &entry : isGPU)
    if (!places.count(entry.first)) {
      error = "--slurm: device type '" + entry.first +
              "' has no partition; add --slurm " + entry.first + "=PARTITION";
      return false;
    }
  return true;
}

/// In the order in which the plan names them.
static bool findNodes(zero::PlanOp plan, const SlurmPlaces &places,
                      const std::map<std::string, bool> &isGPU,
                      std::vector<Node> &nodes, std::string &error) {
  for (auto [index, rank] : llvm::enumerate(plan.getRanks())) {
    std::string type = rank.getDeviceType().str();
    const SlurmPlace &place = places.at(type);
    auto node = llvm::find_if(
        nodes, [&](const Node &node) { return node.name == rank.getNode(); });
    if (node == nodes.end()) {
      nodes.push_back({rank.getNode().str(), place.partition, {}, {}, {}});
      node = std::prev(nodes.end());
    }
    if (node->partition != place.partition) {
      error = "--slurm: node '" + node->name + "' has devices in partition '" +
              node->partition + "' and in partition '" + place.partition +
              "'; a node is in one";
      return false;
    }
    node->ranks.push_back(index);
    node->types.insert(type);
    node->threads = std::max<int64_t>(node->threads, rank.getThreads());
    if (isGPU.at(type))
      ++node->gpus[place.gpu];
  }
  return true;
}

/// Whether Slurm could give a component the nodes of another one.
static bool areConfused(const Node &a, const Node &b,
                        const SlurmPlaces &places) {
  if (a.partition != b.partition || a.types == b.types)
    return false;
  auto isNamed = [&](const std::string &type) {
    return !places.at(type).gpu.empty();
  };
  // The names of their GPUs tell nodes apart, if they differ and all have one.
  return !llvm::all_of(a.types, isNamed) || !llvm::all_of(b.types, isNamed) ||
         llvm::any_of(a.gpus,
                      [&](const auto &gpu) { return b.gpus.count(gpu.first); });
}

static bool findComponents(const std::vector<Node> &nodes,
                           const SlurmPlaces &places,
                           std::vector<Component> &components,
                           std::string &error) {
  for (const Node &node : nodes) {
    for (const Component &other : components)
      if (areConfused(node, other.like, places)) {
        error = "--slurm: nodes '" + other.like.name + "' and '" + node.name +
                "' are both in partition '" + node.partition +
                "' but have other device types, which Slurm cannot tell apart; "
                "give their types partitions of their own, or Slurm's names of "
                "the GPUs (TYPE=PARTITION:GPU)";
        return false;
      }
    if (!components.empty() && components.back().like.isLike(node))
      ++components.back().nodes;
    else
      components.push_back({node});
  }
  return true;
}

/// `2`, or `a100:2,v100:1`
static std::string formatGPUs(const Node &node) {
  std::vector<std::string> words;
  for (const auto &[name, count] : node.gpus)
    words.push_back((name.empty() ? "" : name + ":") + std::to_string(count));
  return llvm::join(words, ",");
}

/// What sbatch reads. A signal two minutes before the time limit lets the ranks
/// save.
static std::string formatRequests(const std::vector<Component> &components) {
  std::string text = "#!/bin/sh\n";
  for (const Component &component : components) {
    if (&component != &components.front())
      text += "#SBATCH hetjob\n";
    text += llvm::formatv("#SBATCH --job-name=poplar --signal=TERM@120\n"
                          "#SBATCH --partition={0}\n"
                          "#SBATCH --nodes={1} --ntasks={2} "
                          "--ntasks-per-node={3} --cpus-per-task={4}\n",
                          component.like.partition, component.nodes,
                          component.getTasks(), component.like.ranks.size(),
                          component.like.threads)
                .str();
    if (!component.like.gpus.empty())
      text += "#SBATCH --gpus-per-node=" + formatGPUs(component.like) + "\n";
  }
  return text;
}

static constexpr const char *kHead = R"sh(
# Starts the job on Slurm, one component for each row of equal nodes:
#
#   sbatch --time 8:00:00 slurm.sh train --data FILE --steps N --out RUN ...
#
# Options of sbatch on the command line apply to all components.
fail() {
  echo "slurm.sh: error: $*" >&2
  exit 1
}
[ -n "$SLURM_JOB_ID" ] || fail "not in a job of Slurm; start it by: sbatch $0"
[ $# -gt 0 ] || fail "what the ranks are to do is missing, such as train"
for word; do
  [ "$word" != : ] || fail "srun cannot pass on the word ':'"
done
here=$POPLAR_JOB_DIRECTORY
if [ -z "$here" ]; then
  script=$0
  case $script in
  */slurm_script) # Slurm runs a copy, and knows of what
    script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=//p' | head -n 1)
    script=${script%%/slurm.sh*}/slurm.sh
    ;;
  esac
  here=$(dirname "$(readlink -f "$script")") # also through a link
fi
[ -x "$here/rank.sh" ] ||
  fail "'$here' is not the directory of the job; name it in POPLAR_JOB_DIRECTORY"

# check COMPONENT SUFFIX NODES TASKS PARTITION: what Slurm has given, by the
# variables that end in SUFFIX, is what the plan needs.
hosts=
check() {
  eval "partition=\$SLURM_JOB_PARTITION$2 nodes=\$SLURM_JOB_NUM_NODES$2"
  eval "tasks=\${SLURM_NTASKS$2:-$4} list=\$SLURM_JOB_NODELIST$2"
  [ "$partition" = "$5" ] ||
    fail "component $1 is in partition '$partition'; the plan needs '$5' (poplar build --slurm)"
  [ "$nodes" = "$3" ] || fail "component $1 has $nodes nodes; the plan needs $3"
  [ "$tasks" -ge "$4" ] || fail "component $1 has $tasks tasks; the plan needs $4"
  hosts="$hosts$(scontrol show hostnames "$list")
"
}
)sh";

/// Ranks of two components would take each other's devices on one node.
static constexpr const char *kShared = R"sh(
twice=$(printf %s "$hosts" | sort | uniq -d | head -n 1)
[ -z "$twice" ] ||
  fail "two components have node '$twice'; add --exclusive to the options of sbatch"
)sh";

static constexpr const char *kAddress = R"sh(
first=$(printf %s "$hosts" | head -n 1)
address=$(scontrol show node -o "$first" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p')
[ -n "$address" ] || fail "Slurm knows no address of node '$first'"
# Only this host may know its name as an address of its loopback, as on Debian.
case $address,$(getent ahostsv4 "$address") in
*[!0-9.]*,127.*) address=$($ask getent ahostsv4 "$address" | sed 's/ .*//;q') ;;
esac
[ -n "$address" ] || fail "no other node knows an address of node '$first'"
)sh";

static constexpr const char *kMeeting = R"sh(
# Where the ranks meet, and how they know each other.
export MASTER_ADDR="${MASTER_ADDR:-$address}"
export MASTER_PORT="${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 12000))}"
export POPLAR_JOB_ID="slurm $SLURM_CLUSTER_NAME $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0}"
if [ -z "$POPLAR_SECRET$POPLAR_SECRET_FILE" ]; then
  POPLAR_SECRET=$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
  export POPLAR_SECRET
fi
)sh";

/// Finds the address of rank 0's host.
static std::string formatAddress(const std::vector<Component> &components) {
  size_t last = components.size() - 1;
  if (last == 0 && components[0].nodes == 1)
    return "address=127.0.0.1\n";
  std::string group =
      last ? " --het-group=" + std::to_string(last) : std::string();
  // With one component left, this is its second node: --relative counts within
  // it.
  int64_t node = components[last].nodes - 1;
  return llvm::formatv("ask='srun --mpi=none{0} --nodes=1 --ntasks=1 "
                       "--ntasks-per-node=1 --relative={1}'",
                       group, node)
             .str() +
         kAddress;
}

/// The suffix of the names of Slurm's variables about a component.
static std::string getSuffix(const std::vector<Component> &components,
                             size_t index) {
  return components.size() > 1 ? "_HET_GROUP_" + std::to_string(index) : "";
}

static std::string formatChecks(const std::vector<Component> &components) {
  std::string text = llvm::formatv(
      "[ \"${{SLURM_HET_SIZE:-1}\" = {0} ] ||\n  fail \"the job has "
      "${{SLURM_HET_SIZE:-1} components; the plan needs {0}\"\n",
      components.size());
  for (auto [index, component] : llvm::enumerate(components)) {
    text += llvm::formatv("check {0} '{1}' {2} {3} {4}\n", index,
                          getSuffix(components, index), component.nodes,
                          component.getTasks(),
                          quoteForShell(component.like.partition))
                .str();
  }
  return text;
}

/// Tasks are numbered by node, through all components; ranks as in the plan.
static std::string formatNumbering(const std::vector<Node> &nodes) {
  std::vector<int64_t> ranks;
  for (const Node &node : nodes)
    llvm::append_range(ranks, node.ranks);
  std::string text =
      llvm::formatv("export WORLD_SIZE={0}\n", ranks.size()).str();
  if (llvm::is_sorted(ranks))
    return text + "export POPLAR_RANKS=\n";
  return text + "# Of tasks, in order.\nexport POPLAR_RANKS='" +
         llvm::join(
             llvm::map_range(ranks,
                             [](int64_t rank) { return std::to_string(rank); }),
             " ") +
         "'\n";
}

static constexpr const char *kTask = R"sh(
task='
RANK=$SLURM_PROCID
[ -z "$POPLAR_RANKS" ] || RANK=$(echo "$POPLAR_RANKS" | cut -d " " -f $((RANK + 1)))
export RANK
exec "$0/rank.sh" "$@"'
)sh";

static std::string formatStep(const std::vector<Component> &components) {
  std::string text = "common='--kill-on-bad-exit=1 --export=ALL --mpi=none "
                     "--distribution=block --cpu-bind=none'\nexec srun";
  for (auto [index, component] : llvm::enumerate(components)) {
    text += index ? " : \\\n  $common" : " $common";
    if (components.size() > 1)
      text += llvm::formatv(" --het-group={0}", index).str();
    text += llvm::formatv(" --nodes={0} --ntasks={1} --ntasks-per-node={2} "
                          "--cpus-per-task=${{SLURM_CPUS_PER_TASK{3}:-{4}}",
                          component.nodes, component.getTasks(),
                          component.like.ranks.size(),
                          getSuffix(components, index), component.like.threads)
                .str();
    if (!component.like.gpus.empty())
      text +=
          " --gpus-per-node=" + formatGPUs(component.like) + " --gpu-bind=none";
    text += " \\\n  sh -c \"$task\" \"$here\" \"$@\"";
  }
  return text + "\n";
}

bool poplar::formatSlurmScript(zero::PlanOp plan, const SlurmPlaces &places,
                               const std::map<std::string, bool> &isGPU,
                               std::string &script, std::string &error) {
  std::vector<Node> nodes;
  std::vector<Component> components;
  if (!checkTypes(places, isGPU, error) ||
      !findNodes(plan, places, isGPU, nodes, error) ||
      !findComponents(nodes, places, components, error))
    return false;
  script = formatRequests(components) + kHead + formatChecks(components) +
           (components.size() > 1 ? kShared : "") + formatAddress(components) +
           kMeeting + formatNumbering(nodes) + kTask + formatStep(components);
  return true;
}
