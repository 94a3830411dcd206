//===- ExecVerify.cpp - Check the places of buffers -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Closes the level of buffers. Reads nothing but the ops themselves, so that it
// shares no code with --plan-memory.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Memory/Passes.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "llvm/ADT/StringSet.h"
#include <limits>
#include <map>

namespace poplar {
#define GEN_PASS_DEF_EXECVERIFY
#include "Poplar/Conversion/Memory/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Follows a function's buffers from op to op.
class FunctionVerifier {
public:
  /// Sampling alone has room for functions that `samples`.
  FunctionVerifier(exec::FunctionOp function, exec::ArenaOp arena,
                   int64_t slotBytes, bool samples)
      : function(function), arena(arena), slotBytes(slotBytes),
        samples(samples) {}

  LogicalResult run();

private:
  LogicalResult begin(exec::BufferOp buffer);
  LogicalResult use(Operation &op);
  LogicalResult useExchanged(Operation &op);
  /// Bytes of a region, per sample where it is of the batch.
  int64_t getRoom(exec::Region region);

  exec::FunctionOp function;
  exec::ArenaOp arena;
  int64_t slotBytes;
  bool samples;
  /// By region and offset: no two of them overlap. Empty ones are left out.
  std::map<std::pair<exec::Region, int64_t>, exec::BufferOp> alive;
  SmallPtrSet<Operation *, 16> dead;
  /// Collectives under way, by the buffer that they are at work on, or by their
  /// token where that is a shard.
  DenseMap<Value, exec::StartOp> busy;
  SmallVector<exec::StartExchangeOp> exchanges;
};

class ExecVerifyPass : public poplar::impl::ExecVerifyBase<ExecVerifyPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto arenas = llvm::to_vector(module.getOps<exec::ArenaOp>());
    auto functions = module.getOps<exec::FunctionOp>();
    if (arenas.size() > 1) {
      arenas[1].emitOpError("duplicates the arena: a program has one");
      return signalPassFailure();
    }
    if (arenas.empty()) {
      if (functions.empty())
        return;
      (*functions.begin())
          .emitOpError("has buffers, but there is no exec.arena");
      return signalPassFailure();
    }
    int64_t slotBytes = 0;
    for (auto chunk : module.getOps<exec::ChunkOp>())
      slotBytes = std::max<int64_t>(slotBytes, chunk.getSlotBytes());
    StringSet<> infer;
    for (auto entry : module.getOps<exec::EntryOp>())
      if (entry.getEntry() == nn::Entry::Infer)
        infer.insert(entry.getFunction());
    for (exec::FunctionOp function : functions) {
      bool samples =
          function.getDecoding() || infer.contains(function.getSymName());
      if (failed(FunctionVerifier(function, arenas.front(), slotBytes, samples)
                     .run()))
        return signalPassFailure();
    }
  }
};

/// The op that says where a buffer lies; null for those that a function is
/// given.
exec::BufferOp findPlace(Value buffer) {
  if (auto rows = buffer.getDefiningOp<exec::RowsOp>())
    buffer = rows.getBuffer();
  if (auto view = buffer.getDefiningOp<exec::ViewOp>())
    buffer = view.getBucket();
  return buffer.getDefiningOp<exec::BufferOp>();
}

/// What a collective under way is known by.
Value getMemory(exec::StartOp start) {
  return start.getBuffer() ? Value(start.getBuffer()) : start.getToken();
}

int64_t getEnd(exec::BufferOp buffer) {
  return int64_t(buffer.getOffset()) + buffer.getBytes();
}

} // namespace

int64_t FunctionVerifier::getRoom(exec::Region region) {
  switch (region) {
  case exec::Region::Batch:
    return samples ? arena.getCachesOffset().value_or(arena.getPerSample())
                   : arena.getPerSample();
  case exec::Region::Fixed:
    return arena.getTransientOffset();
  case exec::Region::Transient:
    return llvm::alignTo(arena.getTransientBytes(), POPLAR_ALIGNMENT);
  case exec::Region::Scratch:
    return function.getScratchBytes().value_or(0);
  case exec::Region::Slot:
    return slotBytes;
  case exec::Region::Cache:
    return arena.getSamplingPerSample().value_or(0) -
           arena.getCachesOffset().value_or(0);
  }
  llvm_unreachable("unknown region");
}

LogicalResult FunctionVerifier::begin(exec::BufferOp buffer) {
  exec::Region region = buffer.getRegion();
  // A unit knows nothing but its scratch.
  exec::FunctionKind kind = function.getKind();
  bool isUnit = kind == exec::FunctionKind::Unit;
  if ((region == exec::Region::Scratch) != isUnit ||
      (region == exec::Region::Slot && kind != exec::FunctionKind::Turn) ||
      (region == exec::Region::Cache && !function.getDecoding()))
    return buffer.emitOpError("lies in ")
           << stringifyRegion(region) << ", which a "
           << stringifyFunctionKind(kind)
           << (region == exec::Region::Cache ? " of training" : "")
           << " does not have";
  int64_t room = getRoom(region);
  if (getEnd(buffer) > room)
    return buffer.emitOpError("ends at ")
           << getEnd(buffer) << ", but " << stringifyRegion(region) << " has "
           << room << " bytes";
  if (!buffer.hasLifetime() || buffer.getBytes() == 0)
    return success();
  int64_t offset = buffer.getOffset();
  auto next = alive.lower_bound({region, offset});
  auto reaches = [&](auto other) {
    return other->first.first == region && getEnd(other->second) > offset &&
           other->first.second < getEnd(buffer);
  };
  auto other = next;
  if (next != alive.begin() && reaches(std::prev(next)))
    other = std::prev(next);
  if (other != alive.end() && reaches(other)) {
    InFlightDiagnostic diagnostic =
        buffer.emitOpError("overlaps a live buffer");
    diagnostic.attachNote(other->second.getLoc()) << "which is here";
    return diagnostic;
  }
  alive.emplace_hint(next, std::pair(region, offset), buffer);
  return success();
}

