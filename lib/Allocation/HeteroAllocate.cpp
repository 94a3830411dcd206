//===- HeteroAllocate.cpp - Give every rank its batch ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Allocation/HeteroAllocate.h"
#include "ModelRemedies.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Cluster/HostRounding.h"
#include "Poplar/Planner/Zero/PlanRemedies.h"
#include "Poplar/Planner/Zero/PlanReview.h"
#include "Poplar/Planner/Zero/PlanShortlist.h"
#include "Poplar/Simulation/CandidateSimulator.h"
#include "Poplar/Simulation/DerivedProfiles.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include <algorithm>
#include <limits>

namespace poplar {
#define GEN_PASS_DEF_HETEROALLOCATE
#include "Poplar/Allocation/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class HeteroAllocatePass
    : public poplar::impl::HeteroAllocateBase<HeteroAllocatePass> {
public:
  using Base::Base;
  HeteroAllocatePass(HeteroAllocateOptions options,
                     const OverlapOptions &overlap)
      : Base(std::move(options)), overlap(overlap) {}
  void runOnOperation() override;

private:
  /// From the options; fails, with an error said, if one has no such value.
  LogicalResult readChoices();
  /// Reads an option that is `auto` or `off`.
  LogicalResult readSwitch(StringRef name, StringRef value, StringRef off,
                           bool &isOn);
  std::optional<std::pair<int, std::string>> findClosestStage() const;
  void refuse(const PlanSearchResult &result, const BatchPolicy &algorithm);
  LogicalResult readLayers();
  void setRecompute(const PlanCandidate &plan);
  /// The cluster with the profiles that a plan rests on.
  ClusterView getView(const PlanCandidate &plan) const;
  /// The largest relative uncertainty of the estimates among the profiles that
  /// a plan rests on; nothing if all are measured.
  std::optional<double> getUncertainty(const PlanCandidate &plan) const;
  /// As it is written.
  Plan describe(const PlanCandidate &candidate) const;
  LogicalResult takeFastest(const PlanSearchResult &result,
                            const BatchPolicy &algorithm);
  /// With `allow-lossy`: what collectives may carry, the least loss first.
  LogicalResult checkLossy();

  /// How the programs that are simulated overlap.
  OverlapOptions overlap;
  ClusterView cluster;
  ModelFacts model;
  PlanChoices choices;
  /// No plan of the choices is predicted to take less. Not known of a policy
  /// that does not look for the least, nor where collectives may round.
  std::optional<double> lowerBound;
};

} // namespace

LogicalResult HeteroAllocatePass::readSwitch(StringRef name, StringRef value,
                                             StringRef off, bool &isOn) {
  isOn = value == "auto";
  if (value == "auto" || value == off)
    return success();
  return getOperation().emitError("option ")
         << name << " must be auto or " << off << ", not '" << value << "'";
}

LogicalResult HeteroAllocatePass::readChoices() {
  choices = PlanChoices();
  choices.globalBatch = globalBatch;
  int number;
  if (stage != "auto") {
    if (StringRef(stage).getAsInteger(10, number) || number < 0 || number > 3)
      return getOperation().emitError(
                 "option zero must be 0, 1, 2, 3 or auto, not '")
             << stage.getValue() << "'";
    choices.stages = {number};
  }
  choices.shardings = readShardings(state);
  if (choices.shardings.empty())
    return getOperation().emitError("option state must be equal, memory, "
                                    "replicated or auto, not '")
           << state.getValue() << "'";
  if (state == "auto" && policy != "exact")
    choices.shardings = {Sharding::Equal};
  // Nothing is sharded in stage 0.
  if (state == toString(Sharding::Replicated))
    llvm::erase(choices.stages, 0);
  if (choices.stages.empty())
    return getOperation().emitError("option state is replicated, but in stage "
                                    "0 nothing is sharded: take another stage");
  if (failed(readSwitch("leave-out", leaveOut, "none", choices.leaveOut)) ||
      failed(readSwitch("recompute", recompute, "as-set",
                        choices.chooseRecompute)))
    return failure();
  // Baselines are what they are: only the optimum is over all devices. Without
  // recomputing what has to be, they would often be nothing.
  choices.leaveOut &= policy == "exact";
  return success();
}

