//===- ZeroVerifyStages.cpp - Check that groups work together -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROVERIFYSTAGES
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// A program and what is said about it.
struct Stage {
  ModuleOp program;
  zero::ProgramInfo info;
};

class ZeroVerifyStagesPass
    : public poplar::impl::ZeroVerifyStagesBase<ZeroVerifyStagesPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Stage> stages;
    for (auto program : getOperation().getOps<ModuleOp>()) {
      zero::ProgramInfo info = zero::ProgramInfo::get(program);
      if (info.isPipelineStage())
        stages.push_back({program, info});
    }
    if (stages.empty())
      return;
    if (failed(verifyTimetables(stages)))
      return signalPassFailure();
    for (Stage &stage : stages)
      if (failed(verifyPeers(stage)) || failed(verifyScopes(stage)))
        return signalPassFailure();
    for (Stage &stage : stages)
      for (Stage &other : stages)
        if ((stage.info.group + 1 == other.info.group &&
             failed(verifyMessages(stage, other))) ||
            (stage.info.group < other.info.group &&
             failed(verifySharedOrder(stage, other))))
          return signalPassFailure();
  }

private:
  LogicalResult verifyTimetables(ArrayRef<Stage> stages);
  LogicalResult verifyPeers(Stage &stage);
  LogicalResult verifyScopes(Stage &stage);
  LogicalResult verifyMessages(Stage &stage, Stage &next);
  LogicalResult verifySharedOrder(Stage &stage, Stage &other);
};

} // namespace

static InFlightDiagnostic report(Operation *op, Location other,
                                 const Twine &message, StringRef note) {
  InFlightDiagnostic diagnostic = mlir::emitError(op->getLoc(), message);
  diagnostic.attachNote(other) << note;
  return diagnostic;
}

/// Every pipeline can take all its turns.
LogicalResult ZeroVerifyStagesPass::verifyTimetables(ArrayRef<Stage> stages) {
  ModuleOp first = stages.front().program;
  auto plans = first.getOps<zero::PlanOp>();
  if (plans.empty())
    return first.emitError("program of a pipeline stage has no zero.plan");
  zero::PlanOp plan = *plans.begin();
  SmallVector<zero::RankOp, 0> ranks = plan.getRanks();
  SmallVector<SmallVector<int64_t>> members;
  for (int64_t group = 0; group < stages.front().info.numGroups; ++group) {
    members.push_back(plan.getRanksOf(group));
    if (llvm::none_of(stages, [&](const Stage &stage) {
          return stage.info.group == group;
        }))
      return plan.getGroups()[group].emitOpError(
          "has no program that computes its units");
  }
  DenseSet<int64_t> checked; // of those whose steps decide
  bool isCustom = plan.getSchedule() == "custom";
  for (size_t index = 0; index < members.front().size(); ++index) {
    zero::RankOp rank = ranks[members[0][index]];
    if (!isCustom && !checked.insert(rank.getSteps()).second)
      continue;
    Timetable table = plan.getTimetable(index);
    std::optional<Timetable::Violation> violation = table.check();
    if (!violation && table.stages[0].size() != 2 * rank.getSteps())
      return rank.emitOpError("has turns of ")
             << table.stages[0].size() / 2 << " micro-batches, but "
             << rank.getSteps() << " steps";
    if (violation)
      return report(ranks[members[violation->stage][index]],
                    ranks[members[violation->other][index]].getLoc(),
                    "rank of group " + Twine(violation->stage) + " " +
                        violation->message,
                    "the rank of group " + std::to_string(violation->other));
  }
  return success();
}

