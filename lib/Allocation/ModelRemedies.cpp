//===- ModelRemedies.cpp - What else would make a model fit ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelRemedies.h"
#include "Poplar/Allocation/StagedAllocation.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Simulation/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace poplar;

/// The adapters that are offered, and the shortest samples.
static constexpr int64_t loraRank = 16, leastTokens = 128;
/// Bytes of a value in nf4, with its part of a block's scale.
static constexpr double nf4Bytes = 0.5 + 4.0 / 64;
/// What adapters keep for the backward pass beside what the model does.
static constexpr double activationsOfAdapters = 1.1;

namespace {

class Remedies {
public:
  Remedies(ModuleOp module, const ClusterView &cluster, const ModelFacts &model,
           const BatchPolicy &policy, const PlanChoices &choices)
      : module(module), cluster(cluster), model(model), policy(policy),
        choices(choices), facts(nn::Model::of(module)) {}
  std::vector<std::string> run(bool triesPipelines);

private:
  bool hasPlan(const ClusterView &view, const ModelFacts &facts) const {
    return searchPlans(view, facts, policy, choices).best() != nullptr;
  }
  ClusterView makeMemoryView(const ModelFacts &changed, double perSample) const;
  ModelFacts makeAdapters(bool quantizes);

  void addRecompute();
  void addPipelines();
  void addAdapters();
  void addShorterSamples();

  ModuleOp module;
  const ClusterView &cluster;
  const ModelFacts &model;
  const BatchPolicy &policy;
  PlanChoices choices;
  nn::Model facts;
  std::vector<std::string> remedies;
};

} // namespace

/// The cluster with profiles that say of `changed` what they say of memory; all
/// micro-steps take a second.
ClusterView Remedies::makeMemoryView(const ModelFacts &changed,
                                     double perSample) const {
  ClusterView view = cluster;
  for (DeviceProfile &profile : view.profiles) {
    profile.microBatches = {1};
    profile.seconds = {1};
    profile.spread.clear();
    profile.maxMicroBatch.reset();
    if (!profile.memory)
      continue;
    StateFormat format =
        StateFormat::of(cluster.types[profile.type].getWorkingFormat());
    profile.memory->fixed +=
        changed.getStateBytes(format) - model.getStateBytes(format);
    profile.memory->perSample = static_cast<int64_t>(
        static_cast<double>(profile.memory->perSample) * perSample);
  }
  return view;
}

/// The model frozen, with adapters on all matrices.
ModelFacts Remedies::makeAdapters(bool quantizes) {
  ModelFacts changed = model;
  int64_t adapters = 0, quantized = 0;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto shape = cast<RankedTensorType>(parameter.getType()).getShape();
    if (shape.size() != 2)
      continue;
    adapters += loraRank * (shape[0] + shape[1]);
    quantized += shape[0] * shape[1];
  }
  // Embeddings keep their format.
  if (auto size = facts.getVocabSize())
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      auto shape = cast<RankedTensorType>(parameter.getType()).getShape();
      if (shape.size() == 2 && shape[0] >= *size)
        quantized -= shape[0] * shape[1];
    }
  int64_t buckets = std::max<int64_t>(model.buckets, 1);
  changed.parameters = {};
  changed.parameters.trained = adapters;
  changed.parameters.frozen = model.countElements();
  changed.someTrained = {adapters / buckets + loraRank, buckets,
                         adapters / buckets, adapters / buckets};
  if (quantizes) {
    changed.quantizedElements = quantized;
    changed.parameters.frozen -= quantized;
    changed.parameters.quantizedBytes =
        static_cast<int64_t>(static_cast<double>(quantized) * nf4Bytes);
    changed.largestQuantizedBucket = static_cast<int64_t>(
        static_cast<double>(model.largestBucket) * nf4Bytes);
  }
  return changed;
}

/// With what the user fixed left free.
void Remedies::addRecompute() {
  OwningOpRef<ModuleOp> copy = module.clone();
  bool isFixed = false;
  for (auto type : copy->getOps<cluster::DeviceTypeOp>()) {
    isFixed |= type.getFixedRecompute();
    type.setFixedRecompute(false);
  }
  if (!isFixed)
    return;
  PassManager pm(module.getContext());
  pm.addPass(createEstimateProfiles());
  if (failed(pm.run(*copy)))
    return;
  PlanChoices wider = choices;
  wider.chooseRecompute = true;
  if (searchPlans(cluster::buildClusterView(*copy), model, policy, wider)
          .best())
    remedies.push_back("if device types may recompute what they have to (leave "
                       "out `recompute` in the cluster file, or --recompute)");
}

void Remedies::addPipelines() {
  auto function = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  if (!function || function.isExternal() || cluster.ranks.size() < 2)
    return;
  FailureOr<HybridModel> units = getHybridModel(module, cluster);
  if (failed(units))
    return;
  HybridRequest request;
  request.globalBatch = choices.globalBatch;
  if (choices.stages.size() == 1)
    request.stage = std::to_string(choices.stages.front());
  HybridSelection found =
      selectDevices(cluster, *units, request, /*mostChoices=*/1);
  if (found.choice.search.plan)
    remedies.push_back("in pipeline stages (--policy hybrid)");
}

void Remedies::addAdapters() {
  if (model.someTrained && model.quantizedElements > 0)
    return;
  bool hasAdapters = model.someTrained.has_value();
  auto fits = [&](const ModelFacts &changed) {
    return hasPlan(makeMemoryView(changed, activationsOfAdapters), changed);
  };
  if (!hasAdapters && fits(makeAdapters(/*quantizes=*/false)))
    remedies.push_back("with the model frozen and adapters trained (poplar "
                       "import --lora-rank " +
                       std::to_string(loraRank) + ")");
  else if (fits(makeAdapters(/*quantizes=*/true)))
    remedies.push_back("with the model frozen in 4 bits and adapters trained "
                       "(poplar import --lora-rank " +
                       std::to_string(loraRank) + " --frozen-format nf4)");
}

/// What a sample keeps is proportional to its tokens.
void Remedies::addShorterSamples() {
  std::optional<int64_t> length = facts.getSeqLen();
  if (!length)
    return;
  for (int64_t tokens = *length / 2; tokens >= leastTokens; tokens /= 2) {
    double part = static_cast<double>(tokens) / static_cast<double>(*length);
    if (!hasPlan(makeMemoryView(model, part), model))
      continue;
    remedies.push_back("with samples of " + std::to_string(tokens) +
                       " tokens (poplar import --seq-len " +
                       std::to_string(tokens) + ")");
    return;
  }
}

std::vector<std::string> Remedies::run(bool triesPipelines) {
  // What is tried says nothing by itself.
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  // Without buckets, nothing is known of steps.
  if (module.getOps<zero::BucketOp>().empty())
    return {};
  addRecompute();
  if (triesPipelines)
    addPipelines();
  addAdapters();
  addShorterSamples();
  return std::move(remedies);
}

std::vector<std::string>
poplar::findModelRemedies(ModuleOp module, const ClusterView &cluster,
                          const ModelFacts &model, const BatchPolicy &policy,
                          const PlanChoices &choices, bool triesPipelines) {
  return Remedies(module, cluster, model, policy, choices).run(triesPipelines);
}