/// Bytes that the device which comes closest lacks to hold a sample in a job of
/// all devices. None where a device holds one, or where memory is not what is
/// lacking.
static std::optional<int64_t> findShortage(ClusterView cluster,
                                           const ModelFacts &model, int stage,
                                           int64_t globalBatch) {
  std::vector<int64_t> memory;
  for (DeviceType &type : cluster.types) {
    memory.push_back(type.memory);
    type.memory = int64_t(1) << 42;
  }
  std::vector<double> state;
  std::string error;
  std::optional<BatchProblem> problem = poseProblem(
      cluster, model, stage, Sharding::Equal, globalBatch, state, error);
  if (!problem)
    return std::nullopt;
  std::optional<int64_t> least;
  for (const BatchProblem::DeviceType &type : problem->types) {
    if (type.count == 0)
      continue;
    int64_t bytes = type.fixedBytes + type.bytesPerSample -
                    memory[*cluster.findType(type.name)];
    least = std::min(bytes, least.value_or(bytes));
  }
  return least && *least > 0 ? least : std::nullopt;
}

/// The stage, and what it says, whose job of all devices lacks the least
/// memory: a lower stage, which gathers nothing, may lack less than a higher
/// one.
std::optional<std::pair<int, std::string>>
HeteroAllocatePass::findClosestStage() const {
  std::optional<std::pair<int, std::string>> closest;
  // Not of all devices, or memory may not be what is lacking.
  if (StringRef(policy).starts_with("homogeneous:") ||
      choices.shardings.front() == Sharding::Replicated)
    return closest;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int stage : choices.stages)
    for (Recomputation recompute : listWords<RecomputePolicy>()) {
      ClusterView view = cluster;
      for (auto [index, type] : llvm::enumerate(view.types))
        if (choices.chooseRecompute &&
            llvm::is_contained(
                getProfiledRecompute(cluster, model, int(index), stage),
                recompute))
          type.recompute = recompute;
      // The last stage wins among equals.
      std::optional<int64_t> bytes =
          findShortage(view, model, stage, choices.globalBatch);
      if (!bytes || *bytes > least ||
          (*bytes == least && stage <= closest->first))
        continue;
      least = *bytes;
      std::vector<double> state;
      std::string error;
      poseProblem(view, model, stage, Sharding::Equal, choices.globalBatch,
                  state, error);
      closest = {stage, error};
    }
  return closest;
}

/// Says of the stage that lacks the least memory, or else the last one, what is
/// in the way, and what would help, in the message itself: `poplar plan` prints
/// no notes.
void HeteroAllocatePass::refuse(const PlanSearchResult &result,
                                const BatchPolicy &algorithm) {
  const PlanOutcome *last = nullptr;
  for (const PlanOutcome &outcome : result.outcomes)
    if (!last || outcome.stage > last->stage)
      last = &outcome;
  auto [closest, reason] =
      findClosestStage().value_or(std::pair(last->stage, last->error));
  InFlightDiagnostic diagnostic =
      getOperation().emitError("has no plan in ")
      << (choices.stages.size() > 1 ? "any stage; in " : "") << "stage "
      << closest << ": " << reason;
  std::vector<std::string> found;
  if (remedies) {
    found =
        findModelRemedies(getOperation(), cluster, model, algorithm, choices,
                          /*triesPipelines=*/simulate && policy == "exact");
    llvm::append_range(found, findRemedies(cluster, model, algorithm, choices));
  }
  StringRef separator = "; it would fit ";
  for (const std::string &remedy : found) {
    diagnostic << separator << remedy;
    separator = ", or ";
  }
  int noted = -1;
  for (const PlanOutcome &outcome : result.outcomes)
    if (outcome.stage != closest && outcome.stage != noted) {
      noted = outcome.stage;
      diagnostic.attachNote()
          << "in stage " << outcome.stage << ": " << outcome.error;
    }
}

