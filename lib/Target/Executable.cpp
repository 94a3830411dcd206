//===- Executable.cpp - Objects of a program ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelObjects.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Target/Build.h"
#include "Poplar/Target/GPUImage.h"
#include "Poplar/Target/Passes.h"
#include "ProgramTables.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/IPO/Internalize.h"

using namespace mlir;
using namespace poplar;

namespace {

/// CPU and features of a BuildOptions::cpu. A virtual machine's CPU may carry
/// the name of one that lacks some of its features, so "native" also asks for
/// what the processor says it has.
void resolveCPU(StringRef cpu, std::string &name, std::string &features) {
  name = cpu.str();
  if (cpu != "native")
    return;
  name = getHostCPU().name;
  features = getHostCPU().attributes;
}

/// Null, with the reason, if this build of LLVM cannot.
const llvm::Target *findTarget(std::string &error) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  return llvm::TargetRegistry::lookupTarget(
      llvm::Triple(llvm::sys::getDefaultTargetTriple()), error);
}

std::unique_ptr<llvm::TargetMachine>
createTargetMachine(ModuleOp module, StringRef cpu, StringRef features) {
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = findTarget(error);
  if (!target) {
    module.emitError("no code generator for ") << triple.str() << ": " << error;
    return nullptr;
  }
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpu, features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// The bits of a bf16 nearest to an f32, ties to even, NaN for NaN.
llvm::Value *roundToBF16(llvm::IRBuilderBase &builder, llvm::Value *source) {
  llvm::Type *type = source->getType()->getWithNewType(builder.getInt32Ty());
  auto constant = [&](uint64_t value) {
    return llvm::ConstantInt::get(type, value);
  };
  llvm::Value *bits = builder.CreateBitCast(source, type);
  llvm::Value *upper = builder.CreateLShr(bits, constant(16));
  llvm::Value *odd = builder.CreateAnd(upper, constant(1));
  llvm::Value *up = builder.CreateAdd(odd, constant(0x7FFF));
  llvm::Value *rounded =
      builder.CreateLShr(builder.CreateAdd(bits, up), constant(16));
  llvm::Value *quiet = builder.CreateOr(upper, constant(0x40));
  llvm::Value *result = builder.CreateSelect(
      builder.CreateFCmpUNO(source, source), quiet, rounded);
  return builder.CreateTrunc(result,
                             type->getWithNewType(builder.getInt16Ty()));
}

/// Converts between f32 and bf16 by integer operations where the CPU has no
/// instructions for it: LLVM would call a function for every element, which
/// lies in a run-time library of its own. Extensions, too, because it likes to
/// do a maximum, for one, before them, and would then have to round again.
void expandBF16(llvm::Module &module, const llvm::TargetMachine &machine) {
  if (!machine.getTargetTriple().isX86() ||
      machine.getMCSubtargetInfo()->checkFeatures("+avx512bf16"))
    return;
  SmallVector<llvm::CastInst *> casts;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *cast = dyn_cast<llvm::CastInst>(&instruction)) {
        llvm::Type *from = cast->getSrcTy()->getScalarType(),
                   *to = cast->getDestTy()->getScalarType();
        if ((from->isFloatTy() && to->isBFloatTy()) ||
            (from->isBFloatTy() && to->isFloatTy()))
          casts.push_back(cast);
      }
  for (llvm::CastInst *cast : casts) {
    llvm::IRBuilder<> builder(cast);
    llvm::Value *source = cast->getOperand(0), *bits;
    if (isa<llvm::FPTruncInst>(cast)) {
      bits = roundToBF16(builder, source);
    } else {
      llvm::Type *type = source->getType();
      bits = builder.CreateBitCast(source,
                                   type->getWithNewType(builder.getInt16Ty()));
      bits =
          builder.CreateZExt(bits, type->getWithNewType(builder.getInt32Ty()));
      bits = builder.CreateShl(bits, 16);
    }
    cast->replaceAllUsesWith(builder.CreateBitCast(bits, cast->getDestTy()));
    cast->eraseFromParent();
  }
}

