//===- ProgramDescription.cpp - The PoplarProgram of a module -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/ProgramDescription.h"
#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Target/Build.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace poplar;

/// The vector instructions that a program may use, in the words of Linux: those
/// of its target, or of the machine at hand if it is compiled for that.
static std::string listInstructions(const CodeOptions &options,
                                    StringRef target) {
  static constexpr std::pair<StringLiteral, StringLiteral> names[] = {
      {"amx-bf16", "amx_bf16"},
      {"amx-int8", "amx_int8"},
      {"amx-tile", "amx_tile"},
      {"avx", "avx"},
      {"avx2", "avx2"},
      {"avx512bf16", "avx512_bf16"},
      {"avx512bitalg", "avx512_bitalg"},
      {"avx512bw", "avx512bw"},
      {"avx512cd", "avx512cd"},
      {"avx512dq", "avx512dq"},
      {"avx512f", "avx512f"},
      {"avx512fp16", "avx512_fp16"},
      {"avx512ifma", "avx512ifma"},
      {"avx512vbmi", "avx512vbmi"},
      {"avx512vbmi2", "avx512_vbmi2"},
      {"avx512vl", "avx512vl"},
      {"avx512vnni", "avx512_vnni"},
      {"avx512vpopcntdq", "avx512_vpopcntdq"},
      {"avxvnni", "avx_vnni"},
      {"bmi", "bmi1"},
      {"bmi2", "bmi2"},
      {"f16c", "f16c"},
      {"fma", "fma"},
      {"sse4.1", "sse4_1"},
      {"sse4.2", "sse4_2"}};
  const TargetInfo *info = findTargetInfo(target);
  bool isNative = options.chip.empty() && options.cpu == "native";
  auto isUsed = [&](StringRef feature) {
    if (isNative)
      return getHostCPU().has(feature);
    return info &&
           llvm::is_contained(info->instructions, std::string_view(feature));
  };
  SmallVector<StringRef> list;
  for (auto [feature, name] : names)
    if (isUsed(feature))
      list.push_back(name);
  return llvm::join(list, " ");
}

/// Of the logits that the program computes, where it has not all of them.
static std::optional<int64_t> getLogitsColumns(ModuleOp module,
                                               const zero::ProgramInfo &info) {
  auto infer = module.lookupSymbol<exec::FunctionOp>(
      info.isPipelineStage() ? info.getTurnName("infer", info.numChunks - 1)
                             : "infer");
  if (!info.sharesUnits() || !infer || !infer.getResultType())
    return std::nullopt;
  return cast<MemRefType>(*infer.getResultType()).getShape().back();
}

/// The module's nn.model dictionary and the options of the build, as JSON.
static std::string describe(ModuleOp module, DictionaryAttr model,
                            const BuildOptions &options,
                            const zero::ProgramInfo &info) {
  llvm::json::Object object;
  for (NamedAttribute entry : model) {
    StringRef name = entry.getName().getValue();
    if (auto text = dyn_cast<StringAttr>(entry.getValue()))
      object[name] = text.getValue().str();
    else if (auto flag = dyn_cast<BoolAttr>(entry.getValue()))
      object[name] = flag.getValue();
    else if (auto integer = dyn_cast<IntegerAttr>(entry.getValue()))
      object[name] = integer.getInt();
    else if (auto integers = dyn_cast<DenseI64ArrayAttr>(entry.getValue()))
      object[name] = llvm::json::Array(integers.asArrayRef());
    else if (auto number = dyn_cast<FloatAttr>(entry.getValue()))
      object[name] = number.getValueAsDouble();
  }
  object["precision"] =
      info.precision == "tf32" ? info.precision : options.precision;
  if (info.scaled)
    object["scaled"] = true;
  if (info.hasLossyParameters)
    object["parameter_wire"] = info.wire;
  if (std::optional<int64_t> columns = getLogitsColumns(module, info))
    object["logits_columns"] = *columns;
  object["recompute"] = options.recompute;
  object["device_type"] =
      info.deviceType.empty() ? "host:" + options.cpu : info.deviceType;
  object["target"] = info.target;
  object["isa"] = options.isa;
  if (std::string list = listInstructions(options, info.target); !list.empty())
    object["instructions"] = std::move(list);
  return llvm::formatv("{0}", llvm::json::Value(std::move(object))).str();
}

