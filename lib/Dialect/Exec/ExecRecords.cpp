//===- ExecRecords.cpp - Constants of the ABI's structs -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/ABIStructs.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include <cstring>

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

/// Whether `value` is a record of struct `type`.
static bool isRecordOf(Attribute value, const ABIStruct *type) {
  auto record = dyn_cast<RecordAttr>(value);
  return record && type && record.getType() == type->name;
}

/// What a field has to be; null if `value` is that.
static const char *findFault(const ABIField &field, Attribute value) {
  auto isArrayOf = [&](Attribute array) {
    return field.width == 4 ? isa<DenseI32ArrayAttr>(array)
                            : isa<DenseI64ArrayAttr>(array);
  };
  switch (field.kind) {
  case ABIKind::Integer: {
    auto integer = dyn_cast<IntegerAttr>(value);
    return integer && integer.getType().isSignlessInteger(field.width * 8)
               ? nullptr
               : "an integer of its width";
  }
  case ABIKind::Number: {
    auto number = dyn_cast<FloatAttr>(value);
    return number && number.getType().isF64() ? nullptr : "an f64";
  }
  case ABIKind::Text:
  case ABIKind::Bytes:
    return isa<StringAttr, UnitAttr>(value) ? nullptr : "a string or unit";
  case ABIKind::Symbol:
    return isa<FlatSymbolRefAttr, UnitAttr>(value) ? nullptr
                                                   : "a symbol or unit";
  case ABIKind::Array: {
    if (!isArrayOf(value))
      return "a dense array of its width";
    size_t size = field.width == 4 ? cast<DenseI32ArrayAttr>(value).size()
                                   : cast<DenseI64ArrayAttr>(value).size();
    return size == field.count ? nullptr : "an array of its size";
  }
  case ABIKind::Struct:
    return isRecordOf(value, field.pointee) ? nullptr
                                            : "a record of its struct";
  case ABIKind::Integers:
    return isArrayOf(value) || isa<UnitAttr>(value)
               ? nullptr
               : "a dense array of its width, or unit";
  case ABIKind::Records:
    if (auto array = dyn_cast<ArrayAttr>(value))
      return llvm::all_of(array,
                          [&](Attribute entry) {
                            return isRecordOf(entry, field.pointee);
                          })
                 ? nullptr
                 : "an array of records of its struct";
    return isRecordOf(value, field.pointee) || isa<UnitAttr>(value)
               ? nullptr
               : "a record of its struct, an array of them, or unit";
  }
  llvm_unreachable("unknown kind of field");
}

LogicalResult RecordAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr type, DictionaryAttr fields) {
  const ABIStruct *known = findABIStruct(type.getValue());
  if (!known)
    return emitError() << "the ABI has no struct '" << type.getValue() << "'";
  for (const ABIField &field : known->fields) {
    Attribute value = fields.get(field.name);
    if (field.isCount) {
      if (value)
        return emitError() << known->name << ": " << field.name
                           << " is derived from the list: remove it";
      continue;
    }
    if (!value)
      return emitError() << known->name << ": " << field.name << " is missing";
    if (const char *fault = findFault(field, value))
      return emitError() << known->name << ": " << field.name << " must be "
                         << fault;
  }
  for (NamedAttribute entry : fields)
    if (!known->find(entry.getName()))
      return emitError() << known->name << ": unknown field "
                         << entry.getName();
  return success();
}

LogicalResult ProgramOp::verify() {
  if (getTable().getType() != "PoplarProgram")
    return emitOpError("must hold a PoplarProgram");
  auto programs = cast<ModuleOp>((*this)->getParentOp()).getOps<ProgramOp>();
  if (*programs.begin() != *this)
    return emitOpError("duplicates the exec.program of its module");
  return success();
}

