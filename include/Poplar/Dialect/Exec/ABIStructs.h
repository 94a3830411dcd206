//===- ABIStructs.h - Fields of the structs of the ABI ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Describes the tables of Runtime/ABI.def and the descriptors of
// Descriptors.def, so that #exec.record can be verified and translated field by
// field. Places and types come from the structs themselves.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_ABISTRUCTS_H
#define POPLAR_DIALECT_EXEC_ABISTRUCTS_H

#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Runtime/Experts.h"
#include "Poplar/Runtime/Recurrent.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstddef>
#include <type_traits>

namespace poplar::exec {

/// What a field holds, and which attribute stands for it. A pointer may be
/// null, for which a unit attribute stands.
enum class ABIKind {
  /// int32_t, int64_t, unsigned or not: an integer of that width.
  Integer,
  /// double: a float of 64 bits.
  Number,
  /// const char *: a string. const void *: the bytes of a string.
  Text,
  Bytes,
  /// A function, or a list that lowering makes: a symbol.
  Symbol,
  /// Integers inside the struct, `count` of them: a dense array.
  Array,
  /// A struct inside the struct: a record.
  Struct,
  /// A pointer to integers: a dense array. An empty one is null.
  Integers,
  /// A pointer to structs: a record, or an array of records. An empty one is
  /// null.
  Records,
};

struct ABIStruct;

struct ABIField {
  llvm::StringLiteral name;
  size_t offset, size;
  ABIKind kind;
  /// Bytes of an integer: the field itself, an element of an array, or what a
  /// pointer points to.
  size_t width;
  size_t count;
  /// What a Struct is, or Records are of; null in others.
  const ABIStruct *pointee;
  /// The number of elements of the next field, from which it follows.
  bool isCount;
};

struct ABIStruct {
  llvm::StringLiteral name;
  size_t size;
  llvm::ArrayRef<ABIField> fields;

  /// Null if there is no such field.
  const ABIField *find(llvm::StringRef field) const;
};

/// Null if there is no such struct.
const ABIStruct *findABIStruct(llvm::StringRef name);

/// The struct of a descriptor.
#define POPLAR_DESCRIPTOR(S, FIELDS) const ABIStruct &getABIStruct(const S &);
#include "Poplar/Dialect/Exec/Descriptors.def"

/// The record of a struct without pointers, which lies at `data`.
RecordAttr readRecord(mlir::MLIRContext *context, const ABIStruct &type,
                      const void *data);
template <typename Descriptor>
RecordAttr makeRecord(mlir::MLIRContext *context, const Descriptor &value) {
  return readRecord(context, getABIStruct(value), &value);
}

} // namespace poplar::exec

#endif // POPLAR_DIALECT_EXEC_ABISTRUCTS_H
