//===- Registration.cpp - All dialects and passes -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Tools/Registration.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Passes.h"
#include "Poplar/Target/Build.h"
#include "Poplar/Target/GPU.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace poplar;

void poplar::registerDialectsAndPasses(DialectRegistry &registry) {
  registry
      .insert<cluster::ClusterDialect, nn::NNDialect, exec::ExecDialect,
              zero::ZeroDialect, arith::ArithDialect, cf::ControlFlowDialect,
              func::FuncDialect, gpu::GPUDialect, linalg::LinalgDialect,
              LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
              NVVM::NVVMDialect, ROCDL::ROCDLDialect, scf::SCFDialect,
              tensor::TensorDialect, vector::VectorDialect>();
  registerPoplarPasses();
  registerPipelines();
  registerGPUPipelines();
  // What the pipelines are made of, so that their text parses back.
  registerConversionPasses();
  registerLinalgPasses();
  registerTransformsPasses();
}
