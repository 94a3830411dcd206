//===- Model.cpp - What is known of a model -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/Model.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static constexpr ModelField fields[] = {
#define POPLAR_MODEL_FIELD(KIND, KEY, NAME) {#KEY, ModelFieldKind::KIND},
#include "Poplar/Dialect/NN/ModelFields.def"
};

ArrayRef<ModelField> nn::listModelFields() { return fields; }

const ModelField *nn::findModelField(StringRef key) {
  const auto *found = llvm::find_if(
      fields, [&](const ModelField &field) { return field.key == key; });
  return found == std::end(fields) ? nullptr : found;
}

Model Model::of(ModuleOp module) {
  return Model(module->getAttrOfType<DictionaryAttr>(kModelAttr));
}

void Model::attachTo(ModuleOp module) const {
  module->setAttr(kModelAttr, facts);
}

void Model::set(StringRef key, Attribute value) {
  NamedAttrList entries(facts);
  if (value)
    entries.set(key, value);
  else
    entries.erase(key);
  facts = entries.getDictionary(facts.getContext());
}

Attribute Model::makeAttribute(StringRef value) const {
  return Builder(facts.getContext()).getStringAttr(value);
}
Attribute Model::makeAttribute(int64_t value) const {
  return Builder(facts.getContext()).getI64IntegerAttr(value);
}
Attribute Model::makeAttribute(double value) const {
  return Builder(facts.getContext()).getF64FloatAttr(value);
}
Attribute Model::makeAttribute(bool value) const {
  return Builder(facts.getContext()).getBoolAttr(value);
}
Attribute Model::makeAttribute(ArrayRef<int64_t> value) const {
  return Builder(facts.getContext()).getDenseI64ArrayAttr(value);
}
