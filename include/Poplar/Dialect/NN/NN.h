//===- NN.h - The nn dialect ------------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NN_H
#define POPLAR_DIALECT_NN_NN_H

#include "Poplar/Dialect/NN/Entries.h"
#include "Poplar/Dialect/NN/Model.h"
#include "Poplar/Dialect/NN/NNInterfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class PatternRewriter;
} // namespace mlir

#include "Poplar/Dialect/NN/NNDialect.h.inc"
#include "Poplar/Dialect/NN/NNEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "Poplar/Dialect/NN/NNAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Poplar/Dialect/NN/NNTypes.h.inc"
#define GET_OP_CLASSES
#include "Poplar/Dialect/NN/NNOps.h.inc"

namespace poplar::nn {

// Names of the discardable attributes of the dialect.

/// Marks a `func.func` as a unit (of sharding, recomputation and
/// scheduling).
inline constexpr llvm::StringLiteral kUnitAttr = "nn.unit";
/// Marks a unit's argument as a parameter (its callers pass the result of
/// `nn.get_parameter`).
inline constexpr llvm::StringLiteral kParameterAttr = "nn.parameter";
/// Marks an argument of a unit's backward function as the running f32 gradient
/// of a parameter. The i-th of these arguments is updated in place by the i-th
/// of the function's last results.
inline constexpr llvm::StringLiteral kGradientAttr = "nn.gradient";
/// Marks an argument of a unit as a cache. It is updated in place as gradients
/// are; a unit with caches has no gradients.
inline constexpr llvm::StringLiteral kCacheAttr = "nn.cache";
/// The number of new tokens of each sample that a function of
/// `--nn-add-decoding`, and the units that it calls, take.
inline constexpr llvm::StringLiteral kDecodingAttr = "nn.decoding";
/// Marks a module whose training draws random numbers, as dropout does
/// (`--nn-differentiate`).
inline constexpr llvm::StringLiteral kRandomAttr = "nn.random";
/// On a unit, the bytes a sample beyond which a temporary is never whole: it is
/// made in chunks of tokens (`--plan-memory`), and again in the backward pass.
inline constexpr llvm::StringLiteral kChunkBytesAttr = "nn.chunk_bytes";
/// The dictionary on a module with what the tools need to know of the model
/// (`architecture`, `vocab_size`, `seq_len`, `objective` = "causal" | "masked",
/// `config` = the source config.json as a string, ...). The dialect verifies it
/// against the program: see ModelAttr.cpp for the keys and the rules.
inline constexpr llvm::StringLiteral kModelAttr = "nn.model";

/// Arguments of @model. There are positions where documents share samples
/// (`packing` in nn.model).
enum ModelArgument : unsigned {
  kIds = 0,
  kTargets = 1,
  kKeys = 2,
  kPositions = 3
};

/// The bytes of `kChunkBytesAttr`, if the unit has it.
std::optional<int64_t> getChunkBytes(mlir::Operation *unit);

/// Whether documents share samples, as nn.model says.
bool isPacked(mlir::ModuleOp module);

/// Whether a tensor or a buffer holds quantised values.
bool isQuantized(mlir::Type type);
/// PoplarType of a format.
int32_t getPoplarType(QuantizedFormat format);
/// Elements of a bucket that a parameter or a buffer of its type takes: bytes,
/// if it is quantised.
int64_t getStoredElements(mlir::ShapedType type);

/// A hash, in hexadecimal, of what a profile depends on: parameters and the
/// nn.model dictionary.
std::string getFingerprint(mlir::ModuleOp module);

} // namespace poplar::nn

#endif // POPLAR_DIALECT_NN_NN_H
