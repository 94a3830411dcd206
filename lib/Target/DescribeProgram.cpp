//===- DescribeProgram.cpp - What the runtime has to know -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes exec.program: a record for each struct of Runtime/ABI.def that the
// executable holds, from the plan, the buckets, the parameters and the
// functions, by their roles (exec.entry). Functions are named as they are here;
// --lower-program renames them.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Plan/Lanes.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Target/Build.h"
#include "Poplar/Target/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

namespace poplar {
#define GEN_PASS_DEF_DESCRIBEPROGRAM
#include "Poplar/Target/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;
using exec::RecordAttr;
using exec::RecordBuilder;

/// The vector instructions that a program may use, in the words of Linux: those
/// of its target, or of the machine at hand if it is compiled for that.
static std::string listInstructions(StringRef target, StringRef cpu,
                                    StringRef chip) {
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
  bool isNative = chip.empty() && cpu == "native";
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
  stream << zero::getStateBits(module);
  // Each group has functions of its own, and buckets each position.
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  if (info.isPipelineStage() || info.sharesUnits())
    return llvm::xxh3_64bits(text);
  for (auto function : module.getOps<exec::FunctionOp>()) {
    auto starts = function.getOps<exec::StartOp>();
    // Ranks that recompute in some layers have units that others do not have.
    if (starts.empty())
      continue;
    stream << function.getSymName();
    for (auto start : starts)
      stream << zero::stringifyCollectiveKind(start.getKind())
             << start.getBucket() << start.getWire();
  }
  return llvm::xxh3_64bits(text);
}

namespace {

/// See PoplarLink.
struct Link {
  int64_t rank, first, count;
};

/// See PoplarRank: what follows from the others of its plan.
struct RankLinks {
  int64_t group = 0;
  SmallVector<Link> previous, next;
  SmallVector<int64_t> sharers;
  int64_t position = 0;
  SmallVector<int64_t> inFlight, turns, chunks;
};

class ProgramDescriber {
public:
  ProgramDescriber(ModuleOp module, const DescribeProgramOptions &options)
      : module(module), options(options), info(zero::ProgramInfo::get(module)),
        context(module.getContext()) {
    auto plans = module.getOps<zero::PlanOp>();
    if (!plans.empty())
      plan = zero::readPlan(*plans.begin());
    SymbolTable symbols(module);
    for (auto entry : module.getOps<exec::EntryOp>())
      functions[{int64_t(entry.getEntry()), int64_t(entry.getChunk())}] =
          symbols.lookup<exec::FunctionOp>(entry.getFunction());
  }

  /// Null, with a diagnostic, if something is missing.
  RecordAttr run();

private:
  RecordBuilder make(StringRef type) { return RecordBuilder(context, type); }
  /// The function of a role, steps in chunk 0; null if there is none.
  exec::FunctionOp findFunction(nn::Entry role, int64_t chunk = 0) {
    return functions.lookup({int64_t(role), chunk});
  }
  /// Its name; empty if there is none.
  StringRef nameFunction(nn::Entry role, int64_t chunk = 0) {
    exec::FunctionOp function = findFunction(role, chunk);
    return function ? function.getSymName() : StringRef();
  }

  LogicalResult describeSteps(RecordBuilder &program);
  LogicalResult describeState(RecordBuilder &program);
  RecordAttr describeModel();
  RecordAttr describeBucket(exec::CopiesOp copies, zero::BucketOp bucket,
                            int64_t elements);
  RecordAttr describeParameter(nn::ParameterOp parameter, int64_t bucket,
                               int64_t offset);
  Attribute describeDecoding(nn::Entry pass);
  Attribute describePipeline();
  SmallVector<Attribute> describeLinks(ArrayRef<Link> links);
  SmallVector<Attribute> describeRanks();
  void linkSharers(MutableArrayRef<RankLinks> ranks);
  void linkStages(MutableArrayRef<RankLinks> ranks);
  int64_t countLogitsColumns();

