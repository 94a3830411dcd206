//===- GPUKernels.cpp - The kernels of a program for a GPU ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/GPUKernels.h"
#include "Poplar/Conversion/Kernels.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include <cstring>

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

void poplar::alignLastAttribution(gpu::GPUFuncOp function) {
  Builder builder(function.getContext());
  function.setWorkgroupAttributionAttr(
      function.getNumWorkgroupAttributions() - 1,
      LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(16));
}

/// Sets what a kernel of the library moves and computes.
static void countLibraryCost(GPUKernel &entry) {
  StringRef callee = entry.callee;
  auto width = [](int32_t type) -> int64_t {
    return type == POPLAR_F32 ? 4 : 2;
  };
  if (callee == "poplar_gpu_embedding_grad") {
    // Every row of dy is read, and added to one of the table.
    PoplarEmbeddingGrad desc;
    std::memcpy(&desc, entry.descriptor.data(), sizeof(desc));
    entry.bytesPerSample =
        desc.seq_len * (desc.width * (width(desc.type) + 8) + 4);
    return;
  }
  if (callee == "poplar_gpu_sum_squares") {
    entry.bytesPerSample = 4;
    return;
  }
  if (callee == "poplar_gpu_scale") {
    entry.bytesPerSample = 8;
    return;
  }
  if (!callee.consume_front("poplar_gpu_attention_"))
    return;
  callee.consume_front("mma_");
  PoplarAttention desc;
  std::memcpy(&desc, entry.descriptor.data(), sizeof(desc));
  int64_t length = desc.seq_len, window = desc.window ? desc.window : length;
  // Pairs of a query and a key that are not masked.
  int64_t pairs = 0;
  for (int64_t query = 0; query < length; ++query)
    pairs += std::min(query + 1, window) +
             (desc.causal ? 0 : std::min(length - 1 - query, window - 1));
  // Products of a tile: scores and output; scores, dP and dQ; scores, dP, dV
  // and dK.
  int64_t products = callee == "forward" ? 2 : callee == "backward_q" ? 3 : 4;
  entry.flopsPerSample = 2 * products * pairs * desc.num_heads * desc.head_dim;
  int64_t query = length * desc.num_heads * desc.head_dim * width(desc.type),
          key = length * desc.num_kv_heads * desc.head_dim * width(desc.type),
          logsums = 4 * length * desc.num_heads;
  entry.bytesPerSample =
      logsums + (callee == "forward"      ? 2 * query + 2 * key
                 : callee == "backward_q" ? 4 * query + 2 * key
                                          : 3 * query + 4 * key);
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
    auto bytes = kernel->getAttrOfType<DenseI64ArrayAttr>(kGPUBytesAttr);
    if (bytes) {
      entry.bytes = bytes[0];
      entry.bytesPerSample = bytes[1];
    }
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
  countLibraryCost(entry);
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
         builder.getNamedAttr("descriptor",
                              builder.getDenseI64ArrayAttr(entry.descriptor)),
         builder.getNamedAttr("cost", builder.getDenseI64ArrayAttr(
                                          {entry.bytes, entry.bytesPerSample,
                                           entry.flopsPerSample}))}));
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
    ArrayRef<int64_t> cost =
        entry.getAs<DenseI64ArrayAttr>("cost").asArrayRef();
    kernels.push_back(
        {entry.getAs<StringAttr>("name").str(),
         {block[0], block[1], block[2]},
         static_cast<int32_t>(entry.getAs<IntegerAttr>("pointers").getInt()),
         entry.getAs<IntegerAttr>("parts_per_block").getInt(),
         entry.getAs<StringAttr>("callee").str(),
         entry.getAs<DenseI64ArrayAttr>("descriptor").asArrayRef().vec(),
         cost[0],
         cost[1],
         cost[2]});
  }
  return kernels;
}