void ProgramOp::setField(StringRef field, Attribute value) {
  NamedAttrList fields(getTable().getFields());
  fields.set(field, value);
  setTableAttr(RecordAttr::get(getContext(), getTable().getType(),
                               fields.getDictionary(getContext())));
}

//===----------------------------------------------------------------------===//
// RecordBuilder
//===----------------------------------------------------------------------===//

RecordBuilder::RecordBuilder(MLIRContext *context, StringRef type)
    : builder(context), type(findABIStruct(type)) {
  if (!this->type)
    llvm::report_fatal_error("the ABI has no struct " + type);
}

static const ABIField &getField(const ABIStruct &type, StringRef name) {
  const ABIField *field = type.find(name);
  if (!field)
    llvm::report_fatal_error(type.name + " has no field " + name);
  return *field;
}

RecordBuilder &RecordBuilder::set(StringRef field, Attribute value) {
  if (const char *fault = findFault(getField(*type, field), value))
    llvm::report_fatal_error(type->name + ": " + field + " must be " + fault);
  if (fields.get(field))
    llvm::report_fatal_error(type->name + ": " + field + " is set twice");
  fields.set(field, value);
  return *this;
}

RecordBuilder &RecordBuilder::set(StringRef field, int64_t value) {
  size_t bits = 8 * getField(*type, field).width;
  return set(field, IntegerAttr::get(builder.getIntegerType(bits),
                                     APInt(bits, uint64_t(value),
                                           /*isSigned=*/true,
                                           /*implicitTrunc=*/true)));
}

RecordBuilder &RecordBuilder::setNumber(StringRef field, double value) {
  return set(field, builder.getF64FloatAttr(value));
}

RecordBuilder &RecordBuilder::setText(StringRef field, StringRef value) {
  return set(field, builder.getStringAttr(value));
}

RecordBuilder &RecordBuilder::setList(StringRef field,
                                      ArrayRef<int64_t> values) {
  if (getField(*type, field).width == 8)
    return set(field, builder.getDenseI64ArrayAttr(values));
  SmallVector<int32_t> narrow(values.begin(), values.end());
  return set(field, builder.getDenseI32ArrayAttr(narrow));
}

RecordBuilder &RecordBuilder::setRecords(StringRef field,
                                         ArrayRef<Attribute> records) {
  return set(field, builder.getArrayAttr(records));
}

RecordBuilder &RecordBuilder::setSymbol(StringRef field, StringRef name) {
  if (name.empty())
    return setNull(field);
  return set(field, FlatSymbolRefAttr::get(builder.getContext(), name));
}

RecordBuilder &RecordBuilder::setNull(StringRef field) {
  return set(field, builder.getUnitAttr());
}

RecordAttr RecordBuilder::get() const {
  for (const ABIField &field : type->fields)
    if (!field.isCount && !fields.get(field.name))
      llvm::report_fatal_error(type->name + ": " + field.name + " is not set");
  return RecordAttr::get(builder.getContext(),
                         StringAttr::get(builder.getContext(), type->name),
                         fields.getDictionary(builder.getContext()));
}

template <typename Integer> static int64_t readInteger(const void *data) {
  Integer value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

RecordAttr exec::readRecord(MLIRContext *context, const ABIStruct &type,
                            const void *data) {
  RecordBuilder record(context, type.name);
  for (const ABIField &field : type.fields) {
    const char *place = static_cast<const char *>(data) + field.offset;
    double number;
    switch (field.kind) {
    case ABIKind::Integer:
      record.set(field.name, field.width == 4 ? readInteger<int32_t>(place)
                                              : readInteger<int64_t>(place));
      break;
    case ABIKind::Number:
      std::memcpy(&number, place, sizeof(number));
      record.setNumber(field.name, number);
      break;
    case ABIKind::Struct:
      record.set(field.name, readRecord(context, *field.pointee, place));
      break;
    default:
      llvm::report_fatal_error(type.name + ": " + field.name +
                               " is in no descriptor");
    }
  }
  return record.get();
}
