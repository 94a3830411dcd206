//===- ModelUnits.cpp - What the units of a model take --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Pipeline/UnitTimes.h"
#include "Poplar/Runtime/Quantized.h"
#include "Poplar/Transforms/Plan/ModelSharding.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "ProgramCosts.h"
#include "llvm/ADT/DenseMap.h"
#include <numeric>
#include <set>

using namespace mlir;
using namespace poplar;

/// Layers of each kind, at most, in the program that is made.
static constexpr int64_t layersOfProgram = 3;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// The elements of a parameter of this type, all of it or a part.
static ParameterElements countElements(nn::ParameterOp parameter,
                                       RankedTensorType type, bool isInBlocks) {
  ParameterElements elements;
  int64_t stored = nn::getStoredElements(type);
  if (nn::isQuantized(type))
    elements.quantizedBytes = stored;
  else if (parameter.getFrozen())
    elements.frozen = stored;
  else
    elements.trained = stored;
  if (isInBlocks)
    elements.getBlockStates(
        zero::getStateBits(parameter->getParentOfType<ModuleOp>())) = stored;
  return elements;
}

/// "block.7" of a layer; of other units, the functions that they call.
static std::vector<std::string> getNames(func::FuncOp model, size_t layers,
                                         const ModelUnits &units) {
  std::vector<std::string> names(units.size());
  for (auto call : model.getOps<func::CallOp>()) {
    std::string &name = names[units.getUnit(call)];
    name += (name.empty() ? "" : ", ") + call.getCallee().str();
  }
  for (size_t i = 0; i < layers; ++i)
    names[i + 1] += "." + std::to_string(i);
  return names;
}

/// Elements of the units; what no cut may part is tied.
static LogicalResult readParameters(ModuleOp module, const ModelUnits &units,
                                    UnitElements &result) {
  int64_t last = units.size() - 1;
  result.units.assign(units.size(), {});
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    ParameterElements elements =
        countElements(parameter, type, zero::hasBlockStates(parameter));
    auto users = units.getReaders(parameter.getSymNameAttr());
    for (int64_t unit : users)
      result.units[unit] = result.units[unit] + elements;
    if (users.size() < 2)
      continue;
    if (users.size() > 2 || !users.contains(0) || !users.contains(last) ||
        nn::isQuantized(type))
      return parameter.emitOpError("is used by several units: only the first "
                                   "and the last stage may share a parameter");
    result.tied = result.tied + elements;
  }
  return success();
}

/// What the first of `degree` devices that share units holds of each.
static LogicalResult readSharedElements(ModuleOp module,
                                        const ModelUnits &units, int degree,
                                        HybridModel &result) {
  SharedElements &shared = result.shared[degree];
  UnitElements &part = shared.part, &whole = shared.whole;
  part.units.assign(result.parameters.size(), {});
  whole.units.assign(result.parameters.size(), {});
  part.tied = result.parameters.tied.getPart(degree);
  int32_t bits = zero::getStateBits(module);
  part.tied.getBlockStates(bits) = 0;
  OwningOpRef<ModuleOp> trial = module.clone();
  SmallVector<int64_t> parts(degree, 1);
  ModelSharding sharding(*trial, parts, /*position=*/0);
  if (failed(sharding.run()))
    return failure();
  SymbolTable symbols(module);
  for (const auto &[name, shares] : sharding.getShares()) {
    const nn::ParameterShare &share = shares.front();
    auto parameter = symbols.lookup<nn::ParameterOp>(name);
    RankedTensorType type =
        nn::getShareType(cast<RankedTensorType>(parameter.getType()), share);
    // Quantised parameters count as divided: none of them is whole.
    bool isWhole =
        share.kind == nn::ParameterShare::Whole && !nn::isQuantized(type);
    bool isInBlocks =
        zero::hasBlockStates(parameter) &&
        (share.kind != nn::ParameterShare::Slice ||
         !nn::cutsBlocks(cast<RankedTensorType>(parameter.getType()).getShape(),
                         share, POPLAR_STATE_BLOCK));
    ParameterElements elements = countElements(parameter, type, isInBlocks);
    UnitElements &held = isWhole ? whole : part;
    auto readers = units.getReaders(name);
    for (int64_t unit : readers)
      held.units[unit] = held.units[unit] + elements;
    if (!isWhole && readers.size() > 1)
      part.tied.getBlockStates(bits) += elements.getBlockStates(bits);
  }
  return success();
}

