//===- Program.cpp - Memory of a planned program --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Runtime/Quantized.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;

exec::ArenaOp poplar::getArena(ModuleOp program) {
  auto arenas = program.getOps<exec::ArenaOp>();
  return arenas.empty() ? exec::ArenaOp() : *arenas.begin();
}

std::string poplar::getStepName(StringRef function) {
  return (function + ".step").str();
}

int64_t poplar::getPeakBytes(ModuleOp program, int64_t rank, int64_t batch) {
  exec::ArenaOp arena = getArena(program);
  int64_t fixed = arena.getFixed() + getShardBytes(program, rank);
  int64_t bytes;
  if (llvm::MulOverflow(
          batch, int64_t(arena.getPerSample()) + getTurnBytes(program, rank),
          bytes) ||
      llvm::AddOverflow(fixed, bytes, bytes))
    return std::numeric_limits<int64_t>::max();
  return bytes;
}

/// As Runtime/ABI.h counts them.
int64_t poplar::getTurnBytes(ModuleOp program, int64_t rank) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  auto plans = program.getOps<zero::PlanOp>();
  if (!info.isPipelineStage() || plans.empty())
    return 0;
  static_assert(Timetable::messageBuffers == POPLAR_MESSAGE_BUFFERS);
  Plan plan = zero::readPlan(*plans.begin());
  Timetable table = plan.getTimetable(plan.getPlaces()[rank].pipeline);
  const std::vector<Turn> &turns = table.stages[info.group];
  int64_t microBatches = int64_t(turns.size()) / (2 * info.numChunks),
          bytes = 0;
  for (auto chunk : program.getOps<exec::ChunkOp>()) {
    int64_t inFlight = Timetable::countInFlight(turns, chunk.getIndex());
    auto getBuffers = [&](bool isKept, int64_t message) {
      return std::min<int64_t>(microBatches,
                               isKept ? inFlight + 1 : POPLAR_MESSAGE_BUFFERS) *
             int64_t(llvm::alignTo(message, POPLAR_ALIGNMENT));
    };
    bytes += inFlight * chunk.getSlotBytes() +
             getBuffers(true, chunk.getActivationInBytes()) +
             getBuffers(chunk.getKeepsSent(), chunk.getActivationOutBytes()) +
             getBuffers(false, chunk.getGradientInBytes()) +
             getBuffers(false, chunk.getGradientOutBytes());
  }
  return bytes;
}

int64_t poplar::getShardBytes(ModuleOp program, int64_t rank) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  int32_t stateBits = zero::getStateBits(program);
  int64_t bytes = 0;
  SymbolTableCollection symbols;
  std::optional<Plan> plan;
  for (auto op : program.getOps<zero::PlanOp>())
    plan = zero::readPlan(op);
  for (auto copies : program.getOps<exec::CopiesOp>()) {
    auto bucket = symbols.lookupNearestSymbolFrom<zero::BucketOp>(
        copies, copies.getBucketAttr());
    if (!info.holds(bucket))
      continue;
    auto [begin, end] = info.getShard(
        bucket, zero::BucketLayout::get(bucket, symbols)->elements, rank);
    int64_t elements = end - begin;
    auto addBytes = [&](int64_t size) {
      bytes += llvm::alignTo(size, POPLAR_ALIGNMENT);
    };
    auto add = [&](int64_t width) { addBytes(elements * width); };
    bool isF32 = copies.getType().isF32();
    if (!copies.getWorking())
      add(copies.getType().getIntOrFloatBitWidth() / 8); // working copy
    if (bucket.getFrozen())
      continue;
    if (!isF32 || info.hasOwnMaster(bucket))
      add(4); // master
    if (!copies.getGradient())
      add(4); // gradient
    int64_t blockStates = std::max<int64_t>(
        std::min(zero::countBlockStates(bucket, symbols), end) - begin, 0);
    for (int moment = 0; moment < 2; ++moment) {
      addBytes(poplar_state_bytes(stateBits, blockStates));
      addBytes((elements - blockStates) * 4);
    }
    // What a GPU's sums owe is in the memory of its host.
    if (plan && StringRef(info.target).starts_with("host"))
      addBytes(4 * zero::countResidual(*plan, info, bucket, rank));
  }
  return bytes;
}
