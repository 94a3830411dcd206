//===- ProgramCosts.cpp - What a step of a model takes -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCosts.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Model/ParameterBytes.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace poplar;

ProgramChoice::ProgramChoice(const DeviceType &type) {
  options.recompute = type.recompute;
  info.deviceType = type.name;
  info.recompute = type.recompute;
  info.precision = type.precision;
  options.precision = getStorageFormat(type.precision);
  options.storesOnly = type.getWorkingFormat() != options.precision;
  info.target = type.target;
  options.threads = static_cast<int>(type.threads.value_or(1));
  options.workspaceBytes = getRooflineConstants(type.target).workspaceBytes;
}

std::vector<std::string> ProgramChoice::getKey() const {
  bool isHost = options.workspaceBytes < 0;
  return {toString(info.precision), toString(options.recompute),
          isHost ? info.target : "", std::to_string(options.threads)};
}

//===----------------------------------------------------------------------===//
// Shorter models
//===----------------------------------------------------------------------===//

/// Layers of a kind in the models from which costs are extrapolated: the first
/// and the last layer have neighbours that the others do not have.
static constexpr int64_t fewLayers = 3;

LayerCounts poplar::countLayers(func::FuncOp model, int64_t most) {
  LayerCounts counts;
  for (func::CallOp layer : findLayers(model)) {
    int64_t &count = counts[layer.getCallee()];
    count = std::min(count + 1, most);
  }
  return counts;
}

/// A module of the model alone, with the first layers of each kind.
static OwningOpRef<ModuleOp> shorten(ModuleOp module, const LayerCounts &kept,
                                     const zero::ProgramInfo &info) {
  OwningOpRef<ModuleOp> shorter = ModuleOp::create(module.getLoc());
  // It is another model in these.
  if (nn::Model facts = nn::Model::of(module)) {
    facts.clearNumLayers();
    facts.clearNumParameters();
    facts.clearConfig();
    facts.attachTo(*shorter);
  }
  OpBuilder builder = OpBuilder::atBlockEnd(shorter->getBody());
  for (auto function : module.getOps<func::FuncOp>())
    builder.clone(*function);
  auto model = nn::findEntry<func::FuncOp>(*shorter, nn::Entry::Model);
  LayerCounts counts;
  for (func::CallOp layer : findLayers(model)) {
    if (++counts[layer.getCallee()] <= kept.lookup(layer.getCallee()))
      continue;
    layer.getResult(0).replaceAllUsesWith(getTaken(layer));
    layer.erase();
  }
  // Only the parameters that are still read.
  builder.setInsertionPointToStart(shorter->getBody());
  info.create(builder, module.getLoc());
  SymbolTable symbols(module);
  for (auto get :
       llvm::make_early_inc_range(model.getOps<nn::GetParameterOp>())) {
    if (get->use_empty())
      get.erase();
    else if (StringRef name = get.getParameter(); !shorter->lookupSymbol(name))
      builder.clone(*symbols.lookup(name));
  }
  return shorter;
}

static LogicalResult run(ModuleOp module,
                         llvm::function_ref<void(OpPassManager &)> build) {
  PassManager pm(module.getContext());
  // Such programs are not built.
  pm.enableVerifier(false);
  build(pm);
  return pm.run(module);
}

/// Replaces a model by the program of the first of several devices that share
/// all of its units.
static LogicalResult shareUnits(OwningOpRef<ModuleOp> &model, ModuleOp source,
                                const ProgramChoice &choice, int sharers) {
  auto units =
      ModelUnits::get(nn::findEntry<func::FuncOp>(*model, nn::Entry::Model));
  if (failed(units))
    return failure();
  zero::getProgram(*model).erase();
  OpBuilder builder = OpBuilder::atBlockEnd(model->getBody());
  auto type = cast<cluster::DeviceTypeOp>(builder.clone(
      *source.lookupSymbol<cluster::DeviceTypeOp>(choice.info.deviceType)));
  type.setRecompute(choice.info.recompute);
  SmallVector<Attribute> devices(sharers, FlatSymbolRefAttr::get(type));
  cluster::NodeOp::create(builder, type.getLoc(), "node",
                          builder.getArrayAttr(devices));
  // No program depends on its speed.
  cluster::LinkOp::create(builder, type.getLoc(),
                          cluster::LinkKindAttr::get(builder.getContext(),
                                                     cluster::LinkKind::Inside),
                          nullptr, nullptr, builder.getF64FloatAttr(0),
                          builder.getF64FloatAttr(1), nullptr, nullptr);
  StageRanks stage;
  stage.units = {0, units->size()};
  stage.ranks.emplace_back(sharers);
  std::iota(stage.ranks.front().begin(), stage.ranks.front().end(), 0);
  zero::addPlan(*model, writeStages(cluster::buildClusterView(*model), "stages",
                                    std::nullopt, {stage}, {{1, 1, 1}}));
  if (failed(run(*model, [](OpPassManager &pm) {
        pm.addPass(createSpecializeDeviceTypes());
      })))
    return failure();
  ModuleOp first = *model->getOps<ModuleOp>().begin();
  first->remove();
  model = first;
  return success();
}

