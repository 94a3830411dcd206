//===- ABIStructs.cpp - Fields of the structs of the ABI ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/ABIStructs.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar;
using namespace poplar::exec;

namespace {

/// The struct that a pointer is to; specialised by each struct of ABI.def.
template <typename T> constexpr const ABIStruct *describeStruct = nullptr;

template <typename T> constexpr bool isInteger = std::is_integral_v<T>;

template <typename T>
constexpr ABIField makeField(llvm::StringLiteral name, size_t offset,
                             bool isCount) {
  ABIField field{name, offset, sizeof(T), ABIKind::Symbol,
                 0,    1,      nullptr,   isCount};
  if constexpr (isInteger<T>) {
    field.kind = ABIKind::Integer;
    field.width = sizeof(T);
  } else if constexpr (std::is_same_v<T, double>) {
    field.kind = ABIKind::Number;
  } else if constexpr (std::is_array_v<T>) {
    field.kind = ABIKind::Array;
    field.width = sizeof(std::remove_extent_t<T>);
    field.count = std::extent_v<T>;
  } else if constexpr (std::is_class_v<T>) {
    field.kind = ABIKind::Struct;
    field.pointee = describeStruct<T>;
  } else {
    static_assert(std::is_pointer_v<T>, "the ABI has no fields of this type");
    using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_same_v<Pointee, char>) {
      field.kind = ABIKind::Text;
    } else if constexpr (std::is_void_v<Pointee>) {
      field.kind = ABIKind::Bytes;
    } else if constexpr (isInteger<Pointee>) {
      field.kind = ABIKind::Integers;
      field.width = sizeof(Pointee);
    } else if constexpr (std::is_class_v<Pointee>) {
      field.kind = ABIKind::Records;
      field.pointee = describeStruct<Pointee>;
    } else {
      static_assert(std::is_function_v<Pointee> || std::is_pointer_v<Pointee>,
                    "the ABI has no fields of this type");
    }
  }
  return field;
}

/// Whether the fields fill a struct of `size` bytes, in this order.
template <size_t N>
constexpr bool fillStruct(const ABIField (&fields)[N], size_t size) {
  size_t end = 0;
  for (const ABIField &field : fields) {
    if (field.offset != end)
      return false;
    end += field.size;
  }
  return end == size;
}

#define BEGIN_STRUCT(S)                                                        \
  namespace describe##S {                                                      \
    using Struct = S;                                                          \
    constexpr ABIField fields[] = {
#define M(F) makeField<decltype(Struct::F)>(#F, offsetof(Struct, F), false),
#define END_STRUCT(S)                                                          \
  }                                                                            \
  ;                                                                            \
  static_assert(fillStruct(fields, sizeof(S)),                                 \
                "a field of " #S " is missing");                               \
  constexpr ABIStruct description = {#S, sizeof(S), fields};                   \
  }                                                                            \
  template <>                                                                  \
  constexpr const ABIStruct *describeStruct<S> = &describe##S::description;

#define POPLAR_STRUCT(S) BEGIN_STRUCT(S)
#define POPLAR_FIELD(T, F) M(F)
#define POPLAR_ARRAY(T, F, N) M(F)
#define POPLAR_LIST(T, F)                                                      \
  makeField<decltype(Struct::num_##F)>("num_" #F, offsetof(Struct, num_##F),   \
                                       true),                                  \
      M(F)
#define POPLAR_END(S) END_STRUCT(S)
#include "Poplar/Runtime/ABI.def"
#define POPLAR_DESCRIPTOR(S, FIELDS) BEGIN_STRUCT(S) FIELDS END_STRUCT(S)
#include "Poplar/Dialect/Exec/Descriptors.def"

constexpr const ABIStruct *structs[] = {
#define POPLAR_STRUCT(S) &describe##S::description,
#define POPLAR_FIELD(T, F)
#define POPLAR_ARRAY(T, F, N)
#define POPLAR_END(S)
#include "Poplar/Runtime/ABI.def"
#define POPLAR_DESCRIPTOR(S, FIELDS) &describe##S::description,
#include "Poplar/Dialect/Exec/Descriptors.def"
};

} // namespace

const ABIField *ABIStruct::find(llvm::StringRef field) const {
  const auto *found = llvm::find_if(
      fields, [&](const ABIField &entry) { return entry.name == field; });
  return found == fields.end() ? nullptr : found;
}

const ABIStruct *exec::findABIStruct(llvm::StringRef name) {
  for (const ABIStruct *entry : structs)
    if (entry->name == name)
      return entry;
  return nullptr;
}

#define POPLAR_DESCRIPTOR(S, FIELDS)                                           \
  const ABIStruct &exec::getABIStruct(const S &) {                             \
    return describe##S::description;                                           \
  }
#include "Poplar/Dialect/Exec/Descriptors.def"
