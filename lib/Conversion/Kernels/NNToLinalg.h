//===- NNToLinalg.h - Loops of nn ops ---------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The nn dialect knows nothing of linalg: its ops' lowerings are attached to
// them here, as external models of LinalgLoweringOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_KERNELS_NNTOLINALG_H
#define POPLAR_LIB_CONVERSION_KERNELS_NNTOLINALG_H

#include "Poplar/Conversion/Kernels/LinalgBuilder.h"
#include "Poplar/Dialect/NN/NN.h"

namespace poplar {

template <typename OpT,
          llvm::SmallVector<mlir::Value> (*lower)(LinalgBuilder &, OpT)>
struct LinalgLowering
    : nn::LinalgLoweringOpInterface::ExternalModel<LinalgLowering<OpT, lower>,
                                                   OpT> {
  llvm::SmallVector<mlir::Value> lowerToLinalg(mlir::Operation *op,
                                               LinalgBuilder &builder) const {
    return lower(builder, mlir::cast<OpT>(op));
  }
};

template <typename OpT,
          llvm::SmallVector<mlir::Value> (*lower)(LinalgBuilder &, OpT)>
void attachLowering(mlir::MLIRContext &context) {
  OpT::template attachInterface<LinalgLowering<OpT, lower>>(context);
}

/// A new tensor of the type of `like`, which consists of heads as `operands`
/// say, each of its elements computed by `body`.
mlir::Value mapHeads(LinalgBuilder &builder, mlir::Value like, int64_t heads,
                     llvm::ArrayRef<Operand> operands,
                     LinalgBuilder::MapBody body);

/// A tensor of `type`, whose dynamic dimensions are those of `like` and whose
/// element (b, t, d) is computed by `body` from its place alone.
mlir::Value mapPlaces(LinalgBuilder &builder, mlir::RankedTensorType type,
                      mlir::Value like,
                      llvm::function_ref<mlir::Value(ElementBuilder &)> body);

/// 1 / (1 + exp(-x)), and its gradient where it is s.
mlir::Value sigmoid(ElementBuilder &b, mlir::Value x);
mlir::Value sigmoidGrad(ElementBuilder &b, mlir::Value dy, mlir::Value s);

/// The largest logit of each token, and the sum of exp(logit - largest).
std::pair<mlir::Value, mlir::Value> reduceLogits(LinalgBuilder &builder,
                                                 mlir::Value logits);

void attachBalanceLowerings(mlir::MLIRContext &context);
void attachColumnLowerings(mlir::MLIRContext &context);
void attachElementwiseLowerings(mlir::MLIRContext &context);
void attachEmbeddingLowerings(mlir::MLIRContext &context);
void attachGroupLowerings(mlir::MLIRContext &context);
void attachLossLowerings(mlir::MLIRContext &context);
void attachNormLowerings(mlir::MLIRContext &context);
void attachRandomLowerings(mlir::MLIRContext &context);
/// Lowers the ops of zero that ranks share.
void attachTensorParallelLowerings(mlir::MLIRContext &context);

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_KERNELS_NNTOLINALG_H
