//===- HostKernels.cpp - Kernels of both kinds, compiled for a CPU --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostKernels.h"
#include "Poplar/Conversion/GPU/GPUKernels.h"
#include "Poplar/Conversion/GPU/Passes.h"
#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Conversion/Program/Passes.h"
#include "Poplar/Support/HostCPU.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

namespace {

/// Turns a gpu.func into a function of an array of pointers, and what it asks
/// of a GPU into calls of the emulator.
class Emulation {
public:
  Emulation(gpu::GPUFuncOp kernel, ModuleOp module)
      : kernel(kernel), module(module), builder(module.getContext()),
        loc(kernel.getLoc()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())) {}

  /// Returns the bytes of memory that a block shares.
  int64_t run();

private:
  Value call(StringRef name, Type result, ValueRange operands);
  void replaceShared(Value memory, int64_t offset);
  void replace(Operation *op);

  gpu::GPUFuncOp kernel;
  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type pointer;
};

} // namespace

Value Emulation::call(StringRef name, Type result, ValueRange operands) {
  SmallVector<Type> results;
  if (result)
    results.push_back(result);
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto callee = func::FuncOp::create(
        builder, loc, name,
        builder.getFunctionType(TypeRange(operands), results));
    callee.setPrivate();
  }
  auto op = func::CallOp::create(builder, loc, name, results, operands);
  return result ? op.getResult(0) : Value();
}

void Emulation::replaceShared(Value memory, int64_t offset) {
  auto type = cast<MemRefType>(memory.getType());
  for (Operation *user : llvm::make_early_inc_range(memory.getUsers())) {
    builder.setInsertionPoint(user);
    auto load = dyn_cast<memref::LoadOp>(user);
    ValueRange indices =
        load ? load.getIndices() : cast<memref::StoreOp>(user).getIndices();
    Value element = arith::ConstantIndexOp::create(builder, loc, 0);
    for (auto [index, size] : llvm::zip(indices, type.getShape())) {
      Value width = arith::ConstantIndexOp::create(builder, loc, size);
      element = arith::AddIOp::create(
          builder, loc, arith::MulIOp::create(builder, loc, element, width),
          index);
    }
    element =
        arith::IndexCastOp::create(builder, loc, builder.getI64Type(), element);
    Value base = call("poplar_test_shared", pointer, {});
    base = LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(), base,
                               ArrayRef<LLVM::GEPArg>{int32_t(offset)});
    Value place = LLVM::GEPOp::create(builder, loc, pointer,
                                      type.getElementType(), base, element);
    if (load)
      load.replaceAllUsesWith(
          LLVM::LoadOp::create(builder, loc, type.getElementType(), place)
              .getResult());
    else
      LLVM::StoreOp::create(
          builder, loc, cast<memref::StoreOp>(user).getValueToStore(), place);
    user->erase();
  }
}

void Emulation::replace(Operation *op) {
  builder.setInsertionPoint(op);
  auto number = [&](gpu::Dimension dimension) -> Value {
    return arith::ConstantIntOp::create(builder, loc,
                                        static_cast<int64_t>(dimension), 32);
  };
  auto asIndex = [&](StringRef name, gpu::Dimension dimension) {
    Value value = call(name, builder.getI64Type(), number(dimension));
    op->getResult(0).replaceAllUsesWith(arith::IndexCastOp::create(
        builder, loc, builder.getIndexType(), value));
  };
  if (auto thread = dyn_cast<gpu::ThreadIdOp>(op)) {
    asIndex("poplar_test_thread_id", thread.getDimension());
  } else if (auto block = dyn_cast<gpu::BlockIdOp>(op)) {
    asIndex("poplar_test_block_id", block.getDimension());
  } else if (isa<gpu::BarrierOp>(op)) {
    call("poplar_test_barrier", {}, {});
  } else if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    // Others do not come up: the conversion to LLVM would leave them.
    if (shuffle.getMode() != gpu::ShuffleMode::XOR)
      return;
    shuffle.getShuffleResult().replaceAllUsesWith(
        call("poplar_test_shuffle_xor", shuffle.getValue().getType(),
             {shuffle.getValue(), shuffle.getOffset(), shuffle.getWidth()}));
    shuffle.getValid().replaceAllUsesWith(
        call("poplar_test_shuffle_valid", builder.getI1Type(), {}));
  } else if (isa<gpu::ReturnOp>(op)) {
    func::ReturnOp::create(builder, loc);
  } else {
    return;
  }
  op->erase();
}

