//===- ProgramDescription.cpp - The PoplarProgram of a module -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/ProgramDescription.h"
#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Conversion/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Target/Host.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace poplar;

/// The module's nn.model dictionary and the options of the build, as JSON.
static std::string describe(DictionaryAttr model, const HostOptions &options) {
  llvm::json::Object object;
  for (NamedAttribute entry : model) {
    StringRef name = entry.getName().getValue();
    if (auto text = dyn_cast<StringAttr>(entry.getValue()))
      object[name] = text.getValue().str();
    else if (auto flag = dyn_cast<BoolAttr>(entry.getValue()))
      object[name] = flag.getValue();
    else if (auto integer = dyn_cast<IntegerAttr>(entry.getValue()))
      object[name] = integer.getInt();
    else if (auto number = dyn_cast<FloatAttr>(entry.getValue()))
      object[name] = number.getValueAsDouble();
  }
  object["precision"] = options.precision;
  object["recompute"] = options.recompute;
  object["device_type"] = "host:" + options.cpu;
  return llvm::formatv("{0}", llvm::json::Value(std::move(object))).str();
}

LogicalResult ProgramDescription::take(ModuleOp module,
                                       const HostOptions &options) {
  auto memory = module->getAttrOfType<DictionaryAttr>(kMemoryAttr);
  auto model = module->getAttrOfType<DictionaryAttr>(nn::kModelAttr);
  if (!memory || !model)
    return module.emitError(
        "holds no planned model (nn.model and nn.memory attributes)");
  auto integer = [&](StringRef name) {
    return memory.getAs<IntegerAttr>(name).getInt();
  };
  json = describe(model, options);
  fixedBytes = integer("fixed");
  bytesPerSample = integer("per_sample");
  scratchOffset = integer("scratch_offset");
  scratchBytes = integer("scratch_bytes");
  if (auto flops = module->getAttrOfType<FloatAttr>(kFlopsAttr))
    flopsPerSample = flops.getValueAsDouble();

  for (StringRef name : {"train", "evaluate", "infer"}) {
    auto step = module.lookupSymbol<func::FuncOp>(name);
    if (!step)
      return module.emitError("has no function @") << name;
    int64_t offset =
        step->getAttrOfType<IntegerAttr>(kResultOffsetAttr).getInt();
    if (name == "train") {
      inputs = step->getAttrOfType<DenseI64ArrayAttr>(kInputOffsetsAttr)
                   .asArrayRef()
                   .vec();
      trainLoss = offset;
    } else if (name == "evaluate") {
      evaluateLoss = offset;
    } else {
      logits = offset;
      logitsType = getPoplarType(
          cast<RankedTensorType>(step.getResultTypes()[0]).getElementType());
    }
  }
  if (inputs.size() != 4)
    return module.emitError("@train has to take ids, targets, keys and dloss");

  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    if (type.getRank() > 4)
      return parameter.emitOpError("has more than four dimensions");
    auto places = parameter->getAttrOfType<DenseI64ArrayAttr>(kPlacesAttr);
    parameters.push_back({parameter.getSymName().str(), type.getShape().vec(),
                          type.getNumElements(), int32_t(parameter.getInit()),
                          parameter.getDecay(),
                          parameter.getStdDev().convertToDouble(),
                          places.asArrayRef().vec()});
  }

  auto kernelOf = [&](StringRef name) -> std::string {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function)
      return "";
    auto calls = function.getOps<func::CallOp>();
    if (calls.empty())
      return "";
    return getKernelBodyName(
        module.lookupSymbol<func::FuncOp>((*calls.begin()).getCallee()));
  };
  adamwKernel = kernelOf("adamw");
  convertKernel = kernelOf("convert_working");
  if (adamwKernel.empty())
    return module.emitError("has no optimizer: run --add-optimizer first");
  return success();
}

void ProgramDescription::emit(llvm::Module &module) const {
  llvm::LLVMContext &context = module.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  llvm::Type *f64 = llvm::Type::getDoubleTy(context);
  auto *pointer = llvm::PointerType::get(context, 0);
  auto int32 = [&](int64_t value) -> llvm::Constant * {
    return llvm::ConstantInt::get(i32, value);
  };
  auto int64 = [&](int64_t value) -> llvm::Constant * {
    return llvm::ConstantInt::get(i64, value);
  };
  auto global = [&](llvm::Constant *value, const char *name) {
    auto *variable = new llvm::GlobalVariable(
        module, value->getType(), /*isConstant=*/true,
        llvm::GlobalValue::InternalLinkage, value, name);
    return variable;
  };
  auto text = [&](StringRef value) -> llvm::Constant * {
    return global(llvm::ConstantDataArray::getString(context, value), "text");
  };
  auto symbol = [&](StringRef name) -> llvm::Constant * {
    if (name.empty())
      return llvm::ConstantPointerNull::get(pointer);
    return module.getNamedValue(name);
  };

  // The order of fields is that of Runtime/ABI.h.
  std::vector<llvm::Constant *> entries;
  for (const Parameter &parameter : parameters) {
    std::vector<llvm::Constant *> shape;
    for (unsigned i = 0; i < 4; ++i)
      shape.push_back(int64(i < parameter.shape.size() ? parameter.shape[i] : 1));
    auto *shapeType = llvm::ArrayType::get(i64, 4);
    entries.push_back(llvm::ConstantStruct::getAnon(
        {text(parameter.name), int64(parameter.shape.size()),
         llvm::ConstantArray::get(shapeType, shape), int64(parameter.elements),
         int32(parameter.init), int32(parameter.decay),
         llvm::ConstantFP::get(f64, parameter.stdDev),
         int64(parameter.places[0]), int64(parameter.places[1]),
         int64(parameter.places[2]), int64(parameter.places[3]),
         int64(parameter.places[4]), int32(parameter.places[5]), int32(0)}));
  }
  auto *table = llvm::ConstantArray::get(
      llvm::ArrayType::get(entries.front()->getType(), entries.size()), entries);

  std::vector<llvm::Constant *> gemms;
  for (llvm::GlobalVariable &variable : module.globals())
    if (variable.getName().starts_with("gemm"))
      gemms.push_back(&variable);
  auto *gemmTable = llvm::ConstantArray::get(
      llvm::ArrayType::get(pointer, gemms.size()), gemms);

  auto *program = llvm::ConstantStruct::getAnon(
      {int32(POPLAR_ABI_MAGIC), int32(POPLAR_ABI_VERSION), text(json),
       int64(fixedBytes), int64(bytesPerSample), int64(scratchOffset),
       int64(scratchBytes), int64(inputs[0]), int64(inputs[1]),
       int64(inputs[2]), int64(inputs[3]), int64(trainLoss),
       int64(evaluateLoss), int64(logits), int32(logitsType), int32(0),
       int64(parameters.size()), global(table, "parameters"),
       int64(gemms.size()), global(gemmTable, "gemms"),
       llvm::ConstantFP::get(f64, flopsPerSample), symbol("train.step"),
       symbol("evaluate.step"), symbol("infer.step"), symbol(adamwKernel),
       symbol(convertKernel)});
  new llvm::GlobalVariable(module, program->getType(), /*isConstant=*/true,
                           llvm::GlobalValue::ExternalLinkage, program,
                           "poplar_program");
}
