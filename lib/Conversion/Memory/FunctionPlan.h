//===- FunctionPlan.h - Buffers of one function -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which values of a function of tensors share a buffer, from when to when each
// buffer is alive, and where it lies in its region.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_MEMORY_FUNCTIONPLAN_H
#define POPLAR_LIB_CONVERSION_MEMORY_FUNCTIONPLAN_H

#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Planner/Model/ArenaPlan.h"
#include "TokenChunks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <vector>

namespace poplar {

/// What callers of a unit have to know of its plan.
struct UnitPlan {
  /// Bytes of temporaries per sample.
  int64_t scratchBytes = 0;
  /// By result, the arguments whose buffers it may take over.
  mlir::SmallVector<mlir::SmallVector<int64_t>> reusable;
};
using UnitPlans = llvm::DenseMap<mlir::StringAttr, UnitPlan>;

/// The operand of `op` whose buffer result `index` shares, because it is
/// accumulated into; null if the result has a buffer of its own.
mlir::OpOperand *getAccumulator(mlir::Operation *op, unsigned index,
                                mlir::SymbolTableCollection &symbols);

/// The last results of a unit are the gradients or caches that it is given, in
/// their order: the argument that result `index` is an update of, if any.
std::optional<unsigned> getInPlaceArgument(mlir::func::FuncOp unit,
                                           unsigned index);

/// Whether `op` is a call once buffers are placed: it is not where its results
/// are places (parameters) or nothing at all (sizes, constants).
bool isCall(mlir::Operation &op);

class FunctionPlan {
public:
  enum class Region {
    Batch,
    Transient,
    /// Belongs to the caller (arguments, results of units, what a turn keeps
    /// or sends) or to the state in the fixed region: has no place in this
    /// plan.
    External
  };
  struct Buffer {
    int64_t size, first, last;
    Region region = Region::Batch;
    /// In its region, behind the inputs; -1 if it has no place in this plan.
    int64_t offset = -1;
    /// Whether it has room for one chunk of tokens.
    bool isInside = false;
  };

  /// The first `reserved` bytes of the batch region hold the steps' inputs.
  /// Chunks of tokens begin at multiples of `alignment` bytes.
  FunctionPlan(mlir::func::FuncOp function, int64_t reserved, int64_t alignment,
               UnitPlans &units, mlir::SymbolTableCollection &symbols)
      : function(function), reserved(reserved), alignment(alignment),
        units(units), symbols(symbols) {}

  /// Places the buffers; adds a unit's plan to `units`.
  mlir::LogicalResult run();

  mlir::func::FuncOp getFunction() const { return function; }
  llvm::ArrayRef<Buffer> getBuffers() const { return buffers; }
  /// The index of the buffer that a value lies in.
  int64_t getBuffer(mlir::Value value) const { return bufferOf.at(value); }
  bool hasBuffer(mlir::Value value) const { return bufferOf.contains(value); }
  /// The index of what `call` needs while it runs: temporaries of the unit that
  /// it calls, or scratch of the runtime's calls.
  int64_t getScratch(mlir::Operation *call) const { return scratchOf.at(call); }
  int64_t getStep(mlir::Operation *op) const { return steps.at(op); }
  /// Whether buffers that are dead after its step end behind it.
  bool isLastOfStep(mlir::Operation *op) const {
    mlir::Operation *next = op->getNextNode();
    return !next || getStep(next) != getStep(op);
  }

  /// The chunks in which an op runs, null if it runs at once.
  const TokenChunks *findChunks(mlir::Operation *op) const {
    auto found = chunksOf.find(op);
    return found == chunksOf.end() ? nullptr : &chunks[found->second];
  }
  /// The chunks that a value is inside of.
  const TokenChunks *findChunksAround(mlir::Value value) const {
    mlir::Operation *op = value.getDefiningOp();
    const TokenChunks *found = op ? findChunks(op) : nullptr;
    return found && found->isInside(value) ? found : nullptr;
  }

  /// Bytes placed and the largest sum of live bytes, the temporaries inside
  /// calls included; `transient` is not per sample.
  int64_t bytes = 0, liveBytes = 0;
  int64_t transientBytes = 0, liveTransientBytes = 0;

private:
  mlir::LogicalResult collect();
  void findSteps();
  void findChunks();
  void findLastUses();
  mlir::LogicalResult addResult(mlir::Operation *op, mlir::OpResult result,
                                int64_t step);
  int64_t addBuffer(mlir::Value value, int64_t step, Region region);
  void addBucketBuffer(mlir::Operation *op, mlir::FlatSymbolRefAttr bucket,
                       mlir::Type elementType, int64_t step);
  /// Places the buffers of a region.
  mlir::FailureOr<ArenaPlan> place(Region region, int64_t &live);
  /// Remarks on where each buffer of a region lies, and why.
  void explain(Region region, const ArenaPlan &plan, int64_t live);
  std::optional<int64_t> findReusable(mlir::Operation *op,
                                      mlir::OpResult result, int64_t step);
  void recordReusableArguments(mlir::OpResult result,
                               llvm::ArrayRef<int64_t> operands);
  llvm::ArrayRef<int64_t> getReusable(mlir::Operation *op, unsigned index);
  /// Whether a value lies in what the runtime gives to a turn.
  bool isTurns(mlir::Value value);

  mlir::func::FuncOp function;
  int64_t reserved, alignment;
  UnitPlans &units;
  mlir::SymbolTableCollection &symbols;
  bool isUnit = false;
  /// Arguments of a unit whose buffers a result may take over, by result.
  mlir::SmallVector<mlir::SmallVector<int64_t>> reusableArguments;
  llvm::DenseMap<mlir::Operation *, int64_t> steps, scratchOf;
  std::vector<TokenChunks> chunks;
  llvm::DenseMap<mlir::Operation *, size_t> chunksOf;
  /// Between exchanges that are chained.
  llvm::DenseSet<mlir::Operation *> chained;
  llvm::DenseMap<mlir::Value, int64_t> bufferOf, lastUse;
  std::vector<Buffer> buffers;
};

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_MEMORY_FUNCTIONPLAN_H