int64_t Emulation::run() {
  builder.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(
      builder, loc, (kernel.getName() + ".gpu").str(),
      builder.getFunctionType({pointer, builder.getI64Type()}, {}));
  function.getBody().takeBody(kernel.getBody());
  Block &entry = function.getBody().front();
  // Kernels do not jump to their entry.
  unsigned count = entry.getNumArguments();
  Value array = entry.addArgument(pointer, loc),
        batch = entry.addArgument(builder.getI64Type(), loc);
  int64_t sharedBytes = 0;
  int32_t next = 0;
  for (BlockArgument argument : entry.getArguments().take_front(count)) {
    if (auto type = dyn_cast<MemRefType>(argument.getType())) {
      replaceShared(argument, sharedBytes);
      sharedBytes += type.getNumElements() * type.getElementTypeBitWidth() / 8;
      continue;
    }
    if (argument.getType() == pointer) {
      builder.setInsertionPointToStart(&entry);
      Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer, array,
                                       ArrayRef<LLVM::GEPArg>{next++});
      argument.replaceAllUsesWith(
          LLVM::LoadOp::create(builder, loc, pointer, slot));
      continue;
    }
    argument.replaceAllUsesWith(batch);
  }
  entry.eraseArguments(0, count);
  SmallVector<Operation *> operations;
  function.walk([&](Operation *op) { operations.push_back(op); });
  for (Operation *op : operations)
    replace(op);
  return sharedBytes;
}

static LogicalResult runPasses(ModuleOp module,
                               function_ref<void(OpPassManager &)> build) {
  PassManager pm(module.getContext());
  build(pm);
  return pm.run(module);
}