/// What a type recomputes is said where all else is said of it. Profiles that
/// leave it to the type were made with what it was set to before.
void HeteroAllocatePass::setRecompute(const PlanCandidate &plan) {
  for (auto [index, type] :
       llvm::enumerate(getOperation().getOps<cluster::DeviceTypeOp>())) {
    Recomputation policy = plan.recompute[index];
    if (type.getRecompute() == policy)
      continue;
    for (auto profile : getOperation().getOps<cluster::ProfileOp>())
      if (profile.getDeviceType() == type.getSymName() &&
          !profile.getRecompute())
        profile.setRecompute(type.getRecompute());
    type.setRecompute(policy);
  }
  Operation *last = nullptr;
  for (Operation &op : *getOperation().getBody())
    if (isa<cluster::ProfileOp>(op))
      last = &op;
  for (const DeviceProfile &profile : plan.derived)
    last =
        addProfile(last, profile, cluster, describeSource(profile.recompute));
}

/// What types may recompute in some of the layers. Programs of the model say
/// it: none are made where nothing is to be chosen.
LogicalResult HeteroAllocatePass::readLayers() {
  auto entry = nn::findEntry<func::FuncOp>(getOperation(), nn::Entry::Model);
  if (!choices.chooseRecompute || !entry || entry.isExternal() ||
      getOperation().getOps<zero::BucketOp>().empty())
    return success();
  auto layers = getRecomputedLayers(getOperation(), cluster);
  if (failed(layers))
    return failure();
  choices.layers = std::move(*layers);
  return success();
}

ClusterView HeteroAllocatePass::getView(const PlanCandidate &plan) const {
  ClusterView view = cluster;
  for (auto [type, recompute] : llvm::zip_equal(view.types, plan.recompute))
    type.recompute = recompute;
  llvm::append_range(view.profiles, plan.derived);
  return view;
}

std::optional<double>
HeteroAllocatePass::getUncertainty(const PlanCandidate &plan) const {
  ClusterView chosen = getView(plan);
  std::optional<double> uncertainty;
  for (int rank : plan.ranks) {
    const DeviceProfile *profile = chosen.findProfile(
        chosen.ranks[rank].type, plan.stage, model.fingerprint);
    if (!profile || !profile->isEstimate)
      continue;
    uncertainty = uncertainty.value_or(0);
    for (double spread : profile->spread)
      uncertainty = std::max(*uncertainty, spread);
  }
  return uncertainty;
}

Plan HeteroAllocatePass::describe(const PlanCandidate &candidate) const {
  Plan plan = writePlan(cluster, candidate);
  plan.policy = policy;
  plan.predicted = candidate.allocation.seconds;
  plan.lowerBound = lowerBound;
  plan.uncertainty = getUncertainty(candidate);
  return plan;
}

std::vector<LossyWires> poplar::listLossyWires(const ClusterView &cluster) {
  // Where ranks exchange parameters in 16 bits, bf16 gains nothing.
  constexpr auto half = WireFormat::BF16, blocks = WireFormat::I8;
  if (getExactWire(cluster) != WireFormat::F32)
    return {{half, std::nullopt}, {blocks, std::nullopt}, {blocks, blocks}};
  return {{half, std::nullopt},
          {half, half},
          {blocks, std::nullopt},
          {blocks, half},
          {blocks, blocks}};
}

/// Whether a plan rounds all that it may: nothing is lost inside of a node, and
/// in stage 0 parameters are not sent. Where others of the cluster compute in
/// f32, its own devices may not.
static bool usesWires(const ClusterView &cluster,
                      const PlanCandidate &candidate) {
  int first = cluster.ranks[candidate.ranks.front()].node;
  bool crosses = llvm::any_of(candidate.ranks, [&](int rank) {
    return cluster.ranks[rank].node != first;
  });
  std::optional<WireFormat> parameters = candidate.wires.parameters;
  if (!crosses || !parameters)
    return crosses;
  return candidate.stage > 0 &&
         getElementBytes(*parameters) <
             getElementBytes(getExactWire(cluster, candidate.ranks));
}

