//===- GPUAssembly.cpp - PTX and its kin ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Optimize.h"
#include "PTXTables.h"
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

/// Bytes of a kernel's parameters: those that every driver passes, and those
/// that CUDA 12.1 and newer pass to Volta and newer, from PTX 8.1 on.
static constexpr int64_t kParameterBytes = 4096, kMostParameterBytes = 32764;
static constexpr int kVolta = 70, kMostParameterPTX = 81;

/// The chip with the PTX that its kernels need. Fails where they take more than
/// any PTX passes.
static FailureOr<GPUChip> requirePTX(Operation *op, const GPUChip &chip,
                                     ArrayRef<GPUKernel> kernels) {
  GPUChip needed = chip;
  int64_t most =
      chip.getCapability() < kVolta ? kParameterBytes : kMostParameterBytes;
  for (const GPUKernel &kernel : kernels) {
    // And the batch.
    int64_t bytes = 8 * (int64_t(kernel.pointers) + 1);
    if (bytes > most) {
      op->emitError("kernel '")
          << kernel.callee << "' takes " << kernel.pointers
          << " pointers, one for each expert, and " << chip.name
          << " passes at most " << most / 8 - 1
          << ": use devices with a CPU target";
      return failure();
    }
    int version = 0;
    StringRef(chip.features).split("ptx").second.getAsInteger(10, version);
    if (bytes > kParameterBytes && version < kMostParameterPTX)
      needed.features = "+ptx" + std::to_string(kMostParameterPTX);
  }
  return needed;
}

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
  FailureOr<GPUChip> needed = requirePTX(kernels, chip, table);
  if (failed(needed))
    return failure();
  auto machine = createTargetMachine(kernels, *needed);
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
  // Else ptxas spills registers to run more blocks at a time. For the gradients
  // of attention on tensor cores it finds enough without, and three blocks
  // hide more of what each waits for than two.
  if (chip.isNVIDIA())
    for (llvm::Function &function : *llvmModule)
      if (!function.isDeclaration() &&
          !function.getName().starts_with("poplar_gpu_attention_mma_backward_"))
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
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream assembly(text);
  if (machine->addPassesToEmitFile(codegen, assembly, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return kernels.emitError("this target emits no assembly");
  codegen.run(*llvmModule);
  if (chip.isNVIDIA())
    writePTXTables(text, out);
  else
    out << text;
  return success();
}