/// Whether one device can compute whole units beside `degree` devices that
/// share them. What is before and behind the layers it has in rows, one part
/// behind the other, which begin where parameters of buckets may.
static bool canJoin(ModuleOp module, int degree) {
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  SmallVector<int64_t> parts(degree, 1);
  OwningOpRef<ModuleOp> trial = module.clone();
  ModelSharding whole(*trial, parts, /*position=*/degree);
  if (failed(whole.run()))
    return false;
  SymbolTable symbols(module);
  for (int64_t position = 1; position < degree; ++position) {
    OwningOpRef<ModuleOp> other = module.clone();
    ModelSharding sharing(*other, parts, position);
    if (failed(sharing.run()))
      return false;
    for (const auto &[name, shares] : sharing.getShares()) {
      const nn::ParameterShare &share = shares.front();
      if (share.kind != nn::ParameterShare::Slice ||
          whole.getShares().lookup(name).front().kind == share.kind)
        continue;
      auto type = cast<RankedTensorType>(
          symbols.lookup<nn::ParameterOp>(name).getType());
      int64_t rowElements = type.getNumElements() / type.getDimSize(0);
      if (nn::isQuantized(type) || share.dim != 0 || share.ranges.size() != 1 ||
          share.ranges.front().first * rowElements %
                  zero::BucketLayout::kAlignment !=
              0)
        return false;
    }
  }
  return true;
}

