//===- ZeroVerifyStages.cpp - Check that groups work together -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROVERIFYSTAGES
#include "Poplar/Transforms/Zero/Passes.h.inc"
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
    SmallVector<Stage, 0> stages;
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
        if ((other.info.group ==
                 (stage.info.group + 1) % stage.info.numGroups &&
             failed(verifyMessages(stage, other))) ||
            (stage.info.group < other.info.group &&
             failed(verifySharedOrder(stage, other))))
          return signalPassFailure();
  }

private:
  LogicalResult verifyTimetables(ArrayRef<Stage> stages);
  LogicalResult verifySameTurns(zero::PlanOp plan, ArrayRef<int64_t> members);
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
  zero::PlanOp op = *plans.begin();
  Plan plan = zero::readPlan(op);
  SmallVector<zero::RankOp, 0> ranks = op.getRanks();
  // Ranks that share units take the same turns.
  SmallVector<SmallVector<int64_t>> members;
  for (int64_t group = 0; group < stages.front().info.numGroups; ++group) {
    members.emplace_back();
    for (ArrayRef<int64_t> pipeline : plan.getPipelinesOf(group))
      members.back().push_back(pipeline.front());
    if (llvm::none_of(stages, [&](const Stage &stage) {
          return stage.info.group == group;
        }))
      return op.getGroups()[group].emitOpError(
          "has no program that computes its units");
  }
  DenseSet<int64_t> checked; // of those whose steps decide
  bool isCustom = plan.schedule == PlanSchedule::Custom;
  for (size_t index = 0; index < members.front().size(); ++index) {
    zero::RankOp rank = ranks[members[0][index]];
    if (!isCustom && !checked.insert(rank.getSteps()).second)
      continue;
    Timetable table = plan.getTimetable(index);
    std::optional<Timetable::Violation> violation = table.check();
    size_t count = table.stages[0].size() / (2 * table.chunks);
    if (!violation && count != rank.getSteps())
      return rank.emitOpError("has turns of ")
             << count << " micro-batches, but " << rank.getSteps() << " steps";
    if (violation)
      return report(ranks[members[violation->stage][index]],
                    ranks[members[violation->other][index]].getLoc(),
                    "rank of group " + Twine(violation->stage) + " " +
                        violation->message,
                    "the rank of group " + std::to_string(violation->other));
  }
  // Ranks of a group meet in turns in stages 2 and 3. Those of another group
  // may bring one pipeline to such a turn before, and one behind, that of a
  // third group: so it is all groups whose turns have to be the same.
  if (isCustom && plan.getStage() >= 2)
    for (const SmallVector<int64_t> &group : members)
      if (failed(verifySameTurns(op, group)))
        return failure();
  return success();
}

/// All ranks of a group take their turns in one order.
LogicalResult ZeroVerifyStagesPass::verifySameTurns(zero::PlanOp plan,
                                                    ArrayRef<int64_t> members) {
  SmallVector<zero::RankOp, 0> ranks = plan.getRanks();
  auto getPasses = [&](int64_t member) {
    SmallVector<std::pair<bool, int64_t>> passes;
    zero::RankOp rank = ranks[member];
    for (auto [index, turn] : llvm::enumerate(*rank.getTurns()))
      passes.push_back(
          {turn < 0, rank.getChunks() ? (*rank.getChunks())[index] : 0});
    return passes;
  };
  for (int64_t member : members)
    if (getPasses(member) != getPasses(members.front()))
      return report(ranks[member], ranks[members.front()].getLoc(),
                    "rank takes its turns in another order than the first one "
                    "of its group; in stage " +
                        Twine(plan.getStage()) +
                        " of ZeRO, pipelines meet in their turns",
                    "the first rank of the group");
  return success();
}

