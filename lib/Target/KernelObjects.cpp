//===- KernelObjects.cpp - Kernels of hosts as objects --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelObjects.h"
#include "CodeCache.h"
#include "Optimize.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include <mutex>

using namespace poplar;
using llvm::Expected;
using llvm::StringRef;

Expected<std::string> poplar::generateCode(llvm::Module &module,
                                           llvm::TargetMachine &machine) {
  optimize(module, machine);
  llvm::SmallString<0> code;
  llvm::raw_svector_ostream out(code);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, out, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError("this target emits no object files");
  codegen.run(module);
  return code.str().str();
}

/// Appends the bytes of an array of numbers; false if it is none.
static bool addBytes(const llvm::Constant &constant, std::string &bytes) {
  if (auto *data = llvm::dyn_cast<llvm::ConstantDataSequential>(&constant)) {
    bytes += data->getRawDataValues();
    return true;
  }
  return llvm::isa<llvm::ConstantArray>(constant) &&
         llvm::all_of(constant.operands(), [&](const llvm::Use &operand) {
           return addBytes(*llvm::cast<llvm::Constant>(operand), bytes);
         });
}

/// Lets the linker keep one of equal tables of numbers, such as those of rotary
/// embeddings, which several kernels read.
static void shareTable(llvm::GlobalVariable &variable) {
  constexpr size_t least = 1024;
  std::string bytes;
  if (!variable.isConstant() || !variable.hasLocalLinkage() ||
      !addBytes(*variable.getInitializer(), bytes) || bytes.size() < least)
    return;
  std::string alignment =
      std::to_string(variable.getAlign().valueOrOne().value());
  variable.setName("table." + CodeCache::getKey({alignment, bytes}));
  variable.setLinkage(llvm::GlobalValue::LinkOnceODRLinkage);
  variable.setVisibility(llvm::GlobalValue::HiddenVisibility);
  variable.setDSOLocal(true);
  variable.setComdat(
      variable.getParent()->getOrInsertComdat(variable.getName()));
}

namespace {

/// A function, with all that it calls and reads, as a module of its own in the
/// same context. Names that do not reach outside are replaced by numbers, so
/// that equal functions of unlike modules become equal.
class Extraction {
public:
  explicit Extraction(llvm::Function &root)
      : source(*root.getParent()),
        module(std::make_unique<llvm::Module>("kernel", root.getContext())) {
    module->setSourceFileName("kernel");
    module->setDataLayout(source.getDataLayout());
    module->setTargetTriple(source.getTargetTriple());
    if (auto *flags = source.getModuleFlagsMetadata())
      for (llvm::MDNode *flag : flags->operands())
        module->getOrInsertModuleFlagsMetadata()->addOperand(flag);
    collect(&root);
    for (auto [number, value] : llvm::enumerate(found))
      declare(*value, number);
    for (llvm::GlobalValue *value : found)
      define(*value);
    auto *copy = llvm::cast<llvm::Function>(map.lookup(&root));
    copy->setLinkage(llvm::GlobalValue::ExternalLinkage);
    copy->setVisibility(llvm::GlobalValue::HiddenVisibility);
  }

  std::unique_ptr<llvm::Module> take() { return std::move(module); }

private:
  /// In the order in which they are met, which the root alone determines.
  void collect(llvm::Value *value) {
    auto *constant = llvm::dyn_cast<llvm::Constant>(value);
    if (!constant || !visited.insert(constant).second)
      return;
    if (auto *global = llvm::dyn_cast<llvm::GlobalValue>(constant))
      found.push_back(global);
    for (llvm::Value *operand : constant->operands())
      collect(operand);
    if (auto *function = llvm::dyn_cast<llvm::Function>(constant))
      for (llvm::Instruction &instruction : llvm::instructions(function))
        for (llvm::Value *operand : instruction.operands())
          collect(operand);
  }

  void declare(llvm::GlobalValue &value, size_t number) {
    std::string name = value.hasLocalLinkage() && !value.isDeclaration()
                           ? "." + std::to_string(number)
                           : value.getName().str();
    llvm::GlobalObject *copy = nullptr;
    if (auto *function = llvm::dyn_cast<llvm::Function>(&value)) {
      auto *declared = llvm::Function::Create(
          function->getFunctionType(), value.getLinkage(),
          value.getAddressSpace(), name, module.get());
      declared->copyAttributesFrom(function);
      copy = declared;
    } else {
      auto &variable = llvm::cast<llvm::GlobalVariable>(value);
      auto *declared = new llvm::GlobalVariable(
          *module, variable.getValueType(), variable.isConstant(),
          variable.getLinkage(), nullptr, name, nullptr,
          variable.getThreadLocalMode(), variable.getAddressSpace());
      declared->copyAttributesFrom(&variable);
      copy = declared;
    }
    copy->setComdat(nullptr);
    map[&value] = copy;
  }

