//===- ZeroVerify.cpp - Check the programs of a plan ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>

namespace poplar {
#define GEN_PASS_DEF_ZEROVERIFY
#include "Poplar/Transforms/Zero/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// Whether ranks of both are in one pipeline, and share units there. Those of
/// other pipelines may recompute otherwise, and exchange more.
static bool shareUnits(ModuleOp first, ModuleOp second) {
  auto one = zero::ProgramInfo::get(first),
       other = zero::ProgramInfo::get(second);
  if (one.group != other.group || one.position == other.position)
    return false;
  auto plans = first.getOps<zero::PlanOp>();
  // Ranks of a plan that is not there may be anywhere.
  if (plans.empty())
    return true;
  Plan plan = zero::readPlan(*plans.begin());
  auto has = [&](ArrayRef<int64_t> pipeline, const zero::ProgramInfo &info) {
    return info.position < int64_t(pipeline.size()) &&
           plan.ranks[pipeline[info.position]].type == info.deviceType;
  };
  return llvm::any_of(plan.getPipelinesOf(one.group),
                      [&](ArrayRef<int64_t> pipeline) {
                        return has(pipeline, one) && has(pipeline, other);
                      });
}

namespace {

class ZeroVerifyPass : public poplar::impl::ZeroVerifyBase<ZeroVerifyPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ModuleOp> programs;
    for (auto program : module.getOps<ModuleOp>())
      if (zero::getProgram(program))
        programs.push_back(program);
    if (programs.empty()) // the program of one rank
      programs.push_back(module);
    for (ModuleOp program : programs)
      if (failed(verifyProgram(program)))
        return signalPassFailure();
    // The first program of each group.
    std::map<int64_t, ModuleOp> first;
    for (ModuleOp program : programs) {
      auto [known, isNew] =
          first.insert({zero::ProgramInfo::get(program).group, program});
      if (!isNew && failed(verifySameCollectives(known->second, program)))
        return signalPassFailure();
    }
    for (auto [index, program] : llvm::enumerate(programs))
      for (ModuleOp other : ArrayRef(programs).take_front(index))
        if (shareUnits(other, program) &&
            failed(verifySameExchanges(other, program)))
          return signalPassFailure();
  }

private:
  LogicalResult verifyProgram(ModuleOp program);
  LogicalResult verifyUpdate(ModuleOp program, func::FuncOp update);
  LogicalResult verifyInFlight(func::FuncOp function);
  LogicalResult verifySameCollectives(ModuleOp first, ModuleOp second);
  LogicalResult verifySameExchanges(ModuleOp first, ModuleOp second);
};

} // namespace

static SmallVector<zero::CollectiveOpInterface>
getCollectives(func::FuncOp function) {
  SmallVector<zero::CollectiveOpInterface> collectives;
  function.walk(
      [&](zero::CollectiveOpInterface op) { collectives.push_back(op); });
  return collectives;
}

/// Those in which the ranks of both programs take part.
static SmallVector<zero::CollectiveOpInterface>
getCollectivesOfBoth(func::FuncOp function, ModuleOp first, ModuleOp second,
                     SymbolTableCollection &symbols) {
  SmallVector<zero::CollectiveOpInterface> all = getCollectives(function);
  auto info = zero::ProgramInfo::get(first),
       other = zero::ProgramInfo::get(second);
  auto program = function->getParentOfType<ModuleOp>();
  llvm::erase_if(all, [&](zero::CollectiveOpInterface op) {
    if (!op.getBucketName())
      return false;
    auto bucket = symbols.lookupSymbolIn<zero::BucketOp>(
        program, op.getBucketName().getAttr());
    return bucket && !(info.holds(bucket) && other.holds(bucket));
  });
  return all;
}

/// What ranks exchange inside of units, in words.
static SmallVector<std::pair<std::string, Location>>
listExchanges(func::FuncOp function) {
  SmallVector<std::pair<std::string, Location>> list;
  function.walk([&](zero::ExchangeOpInterface op) {
    std::string text = op->getName().getStringRef().str();
    llvm::raw_string_ostream stream(text);
    stream << " with bounds [";
    llvm::interleaveComma(op.getBounds(), stream);
    stream << "]";
    if (auto start = dyn_cast<zero::StartExchangeOp>(op.getOperation()))
      stream << " in " << start.getPieces() << " pieces";
    list.push_back({text, op->getLoc()});
  });
  return list;
}

