//===- GPUKernels.cpp - The kernels of a program for a GPU ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/GPUKernels.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace poplar;

/// On a module: the table, a dictionary per kernel.
static constexpr llvm::StringLiteral kGPUKernelsAttr = "nn.gpu_kernels";

GPUAttention poplar::chooseGPUAttention(const PoplarAttention &desc,
                                        int capability) {
  // Copies are of eight elements.
  bool aligned = true;
  for (int64_t place :
       {desc.head_dim, desc.q_stride, desc.k_stride, desc.v_stride,
        desc.out_stride, desc.q_offset, desc.k_offset, desc.v_offset})
    aligned &= place % 8 == 0;
  if (capability >= 80 && desc.type != POPLAR_F32 && aligned &&
      desc.head_dim <= POPLAR_GPU_MMA_HEAD_DIM)
    return {"poplar_gpu_attention_mma_",
            POPLAR_GPU_MMA_TILE,
            {32, POPLAR_GPU_MMA_WARPS, 1}};
  constexpr int32_t tile = POPLAR_GPU_ATTENTION_TILE;
  return {"poplar_gpu_attention_", tile, {tile, tile / 4, 1}};
}

GPUKernelTable::GPUKernelTable(ModuleOp module)
    : module(module),
      kernels(SymbolTable(module).lookup<gpu::GPUModuleOp>("kernels")) {
  if (!kernels)
    return;
  for (auto kernel : kernels.getOps<gpu::GPUFuncOp>()) {
    GPUKernel entry;
    entry.name = kernel.getName().str();
    ArrayRef<int32_t> block = *kernel.getKnownBlockSize();
    entry.block = {block[0], block[1], block[2]};
    entry.pointers = static_cast<int32_t>(llvm::count_if(
        kernel.getArgumentTypes(), llvm::IsaPred<LLVM::LLVMPointerType>));
    entry.partsPerBlock =
        kernel->getAttrOfType<IntegerAttr>("gpu.parts_per_block").getInt();
    numbers[entry.name] = static_cast<int64_t>(entries.size());
    entries.push_back(std::move(entry));
  }
}

int64_t GPUKernelTable::add(StringRef callee, ArrayRef<int64_t> descriptor,
                            std::array<int32_t, 3> block, int32_t pointers,
                            int64_t partsPerBlock) {
  int64_t number = 0, alike = 0;
  for (const GPUKernel &entry : entries) {
    if (entry.callee == callee) {
      if (descriptor == ArrayRef(entry.descriptor))
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
  entry.descriptor = descriptor.vec();
  entries.push_back(std::move(entry));
  return number;
}

void GPUKernelTable::finish() {
  int32_t threads = POPLAR_GPU_FLAT_THREADS;
  add("poplar_gpu_sum_squares", {}, {threads, 1, 1}, 2, POPLAR_SUM_CHUNK);
  entries.back().name = POPLAR_SUM_SQUARES_KERNEL;
  add("poplar_gpu_scale", {}, {threads, 1, 1}, 3, threads);
  entries.back().name = POPLAR_SCALE_KERNEL;
  Builder builder(module.getContext());
  SmallVector<Attribute> table;
  for (const GPUKernel &entry : entries)
    table.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(entry.name)),
         builder.getNamedAttr("block",
                              builder.getDenseI32ArrayAttr(entry.block)),
         builder.getNamedAttr("pointers",
                              builder.getI32IntegerAttr(entry.pointers)),
         builder.getNamedAttr("parts_per_block",
                              builder.getI64IntegerAttr(entry.partsPerBlock)),
         builder.getNamedAttr("callee", builder.getStringAttr(entry.callee)),
         builder.getNamedAttr(
             "descriptor", builder.getDenseI64ArrayAttr(entry.descriptor))}));
  module->setAttr(kGPUKernelsAttr, builder.getArrayAttr(table));
  kernels.erase();
}

std::vector<GPUKernel> poplar::getGPUKernels(ModuleOp module) {
  std::vector<GPUKernel> kernels;
  auto table = module->getAttrOfType<ArrayAttr>(kGPUKernelsAttr);
  if (!table)
    return kernels;
  for (auto entry : table.getAsRange<DictionaryAttr>()) {
    ArrayRef<int32_t> block =
        entry.getAs<DenseI32ArrayAttr>("block").asArrayRef();
    kernels.push_back(
        {entry.getAs<StringAttr>("name").str(),
         {block[0], block[1], block[2]},
         static_cast<int32_t>(entry.getAs<IntegerAttr>("pointers").getInt()),
         entry.getAs<IntegerAttr>("parts_per_block").getInt(),
         entry.getAs<StringAttr>("callee").str(),
         entry.getAs<DenseI64ArrayAttr>("descriptor").asArrayRef().vec()});
  }
  return kernels;
}