/// Whether what is under way of an exchange may change the tokens of `buffer`
/// from `first` on.
static bool arrivesAt(exec::StartExchangeOp start, Value buffer, int64_t first,
                      int64_t end) {
  ArrayRef<int64_t> bounds = start.getBounds();
  auto ranks = int64_t(bounds.size()) - 1;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    // The sender of this round.
    if (start.getRound() && (rank + int64_t(*start.getRound())) % ranks !=
                                int64_t(start.getPosition()))
      continue;
    bool gathers = start.getKind() == zero::ExchangeKind::GatherTokens;
    // What is scattered to a rank has a buffer for each sender's part of the
    // rank's own tokens.
    int64_t own = int64_t(start.getPosition()), owner = gathers ? rank : own,
            begin = gathers ? 0 : start.getBounds()[own];
    if (buffer == start.getResults()[gathers ? 0 : rank] &&
        first < start.getEnd(owner) - begin &&
        start.getFirst(owner) - begin < end)
      return true;
  }
  return false;
}

/// What is on its way is not touched, and what is given away stays alive.
LogicalResult FunctionVerifier::useExchanged(Operation &op) {
  if (isa<exec::RowsOp, exec::StartExchangeOp>(op))
    return success();
  for (Value operand : op.getOperands()) {
    int64_t first = 0, end = std::numeric_limits<int64_t>::max();
    if (auto rows = operand.getDefiningOp<exec::RowsOp>()) {
      first = int64_t(rows.getFirst());
      end = first + cast<MemRefType>(rows.getRows().getType()).getDimSize(1);
      operand = rows.getBuffer();
    }
    for (exec::StartExchangeOp start : exchanges) {
      bool ends = isa<exec::EndOp>(op) && operand == start.getSource();
      if (!ends && !arrivesAt(start, operand, first, end))
        continue;
      InFlightDiagnostic diagnostic = op.emitOpError(
          "uses a buffer before its exchange has been waited for");
      diagnostic.attachNote(start.getLoc()) << "which starts here";
      return diagnostic;
    }
  }
  return success();
}

LogicalResult FunctionVerifier::use(Operation &op) {
  if (failed(useExchanged(op)))
    return failure();
  for (Value operand : op.getOperands()) {
    exec::BufferOp place = findPlace(operand);
    if (!place)
      continue;
    if (dead.contains(place)) {
      InFlightDiagnostic diagnostic =
          op.emitOpError("uses a buffer after its end");
      diagnostic.attachNote(place.getLoc()) << "which is here";
      return diagnostic;
    }
    if (auto start = busy.find(place.getBuffer());
        start != busy.end() && !isa<exec::ViewOp>(op)) {
      InFlightDiagnostic diagnostic = op.emitOpError(
          "uses a buffer before the collective on it has been waited for");
      diagnostic.attachNote(start->second.getLoc()) << "which starts here";
      return diagnostic;
    }
  }
  return success();
}

LogicalResult FunctionVerifier::run() {
  for (Operation &op : function.getBody().front()) {
    if (auto wait = dyn_cast<exec::WaitOp>(op)) {
      auto start = wait.getToken().getDefiningOp<exec::StartOp>();
      if (!start || !busy.erase(getMemory(start)))
        return wait.emitOpError("waits for a collective that is not under way");
      continue;
    }
    if (auto wait = dyn_cast<exec::WaitExchangeOp>(op)) {
      auto start = wait.getToken().getDefiningOp<exec::StartExchangeOp>();
      if (!llvm::is_contained(exchanges, start))
        return wait.emitOpError("waits for an exchange that is not under way");
      llvm::erase(exchanges, start);
      continue;
    }
    if (failed(use(op)))
      return failure();
    if (auto start = dyn_cast<exec::StartExchangeOp>(op))
      exchanges.push_back(start);
    if (auto buffer = dyn_cast<exec::BufferOp>(op)) {
      if (failed(begin(buffer)))
        return failure();
    } else if (auto end = dyn_cast<exec::EndOp>(op)) {
      exec::BufferOp buffer = findPlace(end.getBuffer());
      dead.insert(buffer);
      if (auto known = alive.find({buffer.getRegion(), buffer.getOffset()});
          known != alive.end() && known->second == buffer)
        alive.erase(known);
    } else if (auto start = dyn_cast<exec::StartOp>(op)) {
      busy[getMemory(start)] = start;
    }
  }
  if (!exchanges.empty())
    return exchanges.front().emitOpError("is never waited for");
  if (!busy.empty())
    return busy.begin()->second.emitOpError("is never waited for");
  return success();
}
