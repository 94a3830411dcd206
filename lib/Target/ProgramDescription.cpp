//===- ProgramDescription.cpp - The PoplarProgram of a module -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/ProgramDescription.h"
#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Conversion/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Target/GPUImage.h"
#include "Poplar/Target/Host.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/xxhash.h"
#include <map>

using namespace mlir;
using namespace poplar;

/// The vector instructions of the machine at hand, in the words of Linux: what
/// a program that is compiled for it may use.
static std::string listInstructions() {
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
  SmallVector<StringRef> list;
  for (auto [feature, name] : names)
    if (getHostCPU().has(feature))
      list.push_back(name);
  return llvm::join(list, " ");
}

/// The module's nn.model dictionary and the options of the build, as JSON.
static std::string describe(DictionaryAttr model, const HostOptions &options,
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
  object["recompute"] = options.recompute;
  object["device_type"] =
      info.deviceType.empty() ? "host:" + options.cpu : info.deviceType;
  object["target"] = info.target;
  object["isa"] = options.isa;
  if (options.chip.empty() && options.cpu == "native")
    object["instructions"] = listInstructions();
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
    if (bucket.getBoundsAttr())
      stream << bucket.getBoundsAttr();
    if (bucket.getGroupsAttr())
      stream << bucket.getGroupsAttr() << bucket.getStageAttr();
  }
  for (auto parameter : module.getOps<nn::ParameterOp>())
    stream << parameter.getSymName() << parameter.getType();
  // Each group has functions of its own.
  if (zero::ProgramInfo::get(module).isPipelineStage())
    return llvm::xxh3_64bits(text);
  for (auto function : module.getOps<exec::FunctionOp>()) {
    stream << function.getSymName();
    for (auto start : function.getOps<exec::StartOp>())
      stream << zero::stringifyCollectiveKind(start.getKind())
             << start.getBucket() << start.getWire();
  }
  return llvm::xxh3_64bits(text);
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
  inputs.resize(4, -1);
  if (inputs[0] < 0 || inputs[1] < 0 || inputs[2] < 0 ||
      (trainLoss >= 0 && inputs[3] < 0))
    return module.emitError("@")
           << takesInputs << " has to take ids, targets, keys and dloss";
  if (!module.lookupSymbol<exec::FunctionOp>("update"))
    return module.emitError("has no function @update: run --zero-materialize "
                            "first");
  trainLast = "train.step";
  if (auto last = module.lookupSymbol<exec::FunctionOp>("train_last")) {
    trainLast = "train_last.step";
    // The runtime reads the loss of either at one place.
    if (int64_t(last.getResult().value_or(-1)) != trainLoss)
      return last.emitOpError("leaves its loss at another place than @train");
  }

  auto optimizers = module.getOps<exec::OptimizerOp>();
  if (optimizers.empty())
    return module.emitError("has no optimizer: run --add-optimizer first");
  exec::OptimizerOp optimizer = *optimizers.begin();
  adamwKernel = optimizer.getUpdate().str();
  convertKernel = optimizer.getRound().value_or("").str();
  return success();
}

/// A rank's place in its pipeline, and its turns.
void ProgramDescription::takePipeline(zero::PlanOp plan,
                                      const zero::ProgramInfo &info) {
  SmallVector<SmallVector<int64_t>> members;
  for (int64_t group = 0; group < info.numGroups; ++group)
    members.push_back(plan.getRanksOf(group));
  for (size_t index = 0; index < members[0].size(); ++index) {
    Timetable table = plan.getTimetable(index);
    for (int64_t group = 0; group < info.numGroups; ++group) {
      Rank &rank = ranks[members[group][index]];
      rank.group = group;
      int64_t last = info.numGroups - 1;
      bool isRing = info.numChunks > 1;
      if (group > 0 || isRing)
        rank.previous = members[group ? group - 1 : last][index];
      if (group < last || isRing)
        rank.next = members[group < last ? group + 1 : 0][index];
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
    chunk.memory = {int64_t(planned.getSlotBytes()),
                    0, // the slot is no message
                    int64_t(planned.getActivationInBytes()),
                    int64_t(planned.getActivationOutBytes()),
                    int64_t(planned.getGradientInBytes()),
                    int64_t(planned.getGradientOutBytes()),
                    planned.getKeepsSent()};
    // Where nothing is reduced in the last turn alone, it is like the others.
    std::string last = info.getTurnName("backward_last", index);
    if (!module.lookupSymbol(last))
      last = info.getTurnName("backward", index);
    for (const std::string &name : {info.getTurnName("forward", index),
                                    info.getTurnName("backward", index), last,
                                    info.getTurnName("evaluate", index),
                                    info.getTurnName("infer", index)})
      chunk.functions.push_back(name + ".step");
    chunks.push_back(std::move(chunk));
  }
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
    workingType = exec::getPoplarType(copies.getType());
    std::vector<int64_t> bounds = {0, layout.elements};
    if (bucket.getBounds())
      bounds = bucket.getBounds()->vec();
    std::vector<int64_t> holders;
    for (int64_t group : bucket.getGroups().value_or(ArrayRef<int64_t>()))
      for (auto plan : module.getOps<zero::PlanOp>())
        llvm::append_range(holders, plan.getRanksOf(group));
    llvm::sort(holders);
    auto offsetOf = [](std::optional<uint64_t> place) {
      return place ? int64_t(*place) : -1;
    };
    buckets.push_back({bucket.getSymName().str(), layout.elements,
                       offsetOf(copies.getWorking()),
                       offsetOf(copies.getGradient()), std::move(bounds),
                       info.getStage(bucket), std::move(holders)});
  }
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    if (type.getRank() > 4)
      return parameter.emitOpError("has more than four dimensions");
    auto [bucket, offset] = places.lookup(parameter.getSymNameAttr());
    parameters.push_back({parameter.getSymName().str(), type.getShape().vec(),
                          type.getNumElements(), bucket, offset,
                          int32_t(parameter.getInit()), parameter.getDecay(),
                          parameter.getStdDev().convertToDouble()});
  }
  for (auto plan : module.getOps<zero::PlanOp>())
    for (zero::RankOp rank : plan.getRanks())
      ranks.push_back({rank.getDeviceType().str(), rank.getNode().str(),
                       int64_t(rank.getMicroBatch()), int64_t(rank.getSteps()),
                       int64_t(rank.getLast()), int64_t(rank.getThreads())});
  if (!info.isPipelineStage())
    return success();
  for (auto plan : module.getOps<zero::PlanOp>())
    takePipeline(plan, info);
  takeChunks(module, info);
  return success();
}