static void addLowering(OpPassManager &pm) {
  pm.addPass(createExpandMath());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

/// Code for processors without bf16 calls it by the name __truncsfbf2, which
/// libgcc has from version 13 on. Nearest, ties to even; a NaN stays one. The
/// bits are returned as a bf16 is: in the lower half of a vector register.
static float roundToBF16(float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  bits = std::isnan(value) ? (bits >> 16) | 0x40
                           : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return llvm::bit_cast<float>(bits);
}

HostKernels::HostKernels() = default;
HostKernels::~HostKernels() = default;

std::string HostKernels::add(ModuleOp module) {
  auto context = std::make_unique<llvm::LLVMContext>();
  auto code = translateModuleToLLVMIR(module, *context, "kernels");
  if (!code)
    return "no LLVM IR";
  code->setDataLayout(jit->getDataLayout());
  code->setTargetTriple(jit->getTargetTriple());
  if (llvm::Error error = jit->addIRModule(
          llvm::orc::ThreadSafeModule(std::move(code), std::move(context))))
    return llvm::toString(std::move(error));
  return "";
}

std::string HostKernels::compile(ModuleOp module, const GPUChip &chip) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::orc::JITTargetMachineBuilder target(
      llvm::Triple(llvm::sys::getDefaultTargetTriple()));
  target.setCPU(getHostCPU().name);
  target.getFeatures() = llvm::SubtargetFeatures(getHostCPU().attributes);
  auto created = llvm::orc::LLJITBuilder()
                     .setJITTargetMachineBuilder(std::move(target))
                     .create();
  if (!created)
    return llvm::toString(created.takeError());
  jit = std::move(*created);
  llvm::orc::SymbolMap symbols;
  auto define = [&](const char *name, auto *function) {
    symbols[jit->mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function),
        llvm::JITSymbolFlags::Exported};
  };
  define("poplar_test_thread_id", poplar_test_thread_id);
  define("poplar_test_block_id", poplar_test_block_id);
  define("poplar_test_barrier", poplar_test_barrier);
  define("poplar_test_shuffle_xor", poplar_test_shuffle_xor);
  define("poplar_test_shuffle_valid", poplar_test_shuffle_valid);
  define("poplar_test_shared", poplar_test_shared);
  define("__truncsfbf2", roundToBF16);
  if (llvm::Error error = jit->getMainJITDylib().define(
          llvm::orc::absoluteSymbols(std::move(symbols))))
    return llvm::toString(std::move(error));
  DialectRegistry registry;
  registerAllToLLVMIRTranslations(registry);
  module.getContext()->appendDialectRegistry(registry);

  // Only kernels: what calls them works on tensors.
  auto isKernel = [](Operation &op) { return isa<exec::KernelOp>(op); };
  OwningOpRef<ModuleOp> host = module.clone(), gpu = module.clone();
  for (ModuleOp copy : {*host, *gpu})
    for (Operation &op : llvm::make_early_inc_range(*copy.getBody()))
      if (!isKernel(op))
        op.erase();

  if (failed(runPasses(*gpu, [&](OpPassManager &pm) {
        pm.addPass(createMapKernelsToGPU({chip.subgroupSize}));
        pm.addPass(createExpandMath());
        pm.addPass(createExpandGPUOps({chip.subgroupSize}));
      })))
    return "the kernels were not mapped";
  std::map<std::string, int64_t> partsPerBlock;
  for (const GPUKernel &entry : takeGPUKernels(*gpu))
    partsPerBlock[entry.name] = entry.partsPerBlock;
  auto mapped = SymbolTable(*gpu).lookup<gpu::GPUModuleOp>("kernels");
  for (exec::KernelOp source : llvm::to_vector(gpu->getOps<exec::KernelOp>())) {
    KernelPair pair;
    pair.name = source.getName().str();
    llvm::append_range(pair.tensors, source.getBufferTypes());
    pair.parts = source.getParts();
    pair.batched = source.getPerSample();
    pair.isFlat = source.getKind() == exec::KernelKind::Flat;
    auto kernel = SymbolTable(mapped).lookup<gpu::GPUFuncOp>(source.getName());
    llvm::copy(*kernel.getKnownBlockSize(), pair.blockSize.begin());
    pair.partsPerBlock = partsPerBlock.at(pair.name);
    pair.sharedBytes = Emulation(kernel, *gpu).run();
    source.erase();
    kernels.push_back(pair);
  }
  // The tables that kernels read.
  for (auto global :
       llvm::make_early_inc_range(mapped.getOps<LLVM::GlobalOp>()))
    global->moveBefore(&gpu->getBody()->front());
  mapped.erase();
  if (failed(runPasses(*gpu, addLowering)) ||
      failed(runPasses(
          *host, [](OpPassManager &pm) { pm.addPass(createLowerKernels()); })))
    return "the kernels were not lowered";
  for (auto source : llvm::make_early_inc_range(host->getOps<exec::KernelOp>()))
    source.erase();
  if (failed(runPasses(*host, addLowering)))
    return "the host's kernels were not lowered";
  for (ModuleOp copy : {*host, *gpu})
    if (std::string error = add(copy); !error.empty())
      return error;

  auto find = [&](const std::string &name) {
    auto symbol = jit->lookup(name);
    if (symbol)
      return *symbol;
    llvm::consumeError(symbol.takeError());
    return llvm::orc::ExecutorAddr();
  };
  for (KernelPair &pair : kernels) {
    pair.host = find(pair.name + ".body").toPtr<PoplarKernel>();
    pair.gpu = find(pair.name + ".gpu").toPtr<Kernel>();
    if (!pair.host || !pair.gpu)
      return pair.name + " was not compiled";
  }
  return "";
}
