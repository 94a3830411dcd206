//===- StagedPass.h - Passes that add plans of stages -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_ALLOCATION_STAGEDPASS_H
#define POPLAR_LIB_ALLOCATION_STAGEDPASS_H

#include "Poplar/Allocation/Passes.h"
#include "Poplar/Allocation/StagedAllocation.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace poplar {

/// --hybrid-allocate or --geo-allocate, by its generated base: both have the
/// same options.
template <typename PassBase, typename Result>
class StagedPass : public PassBase {
public:
  using PassBase::PassBase;

  void runOnOperation() override {
    if (failed(plan(this->getOperation())))
      this->signalPassFailure();
  }

private:
  llvm::LogicalResult check(mlir::ModuleOp module) const {
    if (!module.getOps<zero::PlanOp>().empty())
      return module.emitError("has a zero.plan already");
    if (this->globalBatch < 1)
      return module.emitError(
          "needs the option global-batch, a number of samples");
    int number = 0;
    if (this->stage != "auto" &&
        (llvm::StringRef(this->stage).getAsInteger(10, number) || number < 0 ||
         number > 3))
      return module.emitError("option zero must be 0, 1, 2, 3 or auto, not '")
             << this->stage.getValue() << "'";
    if (module.getOps<zero::BucketOp>().empty())
      return module.emitError("has no buckets: run --zero-form-buckets first");
    return llvm::success();
  }

  llvm::LogicalResult plan(mlir::ModuleOp module) {
    if (failed(check(module)))
      return llvm::failure();
    ClusterView cluster = cluster::buildClusterView(module);
    if (cluster.ranks.empty())
      return module.emitError("holds no cluster: no cluster.node has devices");
    HybridRequest request;
    request.globalBatch = this->globalBatch;
    request.bucketBytes = this->bucketBytes;
    request.stage = this->stage;
    request.mostTensorDegree = static_cast<int>(this->tensorDegree);
    request.mostChunks = static_cast<int>(this->chunks);
    Result result;
    std::string error;
    llvm::FailureOr<HybridModel> model = getHybridModel(module, cluster);
    if (failed(model))
      return llvm::failure();
    if (failed(findPlan(module, cluster, *model, request, result, error))) {
      if (!error.empty())
        module.emitError(error);
      return llvm::failure();
    }
    return addPlan(module, cluster, request, result);
  }
};

} // namespace poplar

#endif // POPLAR_LIB_ALLOCATION_STAGEDPASS_H