/// A hash of all that has to be equal on every rank: the allocation, the
/// shards, and every collective in its order.
static uint64_t hashPlan(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto plan : module.getOps<zero::PlanOp>())
    plan->print(stream, OpPrintingFlags().printGenericOpForm());
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    stream << bucket.getSymName() << bucket.getParameters();
    stream << bucket.getFrozen() << bucket.getQuantized();
    if (bucket.getBoundsAttr())
      stream << bucket.getBoundsAttr();
    if (bucket.getGroupsAttr())
      stream << bucket.getGroupsAttr() << bucket.getPositionsAttr()
             << bucket.getStageAttr();
  }
  for (auto parameter : module.getOps<nn::ParameterOp>())
    if (!zero::hasParts(parameter))
      stream << parameter.getSymName() << parameter.getType();
  stream << zero::hasInt8States(module);
  // Each group has functions of its own, and buckets each position.
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  if (info.isPipelineStage() || info.sharesUnits())
    return llvm::xxh3_64bits(text);
  for (auto function : module.getOps<exec::FunctionOp>()) {
    stream << function.getSymName();
    for (auto start : function.getOps<exec::StartOp>())
      stream << zero::stringifyCollectiveKind(start.getKind())
             << start.getBucket() << start.getWire();
  }
  return llvm::xxh3_64bits(text);
}

/// A function of --nn-add-decoding, if there is one. Logits are the last
/// chunk's.
std::optional<ProgramDescription::Decoding>
ProgramDescription::takeDecoding(ModuleOp module, StringRef pass) {
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  std::string name = info.getTurnName(pass, info.numChunks - 1);
  auto step = module.lookupSymbol<exec::FunctionOp>(name);
  if (!step)
    return std::nullopt;
  ArrayRef<int64_t> inputs = *step.getInputs();
  return Decoding{int64_t(*step.getDecoding()), inputs[0], inputs[1],
                  step.getResult() ? int64_t(*step.getResult()) : -1,
                  info.isPipelineStage() ? std::string() : name + ".step"};
}

LogicalResult ProgramDescription::takeSteps(ModuleOp module) {
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  bool splits = info.isPipelineStage();
  // Loss and logits are the last chunk's.
  auto getName = [&](StringRef pass) {
    return info.getTurnName(pass, info.numChunks - 1);
  };
  std::string train = getName(splits ? "forward" : "train"),
              takesInputs = getName(splits ? "backward" : "train"),
              evaluate = getName("evaluate"), infer = getName("infer");
  for (const std::string &name : {train, takesInputs, evaluate, infer}) {
    auto step = module.lookupSymbol<exec::FunctionOp>(name);
    if (!step)
      return module.emitError("has no function @") << name;
    if (name == takesInputs)
      inputs = step.getInputs()->vec();
    if (!step.getResult()) // A stage before the last gives no loss, no logits.
      continue;
    int64_t result = *step.getResult();
    if (name == train) {
      trainLoss = result;
    } else if (name == evaluate) {
      evaluateLoss = result;
    } else {
      logits = result;
      logitsType =
          exec::getPoplarType(getElementTypeOrSelf(*step.getResultType()));
    }
  }
  // Before the last stage there is no dloss.
  bool hasLoss = trainLoss >= 0, isPacked = nn::isPacked(module);
  if (inputs.size() != size_t(3 + isPacked + hasLoss))
    return module.emitError("@")
           << takesInputs << " has to take ids, targets, keys"
           << (isPacked ? ", positions" : "") << " and dloss";
  if (hasLoss)
    dloss = inputs.back();
  if (isPacked)
    positions = inputs[nn::kPositions];
  if (!module.lookupSymbol<exec::FunctionOp>("update"))
    return module.emitError("has no function @update: run --zero-materialize "
                            "first");
  trainLast = "train.step";
  trainLastLoss = trainLoss;
  if (auto last = module.lookupSymbol<exec::FunctionOp>("train_last")) {
    trainLast = "train_last.step";
    trainLastLoss = last.getResult().value_or(-1);
  }

  decode = takeDecoding(module, "decode");
  prefill = takeDecoding(module, "prefill");

  auto optimizers = module.getOps<exec::OptimizerOp>();
  if (optimizers.empty())
    return module.emitError("has no optimizer: run --add-optimizer first");
  exec::OptimizerOp optimizer = *optimizers.begin();
  adamwKernel = optimizer.getUpdate().str();
  convertKernel = optimizer.getRound().value_or("").str();
  return success();
}

/// The members of a pipeline in a group that have tokens of the rank at
/// `position` of another.
static std::vector<ProgramDescription::Link>
findLinks(ArrayRef<int64_t> own, int64_t position, ArrayRef<int64_t> bounds,
          ArrayRef<int64_t> members) {
  std::vector<ProgramDescription::Link> links;
  int64_t begin = own[position], end = own[position + 1];
  for (auto [index, member] : llvm::enumerate(members)) {
    int64_t first = std::max(begin, bounds[index]),
            last = std::min(end, bounds[index + 1]);
    if (first < last)
      links.push_back({member, first - begin, last - first});
  }
  return links;
}