/// Heads and the width of the units cannot be cut any finer. Where they are, no
/// part may cut a block of quantised values.
static int getMostTensorDegree(ModuleOp module) {
  int64_t most = 0;
  module.walk([&](nn::ModelFactsOpInterface op) {
    most = std::gcd(most, op.getTensorParts());
  });
  most = std::max<int64_t>(most, 1);
  bool hasQuantized =
      llvm::any_of(module.getOps<nn::ParameterOp>(), [](nn::ParameterOp op) {
        return nn::isQuantized(op.getType());
      });
  if (most == 1 || !hasQuantized)
    return static_cast<int>(most);
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> trial = module.clone();
  SmallVector<int64_t> parts(most, 1);
  bool isPossible =
      succeeded(ModelSharding(*trial, parts, /*position=*/0).run());
  return isPossible ? static_cast<int>(most) : 1;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static int64_t getBatchedBytes(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    if (exec::BufferSize size = exec::getBufferSize(type); size.perSample)
      bytes += size.bytes;
  return bytes;
}

/// For a sample, in a function of a device that shares units.
static UnitExchanges countExchanges(func::FuncOp function) {
  UnitExchanges all;
  function.walk([&](zero::ExchangeOpInterface op) {
    ArrayRef<int64_t> bounds = op.getBounds();
    auto others = int64_t(bounds.size()) - 2;
    for (auto [kind, bytesPerToken] : op.getExchanges()) {
      ++all.count;
      // The last has the fewest tokens, and gets those of all others.
      int64_t tokens = kind == zero::ExchangeKind::Collect
                           ? others * bounds.back()
                           : bounds.end()[-2];
      all.bytes += tokens * bytesPerToken;
    }
  });
  return all;
}

/// Reads the units of a program that has some of the `layers` of each kind: on
/// tensors and, unless it is null, with its buffers placed. Else nothing is
/// said of bytes at work.
static HybridModel::Variant readProgram(ModuleOp program, ModuleOp buffers,
                                        ArrayRef<func::CallOp> layers) {
  SymbolTable symbols(program);
  std::optional<SymbolTable> planned;
  HybridModel::Variant variant;
  variant.units.resize(layers.size() + 2);
  if (buffers) {
    planned.emplace(buffers);
    variant.scratchBytes = getArena(buffers).getScratchBytes();
  }
  // All layers of a kind are alike: the first call stands for them.
  llvm::StringMap<UnitWork> kinds;
  for (func::CallOp layer : layers)
    kinds.try_emplace(layer.getCallee());
  bool isBehind = false, isAgain = false;
  for (auto call : nn::findEntry<func::FuncOp>(program, nn::Entry::Train)
                       .getOps<func::CallOp>()) {
    StringRef name = call.getCallee();
    bool isForward = name.consume_back(".forward");
    if (!isForward)
      name.consume_back(".backward");
    auto kind = kinds.find(name);
    bool isLayer = kind != kinds.end();
    isBehind |= isLayer && isForward;
    isAgain |= isLayer && !isForward;
    UnitWork &unit = isLayer                ? kind->second
                     : isBehind && !isAgain ? variant.units.back()
                                            : variant.units.front();
    std::vector<RooflineOp> &ops = isForward ? unit.forward : unit.backward;
    if (isLayer && !ops.empty())
      continue;
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    for (const RooflineOp &op : countOps(program, callee))
      ops.push_back(op);
    UnitExchanges own = countExchanges(callee),
                  &exchanges = isForward ? unit.forwardExchanges
                                         : unit.backwardExchanges;
    exchanges.count += own.count;
    exchanges.bytes += own.bytes;
    int64_t results = getBatchedBytes(call.getResultTypes()), work = 0;
    if (planned)
      work = *planned->lookup<exec::FunctionOp>(call.getCallee())
                  .getScratchBytes();
    if (isForward)
      unit.savedBytes += results;
    else // The gradient that comes in, and what goes out.
      work += 2 * results;
    unit.workBytes = std::max(unit.workBytes, work);
    if (isLayer && isForward)
      variant.boundaryBytes = getBatchedBytes(call.getResultTypes()[0]);
  }
  for (size_t i = 0; i < layers.size(); ++i)
    variant.units[i + 1] = kinds[func::CallOp(layers[i]).getCallee()];
  return variant;
}

/// How many devices may share units with one of a type, `most` at most: those
/// of its node, of any type where they can be a team.
static std::set<int> listDegrees(const ClusterView &cluster, int type,
                                 int most) {
  DeviceTeam team = findTeam(cluster);
  bool isInTeam = llvm::is_contained(team, type);
  int largest = 0;
  for (const ClusterNode &node : cluster.nodes) {
    int own = 0;
    for (int rank = node.firstRank; rank < node.firstRank + node.numRanks;
         ++rank)
      own += cluster.ranks[rank].type == type;
    largest = std::max(largest, isInTeam && own > 0 ? node.numRanks : own);
  }
  std::set<int> degrees;
  for (int degree = 1; degree <= std::min(most, largest); degree *= 2)
    degrees.insert(degree);
  if (isInTeam && int(team.size()) <= most)
    degrees.insert(int(team.size()));
  return degrees;
}

/// The first type with ranks that differs from one in its name only, perhaps
/// itself: that which stands for both (mergeAlikeTypes()).
static int findFirstAlike(const ClusterView &cluster,
                          const std::vector<int> &counts, int type) {
  for (int other = 0; other < type; ++other)
    if (counts[other] > 0 && areAlike(cluster, other, type))
      return other;
  return type;
}

//===----------------------------------------------------------------------===//
// Layers that recompute
//===----------------------------------------------------------------------===//

namespace {

/// Reads what layers take in the programs of device types, each program once.
class LayerReader {
public:
  LayerReader(ModuleOp module, const ClusterView &cluster)
      : module(module), cluster(cluster),
        model(nn::findEntry<func::FuncOp>(module, nn::Entry::Model)) {
    if (model && !model.isExternal())
      layers = findLayers(model);
  }

  bool hasLayers() const { return !layers.empty(); }
  FailureOr<RecomputedLayers> read(int type, RecomputePolicy policy);

private:
  FailureOr<const HybridModel::Variant *> getVariant(DeviceType type,
                                                     RecomputePolicy policy);

  ModuleOp module;
  const ClusterView &cluster;
  func::FuncOp model;
  SmallVector<func::CallOp> layers;
  std::map<std::vector<std::string>, HybridModel::Variant> known;
};

} // namespace

FailureOr<const HybridModel::Variant *>
LayerReader::getVariant(DeviceType type, RecomputePolicy policy) {
  type.recompute = policy;
  ProgramChoice choice(type);
  std::vector<std::string> key = choice.getKey();
  auto entry = known.find(key);
  if (entry == known.end()) {
    // One layer of a kind stands for all.
    auto program = makeShortTensors(module, countLayers(model, 1), choice);
    if (failed(program))
      return failure();
    entry = known.emplace(key, readProgram(**program, nullptr, layers)).first;
  }
  return &entry->second;
}

FailureOr<RecomputedLayers> LayerReader::read(int type,
                                              RecomputePolicy policy) {
  auto keep = getVariant(cluster.types[type], RecomputePolicy::Keep);
  auto all = getVariant(cluster.types[type], policy);
  if (failed(keep) || failed(all))
    return failure();
  Roofline roofline = getProportions(cluster.types[type]);
  std::vector<double> added;
  for (auto [kept, again] : llvm::zip_equal((*keep)->units, (*all)->units))
    added.push_back(std::max(roofline.getSeconds(again.backward, 1) -
                                 roofline.getSeconds(kept.backward, 1),
                             0.0));
  double sum = std::accumulate(added.begin(), added.end(), 0.0);
  RecomputedLayers result;
  result.policy = policy;
  for (size_t i = 1; i <= layers.size(); ++i)
    result.layers.push_back(
        {sum > 0 ? added[i] / sum : 1 / static_cast<double>(layers.size()),
         std::max<int64_t>(
             (*keep)->units[i].savedBytes - (*all)->units[i].savedBytes, 0)});
  return result;
}

FailureOr<RecomputedLayers>
poplar::getRecomputedLayers(ModuleOp module, const ClusterView &cluster,
                            int type, RecomputePolicy policy) {
  return LayerReader(module, cluster).read(type, policy);
}

FailureOr<std::vector<std::vector<RecomputedLayers>>>
poplar::getRecomputedLayers(ModuleOp module, const ClusterView &cluster) {
  std::vector<std::vector<RecomputedLayers>> all(cluster.types.size());
  LayerReader reader(module, cluster);
  std::vector<int> counts = cluster.countRanks();
  std::string fingerprint = nn::getFingerprint(module);
  for (int type = 0; type < static_cast<int>(counts.size()); ++type) {
    if (counts[type] == 0 || cluster.types[type].isRecomputeFixed ||
        !reader.hasLayers())
      continue;
    auto hasProfile = [&](RecomputePolicy policy) {
      return llvm::any_of(llvm::seq(0, 4), [&](int stage) {
        return cluster.findProfile(type, stage, fingerprint, policy);
      });
    };
    // To recompute attention saves little memory for its time in all layers,
    // and less in some.
    constexpr RecomputePolicy policy = RecomputePolicy::Unit;
    if (!hasProfile(policy) || !hasProfile(RecomputePolicy::Keep))
      continue;
    FailureOr<RecomputedLayers> layers = reader.read(type, policy);
    if (failed(layers))
      return failure();
    all[type].push_back(std::move(*layers));
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

FailureOr<HybridModel> poplar::getHybridModel(ModuleOp module,
                                              const ClusterView &cluster) {
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  if (!model || model.isExternal())
    return module.emitError("has no function @model to cut into stages");
  FailureOr<ModelUnits> units = ModelUnits::get(model);
  if (failed(units))
    return failure();
  SmallVector<func::CallOp> layers = findLayers(model);
  HybridModel result;
  result.names = getNames(model, layers.size(), *units);
  if (failed(readParameters(module, *units, result.parameters)))
    return failure();
  result.tokens =
      cast<RankedTensorType>(model.getArgumentTypes()[0]).getDimSize(1);
  result.mostTensorDegree = getMostTensorDegree(module);
  result.fingerprint = nn::getFingerprint(module);
  ModelFacts facts = zero::getModelFacts(module);
  result.largestBucket.trained = facts.getTrained().largestBucket;
  result.largestBucket.frozen = facts.someTrained ? facts.largestBucket : 0;
  result.largestBucket.quantizedBytes = facts.largestQuantizedBucket;
  result.wholeStep = {facts.gatheredForward.elements,
                      facts.gatheredBackward.elements, facts.reduced.elements};
  result.quantizedForward = facts.gatheredForward.quantizedBytes;
  result.quantizedBackward = facts.gatheredBackward.quantizedBytes;
  result.variants.resize(cluster.types.size());
  std::map<std::pair<std::vector<std::string>, int>, HybridModel::Variant>
      known;
  std::vector<int> counts = cluster.countRanks();
  ClusterView merged = cluster;
  mergeAlikeTypes(merged);
  auto addVariant = [&](DeviceType type, int degree,
                        std::vector<HybridModel::Variant> &variants) {
    ProgramChoice choice(type);
    auto entry = known.find({choice.getKey(), degree});
    if (entry == known.end()) {
      FailureOr<ShortProgram> program = makeShortProgram(
          module, countLayers(model, layersOfProgram), choice, degree);
      if (failed(program))
        return failure();
      entry = known
                  .try_emplace(
                      {choice.getKey(), degree},
                      readProgram(*program->tensors, *program->buffers, layers))
                  .first;
      entry->second.recompute = type.recompute.policy;
      entry->second.tensorDegree = degree;
    }
    variants.push_back(entry->second);
    return success();
  };
  for (size_t index = 0; index < counts.size(); ++index) {
    if (counts[index] == 0)
      continue;
    DeviceType type = cluster.types[index];
    // Names do not matter: nodes with devices of either name count.
    std::set<int> degrees = listDegrees(
        merged, findFirstAlike(cluster, counts, static_cast<int>(index)),
        result.mostTensorDegree);
    for (int degree : degrees)
      if (degree > 1 && !result.shared.count(degree)) {
        if (failed(readSharedElements(module, *units, degree, result)))
          return failure();
        if (canJoin(module, degree))
          result.joined.insert(degree);
      }
    for (RecomputePolicy policy : listWords<RecomputePolicy>()) {
      type.recompute = policy;
      for (int degree : degrees)
        if (failed(addVariant(type, degree, result.variants[index])))
          return failure();
    }
  }
  return result;
}
