//===- NNDifferentiate.cpp - Forward, backward and training step ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuseLoss.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Model/DifferentiateUnit.h"
#include "Poplar/Transforms/Model/Layers.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "TrainingStep.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSwitch.h"
#include <map>
#include <optional>

namespace poplar {
#define GEN_PASS_DEF_NNDIFFERENTIATE
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// The form the importer gives @model:
///   (ids [?,T] i32, targets [?,T] i32, keys [?,2] i32) -> loss [?,T] f32
/// and, where documents share samples, positions [?,T] i32 as a last argument.
static LogicalResult checkModel(func::FuncOp model) {
  auto isTensor = [](Type type, auto isElement) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 2 &&
           isElement(tensor.getElementType());
  };
  auto isI32 = [](Type type) { return type.isInteger(32); };
  auto isF32 = [](Type type) { return type.isF32(); };
  FunctionType type = model.getFunctionType();
  // A pipeline stage that is not the last sends instead of returning a loss;
  // the last one does both if it has several chunks.
  bool sends = !model.getOps<zero::SendOp>().empty();
  bool isPacked = nn::isPacked(model->getParentOfType<ModuleOp>());
  if (type.getNumInputs() != (isPacked ? 4 : 3) || type.getNumResults() > 1 ||
      (type.getNumResults() == 0 && !sends) ||
      !llvm::all_of(type.getInputs(),
                    [&](Type input) { return isTensor(input, isI32); }) ||
      !llvm::all_of(type.getResults(),
                    [&](Type result) { return isTensor(result, isF32); }))
    return model.emitOpError("expected ids, targets")
           << (isPacked ? ", keys and positions" : " and keys")
           << " (rank-2 i32 tensors) and one result, the loss (a rank-2 f32 "
              "tensor), but its type is "
           << type;
  if (!model.getBody().hasOneBlock())
    return model.emitOpError("expected a body of one block");
  return success();
}

/// Every call in @model must be of a unit, which is differentiated on its own.
static FailureOr<func::FuncOp> getUnit(func::CallOp call,
                                       SymbolTable &symbols) {
  auto unit = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!unit || !unit->hasAttr(nn::kUnitAttr))
    return call.emitOpError("expected a call of a unit, but @")
           << call.getCallee() << " has no attribute " << nn::kUnitAttr;
  if (!unit.getBody().hasOneBlock())
    return unit.emitOpError("cannot be differentiated: expected a body of one "
                            "block");
  return unit;
}

/// The arguments of `unit` that are frozen parameters, in all calls or in none.
static FailureOr<llvm::BitVector>
findFrozen(func::FuncOp unit, func::FuncOp model, SymbolTable &symbols) {
  llvm::BitVector frozen(unit.getNumArguments());
  func::CallOp first;
  for (func::CallOp call : model.getOps<func::CallOp>()) {
    if (call.getCallee() != unit.getSymName())
      continue;
    for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
      auto get = operand.getDefiningOp<nn::GetParameterOp>();
      auto parameter = get ? symbols.lookup<nn::ParameterOp>(get.getParameter())
                           : nn::ParameterOp();
      bool isFrozen = parameter && parameter.getFrozen();
      if (!first || isFrozen == frozen[index]) {
        frozen[index] = isFrozen;
        continue;
      }
      InFlightDiagnostic diagnostic =
          call.emitOpError("passes a parameter that is ")
          << (isFrozen ? "frozen" : "trained") << " as argument " << index
          << " of @" << unit.getSymName()
          << ", but another call does not: both run the same function";
      diagnostic.attachNote(first.getLoc()) << "the other call";
      return diagnostic;
    }
    if (!first)
      first = call;
  }
  return frozen;
}

namespace {
struct NNDifferentiatePass
    : public poplar::impl::NNDifferentiateBase<NNDifferentiatePass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(differentiate()))
      signalPassFailure();
  }

private:
  LogicalResult differentiate() {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    auto model = nn::findEntry<func::FuncOp>(symbols, nn::Entry::Model);
    if (!model || model.isExternal())
      return module.emitError("expected a function @model to differentiate");
    if (failed(checkModel(model)))
      return failure();
    for (nn::Entry entry :
         {nn::Entry::Train, nn::Entry::Evaluate, nn::Entry::Infer})
      if (Operation *other = symbols.lookup(nn::getName(entry)))
        return other->emitOpError("has the name @")
               << nn::getName(entry)
               << " of a function that this pass makes: rename it";

    // Whole logits are for @infer alone.
    func::FuncOp trained = fuseLoss(model, symbols, chunkBytes);
    SmallVector<func::CallOp> layers = findLayers(trained);
    if (std::string reason =
            explainTooManyLayers(recompute, int64_t(layers.size()));
        !reason.empty())
      return module.emitError(reason);
    llvm::DenseSet<Operation *> again;
    if (recompute.isPartial())
      again.insert(layers.begin(), layers.begin() + recompute.layers);
    DifferentiatedUnits units;
    // By unit, and whether it is one of the layers that recompute.
    std::map<std::pair<Operation *, bool>, DifferentiatedUnit> known;
    for (func::CallOp call : trained.getOps<func::CallOp>()) {
      FailureOr<func::FuncOp> unit = getUnit(call, symbols);
      if (failed(unit))
        return failure();
      bool isAgain = again.contains(call);
      auto entry = known.find({*unit, isAgain});
      if (entry != known.end()) {
        units[call] = entry->second;
        continue;
      }
      if (llvm::any_of(unit->getOps<nn::RandomOpInterface>(),
                       [](nn::RandomOpInterface op) { return op.isRandom(); }))
        module->setAttr(nn::kRandomAttr, UnitAttr::get(module.getContext()));
      FailureOr<llvm::BitVector> frozen = findFrozen(*unit, trained, symbols);
      if (failed(frozen))
        return failure();
      FailureOr<DifferentiatedUnit> differentiated = differentiateUnit(
          *unit, symbols,
          {recompute.isPartial() && !isAgain ? RecomputePolicy::Keep
                                             : recompute.policy,
           isAgain ? ".recompute" : "", std::move(*frozen),
           zero::ProgramInfo::get(module).mixedRecompute});
      if (failed(differentiated))
        return failure();
      units[call] = *differentiated;
      known[{*unit, isAgain}] = std::move(*differentiated);
    }
    if (failed(buildTrain(trained, symbols, units)) ||
        failed(buildInference(model, trained, symbols)))
      return failure();

    if (trained != model)
      symbols.erase(trained);
    symbols.erase(model);
    eraseUnusedUnits(module);
    return success();
  }
};
} // namespace