/// The places of ranks in their pipelines, and their turns.
void ProgramDescription::takePipeline(zero::PlanOp plan,
                                      const zero::ProgramInfo &info,
                                      int64_t tokens) {
  SmallVector<SmallVector<SmallVector<int64_t>>> pipelines;
  SmallVector<SmallVector<int64_t>> bounds;
  for (int64_t group = 0; group < info.numGroups; ++group) {
    pipelines.push_back(plan.getPipelinesOf(group));
    bounds.push_back(
        nn::divideByParts(tokens, plan.getGroups()[group].getPartsOfRanks()));
  }
  int64_t last = info.numGroups - 1;
  bool isRing = info.numChunks > 1;
  for (size_t index = 0; index < pipelines[0].size(); ++index) {
    Timetable table = plan.getTimetable(index);
    for (int64_t group = 0; group < info.numGroups; ++group)
      for (auto [position, member] : llvm::enumerate(pipelines[group][index])) {
        Rank &rank = ranks[member];
        rank.group = group;
        auto linkTo = [&, position = position](int64_t other) {
          return findLinks(bounds[group], position, bounds[other],
                           pipelines[other][index]);
        };
        if (group > 0 || isRing)
          rank.previous = linkTo(group ? group - 1 : last);
        if (group < last || isRing)
          rank.next = linkTo(group < last ? group + 1 : 0);
        if (group != info.group)
          continue;
        const std::vector<Turn> &turns = table.stages[group];
        for (int64_t chunk = 0; chunk < info.numChunks; ++chunk)
          rank.inFlight.push_back(Timetable::countInFlight(turns, chunk));
        for (const Turn &turn : turns) {
          rank.turns.push_back(int32_t(turn.isBackward ? -turn.microBatch - 1
                                                       : turn.microBatch + 1));
          rank.chunks.push_back(int32_t(turn.chunk));
        }
      }
  }
}

void ProgramDescription::takeChunks(ModuleOp module,
                                    const zero::ProgramInfo &info) {
  group = info.group;
  numGroups = info.numGroups;
  for (auto planned : module.getOps<exec::ChunkOp>()) {
    auto index = int64_t(planned.getIndex());
    Chunk chunk;
    chunk.slotBytes = int64_t(planned.getSlotBytes());
    chunk.messageBytes = {0, // the slot is no message
                          int64_t(planned.getActivationInBytes()),
                          int64_t(planned.getActivationOutBytes()),
                          int64_t(planned.getGradientInBytes()),
                          int64_t(planned.getGradientOutBytes())};
    chunk.keepsSent = planned.getKeepsSent();
    auto getName = [&](StringRef pass) {
      return info.getTurnName(pass, index) + ".step";
    };
    chunk.forward = getName("forward");
    chunk.backward = getName("backward");
    // Where nothing is reduced in the last turn alone, it is like the others.
    chunk.backwardLast =
        module.lookupSymbol(info.getTurnName("backward_last", index))
            ? getName("backward_last")
            : chunk.backward;
    chunk.evaluate = getName("evaluate");
    chunk.infer = getName("infer");
    if (decode) {
      chunk.decode = getName("decode");
      chunk.prefill = getName("prefill");
    }
    chunks.push_back(std::move(chunk));
  }
}

std::optional<ProgramDescription::Slice>
ProgramDescription::takeSlice(nn::ParameterOp parameter) {
  nn::SliceAttr slice = parameter.getSliceAttr();
  if (!slice)
    return std::nullopt;
  return Slice{slice.getTensor().str(), slice.getShape().vec(),
               slice.getRanges().vec(), slice.getDim()};
}

/// The ranks with which each shares units.
void ProgramDescription::takeSharers(zero::PlanOp plan) {
  for (size_t group = 0; group < plan.getGroups().size(); ++group)
    for (ArrayRef<int64_t> members : plan.getPipelinesOf(int64_t(group)))
      for (auto [position, member] : llvm::enumerate(members)) {
        ranks[member].sharers = members.vec();
        ranks[member].position = int64_t(position);
      }
}

/// Of a sample.
static int64_t getTokens(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(nn::kModelAttr);
  return cast<IntegerAttr>(model.get("seq_len")).getInt();
}