/// What a collective does, in words.
static std::string describe(zero::CollectiveOpInterface op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << zero::stringifyCollectiveKind(op.getCollectiveKind());
  if (op.getBucketName())
    stream << " of " << op.getBucketName() << " as " << op.getWireType();
  return text;
}

/// Until its wait, nobody may touch what a reduction reads.
LogicalResult ZeroVerifyPass::verifyInFlight(func::FuncOp function) {
  for (auto start : function.getOps<zero::StartOp>()) {
    Operation *wait = start.getWait();
    for (Value gradient : start.getGradients())
      for (Operation *user : gradient.getUsers()) {
        if (user == start || !start->isBeforeInBlock(user))
          continue;
        InFlightDiagnostic diagnostic =
            user->emitOpError("uses gradients that a collective has not "
                              "finished with");
        diagnostic.attachNote(start.getLoc()) << "started here";
        diagnostic.attachNote(wait->getLoc()) << "waited for here";
        return diagnostic;
      }
    // The running gradients and working copies of a bucket. Reduce-scatters
    // add to the rank's shard, one after the other.
    if (start.getTransient())
      continue;
    bool adds = !start.getGradients().empty();
    for (Operation *op = start->getNextNode(); op != wait;
         op = op->getNextNode()) {
      auto other = dyn_cast<zero::StartOp>(op);
      auto update = dyn_cast<zero::AdamWOp>(op);
      if (isa<zero::NormOp>(op) &&
          start.getKind() != zero::CollectiveKind::AllGather) {
        InFlightDiagnostic diagnostic = op->emitOpError(
            "reads gradients that a collective has not finished with");
        diagnostic.attachNote(start.getLoc()) << "started here";
        return diagnostic;
      }
      if ((other && !other.getTransient() &&
           (!adds || other.getKind() == zero::CollectiveKind::AllReduce) &&
           other.getBucketAttr() == start.getBucketAttr()) ||
          (update && update.getBucketAttr() == start.getBucketAttr())) {
        InFlightDiagnostic diagnostic = op->emitOpError("touches ")
                                        << start.getBucketAttr()
                                        << ", which a collective has not "
                                        << "finished with";
        diagnostic.attachNote(start.getLoc()) << "started here";
        return diagnostic;
      }
    }
  }
  return success();
}

/// The norm comes first, and every bucket is updated once.
LogicalResult ZeroVerifyPass::verifyUpdate(ModuleOp program,
                                           func::FuncOp update) {
  bool normed = false;
  DenseMap<Attribute, Operation *> updated;
  for (Operation &op : update.front()) {
    normed |= isa<zero::NormOp>(op);
    auto adamw = dyn_cast<zero::AdamWOp>(op);
    if (!adamw)
      continue;
    if (!normed)
      return adamw.emitOpError("comes before zero.norm, which decides how much "
                               "to clip");
    auto [known, isNew] = updated.insert({adamw.getBucketAttr(), adamw});
    if (isNew)
      continue;
    InFlightDiagnostic diagnostic = adamw.emitOpError("updates ")
                                    << adamw.getBucketAttr() << " again";
    diagnostic.attachNote(known->second->getLoc()) << "updated here already";
    return diagnostic;
  }
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  for (auto bucket : program.getOps<zero::BucketOp>())
    if (info.holds(bucket) && !bucket.getFrozen() &&
        !updated.count(FlatSymbolRefAttr::get(bucket.getSymNameAttr())))
      return bucket.emitOpError("is never updated in @update");
  return success();
}

