//===- GPUKernels.cpp - The kernels of a program for a GPU ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/GPU/GPUKernels.h"
#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace poplar;

GPUAttention poplar::chooseGPUAttention(const PoplarAttention &desc,
                                        int capability) {
  // Copies are of eight elements.
  bool aligned = true;
  for (int64_t place :
       {desc.head_dim, desc.q_stride, desc.k_stride, desc.v_stride,
        desc.out_stride, desc.q_offset, desc.k_offset, desc.v_offset})
    aligned &= place % 8 == 0;
  // Scores are compared before they are scaled.
  if (capability >= 80 && desc.type != POPLAR_F32 && aligned && desc.cap == 0 &&
      desc.scale > 0 && desc.head_dim <= POPLAR_GPU_MMA_HEAD_DIM)
    return {"poplar_gpu_attention_mma_",
            POPLAR_GPU_MMA_TILE,
            {32, POPLAR_GPU_MMA_WARPS, 1}};
  constexpr int32_t tile = POPLAR_GPU_ATTENTION_TILE;
  return {"poplar_gpu_attention_", tile, {tile, tile / 4, 1}};
}

StringRef poplar::explainOwnAttention(const PoplarAttention &desc) {
  if (desc.type == POPLAR_F32)
    return "it has none in f32";
  if (desc.head_dim % 8 != 0 || desc.head_dim > POPLAR_GPU_MMA_HEAD_DIM)
    return "heads have more than 128 columns, or not a multiple of 8";
  if (desc.dropout != 0)
    return "its dropout draws other numbers";
  if (desc.documents)
    return "documents share samples";
  if (desc.cap != 0)
    return "scores are capped";
  if (desc.window > 0 && !desc.causal)
    return "its windows are of causal attention";
  if (desc.seq_len < 2)
    return "sequences have one token";
  return "";
}

GPUExperts poplar::chooseGPUExperts(const PoplarExperts &desc, int capability) {
  // Copies are of eight elements.
  if (capability >= 80 && desc.type != POPLAR_F32 && desc.inputs % 8 == 0 &&
      desc.outputs % 8 == 0)
    return {"_mma", POPLAR_GPU_EXPERT_MMA_COLUMNS,
            POPLAR_GPU_EXPERT_MMA_GRAD_ROWS};
  return {"", POPLAR_GPU_EXPERT_COLUMNS, POPLAR_GPU_EXPERT_GRAD_ROWS};
}

void poplar::alignLastAttribution(gpu::GPUFuncOp function) {
  Builder builder(function.getContext());
  function.setWorkgroupAttributionAttr(
      function.getNumWorkgroupAttributions() - 1,
      LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(16));
}

/// The table of a module, as ops.
static std::vector<GPUKernel> readTable(ModuleOp module) {
  std::vector<GPUKernel> kernels;
  for (auto op : module.getOps<exec::GPUKernelOp>()) {
    ArrayRef<int32_t> block = op.getBlock();
    GPUKernel entry;
    entry.name = op.getKernel().str();
    entry.block = {block[0], block[1], block[2]};
    entry.pointers = static_cast<int32_t>(op.getPointers());
    entry.partsPerBlock = static_cast<int64_t>(op.getPartsPerBlock());
    entry.callee = op.getCallee().value_or("").str();
    entry.descriptor = op.getDescriptorAttr();
    entry.cost = {static_cast<int64_t>(op.getBytes()),
                  static_cast<int64_t>(op.getBytesPerSample()),
                  static_cast<int64_t>(op.getFlopsPerSample())};
    kernels.push_back(std::move(entry));
  }
  return kernels;
}

GPUKernelTable::GPUKernelTable(ModuleOp module)
    : module(module),
      kernels(SymbolTable(module).lookup<gpu::GPUModuleOp>("kernels")) {
  if (!kernels)
    return;
  entries = readTable(module);
  for (auto [number, entry] : llvm::enumerate(entries))
    numbers[entry.name] = static_cast<int64_t>(number);
}

int64_t GPUKernelTable::add(StringRef callee, exec::RecordAttr descriptor,
                            std::array<int32_t, 3> block, int32_t pointers,
                            const GPUKernelCost &cost, int64_t partsPerBlock) {
  int64_t number = 0, alike = 0;
  for (const GPUKernel &entry : entries) {
    if (entry.callee == callee) {
      if (descriptor == entry.descriptor)
        return number;
      ++alike;
    }
    ++number;
  }
  GPUKernel entry;
  // PTX has no dots in names.
  entry.name = (callee + "_" + Twine(alike)).str();
  entry.block = block;
  entry.pointers = pointers;
  entry.partsPerBlock = partsPerBlock;
  entry.callee = callee.str();
  entry.descriptor = descriptor;
  entry.cost = cost;
  entries.push_back(std::move(entry));
  return number;
}

void GPUKernelTable::finish() {
  // Each word is read once, or read and written.
  int32_t threads = POPLAR_GPU_FLAT_THREADS;
  add("poplar_gpu_sum_squares", {}, {threads, 1, 1}, 2, {0, 4, 0},
      POPLAR_SUM_CHUNK);
  entries.back().name = POPLAR_SUM_SQUARES_KERNEL;
  add("poplar_gpu_scale", {}, {threads, 1, 1}, 3, {0, 8, 0}, threads);
  entries.back().name = POPLAR_SCALE_KERNEL;
  for (auto op : llvm::make_early_inc_range(module.getOps<exec::GPUKernelOp>()))
    op.erase();
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  for (const GPUKernel &entry : entries) {
    exec::GPUKernelOp::create(
        builder, module.getLoc(), builder.getStringAttr(entry.name),
        builder.getDenseI32ArrayAttr(entry.block),
        builder.getI64IntegerAttr(entry.pointers),
        builder.getI64IntegerAttr(entry.partsPerBlock),
        entry.callee.empty() ? StringAttr()
                             : builder.getStringAttr(entry.callee),
        entry.descriptor, builder.getI64IntegerAttr(entry.cost.bytes),
        builder.getI64IntegerAttr(entry.cost.bytesPerSample),
        builder.getI64IntegerAttr(entry.cost.flopsPerSample));
  }
  kernels.erase();
}

std::vector<GPUKernel> poplar::takeGPUKernels(ModuleOp module) {
  std::vector<GPUKernel> kernels = readTable(module);
  for (auto op : llvm::make_early_inc_range(module.getOps<exec::GPUKernelOp>()))
    op.erase();
  return kernels;
}
