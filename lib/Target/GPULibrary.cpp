//===- GPULibrary.cpp - Kernels written by hand, specialised --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/GPUImage.h"
#include "ProgramTables.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Transforms/IPO/Internalize.h"

using namespace mlir;
using namespace poplar;

/// Whether a function takes its pointers as one array, as do the kernels of
/// hosts. In memory, parameters are the same either way.
static bool takesArray(const llvm::Function &callee, const GPUKernel &kernel) {
  return callee.arg_size() == 3 && kernel.pointers > 1;
}

/// A kernel that calls a function of the library with a constant descriptor,
/// whose fields fold once the function is inlined.
static void addKernel(llvm::Module &module, llvm::Function &callee,
                      const GPUKernel &kernel) {
  llvm::LLVMContext &context = module.getContext();
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  auto *pointer = llvm::PointerType::get(context, 0);
  bool isArray = takesArray(callee, kernel);
  SmallVector<llvm::Type *> types(isArray ? 1 : kernel.pointers, pointer);
  types.push_back(i64);
  auto *function = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false),
      llvm::GlobalValue::ExternalLinkage, kernel.name, module);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  if (isArray) {
    llvm::AttrBuilder attributes(context);
    attributes.addByValAttr(llvm::ArrayType::get(pointer, kernel.pointers));
    attributes.addAlignmentAttr(8);
    function->addParamAttrs(0, attributes);
  }
  auto [x, y, z] = kernel.block;
  function->addFnAttr("nvvm.reqntid",
                      llvm::formatv("{0},{1},{2}", x, y, z).str());
  llvm::IRBuilder<> builder(
      llvm::BasicBlock::Create(context, "entry", function));
  llvm::Value *descriptor = llvm::ConstantPointerNull::get(pointer);
  if (kernel.descriptor) {
    llvm::Constant *data = writeRecord(kernel.descriptor, module);
    auto *global = new llvm::GlobalVariable(
        module, data->getType(), /*isConstant=*/true,
        llvm::GlobalValue::InternalLinkage, data, kernel.name + "_descriptor");
    global->setAlignment(llvm::Align(8));
    descriptor = global;
  }
  SmallVector<llvm::Value *> arguments = {descriptor};
  for (llvm::Argument &argument : function->args())
    arguments.push_back(&argument);
  builder.CreateCall(&callee, arguments);
  builder.CreateRetVoid();
}

LogicalResult poplar::linkGPULibrary(Operation *op, llvm::Module &module,
                                     ArrayRef<GPUKernel> kernels,
                                     StringRef path) {
  llvm::SMDiagnostic diagnostic;
  auto library = llvm::parseIRFile(path, diagnostic, module.getContext());
  if (!library)
    return op->emitError("kernel library ")
           << path << ": " << diagnostic.getMessage();
  library->setDataLayout(module.getDataLayout());
  library->setTargetTriple(module.getTargetTriple());
  // They were compiled for the least chip, and are part of the kernels now.
  for (llvm::Function &function : *library) {
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    if (!function.isDeclaration())
      function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  if (llvm::Linker::linkModules(module, std::move(library)))
    return op->emitError("kernel library ") << path << " cannot be linked";
  for (const GPUKernel &kernel : kernels) {
    if (kernel.callee.empty())
      continue;
    llvm::Function *callee = module.getFunction(kernel.callee);
    if (!callee || (callee->arg_size() != size_t(kernel.pointers) + 2 &&
                    !takesArray(*callee, kernel)))
      return op->emitError("kernel library ")
             << path << " has no function '" << kernel.callee << "' of "
             << kernel.pointers << " pointers";
    addKernel(module, *callee, kernel);
  }
  llvm::internalizeModule(module, [](const llvm::GlobalValue &value) {
    auto *function = llvm::dyn_cast<llvm::Function>(&value);
    return function &&
           function->getCallingConv() == llvm::CallingConv::PTX_Kernel;
  });
  return success();
}