LogicalResult ZeroVerifyPass::verifyProgram(ModuleOp program) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  SymbolTable symbols(program);
  for (auto function : program.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    if (failed(verifyInFlight(function)))
      return failure();
    SmallVector<zero::CollectiveOpInterface> collectives =
        getCollectives(function);
    if (collectives.empty())
      continue;
    if (function->hasAttr(nn::kUnitAttr))
      return collectives.front()->emitOpError(
          "is inside a unit; units are what lies between collectives");
    // Ranks run @train as often as they like in these stages.
    bool isTrain =
        function.getSymName() == nn::getName(nn::Entry::Train) ||
        function.getSymName() ==
            info.getTurnName(nn::Entry::Backward, zero::getChunk(function));
    for (zero::CollectiveOpInterface op : collectives) {
      auto bucket =
          op.getBucketName()
              ? symbols.lookup<zero::BucketOp>(op.getBucketName().getAttr())
              : zero::BucketOp();
      int64_t stage = bucket ? info.getStage(bucket) : info.stage;
      if (isTrain && info.replicas > 1 &&
          op.getCollectiveKind() == zero::CollectiveKind::AllReduce)
        return op->emitOpError("is in @")
               << function.getSymName()
               << ", but shards of gradients are added across replicas once an "
                  "iteration, in its last micro-step";
      if (isTrain && stage < 2)
        return op->emitOpError("is in @")
               << function.getSymName()
               << ", which ranks run a different number of times in stage "
               << stage;
    }
  }
  if (auto update = nn::findEntry<func::FuncOp>(program, nn::Entry::Update))
    return verifyUpdate(program, update);
  return success();
}

LogicalResult ZeroVerifyPass::verifySameCollectives(ModuleOp first,
                                                    ModuleOp second) {
  auto report = [&](Location here, Location there,
                    const Twine &message) -> InFlightDiagnostic {
    InFlightDiagnostic diagnostic = mlir::emitError(here, message);
    diagnostic.attachNote(there)
        << "where @" << first.getSymName().value_or("") << " does otherwise";
    return diagnostic;
  };
  SymbolTableCollection symbols;
  for (auto function : second.getOps<func::FuncOp>()) {
    auto other =
        symbols.lookupSymbolIn<func::FuncOp>(first, function.getSymNameAttr());
    SmallVector<zero::CollectiveOpInterface> mine = getCollectivesOfBoth(
                                                 function, first, second,
                                                 symbols),
                                             theirs;
    if (other)
      theirs = getCollectivesOfBoth(other, first, second, symbols);
    for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
      std::string does = i < mine.size() ? describe(mine[i]) : "nothing",
                  expected =
                      i < theirs.size() ? describe(theirs[i]) : "nothing";
      if (does == expected)
        continue;
      return report(i < mine.size() ? mine[i].getLoc() : function.getLoc(),
                    i < theirs.size() ? theirs[i].getLoc()
                    : other           ? other.getLoc()
                                      : first.getLoc(),
                    "@" + second.getSymName().value_or("") + " issues " + does +
                        " as collective " + Twine(i) + " of @" +
                        function.getSymName() + ", but @" +
                        first.getSymName().value_or("") + " issues " +
                        expected + ": every rank has to issue the same ones");
    }
  }
  for (auto function : first.getOps<func::FuncOp>())
    if (!getCollectives(function).empty() &&
        !second.lookupSymbol<func::FuncOp>(function.getSymName()))
      return report(second.getLoc(), function.getLoc(),
                    "@" + second.getSymName().value_or("") +
                        " has no function @" + function.getSymName() +
                        ", which issues collectives");
  return success();
}

/// Ranks that share units wait for each other inside of them.
LogicalResult ZeroVerifyPass::verifySameExchanges(ModuleOp first,
                                                  ModuleOp second) {
  for (auto function : second.getOps<func::FuncOp>()) {
    auto other = first.lookupSymbol<func::FuncOp>(function.getSymName());
    auto mine = listExchanges(function);
    auto theirs = other ? listExchanges(other) : decltype(mine)();
    for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
      std::string does = i < mine.size() ? mine[i].first : "nothing",
                  expected = i < theirs.size() ? theirs[i].first : "nothing";
      if (does == expected)
        continue;
      return mlir::emitError(
                 i < mine.size() ? mine[i].second : function.getLoc(), "@")
             << second.getSymName().value_or("") << " has " << does
             << " as exchange " << i << " of @" << function.getSymName()
             << ", but @" << first.getSymName().value_or("") << " has "
             << expected << ": ranks that share units exchange the same";
    }
  }
  return success();
}
