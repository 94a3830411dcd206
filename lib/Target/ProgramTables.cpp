//===- ProgramTables.cpp - exec.program as constants of LLVM IR -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTables.h"
#include "Poplar/Dialect/Exec/ABIStructs.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "mlir/Target/LLVMIR/LLVMTranslationInterface.h"
#include "mlir/Target/LLVMIR/ModuleTranslation.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

namespace {

/// Writes records to a module.
class TableWriter {
public:
  explicit TableWriter(llvm::Module &module)
      : module(module), context(module.getContext()) {}

  llvm::Constant *write(RecordAttr record);

private:
  llvm::Constant *null() {
    return llvm::ConstantPointerNull::get(llvm::PointerType::get(context, 0));
  }
  llvm::Constant *writeField(const ABIField &field, Attribute value);
  /// What a pointer points to; equal constants are one.
  llvm::Constant *point(const ABIField &field, Attribute value);
  llvm::Constant *writePointee(Attribute value);
  /// Null for an unknown name: the program would be one without the function.
  llvm::Constant *findSymbol(FlatSymbolRefAttr name);
  int64_t countElements(Attribute value);

  llvm::Module &module;
  llvm::LLVMContext &context;
  DenseMap<Attribute, llvm::Constant *> pointees;
};

/// Translates exec.program.
class ExecTranslation : public LLVMTranslationDialectInterface {
public:
  using LLVMTranslationDialectInterface::LLVMTranslationDialectInterface;

  LogicalResult
  convertOperation(Operation *op, llvm::IRBuilderBase &,
                   LLVM::ModuleTranslation &translation) const override {
    auto program = dyn_cast<ProgramOp>(op);
    if (!program)
      return op->emitOpError("cannot be translated to LLVM IR");
    llvm::Module &module = *translation.getLLVMModule();
    llvm::Constant *table = writeRecord(program.getTable(), module);
    new llvm::GlobalVariable(module, table->getType(), /*isConstant=*/true,
                             llvm::GlobalValue::ExternalLinkage, table,
                             kProgramSymbol);
    return success();
  }
};

} // namespace

llvm::Constant *TableWriter::findSymbol(FlatSymbolRefAttr name) {
  llvm::GlobalValue *found = module.getNamedValue(name.getValue());
  if (!found)
    llvm::report_fatal_error("exec.program: there is no @" + name.getValue());
  return found;
}

int64_t TableWriter::countElements(Attribute value) {
  if (auto array = dyn_cast<ArrayAttr>(value))
    return int64_t(array.size());
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(value))
    return integers.size();
  if (auto integers = dyn_cast<DenseI32ArrayAttr>(value))
    return integers.size();
  if (auto name = dyn_cast<FlatSymbolRefAttr>(value)) {
    auto *variable = cast<llvm::GlobalVariable>(findSymbol(name));
    return int64_t(
        cast<llvm::ArrayType>(variable->getValueType())->getNumElements());
  }
  return 0;
}

llvm::Constant *TableWriter::writePointee(Attribute value) {
  if (auto text = dyn_cast<StringAttr>(value))
    return llvm::ConstantDataArray::getString(context, text.getValue());
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(value))
    return llvm::ConstantDataArray::get(context, integers.asArrayRef());
  if (auto integers = dyn_cast<DenseI32ArrayAttr>(value))
    return llvm::ConstantDataArray::get(context, integers.asArrayRef());
  if (auto record = dyn_cast<RecordAttr>(value))
    return write(record);
  SmallVector<llvm::Constant *> entries;
  for (auto record : cast<ArrayAttr>(value).getAsRange<RecordAttr>())
    entries.push_back(write(record));
  return llvm::ConstantArray::get(
      llvm::ArrayType::get(entries.front()->getType(), entries.size()),
      entries);
}

llvm::Constant *TableWriter::point(const ABIField &field, Attribute value) {
  bool isEmptyList =
      !isa<StringAttr, RecordAttr>(value) && countElements(value) == 0;
  if (isa<UnitAttr>(value) || isEmptyList)
    return null();
  // Bytes lie where any type may, and have no zero behind them to be shared.
  bool isShared = field.kind != ABIKind::Bytes;
  if (isShared)
    if (llvm::Constant *known = pointees.lookup(value))
      return known;
  llvm::Constant *pointee = writePointee(value);
  auto *variable = new llvm::GlobalVariable(
      module, pointee->getType(), /*isConstant=*/true,
      llvm::GlobalValue::InternalLinkage, pointee, field.name);
  if (isShared)
    pointees[value] = variable;
  else
    variable->setAlignment(llvm::Align(POPLAR_ALIGNMENT));
  return variable;
}

llvm::Constant *TableWriter::writeField(const ABIField &field,
                                        Attribute value) {
  switch (field.kind) {
  case ABIKind::Integer:
    return llvm::ConstantInt::get(context, cast<IntegerAttr>(value).getValue());
  case ABIKind::Number:
    return llvm::ConstantFP::get(context, cast<FloatAttr>(value).getValue());
  case ABIKind::Array:
  case ABIKind::Struct:
    return writePointee(value);
  case ABIKind::Symbol:
    return isa<UnitAttr>(value) ? null()
                                : findSymbol(cast<FlatSymbolRefAttr>(value));
  case ABIKind::Text:
  case ABIKind::Bytes:
  case ABIKind::Integers:
  case ABIKind::Records:
    return point(field, value);
  }
  llvm_unreachable("unknown kind of field");
}

llvm::Constant *TableWriter::write(RecordAttr record) {
  const ABIStruct &type = *findABIStruct(record.getType().getValue());
  SmallVector<llvm::Constant *> values;
  for (auto [index, field] : llvm::enumerate(type.fields)) {
    if (!field.isCount) {
      values.push_back(writeField(field, record.getFields().get(field.name)));
      continue;
    }
    const ABIField &list = type.fields[index + 1];
    values.push_back(llvm::ConstantInt::get(
        llvm::Type::getInt64Ty(context),
        countElements(record.getFields().get(list.name))));
  }
  llvm::Constant *result = llvm::ConstantStruct::getAnon(values);
  const llvm::StructLayout *places = module.getDataLayout().getStructLayout(
      cast<llvm::StructType>(result->getType()));
  for (auto [index, field] : llvm::enumerate(type.fields))
    if (places->getElementOffset(index) != field.offset)
      llvm::report_fatal_error(type.name + ": field " + field.name +
                               " has another offset in C");
  return result;
}

llvm::Constant *poplar::writeRecord(RecordAttr record, llvm::Module &module) {
  return TableWriter(module).write(record);
}

void poplar::registerProgramTranslation(MLIRContext &context) {
  DialectRegistry registry;
  registry.addExtension(+[](MLIRContext *, ExecDialect *dialect) {
    dialect->addInterfaces<ExecTranslation>();
  });
  context.appendDialectRegistry(registry);
}
