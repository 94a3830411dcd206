//===- MapKernelsToGPU.cpp - Kernels to thread blocks ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kernel @k becomes a gpu.func @k of the module @kernels: its pointers
// (arguments, then results that are not in place), and the batch. Threads take
// `lanes` neighbouring elements at a time, 16 bytes of the narrowest type, so
// that memory is read and written in whole vectors.
//
//   rows:      a block is one row, or several rows of one subgroup each;
//              threads stride over its elements. What ops hand to each other
//              stays in registers; sums and maxima are those of the block.
//   columns:   a block is a few columns, so that there are many blocks, and
//              groups of rows: every thread adds its rows, then the groups'
//              sums are added in a fixed order. Sums of each sample by itself
//              have blocks for each sample.
//   positions: a block is one position; every thread adds over the samples.
//   flat:      a thread is `lanes` elements.
//
// No sum depends on timing, so results are the same in every run. The blocks of
// a launch are ceil(extent / parts_per_block), the extent being that of the
// kernel on the host.
//
//===----------------------------------------------------------------------===//

#include "GPUKernelEmitter.h"
#include "Poplar/Conversion/GPU/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace poplar {
#define GEN_PASS_DEF_MAPKERNELSTOGPU
#include "Poplar/Conversion/GPU/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;
using exec::KernelKind;

namespace {

/// Threads of a block that has one row, unless it needs the most there may be;
/// of one without rows.
constexpr int64_t kRowThreads = 512, kMostThreads = 1024, kFlatThreads = 256;
/// Threads of a block of columns; how many blocks there should be, so that all
/// multiprocessors have some; what memory gives at a time, which a block's part
/// of a row is at least; and what every block may share.
constexpr int64_t kColumnThreads = 512, kColumnBlocks = 128, kSectorBits = 256,
                  kSharedBytes = 48 << 10;

class MapKernelsToGPUPass
    : public poplar::impl::MapKernelsToGPUBase<MapKernelsToGPUPass> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    // What the conversions of a gpu.module ask dialects for.
    arith::registerConvertArithToLLVMInterface(registry);
    cf::registerConvertControlFlowToLLVMInterface(registry);
    registerConvertMemRefToLLVMInterface(registry);
  }

  void runOnOperation() override {
    auto kernels = llvm::to_vector(getOperation().getOps<exec::KernelOp>());
    if (kernels.empty())
      return;
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto module =
        gpu::GPUModuleOp::create(builder, getOperation().getLoc(), "kernels");
    for (exec::KernelOp kernel : kernels)
      if (failed(GPUKernelEmitter(kernel, module, subgroupSize).run()))
        return signalPassFailure();
  }
};

} // namespace

bool GPUKernelEmitter::fitsLanes(linalg::GenericOp op) {
  int64_t width = op.getStaticLoopRanges()[2];
  if (width % lanes == 0)
    return true;
  // What is behind the last whole vector of a long row is taken one by one.
  bool isLong =
      llvm::divideCeil(width, kMostThreads * lanes) * lanes > kMostPerThread;
  return kind == KernelKind::Rows && isLong &&
         llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
           auto type = cast<RankedTensorType>(operand.get().getType());
           return type.getRank() < 2 || !isElement(op, operand) ||
                  exec::getRowElements(type) % lanes == 0;
         });
}

void GPUKernelEmitter::chooseShape() {
  // All ops of a kernel cut a row the same way, so that what one writes is the
  // same thread's to read.
  int64_t width = 0, bits = 32;
  for (linalg::GenericOp op : ops) {
    unsigned inner = op.getNumLoops() - 1;
    if (kind != KernelKind::Flat && op.getNumLoops() < 3)
      continue;
    if (kind != KernelKind::Flat)
      width = std::max(width, op.getStaticLoopRanges()[inner]);
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(operand.getType()))
        if (int64_t size = type.getElementTypeBitWidth(); size >= 8)
          bits = std::min(bits, size);
  }
  lanes = 128 / bits;
  for (linalg::GenericOp op : ops)
    while (kind != KernelKind::Flat && op.getNumLoops() == 3 && !fitsLanes(op))
      lanes /= 2;
  if (kind == KernelKind::Flat) {
    threads = kFlatThreads;
    return;
  }
  if (kind == KernelKind::Columns) {
    threads = subgroup;
    int64_t bytes = 0;
    bool areExchanged = true;
    for (linalg::GenericOp op : ops)
      for (Value result : op->getResults()) {
        Type element =
            cast<RankedTensorType>(result.getType()).getElementType();
        bytes += threads * lanes * element.getIntOrFloatBitWidth() / 8;
        areExchanged &= element.isF32();
      }
    for (rows = kColumnThreads / threads; rows * bytes > kSharedBytes;)
      rows /= 2;
    // Blocks of a sample have no columns of the next.
    auto areWhole = [&] {
      return !source.getPerSample() || width % (threads * lanes) == 0;
    };
    while (areExchanged && threads > 1 &&
           (!areWhole() ||
            (threads * lanes * bits > kSectorBits &&
             llvm::divideCeil(width, threads * lanes) < kColumnBlocks))) {
      threads /= 2;
      rows *= 2;
    }
    return;
  }
  if (width == 0) { // a thread per row
    lanes = 1;
    rows = kFlatThreads;
    return;
  }
  int64_t needed = llvm::divideCeil(width, lanes);
  threads = std::min<int64_t>(
      llvm::alignTo(needed, subgroup),
      width > kRowThreads * kMostPerThread ? kMostThreads : kRowThreads);
  // Fewer threads, all of them busy, are better than a last part for some.
  for (int64_t fewer = threads; fewer * kMostPerThread >= needed * lanes;
       fewer -= subgroup)
    if (fewer > 0 && needed % fewer == 0) {
      threads = fewer;
      break;
    }
  if (kind == KernelKind::Rows && threads == subgroup)
    rows = kFlatThreads / subgroup;
}