LogicalResult ProgramDescription::takeState(ModuleOp module) {
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  DenseMap<StringAttr, std::pair<int64_t, int64_t>> places;
  SymbolTableCollection symbols;
  for (auto copies : module.getOps<exec::CopiesOp>()) {
    auto bucket = symbols.lookupNearestSymbolFrom<zero::BucketOp>(
        copies, copies.getBucketAttr());
    zero::BucketLayout layout = *zero::BucketLayout::get(bucket, symbols);
    for (auto [name, offset] :
         llvm::zip_equal(bucket.getParameters().getAsRange<FlatSymbolRefAttr>(),
                         layout.offsets))
      places[name.getAttr()] = {int64_t(buckets.size()), offset};
    if (!bucket.getQuantized())
      workingType = exec::getPoplarType(copies.getType());
    std::vector<int64_t> bounds = {0, layout.elements};
    if (bucket.getBounds())
      bounds = bucket.getBounds()->vec();
    std::vector<int64_t> holders;
    if (bucket.getGroups())
      for (auto plan : module.getOps<zero::PlanOp>())
        for (auto [index, rank] : llvm::enumerate(plan.getRanks()))
          if (bucket.isUsedBy(rank.getGroup(), plan.getPosition(index)))
            holders.push_back(index);
    std::vector<int64_t> residuals;
    if (info.gradientWire != "f32" && !bucket.getFrozen())
      for (auto plan : module.getOps<zero::PlanOp>())
        for (size_t rank = 0; rank < plan.getRanks().size(); ++rank)
          residuals.push_back(zero::countResidual(plan, info, bucket, rank));
    auto offsetOf = [](std::optional<uint64_t> place) {
      return place ? int64_t(*place) : -1;
    };
    buckets.push_back({bucket.getSymName().str(), layout.elements,
                       offsetOf(copies.getWorking()),
                       offsetOf(copies.getGradient()), std::move(bounds),
                       info.getStage(bucket), std::move(holders),
                       bucket.getFrozen(), bucket.getQuantized(),
                       std::move(residuals), info.hasOwnMaster(bucket)});
  }
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    if (zero::hasParts(parameter))
      continue;
    auto type = cast<RankedTensorType>(parameter.getType());
    if (type.getRank() > 4)
      return parameter.emitOpError("has more than four dimensions");
    auto [bucket, offset] = places.lookup(parameter.getSymNameAttr());
    int32_t quantized =
        nn::isQuantized(type) ? exec::getPoplarType(type.getElementType()) : 0;
    parameters.push_back({parameter.getSymName().str(), type.getShape().vec(),
                          type.getNumElements(), bucket, offset,
                          int32_t(parameter.getInit()), parameter.getDecay(),
                          parameter.getStdDev().convertToDouble(),
                          takeSlice(parameter), quantized});
  }
  for (auto plan : module.getOps<zero::PlanOp>())
    for (zero::RankOp rank : plan.getRanks())
      ranks.push_back({rank.getDeviceType().str(), rank.getNode().str(),
                       int64_t(rank.getMicroBatch()), int64_t(rank.getSteps()),
                       int64_t(rank.getLast()), int64_t(rank.getThreads())});
  for (auto plan : module.getOps<zero::PlanOp>())
    takeSharers(plan);
  if (!info.isPipelineStage())
    return success();
  for (auto plan : module.getOps<zero::PlanOp>())
    takePipeline(plan, info, getTokens(module));
  takeChunks(module, info);
  return success();
}

LogicalResult ProgramDescription::take(ModuleOp module,
                                       const BuildOptions &options) {
  auto model = module->getAttrOfType<DictionaryAttr>(nn::kModelAttr);
  exec::ArenaOp arena = getArena(module);
  if (!arena || !model)
    return module.emitError(
        "holds no planned model (an nn.model attribute and an exec.arena)");
  for (StringRef name :
       {"vocab_size", "seq_len", "objective", "num_parameters"})
    if (!model.contains(name))
      return module.emitError("nn.model: there is no ")
             << name << ", which the runtime has to know";
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  json = describe(module, model, options, info);
  stage = info.stage;
  worldSize = info.worldSize;
  planHash = hashPlan(module);
  module.walk([&](Operation *op) {
    if (isa<exec::StartOp, exec::NormOp>(op))
      ++numCollectives;
  });
  fixedBytes = arena.getFixed();
  bytesPerSample = arena.getPerSample();
  samplingBytesPerSample =
      int64_t(arena.getSamplingPerSample().value_or(bytesPerSample));
  scratchOffset = arena.getScratchOffset();
  scratchBytes = arena.getScratchBytes();
  auto costs = module.getOps<nn::TrainingCostOp>();
  if (costs.empty())
    return module.emitError("has no nn.training_cost: run --annotate-cost");
  flopsPerSample = (*costs.begin()).getFlopsPerSample().convertToDouble();
  return failure(failed(takeSteps(module)) || failed(takeState(module)));
}