/// Messages go to the virtual stages before and behind.
LogicalResult ZeroVerifyStagesPass::verifyPeers(Stage &stage) {
  const zero::ProgramInfo &info = stage.info;
  WalkResult result = stage.program.walk([&](Operation *op) {
    auto verify = [&](zero::MessageKind kind, int64_t peer, int64_t chunk,
                      bool sends) {
      auto function = op->getParentOfType<func::FuncOp>();
      int64_t own = function ? zero::getChunk(function) : 0;
      bool forward = kind == zero::MessageKind::Activation;
      int64_t expected =
          info.getVirtualStage(own) + (forward == sends ? 1 : -1);
      if (peer >= 0 && peer < info.numGroups && chunk >= 0 &&
          chunk * info.numGroups + peer == expected &&
          expected < info.countVirtualStages())
        return WalkResult::advance();
      InFlightDiagnostic diagnostic = op->emitOpError("of group ")
                                      << info.group;
      if (info.numChunks > 1)
        diagnostic << ", chunk " << own << ",";
      diagnostic << " names group " << peer;
      if (info.numChunks > 1)
        diagnostic << ", chunk " << chunk;
      diagnostic << ": " << zero::stringifyMessageKind(kind)
                 << "s go from a group to the one "
                 << (forward ? "after" : "before") << " it";
      if (info.numChunks > 1)
        diagnostic << (forward ? ", and from the last to the next chunk of the "
                                 "first"
                               : ", and from the first to the chunk before of "
                                 "the last");
      return WalkResult::interrupt();
    };
    if (auto send = dyn_cast<zero::SendOp>(op))
      return verify(send.getKind(), send.getGroup(), send.getChunk(), true);
    if (auto receive = dyn_cast<zero::ReceiveOp>(op))
      return verify(receive.getKind(), receive.getGroup(), receive.getChunk(),
                    false);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// A turn has no collective but of the group's own buckets.
LogicalResult ZeroVerifyStagesPass::verifyScopes(Stage &stage) {
  SymbolTable symbols(stage.program);
  WalkResult result = stage.program.walk([&](zero::CollectiveOpInterface op) {
    auto function = op->getParentOfType<func::FuncOp>();
    if (!function) {
      op->emitOpError("is outside of the program's functions");
      return WalkResult::interrupt();
    }
    bool isTurn = function.getSymName() != nn::getName(nn::Entry::Update);
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

/// A type of activations without the number of tokens.
static Type dropTokens(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() < 2)
    return type;
  SmallVector<int64_t> shape(tensor.getShape());
  shape[1] = ShapedType::kDynamic;
  return RankedTensorType::get(shape, tensor.getElementType());
}

/// What `from` sends to `to` in a pass through a chunk is what that receives in
/// its own.
static LogicalResult compareMessages(Stage &from, int64_t fromChunk, Stage &to,
                                     int64_t toChunk, nn::Entry pass) {
  // Where nothing is reduced in the last turn alone, it is like the others.
  auto find = [&](Stage &stage, int64_t chunk) {
    auto get = [&](nn::Entry name) {
      return stage.program.lookupSymbol<func::FuncOp>(
          stage.info.getTurnName(name, chunk));
    };
    func::FuncOp function = get(pass);
    return function || pass != nn::Entry::BackwardLast
               ? function
               : get(nn::Entry::Backward);
  };
  std::string name = from.info.getTurnName(pass, fromChunk);
  func::FuncOp sender = find(from, fromChunk), receiver = find(to, toChunk);
  SmallVector<zero::SendOp> sends;
  SmallVector<zero::ReceiveOp> receives;
  if (sender)
    for (auto send : sender.getOps<zero::SendOp>())
      if (int64_t(send.getGroup()) == to.info.group &&
          int64_t(send.getChunk()) == toChunk)
        sends.push_back(send);
  if (receiver)
    for (auto receive : receiver.getOps<zero::ReceiveOp>())
      if (int64_t(receive.getGroup()) == from.info.group &&
          int64_t(receive.getChunk()) == fromChunk)
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
    // Ranks that share units have a part of the tokens each.
    if (dropTokens(sent) == dropTokens(received))
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
  // From the last group, they go on in the next chunk of the first.
  int64_t ahead = next.info.group == 0;
  for (int64_t chunk = 0; chunk + ahead < stage.info.numChunks; ++chunk) {
    for (nn::Entry pass :
         {nn::Entry::Forward, nn::Entry::Evaluate, nn::Entry::Infer,
          nn::Entry::Decode, nn::Entry::Prefill})
      if (failed(compareMessages(stage, chunk, next, chunk + ahead, pass)))
        return failure();
    for (nn::Entry pass : {nn::Entry::Backward, nn::Entry::BackwardLast})
      if (failed(compareMessages(next, chunk + ahead, stage, chunk, pass)))
        return failure();
  }
  return success();
}

/// Two groups issue the collectives of what both hold in the same order.
LogicalResult ZeroVerifyStagesPass::verifySharedOrder(Stage &stage,
                                                      Stage &other) {
  auto collect = [](Stage &from, Stage &with) {
    SmallVector<zero::CollectiveOpInterface> shared;
    SymbolTable symbols(from.program);
    if (auto update =
            nn::findEntry<func::FuncOp>(from.program, nn::Entry::Update))
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
