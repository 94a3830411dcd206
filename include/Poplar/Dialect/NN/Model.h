//===- Model.h - What is known of a model -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute nn.model of a module. It is a dictionary in files, whose keys
// and types ModelFields.def lists; passes read and write it through Model.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_MODEL_H
#define POPLAR_DIALECT_NN_MODEL_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>

namespace poplar::nn {

enum class ModelFieldKind { Text, Count, Index, Number, Flag, Ids };

/// A key of nn.model, and what its value is.
struct ModelField {
  llvm::StringLiteral key;
  ModelFieldKind kind;
};

/// All fields, in the order of ModelFields.def.
llvm::ArrayRef<ModelField> listModelFields();

/// The field of a key; null if there is no such key.
const ModelField *findModelField(llvm::StringRef key);

/// The value of a field, in C++ and as an attribute.
template <ModelFieldKind kind> struct ModelValue;
template <> struct ModelValue<ModelFieldKind::Text> {
  using Type = llvm::StringRef;
  using Attribute = mlir::StringAttr;
};
template <> struct ModelValue<ModelFieldKind::Count> {
  using Type = int64_t;
  using Attribute = mlir::IntegerAttr;
};
template <>
struct ModelValue<ModelFieldKind::Index> : ModelValue<ModelFieldKind::Count> {};
template <> struct ModelValue<ModelFieldKind::Number> {
  using Type = double;
  using Attribute = mlir::FloatAttr;
};
template <> struct ModelValue<ModelFieldKind::Flag> {
  using Type = bool;
  using Attribute = mlir::BoolAttr;
};
template <> struct ModelValue<ModelFieldKind::Ids> {
  using Type = llvm::ArrayRef<int64_t>;
  using Attribute = mlir::DenseI64ArrayAttr;
};

/// What nn.model of a module says. A module may have none, and a model may say
/// nothing of a field: getters then give nothing.
class Model {
public:
  Model() = default;
  explicit Model(mlir::DictionaryAttr facts) : facts(facts) {}

  static Model of(mlir::ModuleOp module);
  /// Whether the module has a model.
  explicit operator bool() const { return static_cast<bool>(facts); }
  mlir::DictionaryAttr getDictionary() const { return facts; }
  /// Replaces the model of a module by this one.
  void attachTo(mlir::ModuleOp module) const;

#define POPLAR_MODEL_FIELD(KIND, KEY, NAME)                                    \
  std::optional<ModelValue<ModelFieldKind::KIND>::Type> get##NAME() const {    \
    return get<ModelFieldKind::KIND>(#KEY);                                    \
  }                                                                            \
  void set##NAME(ModelValue<ModelFieldKind::KIND>::Type value) {               \
    set(#KEY, makeAttribute(value));                                           \
  }                                                                            \
  void clear##NAME() { set(#KEY, {}); }
#include "Poplar/Dialect/NN/ModelFields.def"

private:
  template <ModelFieldKind kind>
  std::optional<typename ModelValue<kind>::Type>
  get(llvm::StringRef key) const {
    using Value = ModelValue<kind>;
    auto value = facts ? facts.getAs<typename Value::Attribute>(key)
                       : typename Value::Attribute();
    if (!value)
      return std::nullopt;
    if constexpr (kind == ModelFieldKind::Number)
      return value.getValueAsDouble();
    else if constexpr (std::is_same_v<typename Value::Type, int64_t>)
      return value.getInt();
    else if constexpr (kind == ModelFieldKind::Ids)
      return value.asArrayRef();
    else
      return value.getValue();
  }
  /// Sets the value of a key; null removes the key.
  void set(llvm::StringRef key, mlir::Attribute value);
  mlir::Attribute makeAttribute(llvm::StringRef value) const;
  mlir::Attribute makeAttribute(int64_t value) const;
  mlir::Attribute makeAttribute(double value) const;
  mlir::Attribute makeAttribute(bool value) const;
  mlir::Attribute makeAttribute(llvm::ArrayRef<int64_t> value) const;

  mlir::DictionaryAttr facts;
};

} // namespace poplar::nn

#endif // POPLAR_DIALECT_NN_MODEL_H
