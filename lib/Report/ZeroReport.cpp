//===- ZeroReport.cpp - What a plan sends and needs -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Report/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ToolOutputFile.h"
#include <cmath>

namespace poplar {
#define GEN_PASS_DEF_ZEROREPORT
#include "Poplar/Report/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Collectives of a function or of an iteration, by kind, and the bytes that a
/// rank receives in them.
struct Traffic {
  int64_t count[3] = {}, bytes[3] = {};

  void add(const Traffic &other, int64_t times) {
    for (unsigned kind = 0; kind < 3; ++kind) {
      count[kind] += times * other.count[kind];
      bytes[kind] += times * other.bytes[kind];
    }
  }
  int64_t allCounts() const { return count[0] + count[1] + count[2]; }
  int64_t allBytes() const { return bytes[0] + bytes[1] + bytes[2]; }
};

class ZeroReportPass : public poplar::impl::ZeroReportBase<ZeroReportPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  Traffic getTraffic(ModuleOp program, nn::Entry entry, int64_t rank);
  llvm::json::Object reportRank(ModuleOp program, zero::RankOp rank,
                                int64_t index);
};

} // namespace

/// What rank `rank` receives in the collectives of a function: shards of others
/// to gather, contributions of others to its own shard to reduce.
Traffic ZeroReportPass::getTraffic(ModuleOp program, nn::Entry entry,
                                   int64_t rank) {
  Traffic traffic;
  int64_t replicas = zero::ProgramInfo::get(program).replicas;
  auto function = nn::findEntry<func::FuncOp>(program, entry);
  if (!function)
    return traffic;
  function.walk([&](zero::CollectiveOpInterface op) {
    if (!op.getBucketName())
      return; // the norm: a few bytes
    auto bucket = program.lookupSymbol<zero::BucketOp>(op.getBucketName());
    if (!bucket.getBounds())
      return; // one rank
    ArrayRef<int64_t> bounds = *bucket.getBounds();
    int64_t ranks = bounds.size() - 1, place = rank % ranks;
    int64_t own = bounds[place + 1] - bounds[place];
    int64_t gathered = bounds.back() - own, reduced = own * (ranks - 1);
    auto kind = op.getCollectiveKind();
    // Ranks exchange equal parts of a shard.
    if (kind == zero::CollectiveKind::AllReduce && replicas > 1)
      gathered = reduced = own * (replicas - 1) / replicas;
    int64_t elements = kind == zero::CollectiveKind::AllGather ? gathered
                       : kind == zero::CollectiveKind::ReduceScatter
                           ? reduced
                           : gathered + reduced;
    ++traffic.count[unsigned(kind)];
    traffic.bytes[unsigned(kind)] += std::llround(
        double(elements) * zero::getElementBytes(op.getWireType()));
  });
  return traffic;
}

llvm::json::Object
ZeroReportPass::reportRank(ModuleOp program, zero::RankOp rank, int64_t index) {
  bool hasLast = static_cast<bool>(
      nn::findEntry<func::FuncOp>(program, nn::Entry::TrainLast));
  Traffic iteration;
  iteration.add(getTraffic(program, nn::Entry::Train, index),
                rank.getSteps() - hasLast);
  iteration.add(getTraffic(program, nn::Entry::TrainLast, index), 1);
  iteration.add(getTraffic(program, nn::Entry::Update, index), 1);

  llvm::json::Object object{{"rank", index},
                            {"device_type", rank.getDeviceType()},
                            {"node", rank.getNode()},
                            {"micro_batch", int64_t(rank.getMicroBatch())},
                            {"steps", int64_t(rank.getSteps())},
                            {"last", int64_t(rank.getLast())},
                            {"collectives", iteration.allCounts()},
                            {"received_bytes", iteration.allBytes()}};
  for (auto kind :
       {zero::CollectiveKind::AllGather, zero::CollectiveKind::ReduceScatter,
        zero::CollectiveKind::AllReduce})
    object[zero::stringifyCollectiveKind(kind)] =
        llvm::json::Object{{"collectives", iteration.count[unsigned(kind)]},
                           {"received_bytes", iteration.bytes[unsigned(kind)]}};
  // Known once memory is planned.
  if (getArena(program))
    object["peak_bytes"] = getPeakBytes(program, index, rank.getLargestStep());
  return object;
}

static std::string formatRank(const llvm::json::Object &rank) {
  auto integer = [&](StringRef name) {
    return rank.getInteger(name).value_or(0);
  };
  std::string text =
      llvm::formatv("rank {0,-4} {1,-16} {2,4} x {3} + {4}  {5,5} collectives, "
                    "{6,10:f2} MiB received",
                    integer("rank"), *rank.getString("device_type"),
                    integer("steps") - 1, integer("micro_batch"),
                    integer("last"), integer("collectives"),
                    integer("received_bytes") / 1048576.0)
          .str();
  if (std::optional<int64_t> peak = rank.getInteger("peak_bytes"))
    text += llvm::formatv(", {0,10:f2} MiB of memory", *peak / 1048576.0);
  return text + "\n";
}

void ZeroReportPass::runOnOperation() {
  ModuleOp module = getOperation();
  std::map<int64_t, llvm::json::Object> ranks;
  int64_t stage = 0;
  for (auto program : module.getOps<ModuleOp>()) {
    zero::ProgramInfo info = zero::ProgramInfo::get(program);
    stage = info.stage;
    if (info.isPipelineStage()) {
      program.emitError("is a pipeline stage, which --zero-report does not "
                        "count; it reports plans without groups");
      return signalPassFailure();
    }
    for (auto plan : program.getOps<zero::PlanOp>())
      for (auto [index, rank] : llvm::enumerate(plan.getRanks()))
        if (rank.getDeviceType() == info.deviceType)
          ranks[index] = reportRank(program, rank, index);
  }
  if (ranks.empty()) {
    module.emitError("has no programs with a plan: run "
                     "--specialize-device-types first");
    return signalPassFailure();
  }
  std::string error;
  auto file = openOutputFile(output, &error);
  if (!file) {
    module.emitError(error);
    return signalPassFailure();
  }
  if (json) {
    llvm::json::Array list;
    for (auto &[index, rank] : ranks)
      list.push_back(std::move(rank));
    file->os() << llvm::formatv(
        "{0:2}\n", llvm::json::Value(llvm::json::Object{
                       {"stage", stage}, {"ranks", std::move(list)}}));
  } else {
    file->os() << "stage " << stage << ", an iteration:\n";
    for (auto &[index, rank] : ranks)
      file->os() << formatRank(rank);
  }
  file->keep();
}