  void define(llvm::GlobalValue &value) {
    if (value.isDeclaration())
      return;
    if (auto *function = llvm::dyn_cast<llvm::Function>(&value)) {
      auto *copy = llvm::cast<llvm::Function>(map.lookup(function));
      for (auto [from, to] : llvm::zip(function->args(), copy->args()))
        map[&from] = &to;
      llvm::SmallVector<llvm::ReturnInst *> returns;
      llvm::CloneFunctionInto(copy, function, map,
                              llvm::CloneFunctionChangeType::DifferentModule,
                              returns);
      return;
    }
    auto &variable = llvm::cast<llvm::GlobalVariable>(value);
    auto *copy = llvm::cast<llvm::GlobalVariable>(map.lookup(&value));
    copy->setInitializer(llvm::MapValue(variable.getInitializer(), map));
    shareTable(*copy);
  }

  llvm::Module &source;
  std::unique_ptr<llvm::Module> module;
  llvm::SmallPtrSet<llvm::Constant *, 32> visited;
  std::vector<llvm::GlobalValue *> found;
  llvm::ValueToValueMapTy map;
};

} // namespace

/// "add_rms_norm" of "kernel_5_add_rms_norm.body": the number is the module's.
static std::string getStem(StringRef name) {
  name.consume_front("kernel_");
  name = name.drop_while(llvm::isDigit);
  name.consume_front("_");
  name.consume_back(".body");
  return name.rtrim("0123456789").rtrim("_").str();
}

static llvm::SetVector<llvm::Function *> findKernels(llvm::Module &module) {
  llvm::SetVector<llvm::Function *> kernels;
  llvm::Function *dispatch = module.getFunction("poplar_rt_dispatch");
  if (!dispatch)
    return kernels;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
          call && call->getCalledFunction() == dispatch)
        if (auto *kernel = llvm::dyn_cast<llvm::Function>(
                call->getArgOperand(1)->stripPointerCasts());
            kernel && !kernel->isDeclaration())
          kernels.insert(kernel);
  return kernels;
}

/// Compiles bitcode in a context of its own.
static Expected<std::string> compile(StringRef bitcode, StringRef symbol,
                                     llvm::TargetMachine &machine) {
  llvm::LLVMContext context;
  auto module =
      llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, symbol), context);
  if (!module)
    return module.takeError();
  for (llvm::Function &function : **module)
    if (!function.isDeclaration() && !function.hasLocalLinkage())
      function.setName(symbol);
  return generateCode(**module, machine);
}

Expected<std::vector<KernelObject>> poplar::compileKernels(
    llvm::Module &module,
    llvm::function_ref<std::unique_ptr<llvm::TargetMachine>()> makeMachine) {
  // Symbols and their bitcode: kernels that compute the same are one.
  std::vector<std::pair<std::string, llvm::SmallString<0>>> sources;
  for (llvm::Function *kernel : findKernels(module)) {
    llvm::SmallString<0> bitcode;
    llvm::raw_svector_ostream out(bitcode);
    llvm::WriteBitcodeToFile(*Extraction(*kernel).take(), out);
    std::string stem = getStem(kernel->getName()),
                symbol = stem + "." + CodeCache::getKey({stem, bitcode});
    llvm::Function *other = module.getFunction(symbol);
    if (other) {
      kernel->replaceAllUsesWith(other);
      kernel->eraseFromParent();
      continue;
    }
    kernel->deleteBody();
    kernel->setComdat(nullptr);
    kernel->setName(symbol);
    kernel->setVisibility(llvm::GlobalValue::HiddenVisibility);
    kernel->setDSOLocal(true);
    sources.emplace_back(symbol, std::move(bitcode));
  }

  CodeCache cache;
  std::vector<KernelObject> objects(sources.size());
  std::mutex lock;
  llvm::Error errors = llvm::Error::success();
  llvm::DefaultThreadPool threads(llvm::hardware_concurrency());
  for (auto [index, source] : llvm::enumerate(sources)) {
    KernelObject &object = objects[index];
    object.symbol = source.first;
    StringRef key = StringRef(source.first).rsplit('.').second;
    if (std::optional<std::string> kept = cache.find(key)) {
      object.code = std::move(*kept);
      continue;
    }
    threads.async([&, key, bitcode = StringRef(source.second)] {
      auto machine = makeMachine();
      Expected<std::string> code = compile(bitcode, object.symbol, *machine);
      if (code) {
        object.code = std::move(*code);
        cache.keep(key, object.code);
        return;
      }
      std::lock_guard<std::mutex> guard(lock);
      errors = llvm::joinErrors(std::move(errors), code.takeError());
    });
  }
  threads.wait();
  if (errors)
    return std::move(errors);
  return objects;
}