LogicalResult writeResources(ModuleOp module, const GPUImage &image,
                             const Twine &path) {
  if (image.resources.empty())
    return success();
  std::error_code error;
  llvm::raw_fd_ostream out(path.str(), error);
  if (error)
    return module.emitError("cannot write ") << path << ": " << error.message();
  out << image.resources;
  return success();
}

LogicalResult linkKernelLibrary(ModuleOp module, llvm::Module &llvmModule,
                                StringRef path) {
  llvm::SMDiagnostic diagnostic;
  auto library = llvm::parseIRFile(path, diagnostic, llvmModule.getContext());
  if (!library)
    return module.emitError("kernel library ")
           << path << ": " << diagnostic.getMessage();
  library->setDataLayout(llvmModule.getDataLayout());
  library->setTargetTriple(llvmModule.getTargetTriple());
  // Each is called by wrappers that know its descriptor: in them, what the
  // descriptor decides is decided, and most of the code is dead.
  for (llvm::Function &function : *library)
    if (!function.isDeclaration() && function.hasExternalLinkage())
      function.addFnAttr(llvm::Attribute::AlwaysInline);
  if (llvm::Linker::linkModules(llvmModule, std::move(library),
                                llvm::Linker::LinkOnlyNeeded))
    return module.emitError("kernel library ") << path << " cannot be linked";
  return success();
}

/// An archive, all of whose members are linked: one program, and the kernels
/// that this calls.
LogicalResult writeObjects(ModuleOp module, ArrayRef<KernelObject> objects,
                           StringRef path) {
  std::vector<llvm::NewArchiveMember> members;
  for (const KernelObject &object : objects)
    members.emplace_back(llvm::MemoryBufferRef(object.code, object.symbol));
  auto archive = llvm::writeArchiveToBuffer(
      members, llvm::SymtabWritingMode::NormalSymtab,
      llvm::object::Archive::K_GNU, /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return module.emitError("objects: ") << toString(archive.takeError());
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (!error) {
    out << (*archive)->getBuffer();
    out.close();
    error = out.error();
    out.clear_error();
  }
  if (error)
    return module.emitError("cannot write ") << path << ": " << error.message();
  return success();
}

/// Adds the kernels of a GPU to the table of a lowered program; `planned` is
/// the program before.
void addImage(ModuleOp module, ModuleOp planned, const GPUImage &image) {
  MLIRContext *context = module.getContext();
  exec::OptimizerOp optimizer = *planned.getOps<exec::OptimizerOp>().begin();
  int64_t adamw = -1, convert = -1;
  SmallVector<Attribute> kernels;
  for (const GPUKernel &entry : image.kernels) {
    if (optimizer.getUpdate() == entry.name)
      adamw = int64_t(kernels.size());
    if (optimizer.getRound() == entry.name)
      convert = int64_t(kernels.size());
    kernels.push_back(
        exec::RecordBuilder(context, "PoplarGPUKernel")
            .setText("name", entry.name)
            .setList("block", {entry.block[0], entry.block[1], entry.block[2]})
            .set("pointers", int64_t(entry.pointers))
            .set("parts_per_block", entry.partsPerBlock)
            .set("bytes", entry.cost.bytes)
            .set("bytes_per_sample", entry.cost.bytesPerSample)
            .set("flops_per_sample", entry.cost.flopsPerSample)
            .get());
  }
  exec::RecordBuilder record(context, "PoplarGPUImage");
  record.setText("chip", image.chip)
      .setText("ptx", image.ptx)
      .setRecords("kernels", kernels)
      .set("adamw", adamw)
      .set("convert_working", convert);
  if (image.cubin.empty())
    record.setNull("cubin");
  else
    record.setText("cubin", image.cubin);
  for (auto program : module.getOps<exec::ProgramOp>())
    program.setField("gpu", record.get());
}

} // namespace

