//===- ABILayout.cpp - Fields of the structs of Runtime/ABI.h -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ABILayout.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/Support/ErrorHandling.h"

using namespace poplar;

ABIConstant &ABIConstant::set(llvm::StringRef name, llvm::Constant *value) {
  auto field = llvm::find_if(
      fields, [&](const ABIField &field) { return name == field.name; });
  if (field == fields.end())
    llvm::report_fatal_error("the ABI has no field " + name);
  llvm::Constant *&known = values[field - fields.begin()];
  if (known)
    llvm::report_fatal_error("field " + name + " of the ABI is set twice");
  if (layout.getTypeAllocSize(value->getType()) != field->size)
    llvm::report_fatal_error("field " + name + " of the ABI has another size");
  known = value;
  return *this;
}

llvm::Constant *ABIConstant::get() const {
  for (auto [field, value] : llvm::zip_equal(fields, values))
    if (!value)
      llvm::report_fatal_error(llvm::Twine("field ") + field.name +
                               " of the ABI is not set");
  llvm::Constant *result = llvm::ConstantStruct::getAnon(values);
  const llvm::StructLayout *places =
      layout.getStructLayout(llvm::cast<llvm::StructType>(result->getType()));
  for (auto [index, field] : llvm::enumerate(fields))
    if (places->getElementOffset(index) != field.offset)
      llvm::report_fatal_error(llvm::Twine("field ") + field.name +
                               " of the ABI is at another place");
  return result;
}