LogicalResult ProgramDescription::take(ModuleOp module,
                                       const HostOptions &options) {
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
  json = describe(model, options, info);
  stage = info.stage;
  worldSize = info.worldSize;
  planHash = hashPlan(module);
  module.walk([&](Operation *op) {
    if (isa<exec::StartOp, exec::NormOp>(op))
      ++numCollectives;
  });
  fixedBytes = arena.getFixed();
  bytesPerSample = arena.getPerSample();
  scratchOffset = arena.getScratchOffset();
  scratchBytes = arena.getScratchBytes();
  if (auto flops = module->getAttrOfType<FloatAttr>(kFlopsAttr))
    flopsPerSample = flops.getValueAsDouble();
  return failure(failed(takeSteps(module)) || failed(takeState(module)));
}

void ProgramDescription::emit(llvm::Module &module,
                              const GPUImage *image) const {
  llvm::LLVMContext &context = module.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  llvm::Type *f64 = llvm::Type::getDoubleTy(context);
  auto *pointer = llvm::PointerType::get(context, 0);
  auto int32 = [&](int64_t value) -> llvm::Constant * {
    return llvm::ConstantInt::get(i32, value);
  };
  auto int64 = [&](int64_t value) -> llvm::Constant * {
    return llvm::ConstantInt::get(i64, value);
  };
  auto global = [&](llvm::Constant *value, const char *name) {
    auto *variable = new llvm::GlobalVariable(
        module, value->getType(), /*isConstant=*/true,
        llvm::GlobalValue::InternalLinkage, value, name);
    return variable;
  };
  auto text = [&](StringRef value) -> llvm::Constant * {
    return global(llvm::ConstantDataArray::getString(context, value), "text");
  };
  auto symbol = [&](StringRef name) -> llvm::Constant * {
    if (name.empty())
      return llvm::ConstantPointerNull::get(pointer);
    return module.getNamedValue(name);
  };

  auto integers = [&](ArrayRef<int64_t> values) {
    std::vector<llvm::Constant *> constants;
    for (int64_t value : values)
      constants.push_back(int64(value));
    return llvm::ConstantArray::get(llvm::ArrayType::get(i64, values.size()),
                                    constants);
  };
  auto table = [&](ArrayRef<llvm::Constant *> entries,
                   const char *name) -> llvm::Constant * {
    if (entries.empty())
      return llvm::ConstantPointerNull::get(pointer);
    return global(
        llvm::ConstantArray::get(
            llvm::ArrayType::get(entries.front()->getType(), entries.size()),
            entries),
        name);
  };

  // The order of fields is that of Runtime/ABI.h.
  std::vector<llvm::Constant *> parameterEntries;
  for (const Parameter &parameter : parameters) {
    std::vector<int64_t> shape = parameter.shape;
    shape.resize(4, 1);
    parameterEntries.push_back(llvm::ConstantStruct::getAnon(
        {text(parameter.name), int64(parameter.shape.size()), integers(shape),
         int64(parameter.elements), int64(parameter.bucket),
         int64(parameter.offset), int32(parameter.init), int32(parameter.decay),
         llvm::ConstantFP::get(f64, parameter.stdDev)}));
  }
  std::vector<llvm::Constant *> bucketEntries;
  for (const Bucket &bucket : buckets)
    bucketEntries.push_back(llvm::ConstantStruct::getAnon(
        {text(bucket.name), int64(bucket.elements), int64(bucket.working),
         int64(bucket.gradient), global(integers(bucket.bounds), "bounds"),
         int64(bucket.stage), int64(bucket.holders.size()),
         bucket.holders.empty()
             ? symbol("")
             : global(integers(bucket.holders), "holders")}));
  // Ranks with as many steps have the same turns.
  std::map<std::vector<int32_t>, llvm::Constant *> known = {{{}, symbol("")}};
  auto list = [&](const std::vector<int32_t> &values) {
    llvm::Constant *&own = known[values];
    if (!own)
      own = global(llvm::ConstantDataArray::get(context, values), "turns");
    return own;
  };
  std::vector<llvm::Constant *> rankEntries;
  for (const Rank &rank : ranks)
    rankEntries.push_back(llvm::ConstantStruct::getAnon(
        {text(rank.deviceType), text(rank.node), int64(rank.microBatch),
         int64(rank.steps), int64(rank.last), int64(rank.threads),
         int64(rank.group), int64(rank.previous), int64(rank.next),
         rank.inFlight.empty() ? symbol("")
                               : global(integers(rank.inFlight), "in_flight"),
         list(rank.turns), list(rank.chunks)}));

  std::vector<llvm::Constant *> gemms;
  for (llvm::GlobalVariable &variable : module.globals())
    if (variable.getName().starts_with("gemm"))
      gemms.push_back(&variable);
  auto kernel = [&](const std::string &name) {
    return symbol(image || name.empty() ? "" : getKernelBodyName(name));
  };
  llvm::Constant *gpu = symbol("");
  if (image) {
    std::vector<llvm::Constant *> kernels;
    int64_t adamw = -1, convert = -1;
    for (const GPUKernel &entry : image->kernels) {
      if (entry.name == adamwKernel)
        adamw = int64_t(kernels.size());
      if (entry.name == convertKernel)
        convert = int64_t(kernels.size());
      kernels.push_back(llvm::ConstantStruct::getAnon(
          {text(entry.name), int32(entry.block[0]), int32(entry.block[1]),
           int32(entry.block[2]), int32(entry.pointers),
           int64(entry.partsPerBlock), int64(entry.bytes),
           int64(entry.bytesPerSample), int64(entry.flopsPerSample)}));
    }
    llvm::Constant *cubin = symbol("");
    if (!image->cubin.empty()) {
      auto *data = global(
          llvm::ConstantDataArray::getString(context, image->cubin), "cubin");
      data->setAlignment(llvm::Align(64));
      cubin = data;
    }
    gpu = global(
        llvm::ConstantStruct::getAnon(
            {text(image->chip), text(image->ptx), cubin, int64(kernels.size()),
             table(kernels, "gpu_kernels"), int64(adamw), int64(convert)}),
        "gpu_image");
  }
  bool splits = !chunks.empty();
  auto step = [&](bool exists, StringRef name) {
    return symbol(exists ? name : StringRef());
  };
  llvm::Constant *stageOfPipeline = symbol("");
  if (splits) {
    std::vector<llvm::Constant *> chunkEntries;
    for (const Chunk &chunk : chunks) {
      std::vector<llvm::Constant *> fields;
      for (int64_t value : chunk.memory)
        fields.push_back(int64(value));
      for (const std::string &name : chunk.functions)
        fields.push_back(symbol(name));
      chunkEntries.push_back(llvm::ConstantStruct::getAnon(fields));
    }
    stageOfPipeline =
        global(llvm::ConstantStruct::getAnon({int64(group), int64(numGroups),
                                              int64(chunks.size()),
                                              table(chunkEntries, "chunks")}),
               "pipeline");
  }
  auto *program =
      llvm::ConstantStruct::getAnon({int32(POPLAR_ABI_MAGIC),
                                     int32(POPLAR_ABI_VERSION),
                                     text(json),
                                     int64(int64_t(planHash)),
                                     int64(stage),
                                     int64(worldSize),
                                     table(rankEntries, "ranks"),
                                     int64(fixedBytes),
                                     int64(bytesPerSample),
                                     int64(scratchOffset),
                                     int64(scratchBytes),
                                     int64(inputs[0]),
                                     int64(inputs[1]),
                                     int64(inputs[2]),
                                     int64(inputs[3]),
                                     int64(trainLoss),
                                     int64(evaluateLoss),
                                     int64(logits),
                                     int32(logitsType),
                                     int32(0),
                                     int64(parameters.size()),
                                     table(parameterEntries, "parameters"),
                                     int64(buckets.size()),
                                     table(bucketEntries, "buckets"),
                                     int32(workingType),
                                     int32(numCollectives),
                                     int64(gemms.size()),
                                     table(gemms, "gemms"),
                                     llvm::ConstantFP::get(f64, flopsPerSample),
                                     step(!splits, "train.step"),
                                     step(!splits, trainLast),
                                     symbol("update.step"),
                                     step(!splits, "evaluate.step"),
                                     step(!splits, "infer.step"),
                                     kernel(adamwKernel),
                                     kernel(convertKernel),
                                     gpu,
                                     stageOfPipeline});
  new llvm::GlobalVariable(module, program->getType(), /*isConstant=*/true,
                           llvm::GlobalValue::ExternalLinkage, program,
                           "poplar_program");
}