LogicalResult HeteroAllocatePass::checkLossy() {
  if (allowLossy && !simulate)
    return getOperation().emitError("option allow-lossy needs the option "
                                    "simulate, which decides what to round");
  return success();
}

/// Takes the best by simulation among the best plans by the closed form.
LogicalResult HeteroAllocatePass::takeFastest(const PlanSearchResult &result,
                                              const BatchPolicy &algorithm) {
  std::vector<PlanCandidate> candidates =
      shortlistPlans(cluster, model, algorithm, choices, result);
  for (const LossyWires &wires :
       allowLossy ? listLossyWires(cluster) : std::vector<LossyWires>()) {
    ClusterView lossy = withWires(cluster, wires);
    PlanSearchResult found = searchPlans(lossy, model, algorithm, choices);
    for (PlanCandidate &candidate :
         shortlistPlans(lossy, model, algorithm, choices, found))
      if (usesWires(cluster, candidate))
        candidates.push_back(std::move(candidate));
  }
  CandidateSimulator simulator(getOperation(), overlap);
  std::vector<Plan::Candidate> simulated;
  size_t best = 0;
  for (auto [index, candidate] : llvm::enumerate(candidates)) {
    FailureOr<double> seconds =
        simulator.getSeconds(getView(candidate), candidate);
    if (failed(seconds))
      return failure();
    simulated.push_back({describePlan(cluster, candidate, policy),
                         candidate.allocation.seconds, *seconds});
    // Differences by rounding are none.
    bool losesMore = !(candidate.wires == candidates[best].wires);
    if (*seconds <
        simulated[best].simulated * (1 - (losesMore ? leastLossyGain : 1e-9)))
      best = index;
  }
  setRecompute(candidates[best]);
  Plan plan = describe(candidates[best]);
  plan.simulated = simulated[best].simulated;
  // The plan itself, then the others by time.
  std::rotate(simulated.begin(), simulated.begin() + best,
              simulated.begin() + best + 1);
  std::stable_sort(
      simulated.begin() + 1, simulated.end(),
      [](const auto &a, const auto &b) { return a.simulated < b.simulated; });
  plan.candidates = std::move(simulated);
  zero::addPlan(getOperation(), plan);
  return success();
}

void HeteroAllocatePass::runOnOperation() {
  ModuleOp module = getOperation();
  auto fail = [&](const Twine &message) {
    module.emitError(message);
    signalPassFailure();
  };
  if (!module.getOps<zero::PlanOp>().empty())
    return fail("has a zero.plan already");
  if (globalBatch < 1)
    return fail("needs the option global-batch, a number of samples");
  if (failed(readChoices()))
    return signalPassFailure();
  std::string error;
  std::unique_ptr<BatchPolicy> algorithm = makePolicy(policy, error);
  if (!algorithm)
    return fail(error);
  cluster = cluster::buildClusterView(module);
  if (cluster.ranks.empty())
    return fail("holds no cluster: no cluster.node has devices");
  if (failed(checkLossy()))
    return signalPassFailure();
  model = zero::getModelFacts(module);
  if (model.countElements() == 0)
    return fail("holds no model: there is no nn.parameter");

  if (failed(readLayers()))
    return signalPassFailure();
  PlanSearchResult result = searchPlans(cluster, model, *algorithm, choices);
  const PlanCandidate *best = result.best();
  if (!best) {
    refuse(result, *algorithm);
    return signalPassFailure();
  }
  if (policy == "exact" && !allowLossy)
    lowerBound = result.lowerBound;
  if (simulate) {
    if (failed(takeFastest(result, *algorithm)))
      signalPassFailure();
    return;
  }
  setRecompute(*best);
  zero::addPlan(module, describe(*best));
}

std::unique_ptr<Pass>
poplar::createHeteroAllocate(HeteroAllocateOptions options,
                             const OverlapOptions &overlap) {
  return std::make_unique<HeteroAllocatePass>(std::move(options), overlap);
}