FailureOr<OwningOpRef<ModuleOp>>
poplar::makeShortTensors(ModuleOp module, const LayerCounts &kept,
                         const ProgramChoice &choice, int sharers) {
  OwningOpRef<ModuleOp> tensors = shorten(module, kept, choice.info);
  if (failed(run(*tensors,
                 [&](OpPassManager &pm) {
                   pm.addPass(
                       createZeroFormBuckets({choice.options.bucketBytes}));
                 })) ||
      (sharers > 1 && failed(shareUnits(tensors, module, choice, sharers))))
    return failure();
  if (failed(run(*tensors, [&](OpPassManager &pm) {
        buildSchedulePipeline(pm, choice.options);
        buildKernelPipeline(pm, choice.options);
      })))
    return failure();
  return tensors;
}

FailureOr<ShortProgram> poplar::makeShortProgram(ModuleOp module,
                                                 const LayerCounts &kept,
                                                 const ProgramChoice &choice,
                                                 int sharers) {
  auto tensors = makeShortTensors(module, kept, choice, sharers);
  if (failed(tensors))
    return failure();
  ShortProgram program;
  program.tensors = std::move(*tensors);
  program.buffers = program.tensors->clone();
  if (failed(run(*program.buffers, [&](OpPassManager &pm) {
        addPlanMemory(pm, choice.options);
      })))
    return failure();
  return program;
}

//===----------------------------------------------------------------------===//
// Costs of the ops of a program
//===----------------------------------------------------------------------===//

namespace {
/// Adds up what a function and those that it calls do.
class Counter {
public:
  explicit Counter(ModuleOp program) : symbols(program) {}

  void count(func::FuncOp function);
  std::vector<RooflineOp> take();

private:
  void add(RooflineOp op) {
    auto [entry, isNew] = ops.try_emplace(op.getKey(), op);
    if (!isNew)
      entry->second.count += op.count;
  }
  void addKernel(exec::DispatchOp call);
  void addOp(nn::CostOpInterface op);

  SymbolTable symbols;
  std::map<decltype(RooflineOp().getKey()), RooflineOp> ops;
};
} // namespace

/// FLOPs of one iteration. Functions without an instruction become polynomials
/// of some ten terms.
static double getIterationFlops(linalg::GenericOp op) {
  constexpr double polynomial = 16, root = 4;
  double flops = 0;
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (isa<math::SqrtOp, math::RsqrtOp>(inner))
      flops += root;
    else if (isa_and_present<math::MathDialect>(inner.getDialect()))
      flops += polynomial;
    else if (inner.getNumResults() && !inner.hasTrait<OpTrait::ConstantLike>())
      flops += 1;
  }
  return flops;
}

/// What a kernel reads and writes goes to memory once, what stays inside it
/// does not.
void Counter::addKernel(exec::DispatchOp call) {
  auto kernel = symbols.lookup<exec::KernelOp>(call.getKernel());
  RooflineOp cost;
  auto addBytes = [&](Type type) {
    exec::BufferSize size = exec::getBufferSize(type);
    (size.perSample ? cost.bytes : cost.fixedBytes) +=
        static_cast<double>(size.bytes);
  };
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    // From a table, a row per token is read: as much as is written.
    bool isTable = llvm::all_of(argument.getUsers(), [](Operation *user) {
      return isa<tensor::ExtractOp>(user);
    });
    addBytes(isTable ? call->getResult(0).getType() : argument.getType());
  }
  for (Type type : call->getResultTypes())
    addBytes(type);
  kernel.walk([&](linalg::GenericOp op) {
    double iterations = 1;
    for (int64_t range : op.getStaticLoopRanges())
      if (!ShapedType::isDynamic(range))
        iterations *= static_cast<double>(range);
    cost.flops += iterations * getIterationFlops(op);
  });
  add(cost);
}