/// Messages go to the groups before and behind.
LogicalResult ZeroVerifyStagesPass::verifyPeers(Stage &stage) {
  WalkResult result = stage.program.walk([&](Operation *op) {
    auto verify = [&](zero::MessageKind kind, int64_t peer, bool sends) {
      bool forward = kind == zero::MessageKind::Activation;
      int64_t expected = stage.info.group + (forward == sends ? 1 : -1);
      if (peer == expected && peer >= 0 && peer < stage.info.numGroups)
        return WalkResult::advance();
      op->emitOpError("of group ")
          << stage.info.group << " names group " << peer << ": "
          << zero::stringifyMessageKind(kind) << "s go from a group to the one "
          << (forward ? "behind" : "before") << " it";
      return WalkResult::interrupt();
    };
    if (auto send = dyn_cast<zero::SendOp>(op))
      return verify(send.getKind(), send.getGroup(), true);
    if (auto receive = dyn_cast<zero::ReceiveOp>(op))
      return verify(receive.getKind(), receive.getGroup(), false);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// A turn has no collective but of the group's own buckets.
LogicalResult ZeroVerifyStagesPass::verifyScopes(Stage &stage) {
  SymbolTable symbols(stage.program);
  WalkResult result = stage.program.walk([&](zero::CollectiveOpInterface op) {
    auto function = op->getParentOfType<func::FuncOp>();
    bool isTurn = function.getSymName() != "update";
    auto bucket =
        op.getBucketName()
            ? symbols.lookup<zero::BucketOp>(op.getBucketName().getAttr())
            : zero::BucketOp();
    std::string program = stage.info.getProgramName();
    if (bucket && !stage.info.holds(bucket)) {
      report(op, bucket.getLoc(),
             "@" + program + " issues a collective of " +
                 op.getBucketName().getValue() +
                 ", which its group does not hold",
             "the bucket");
      return WalkResult::interrupt();
    }
    if (isTurn && (!bucket || stage.info.isShared(bucket))) {
      report(op, function.getLoc(),
             "@" + program +
                 " issues a collective of several groups in a "
                 "turn: others may wait for this one's messages "
                 "before they come to it; it belongs in @update",
             "the turn");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// What `from` sends to `to` in a function is what that receives there.
static LogicalResult compareMessages(Stage &from, Stage &to, StringRef name) {
  // Where nothing is reduced in the last turn alone, it is like the others.
  auto find = [&](Stage &stage) {
    auto function = stage.program.lookupSymbol<func::FuncOp>(name);
    return function || name != "backward_last"
               ? function
               : stage.program.lookupSymbol<func::FuncOp>("backward");
  };
  func::FuncOp sender = find(from), receiver = find(to);
  SmallVector<zero::SendOp> sends;
  SmallVector<zero::ReceiveOp> receives;
  if (sender)
    for (auto send : sender.getOps<zero::SendOp>())
      if (int64_t(send.getGroup()) == to.info.group)
        sends.push_back(send);
  if (receiver)
    for (auto receive : receiver.getOps<zero::ReceiveOp>())
      if (int64_t(receive.getGroup()) == from.info.group)
        receives.push_back(receive);
  for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    if (i >= receives.size())
      return report(
          sends[i], receiver ? receiver.getLoc() : to.program.getLoc(),
          "@" + from.info.getProgramName() + " sends in @" + name + " what @" +
              to.info.getProgramName() + " does not receive",
          "where it would be received");
    if (i >= sends.size())
      return report(
          receives[i], sender ? sender.getLoc() : from.program.getLoc(),
          "@" + to.info.getProgramName() + " receives in @" + name + " what @" +
              from.info.getProgramName() + " does not send",
          "where it would be sent");
    Type sent = sends[i].getValue().getType(),
         received = receives[i].getValue().getType();
    if (sent == received)
      continue;
    std::string types;
    llvm::raw_string_ostream(types)
        << sent << ", but what is received is " << received;
    return report(sends[i], receives[i].getLoc(),
                  "@" + from.info.getProgramName() + " sends in @" + name +
                      " " + types +
                      ": device types of neighbouring groups "
                      "need the same precision",
                  "received here");
  }
  return success();
}

LogicalResult ZeroVerifyStagesPass::verifyMessages(Stage &stage, Stage &next) {
  for (StringRef name : {"forward", "evaluate", "infer"})
    if (failed(compareMessages(stage, next, name)))
      return failure();
  for (StringRef name : {"backward", "backward_last"})
    if (failed(compareMessages(next, stage, name)))
      return failure();
  return success();
}

/// Two groups issue the collectives of what both hold in the same order.
LogicalResult ZeroVerifyStagesPass::verifySharedOrder(Stage &stage,
                                                      Stage &other) {
  auto collect = [](Stage &from, Stage &with) {
    SmallVector<zero::CollectiveOpInterface> shared;
    SymbolTable symbols(from.program);
    if (auto update = from.program.lookupSymbol<func::FuncOp>("update"))
      update.walk([&](zero::CollectiveOpInterface op) {
        auto bucket =
            op.getBucketName()
                ? symbols.lookup<zero::BucketOp>(op.getBucketName().getAttr())
                : zero::BucketOp();
        if (!bucket || (from.info.holds(bucket) && with.info.holds(bucket)))
          shared.push_back(op);
      });
    return shared;
  };
  SmallVector<zero::CollectiveOpInterface> mine = collect(stage, other),
                                           theirs = collect(other, stage);
  for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i)
    if (i >= mine.size() || i >= theirs.size() ||
        mine[i].getCollectiveKind() != theirs[i].getCollectiveKind() ||
        mine[i].getBucketName() != theirs[i].getBucketName() ||
        mine[i].getWireType() != theirs[i].getWireType())
      return report(i < theirs.size() ? theirs[i].getOperation()
                                      : other.program.getOperation(),
                    i < mine.size() ? mine[i].getLoc() : stage.program.getLoc(),
                    "@" + other.info.getProgramName() +
                        " does otherwise than @" + stage.info.getProgramName() +
                        " in collective " + Twine(i) +
                        " of those that both issue in @update",
                    "where the other group does otherwise");
  return success();
}