bool poplar::isKnownCPU(StringRef cpu) {
  std::string ignored;
  const llvm::Target *target = findTarget(ignored);
  if (cpu == "native" || !target)
    return true;
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  auto describe = [&](StringRef name) {
    return std::unique_ptr<llvm::MCSubtargetInfo>(
        target->createMCSubtargetInfo(triple, name, ""));
  };
  // LLVM still knows processors of 32 bits by name.
  return describe("")->isCPUStringValid(cpu) &&
         (!triple.isX86_64() || describe(cpu)->checkFeatures("+64bit"));
}

LogicalResult poplar::emitObjects(ModuleOp module, const BuildOptions &options,
                                  StringRef objectsPath, TimingScope &timing,
                                  std::string &report) {
  std::string cpu, features;
  resolveCPU(options.cpu, cpu, features);
  auto machine = createTargetMachine(module, cpu, features);
  if (!machine)
    return failure();

  PassManager lowering(module.getContext());
  TimingScope phase = timing.nest("Lower to the llvm dialect");
  lowering.enableTiming(phase);
  lowering.addPass(createDescribeProgram(
      {options.precision, options.cpu, options.isa, options.chip}));
  buildLoweringPipeline(lowering, options);
  OwningOpRef<ModuleOp> planned;
  if (!options.chip.empty())
    planned = module.clone();
  if (failed(lowering.run(module)))
    return failure();
  std::optional<GPUImage> image;
  if (planned) {
    phase = timing.nest("Compile the kernels of the GPU");
    image.emplace();
    if (failed(buildGPUImage(*planned, *findGPUChip(options.chip),
                             takeGPUKernels(module), options.getKernelLibrary(),
                             llvm::sys::path::parent_path(objectsPath),
                             *image)))
      return failure();
    report = image->report;
    if (!options.keepPTX && !image->cubin.empty())
      image->ptx.clear();
    addImage(module, *planned, *image);
    if (failed(writeResources(module, *image,
                              llvm::sys::path::parent_path(objectsPath) +
                                  "/kernels.txt")))
      return failure();
  }

  phase = timing.nest("Translate to LLVM IR and link the kernel library");
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  registerProgramTranslation(*module.getContext());
  Builder builder(module.getContext());
  module->setAttr(LLVM::LLVMDialect::getDataLayoutAttrName(),
                  builder.getStringAttr(
                      machine->createDataLayout().getStringRepresentation()));
  llvm::LLVMContext context;
  auto llvmModule = translateModuleToLLVMIR(module, context, "poplar");
  if (!llvmModule)
    return module.emitError("cannot be translated to LLVM IR");
  llvmModule->setTargetTriple(machine->getTargetTriple());
  if (!image && failed(linkKernelLibrary(module, *llvmModule,
                                         options.getKernelLibrary())))
    return failure();

  expandBF16(*llvmModule, *machine);
  llvm::internalizeModule(*llvmModule, [](const llvm::GlobalValue &value) {
    return value.getName() == kProgramSymbol;
  });
  for (llvm::Function &function : *llvmModule) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", cpu);
    function.addFnAttr("target-features", features);
    // The default tuning of many CPUs prefers half-width vectors, at half the
    // speed in loops like ours.
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("no-trapping-math", "true");
  }

  phase = timing.nest("Compile the kernels");
  auto kernels = compileKernels(
      *llvmModule, [&] { return createTargetMachine(module, cpu, features); });
  if (!kernels)
    return module.emitError("kernels: ") << toString(kernels.takeError());
  phase = timing.nest("Compile the program");
  llvm::Expected<std::string> code = generateCode(*llvmModule, *machine);
  if (!code)
    return module.emitError() << toString(code.takeError());
  kernels->push_back({"program", std::move(*code)});
  return writeObjects(module, *kernels, objectsPath);
}