/// Matrix products, attention and what else is no kernel.
void Counter::addOp(nn::CostOpInterface op) {
  nn::OpCost known = op.getCost();
  RooflineOp cost;
  cost.flops = known.flops;
  cost.bytes = known.bytes;
  cost.fixedBytes = known.fixedBytes;
  cost.rows = known.rows;
  cost.columns = known.columns;
  cost.depth = known.depth;
  cost.isDeep = known.isDeep;
  cost.isFP8 = known.isFP8;
  if (known.opClass == nn::OpClass::Gemm)
    cost.kind = RooflineOp::Kind::Gemm;
  else if (known.opClass == nn::OpClass::Attention)
    cost.kind = RooflineOp::Kind::Attention;
  add(cost);
}

void Counter::count(func::FuncOp function) {
  for (Operation &op : function.front()) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      count(symbols.lookup<func::FuncOp>(call.getCallee()));
    } else if (auto dispatch = dyn_cast<exec::DispatchOp>(op)) {
      addKernel(dispatch);
    } else if (auto known = dyn_cast<nn::CostOpInterface>(op)) {
      addOp(known);
    }
  }
}

std::vector<RooflineOp> Counter::take() {
  std::vector<RooflineOp> taken;
  for (auto &[key, op] : ops)
    taken.push_back(op);
  return taken;
}

std::vector<RooflineOp> poplar::countOps(ModuleOp program,
                                         func::FuncOp function) {
  Counter counter(program);
  counter.count(function);
  return counter.take();
}

//===----------------------------------------------------------------------===//
// Costs of a model
//===----------------------------------------------------------------------===//

namespace {
struct Measured {
  std::vector<RooflineOp> ops;
  int64_t perSample, scratch;
};
} // namespace

static FailureOr<Measured> measure(ModuleOp module, const LayerCounts &kept,
                                   const ProgramChoice &choice) {
  FailureOr<ShortProgram> program = makeShortProgram(module, kept, choice);
  if (failed(program))
    return failure();
  ModuleOp tensors = *program->tensors;
  exec::ArenaOp arena = getArena(*program->buffers);
  return Measured{
      countOps(tensors, nn::findEntry<func::FuncOp>(tensors, nn::Entry::Train)),
      int64_t(arena.getPerSample()), int64_t(arena.getScratchBytes())};
}

/// Adds to `sum`, which has the ops of `more`, `count` times what `more` has
/// more than `less`.
static void extrapolate(Measured &sum, const Measured &more,
                        const Measured &less, int64_t count) {
  std::map<decltype(RooflineOp().getKey()), double> before;
  for (const RooflineOp &op : less.ops)
    before[op.getKey()] = op.count;
  for (auto [added, op] : llvm::zip_equal(sum.ops, more.ops))
    added.count +=
        static_cast<double>(count) * (op.count - before[op.getKey()]);
  sum.perSample += count * (more.perSample - less.perSample);
}

FailureOr<ProgramCosts> poplar::getProgramCosts(ModuleOp module,
                                                const ProgramChoice &choice) {
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  LayerCounts kept = countLayers(model, fewLayers + 1);
  FailureOr<Measured> measured = measure(module, kept, choice);
  if (failed(measured))
    return failure();
  Measured sum = *measured;
  for (auto [kind, count] : countLayers(model)) {
    if (count <= fewLayers + 1)
      continue;
    LayerCounts fewer = kept;
    fewer[kind] = fewLayers;
    FailureOr<Measured> less = measure(module, fewer, choice);
    if (failed(less))
      return failure();
    extrapolate(sum, *measured, *less, count - fewLayers - 1);
  }
  ProgramCosts costs;
  costs.ops = std::move(sum.ops);
  costs.bytesPerSample = sum.perSample;
  SymbolTableCollection symbols;
  ParameterElements state;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    int64_t elements = zero::BucketLayout::get(bucket, symbols)->elements;
    state.getBlockStates(zero::getStateBits(module)) +=
        zero::countBlockStates(bucket, symbols);
    (bucket.getQuantized() ? state.quantizedBytes
     : bucket.getFrozen()  ? state.frozen
                           : state.trained) += elements;
  }
  costs.trained = state.trained;
  StateFormat format = StateFormat::of(choice.info.getWorkingFormat());
  costs.fixedBytes = getStateBytes(format, /*zeroStage=*/0, state, {}) +
                     llvm::alignTo(sum.scratch, POPLAR_ALIGNMENT);
  return costs;
}
