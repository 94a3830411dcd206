//===- CallBuilder.h - From tensors to calls on buffers ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_MEMORY_CALLBUILDER_H
#define POPLAR_LIB_CONVERSION_MEMORY_CALLBUILDER_H

#include "FunctionPlan.h"
#include "Poplar/Dialect/Zero/Zero.h"

namespace poplar {

/// Where things lie that functions share.
struct SharedPlaces {
  struct Bucket {
    zero::BucketLayout layout;
    /// Offsets in the fixed region, none where it is sharded.
    std::optional<int64_t> working, gradient;
    /// The type of its working copy.
    mlir::Type type;
  };
  /// The one type in which parameters are read that are not quantised.
  mlir::FloatType workingType;
  llvm::DenseMap<mlir::StringAttr, Bucket> buckets;
  /// Shard groups hold replicas of the state, so that shards of gradients are
  /// added across them.
  bool hasReplicas = false;
  /// The place of each parameter: bucket, and offset there, in elements.
  llvm::DenseMap<mlir::StringAttr, std::pair<mlir::StringAttr, int64_t>>
      parameters;
  /// Offsets of steps' inputs in the batch region, of turns' in their slot;
  /// of what turns keep, by its number.
  llvm::DenseMap<mlir::Operation *, mlir::SmallVector<int64_t>> inputs;
  /// What steps and turns are for.
  llvm::DenseMap<mlir::Operation *, nn::Entry> roles;
  mlir::SmallVector<mlir::SmallVector<int64_t>> residuals; // by chunk
  /// Offsets of caches in their region.
  llvm::DenseMap<mlir::StringAttr, int64_t> caches;
};

/// Makes the exec.function of a planned function.
class CallBuilder {
public:
  /// Kernels of which it runs some rows at a time are added to `cut`.
  CallBuilder(const FunctionPlan &plan, const SharedPlaces &places,
              mlir::SymbolTableCollection &symbols,
              llvm::SetVector<exec::KernelOp> &cut)
      : plan(plan), places(places), symbols(symbols), cut(cut),
        source(plan.getFunction()), builder(source) {}

  mlir::LogicalResult run();

private:
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> findUnitResults();
  mlir::LogicalResult checkUpdates();
  mlir::LogicalResult setResult(exec::FunctionOp target);
  mlir::LogicalResult setRole(exec::FunctionOp target);
  void bindUnit(mlir::ArrayRef<mlir::Value> results);
  void bindStep();
  void bindTurn();
  mlir::LogicalResult checkCopy(mlir::Operation *op);
  mlir::LogicalResult lower(mlir::Operation *op);
  mlir::LogicalResult lowerCall(mlir::Operation *op);
  void lowerUnit(mlir::func::CallOp call);
  void lowerDispatch(exec::DispatchOp dispatch);
  /// Calls for one chunk of tokens after the other.
  mlir::LogicalResult lowerChunks(const TokenChunks &chunks);
  /// Ops of the zero dialect; false for all others.
  bool lowerZero(mlir::Operation *op);
  mlir::Value start(mlir::Operation *op, zero::CollectiveKind kind,
                    mlir::FlatSymbolRefAttr bucket, mlir::Type wire,
                    mlir::ValueRange gradients, bool isTransient, bool unscale);
  void bindResult(mlir::OpResult result);
  void bindSlices(mlir::ResultRange values, mlir::Value flat,
                  mlir::FlatSymbolRefAttr bucket);
  /// `ofChunk` if those inside a chunk end, not those around it.
  void endBuffers(mlir::Operation *op, bool ofChunk = false);

  mlir::Value createBuffer(exec::Region region, int64_t offset,
                           mlir::MemRefType type);
  mlir::Value createScratch(mlir::Operation *call, mlir::MemRefType type);
  mlir::Value createTransient(mlir::Operation *op,
                              mlir::FlatSymbolRefAttr bucket, mlir::Type type);
  /// The chunk's rows of what is outside, while calls for a chunk are made.
  mlir::Value getBuffer(mlir::Value value);
  /// Whether a collective is of the rank's shard, and not of a buffer.
  bool sumsShards(zero::CollectiveKind kind) const {
    return places.hasReplicas && kind == zero::CollectiveKind::AllReduce;
  }
  const SharedPlaces::Bucket &getBucket(mlir::FlatSymbolRefAttr name) const {
    return places.buckets.find(name.getAttr())->second;
  }

  const FunctionPlan &plan;
  const SharedPlaces &places;
  mlir::SymbolTableCollection &symbols;
  llvm::SetVector<exec::KernelOp> &cut;
  mlir::func::FuncOp source;
  mlir::OpBuilder builder;
  mlir::Location loc = source.getLoc();
  /// By value; and by index in the plan, what was created for it.
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::DenseMap<int64_t, mlir::Value> created;
  /// Tokens [first, end) of `tokens`, for which calls are made; and, by value,
  /// the rows of those.
  struct Chunk {
    int64_t tokens, first, end;
    llvm::DenseMap<mlir::Value, mlir::Value> rows{};
  };
  std::optional<Chunk> chunk;
  /// Token and buffer of each collective under way.
  llvm::DenseMap<mlir::Value, std::pair<mlir::Value, mlir::Value>> started;
};

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_MEMORY_CALLBUILDER_H
