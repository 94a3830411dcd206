//===- Exec.h - The exec dialect --------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXEC_H
#define POPLAR_DIALECT_EXEC_EXEC_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Runtime/ABI.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <optional>

#include "Poplar/Dialect/Exec/ExecDialect.h.inc"
#include "Poplar/Dialect/Exec/ExecEnums.h.inc"

namespace poplar {
class FunctionLowering;
} // namespace poplar

namespace poplar::exec {

/// The attribute of a module whose attention a library is to compute, where it
/// can: while memory is planned, as libraries need more.
inline constexpr llvm::StringLiteral kLibraryAttentionAttr =
    "exec.library_attention";

/// Whether offsets and sizes of a region are per sample of the micro-batch.
inline bool isPerSample(Region region) {
  return region != Region::Fixed && region != Region::Transient;
}

/// Bytes of a tensor or buffer for one sample, if its first dimension is the
/// batch, or in all; aligned up to POPLAR_ALIGNMENT. INT64_MAX if they are far
/// beyond kLargestBuffer.
struct BufferSize {
  int64_t bytes;
  bool perSample;
};
/// The limit on bytes of a temporary: 64 bits hold offsets and sums of them.
inline constexpr int64_t kLargestBuffer = int64_t(1) << 40;
BufferSize getBufferSize(mlir::Type type);

/// The buffer that a tensor of this type lies in.
mlir::MemRefType getBufferType(mlir::Type tensor);

/// Elements from one row, the last dimension, of a tensor or a buffer to the
/// next: more than a row has where rows are padded.
int64_t getRowElements(mlir::ShapedType type);
/// Whether rows are padded.
bool hasPaddedRows(mlir::ShapedType type);
/// Bytes from one token of a buffer [batch, tokens, ...] to the next.
int64_t getTokenBytes(mlir::ShapedType type);
/// A buffer of `tokens` tokens of each sample, otherwise as `whole`.
mlir::MemRefType getTokensType(mlir::MemRefType whole, int64_t tokens);

/// PoplarType of an element type: f32, bf16, f16, quantised, or ui8 for bytes.
int32_t getPoplarType(mlir::Type elementType);

/// PoplarType of a collective's wire, or POPLAR_I8 of an i8. Bytes of quantised
/// parameters are unsigned.
int32_t getPoplarWire(mlir::Type wire);

} // namespace poplar::exec

#define GET_TYPEDEF_CLASSES
#include "Poplar/Dialect/Exec/ExecTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "Poplar/Dialect/Exec/ExecAttrs.h.inc"

#include "Poplar/Dialect/Exec/ExecInterfaces.h.inc"
#define GET_OP_CLASSES
#include "Poplar/Dialect/Exec/ExecOps.h.inc"

namespace poplar::exec {

struct ABIStruct;

/// Makes a record, field by field. Ends the process for a field that the struct
/// does not have or that does not hold such a value: an error of the compiler.
class RecordBuilder {
public:
  RecordBuilder(mlir::MLIRContext *context, llvm::StringRef type);

  RecordBuilder &set(llvm::StringRef field, mlir::Attribute value);
  /// An integer, in the field's width.
  RecordBuilder &set(llvm::StringRef field, int64_t value);
  RecordBuilder &setNumber(llvm::StringRef field, double value);
  RecordBuilder &setText(llvm::StringRef field, llvm::StringRef value);
  /// Integers, of the width of the field's elements.
  RecordBuilder &setList(llvm::StringRef field, llvm::ArrayRef<int64_t> values);
  /// Records; null if there are none.
  RecordBuilder &setRecords(llvm::StringRef field,
                            llvm::ArrayRef<mlir::Attribute> records);
  /// A function or variable of the lowered module; null for an empty name.
  RecordBuilder &setSymbol(llvm::StringRef field, llvm::StringRef name);
  RecordBuilder &setNull(llvm::StringRef field);

  /// Fails to verify, and ends the process, if a field is missing.
  RecordAttr get() const;

private:
  mlir::Builder builder;
  const ABIStruct *type;
  mlir::NamedAttrList fields;
};

} // namespace poplar::exec

#endif // POPLAR_DIALECT_EXEC_EXEC_H