/// Bytes of a launch, and for each sample: every element that is read or
/// written, once. Of a table that is read at computed indices, what is looked
/// up.
static std::array<int64_t, 2> countBytes(exec::KernelOp kernel) {
  std::array<int64_t, 2> bytes = {0, 0};
  auto count = [&](ArrayRef<int64_t> sizes, Type element) {
    bool isPerSample = llvm::is_contained(sizes, ShapedType::kDynamic);
    int64_t number = 1;
    for (int64_t size : sizes)
      number *= ShapedType::isDynamic(size) ? 1 : size;
    bytes[isPerSample] +=
        int64_t(llvm::divideCeil(number * element.getIntOrFloatBitWidth(), 8));
  };
  auto countTensor = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      count(tensor.getShape(), tensor.getElementType());
  };
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    bool isOperand = false;
    for (Operation *user : argument.getUsers())
      isOperand |= isa<linalg::GenericOp>(user);
    if (isOperand) {
      countTensor(argument.getType());
      continue;
    }
    for (Operation *user : argument.getUsers())
      if (auto extract = dyn_cast<tensor::ExtractOp>(user))
        if (auto op = extract->getParentOfType<linalg::GenericOp>()) {
          // An element that all iterations read, as a learning rate, is one.
          bool isOne = llvm::all_of(extract.getIndices(), [](Value index) {
            return getConstantIntValue(index).has_value();
          });
          count(isOne ? ArrayRef<int64_t>() : op.getStaticLoopRanges(),
                extract.getType());
        }
  }
  for (Type type : kernel.getResultTypes())
    countTensor(type);
  return bytes;
}

LogicalResult GPUKernelEmitter::run() {
  kind = source.getKind();
  llvm::append_range(ops, source.getBody().front().getOps<linalg::GenericOp>());
  chooseShape();

  unsigned numPointers = source.getBufferTypes().size();
  SmallVector<Type> types(numPointers,
                          LLVM::LLVMPointerType::get(builder.getContext()));
  types.push_back(builder.getI64Type());
  builder.setInsertionPointToEnd(module.getBody());
  target = gpu::GPUFuncOp::create(builder, loc, source.getName(),
                                  builder.getFunctionType(types, {}));
  target->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                  builder.getUnitAttr());
  bool perThread = kind == KernelKind::Rows && threads == 1;
  int32_t x = perThread ? rows : threads, y = perThread ? 1 : rows;
  target.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({x, y, 1}));
  int64_t parts = kind == KernelKind::Rows      ? rows
                  : kind == KernelKind::Columns ? threads * lanes
                  : kind == KernelKind::Flat    ? threads * lanes
                                                : 1;
  builder.setInsertionPoint(source);
  auto [bytes, bytesPerSample] = countBytes(source);
  exec::GPUKernelOp::create(builder, loc, source.getName(),
                            ArrayRef<int32_t>{x, y, 1}, numPointers, parts,
                            StringAttr(), exec::RecordAttr(), bytes,
                            bytesPerSample, /*flops_per_sample=*/0);

  Block &entry = target.getBody().front();
  builder.setInsertionPointToStart(&entry);
  batch = entry.getArgument(numPointers);
  setUpStorage(entry.getArguments().take_front(numPointers));
  LogicalResult emitted = kind == KernelKind::Rows        ? emitRows()
                          : kind == KernelKind::Columns   ? emitColumns()
                          : kind == KernelKind::Positions ? emitPositions()
                                                          : emitFlat();
  if (failed(emitted))
    return failure();
  builder.setInsertionPointToEnd(&entry);
  gpu::ReturnOp::create(builder, loc);
  return success();
}