  ModuleOp module;
  const DescribeProgramOptions &options;
  zero::ProgramInfo info;
  MLIRContext *context;
  std::optional<Plan> plan;
  nn::Model facts;
  /// By role and chunk.
  DenseMap<std::pair<int64_t, int64_t>, exec::FunctionOp> functions;
  int64_t numElements = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

/// Fewer than the vocabulary where ranks share units.
int64_t ProgramDescriber::countLogitsColumns() {
  exec::FunctionOp infer = findFunction(nn::Entry::Infer, info.numChunks - 1);
  if (!info.sharesUnits() || !infer || !infer.getResultType())
    return *facts.getVocabSize();
  return cast<MemRefType>(*infer.getResultType()).getShape().back();
}

RecordAttr ProgramDescriber::describeModel() {
  auto text = [](std::optional<StringRef> value) {
    return value.value_or(StringRef());
  };
  int32_t frozen = 0;
  if (auto format = nn::symbolizeQuantizedFormat(text(facts.getFrozenFormat())))
    frozen = nn::getPoplarType(*format);
  return make("PoplarModel")
      .setText("architecture", text(facts.getArchitecture()))
      .setText("config", facts.getConfig().value_or("{}"))
      .setText("config_facts", text(facts.getConfigFacts()))
      .setText("weights_path", text(facts.getWeightsPath()))
      .setText("tokenizer", text(facts.getTokenizer()))
      .setText("tokenizer_hash", text(facts.getTokenizerHash()))
      .set("vocab_size", *facts.getVocabSize())
      .set("seq_len", *facts.getSeqLen())
      .set("num_elements", numElements)
      .set("logits_columns", countLogitsColumns())
      .set("masked", facts.getObjective() == "masked")
      .set("packed", nn::isPacked(module))
      .set("scaled", info.isScaled())
      .set("state_bits", zero::getStateBits(module))
      .set("frozen_type", frozen)
      .set("lossy_parameters",
           info.hasLossyParameters
               ? exec::getPoplarWire(zero::getWireType(context, info.wire))
               : -1)
      .set("mask_token", facts.getMaskToken().value_or(-1))
      .setList("special_tokens",
               facts.getSpecialTokens().value_or(ArrayRef<int64_t>()))
      .set("lora_rank", facts.getLoraRank().value_or(0))
      .setNumber("lora_alpha", facts.getLoraAlpha().value_or(0))
      .setNumber("lora_dropout", facts.getLoraDropout().value_or(0))
      .setText("lora_targets", text(facts.getLoraTargets()))
      .set("lora_in_out", facts.getLoraInOut().value_or(false))
      .get();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// A function of --nn-add-decoding; null if there is none. Logits are the last
/// chunk's.
Attribute ProgramDescriber::describeDecoding(nn::Entry pass) {
  exec::FunctionOp step = findFunction(pass, info.numChunks - 1);
  if (!step)
    return UnitAttr::get(context);
  exec::InputsAttr inputs = step.getInputsAttr();
  return make("PoplarDecoding")
      .set("tokens", int64_t(*step.getDecoding()))
      .set("ids", inputs.getIds())
      .set("positions", inputs.getPositions())
      .set("logits", step.getResult() ? int64_t(*step.getResult()) : -1)
      .setSymbol("run",
                 info.isPipelineStage() ? StringRef() : step.getSymName())
      .get();
}

/// Where @train, @evaluate, @infer and @update take and leave their values.
LogicalResult ProgramDescriber::describeSteps(RecordBuilder &program) {
  bool splits = info.isPipelineStage();
  // Loss and logits are the last chunk's.
  int64_t chunk = info.numChunks - 1;
  int64_t trainLoss = -1, evaluateLoss = -1, logits = -1, logitsType = 0;
  exec::InputsAttr inputs;
  nn::Entry train = splits ? nn::Entry::Forward : nn::Entry::Train,
            takesInputs = splits ? nn::Entry::Backward : nn::Entry::Train;
  for (nn::Entry pass :
       {train, takesInputs, nn::Entry::Evaluate, nn::Entry::Infer}) {
    exec::FunctionOp step = findFunction(pass, chunk);
    if (!step)
      return module.emitError("has no function of role '")
             << nn::getName(pass)
             << "' (exec.entry): run --nn-differentiate before --plan-memory";
    if (pass == takesInputs)
      inputs = step.getInputsAttr();
    if (!step.getResult()) // A stage before the last gives no loss, no logits.
      continue;
    int64_t result = *step.getResult();
    if (pass == train) {
      trainLoss = result;
    } else if (pass == nn::Entry::Evaluate) {
      evaluateLoss = result;
    } else if (pass == nn::Entry::Infer) {
      logits = result;
      logitsType =
          exec::getPoplarType(getElementTypeOrSelf(*step.getResultType()));
    }
  }
  // Before the last stage there is no dloss.
  bool hasLoss = trainLoss >= 0, isPacked = nn::isPacked(module);
  if (!inputs || inputs.getIds() < 0 || inputs.getTargets() < 0 ||
      inputs.getKeys() < 0 || (inputs.getPositions() >= 0) != isPacked ||
      (inputs.getDloss() >= 0) != hasLoss)
    return module.emitError("role '")
           << nn::getName(takesInputs) << "' has to take ids, targets, keys"
           << (isPacked ? ", positions" : "") << (hasLoss ? " and dloss" : "");
  if (!findFunction(nn::Entry::Update))
    return module.emitError("has no function of role 'update': run "
                            "--zero-materialize first");
  exec::FunctionOp last = findFunction(nn::Entry::TrainLast);
  // A pipeline stage has turns of its chunks instead.
  auto step = [&](nn::Entry entry) {
    return splits ? StringRef() : nameFunction(entry);
  };
  program.set("ids", inputs.getIds())
      .set("targets", inputs.getTargets())
      .set("keys", inputs.getKeys())
      .set("positions", inputs.getPositions())
      .set("dloss", inputs.getDloss())
      .set("train_loss", trainLoss)
      .set("train_last_loss",
           last ? int64_t(last.getResult().value_or(-1)) : trainLoss)
      .set("evaluate_loss", evaluateLoss)
      .set("logits", logits)
      .set("logits_type", logitsType)
      .set("decode", describeDecoding(nn::Entry::Decode))
      .set("prefill", describeDecoding(nn::Entry::Prefill))
      .setSymbol("update", nameFunction(nn::Entry::Update))
      .setSymbol("train", step(nn::Entry::Train))
      .setSymbol("train_last",
                 step(last ? nn::Entry::TrainLast : nn::Entry::Train))
      .setSymbol("evaluate", step(nn::Entry::Evaluate))
      .setSymbol("infer", step(nn::Entry::Infer));

  auto optimizers = module.getOps<exec::OptimizerOp>();
  if (optimizers.empty())
    return module.emitError("has no optimizer: run --add-optimizer first");
  exec::OptimizerOp optimizer = *optimizers.begin();
  program.setSymbol("adamw", optimizer.getUpdate())
      .setSymbol("convert_working", optimizer.getRound().value_or(""));
  return success();
}

/// Null where all ranks are one group.
Attribute ProgramDescriber::describePipeline() {
  if (!info.isPipelineStage())
    return UnitAttr::get(context);
  SmallVector<Attribute> chunks;
  for (auto chunk : module.getOps<exec::ChunkOp>()) {
    auto index = int64_t(chunk.getIndex());
    auto name = [&](nn::Entry role) { return nameFunction(role, index); };
    // Where nothing is reduced in the last turn alone, it is like the others.
    StringRef last = name(nn::Entry::BackwardLast);
    chunks.push_back(
        make("PoplarChunk")
            .set("slot_bytes", chunk.getSlotBytes())
            .setList("message_bytes",
                     {0, // the slot is no message
                      int64_t(chunk.getActivationInBytes()),
                      int64_t(chunk.getActivationOutBytes()),
                      int64_t(chunk.getGradientInBytes()),
                      int64_t(chunk.getGradientOutBytes())})
            .set("keeps_sent", chunk.getKeepsSent())
            .setSymbol("forward", name(nn::Entry::Forward))
            .setSymbol("backward", name(nn::Entry::Backward))
            .setSymbol("backward_last",
                       last.empty() ? name(nn::Entry::Backward) : last)
            .setSymbol("evaluate", name(nn::Entry::Evaluate))
            .setSymbol("infer", name(nn::Entry::Infer))
            .setSymbol("decode", name(nn::Entry::Decode))
            .setSymbol("prefill", name(nn::Entry::Prefill))
            .get());
  }
  return make("PoplarPipeline")
      .set("group", info.group)
      .set("num_groups", info.numGroups)
      .setRecords("chunks", chunks)
      .get();
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

/// The members of a pipeline in a group that have tokens of the rank at
/// `position` of another.
static SmallVector<Link> findLinks(ArrayRef<int64_t> own, int64_t position,
                                   ArrayRef<int64_t> bounds,
                                   ArrayRef<int64_t> members) {
  SmallVector<Link> links;
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
void ProgramDescriber::linkStages(MutableArrayRef<RankLinks> ranks) {
  std::vector<std::vector<std::vector<int64_t>>> pipelines;
  int64_t tokens = *facts.getSeqLen();
  for (int64_t group = 0; group < info.numGroups; ++group)
    pipelines.push_back(plan->getPipelinesOf(group));
  int64_t last = info.numGroups - 1;
  bool isRing = info.numChunks > 1;
  for (size_t index = 0; index < pipelines[0].size(); ++index) {
    Timetable table = plan->getTimetable(index);
    SmallVector<SmallVector<int64_t>> bounds;
    for (const Plan::Group &group : plan->groups)
      bounds.push_back(
          nn::divideByParts(tokens, getPartsOfRanks(group, index)));
    for (int64_t group = 0; group < info.numGroups; ++group)
      for (auto [position, member] : llvm::enumerate(pipelines[group][index])) {
        RankLinks &rank = ranks[member];
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
          rank.turns.push_back(turn.isBackward ? -turn.microBatch - 1
                                               : turn.microBatch + 1);
          rank.chunks.push_back(turn.chunk);
        }
      }
  }
}

/// The ranks with which each shares units.
void ProgramDescriber::linkSharers(MutableArrayRef<RankLinks> ranks) {
  for (size_t group = 0; group < plan->groups.size(); ++group)
    for (ArrayRef<int64_t> members : plan->getPipelinesOf(group)) {
      if (members.size() == 1)
        continue;
      for (auto [position, member] : llvm::enumerate(members)) {
        ranks[member].sharers.assign(members.begin(), members.end());
        ranks[member].position = int64_t(position);
      }
    }
}

SmallVector<Attribute> ProgramDescriber::describeLinks(ArrayRef<Link> links) {
  SmallVector<Attribute> records;
  for (const Link &link : links)
    records.push_back(make("PoplarLink")
                          .set("rank", link.rank)
                          .set("first", link.first)
                          .set("count", link.count)
                          .get());
  return records;
}

SmallVector<Attribute> ProgramDescriber::describeRanks() {
  SmallVector<Attribute> records;
  if (!plan)
    return records;
  std::vector<RankLinks> links(plan->ranks.size());
  linkSharers(links);
  if (info.isPipelineStage())
    linkStages(links);
  for (auto [rank, link] : llvm::zip_equal(plan->ranks, links))
    records.push_back(make("PoplarRank")
                          .setText("device_type", rank.type)
                          .setText("node", rank.node)
                          .set("micro_batch", rank.share.microBatch)
                          .set("steps", rank.share.steps)
                          .set("last", rank.share.last)
                          .set("threads", rank.threads)
                          .set("group", link.group)
                          .setRecords("previous", describeLinks(link.previous))
                          .setRecords("next", describeLinks(link.next))
                          .setList("sharers", link.sharers)
                          .set("position", link.position)
                          .setList("in_flight", link.inFlight)
                          .setList("turns", link.turns)
                          .setList("chunks", link.chunks)
                          .get());
  return records;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

RecordAttr ProgramDescriber::describeBucket(exec::CopiesOp copies,
                                            zero::BucketOp bucket,
                                            int64_t elements) {
  SmallVector<int64_t> bounds = {0, elements}, holders, residuals;
  if (bucket.getBounds())
    bounds.assign(bucket.getBounds()->begin(), bucket.getBounds()->end());
  if (bucket.getGroups() && plan)
    llvm::append_range(holders, zero::findHolders(*plan, bucket));
  if (info.gradientWire != WireFormat::F32 && !bucket.getFrozen() && plan)
    for (size_t rank = 0; rank < plan->ranks.size(); ++rank)
      residuals.push_back(zero::countResidual(*plan, info, bucket, rank));
  auto offsetOf = [](std::optional<uint64_t> place) {
    return place ? int64_t(*place) : -1;
  };
  return make("PoplarBucket")
      .setText("name", bucket.getSymName())
      .set("elements", elements)
      .set("working", offsetOf(copies.getWorking()))
      .set("gradient", offsetOf(copies.getGradient()))
      .setList("bounds", bounds)
      .set("stage", info.getStage(bucket))
      .setList("ranks", holders)
      .set("frozen", bucket.getFrozen())
      .set("quantized", bucket.getQuantized())
      .setList("residuals", residuals)
      .set("own_master", info.hasOwnMaster(bucket))
      .get();
}

RecordAttr ProgramDescriber::describeParameter(nn::ParameterOp parameter,
                                               int64_t bucket, int64_t offset) {
  auto type = cast<RankedTensorType>(parameter.getType());
  auto pad = [](ArrayRef<int64_t> shape) {
    SmallVector<int64_t> padded(shape);
    padded.resize(4, 1);
    return padded;
  };
  Attribute slice = UnitAttr::get(context);
  if (nn::SliceAttr of = parameter.getSliceAttr())
    slice = make("PoplarSlice")
                .setText("tensor", of.getTensor())
                .set("rank", of.getShape().size())
                .setList("shape", pad(of.getShape()))
                .set("dim", of.getDim())
                .set("num_ranges", of.getRanges().size() / 2)
                .setList("ranges", of.getRanges())
                .get();
  int64_t quantized =
      nn::isQuantized(type) ? exec::getPoplarType(type.getElementType()) : 0;
  return make("PoplarParameter")
      .setText("name", parameter.getSymName())
      .set("rank", type.getRank())
      .setList("shape", pad(type.getShape()))
      .set("elements", type.getNumElements())
      .set("bucket", bucket)
      .set("offset", offset)
      .set("init", int64_t(parameter.getInit()))
      .set("decay", parameter.getDecay())
      .setNumber("std_dev", parameter.getStdDev().convertToDouble())
      .set("slice", slice)
      .set("quantized", quantized)
      .set("reserved", int64_t(0))
      .get();
}

LogicalResult ProgramDescriber::describeState(RecordBuilder &program) {
  DenseMap<StringAttr, std::pair<int64_t, int64_t>> places;
  SymbolTableCollection symbols;
  SmallVector<Attribute> buckets, parameters;
  int64_t workingType = 0;
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
    buckets.push_back(describeBucket(copies, bucket, layout.elements));
  }
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    if (zero::hasParts(parameter))
      continue;
    auto type = cast<RankedTensorType>(parameter.getType());
    if (type.getRank() > 4)
      return parameter.emitOpError("has more than four dimensions");
    auto [bucket, offset] = places.lookup(parameter.getSymNameAttr());
    numElements += type.getNumElements();
    parameters.push_back(describeParameter(parameter, bucket, offset));
  }
  program.setRecords("parameters", parameters)
      .setRecords("buckets", buckets)
      .set("working_type", workingType);
  return success();
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

RecordAttr ProgramDescriber::run() {
  facts = nn::Model::of(module);
  exec::ArenaOp arena = getArena(module);
  if (!arena || !facts) {
    module.emitError("has no planned model: it needs the attribute nn.model, "
                     "and an exec.arena of --plan-memory");
    return {};
  }
  for (StringRef name :
       {"vocab_size", "seq_len", "objective", "num_parameters"})
    if (!facts.getDictionary().contains(name)) {
      module.emitError("nn.model: ")
          << name << " is missing, which the runtime needs";
      return {};
    }
  auto costs = module.getOps<nn::TrainingCostOp>();
  if (costs.empty()) {
    module.emitError("has no nn.training_cost: run --annotate-cost");
    return {};
  }
  int64_t numCollectives = 0;
  module.walk([&](Operation *op) {
    numCollectives += isa<exec::StartOp, exec::NormOp>(op);
  });
  RecordBuilder program = make("PoplarProgram");
  if (failed(describeSteps(program)) || failed(describeState(program)))
    return {};
  int64_t perSample = arena.getPerSample();
  std::string type =
      info.deviceType.empty() ? "host:" + options.cpu : info.deviceType;
  return program.set("magic", int64_t(POPLAR_ABI_MAGIC))
      .set("version", int64_t(POPLAR_ABI_VERSION))
      .set("model", describeModel())
      .setText("device_type", type)
      .setText("precision", toString(info.precision == NumberFormat::TF32
                                         ? info.precision
                                         : options.precision))
      .setText("isa", options.isa)
      .setText("instructions",
               listInstructions(info.target, options.cpu, options.chip))
      .set("plan_hash", int64_t(hashPlan(module)))
      .set("stage", info.stage)
      .set("world_size", info.worldSize)
      .set("replicas", info.replicas)
      .setRecords("ranks", describeRanks())
      .set("fixed_bytes", arena.getFixed())
      .set("bytes_per_sample", perSample)
      .set("sampling_bytes_per_sample",
           int64_t(arena.getSamplingPerSample().value_or(perSample)))
      .set("scratch_offset", arena.getScratchOffset())
      .set("scratch_bytes", arena.getScratchBytes())
      .set("is_random", module->hasAttr(nn::kRandomAttr))
      .set("num_collectives", numCollectives)
      .setNull("gemms")
      .setNull("decoding_gemms")
      .setNumber("flops_per_sample",
                 (*costs.begin()).getFlopsPerSample().convertToDouble())
      .setNull("gpu")
      .set("pipeline", describePipeline())
      .get();
}

namespace {
class DescribeProgramPass
    : public poplar::impl::DescribeProgramBase<DescribeProgramPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    DescribeProgramOptions options{precision, cpu, isa, chip};
    RecordAttr table = ProgramDescriber(module, options).run();
    if (!table)
      return signalPassFailure();
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    exec::ProgramOp::create(builder, module.getLoc(), table);
  }
};
} // namespace
