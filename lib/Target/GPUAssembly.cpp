//===- GPUAssembly.cpp - PTX and its kin ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Optimize.h"
#include "Poplar/Target/GPU.h"
#include "Poplar/Target/GPUImage.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace poplar;

static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(Operation *op, const GPUChip &chip) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::Triple triple(chip.triple);
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    op->emitError("no code generator for ") << chip.name << ": " << error;
    return nullptr;
  }
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, chip.name, chip.features, llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

LogicalResult poplar::emitGPUAssembly(ModuleOp module, const GPUChip &chip,
                                      llvm::raw_pwrite_stream &out,
                                      ArrayRef<GPUKernel> table,
                                      StringRef library) {
  auto kernels = SymbolTable(module).lookup<gpu::GPUModuleOp>("kernels");
  if (!kernels)
    return module.emitError("has no kernels for a GPU: run "
                            "--poplar-lower-gpu first");
  auto machine = createTargetMachine(kernels, chip);
  if (!machine)
    return failure();
  DialectRegistry registry;
  registerAllToLLVMIRTranslations(registry);
  module.getContext()->appendDialectRegistry(registry);
  llvm::LLVMContext context;
  auto llvmModule = translateModuleToLLVMIR(kernels, context, chip.name);
  if (!llvmModule)
    return kernels.emitError("cannot be translated to LLVM IR");
  llvmModule->setDataLayout(machine->createDataLayout());
  llvmModule->setTargetTriple(machine->getTargetTriple());
  if (!table.empty() &&
      failed(linkGPULibrary(kernels, *llvmModule, table, library)))
    return failure();
  // Else ptxas spills registers to run more blocks at a time.
  if (chip.isNVIDIA())
    for (llvm::Function &function : *llvmModule)
      if (!function.isDeclaration())
        function.addFnAttr("nvvm.minctasm", "1");
  optimize(*llvmModule, *machine);
  // What is not there would be missed on the GPU only.
  for (llvm::Function &function : *llvmModule)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      return kernels.emitError("calls '")
             << function.getName() << "', which is in no library for "
             << chip.name;
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, out, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return kernels.emitError("this target emits no assembly");
  codegen.run(*llvmModule);
  return success();
}
