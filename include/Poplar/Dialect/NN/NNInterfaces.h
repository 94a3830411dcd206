//===- NNInterfaces.h - What passes ask of an op ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNINTERFACES_H
#define POPLAR_DIALECT_NN_NNINTERFACES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::linalg {
class GenericOp;
} // namespace mlir::linalg

namespace poplar {
class LinalgBuilder;
} // namespace poplar

namespace poplar::nn {

/// Cotangents of the values of one function, collected in reverse order.
///
/// Activations collect by `nn.add`. Parameters (values entered through
/// `setAccumulator`) have a running gradient instead: an op that can adds into
/// it directly (destination-passing), so that gradient accumulation over
/// repeated use, tied weights and micro-batches needs no temporary.
class Gradients {
public:
  explicit Gradients(mlir::OpBuilder &builder) : builder(builder) {}

  /// Cotangent of `value`, null if nothing depends on it.
  mlir::Value cotangent(mlir::Value value) const {
    return cotangents.lookup(value);
  }
  /// Adds `gradient` to the cotangent of `value`; for a parameter, adds it to
  /// the running gradient elementwise. Does nothing if `value` needs none.
  void add(mlir::Value value, mlir::Value gradient);
  /// As `add`, for an op that adds into an f32 tensor of the shape of `value`:
  /// `addInto` gets the running gradient of a parameter, or zeros to begin the
  /// gradient of anything else (of static shape), and returns the sum.
  void accumulate(mlir::Value value,
                  llvm::function_ref<mlir::Value(mlir::Value)> addInto);

  /// Running f32 gradient of a parameter, null if `value` is not one (then the
  /// op must use `add`, or nothing if `value` needs no gradient). An `nn.cast`
  /// of a parameter shares the parameter's.
  mlir::Value accumulator(mlir::Value value) const;
  void setAccumulator(mlir::Value value, mlir::Value gradient);
  /// Whether a gradient of `value` has to be built: not of integers, nor of
  /// what does not lead to a wanted input.
  bool isNeeded(mlir::Value value) const;
  void setNeeded(mlir::Value value) { needed[value] = true; }
  /// Marks the floating-point results of an op that reads a needed value.
  void propagateNeeded(mlir::Operation *op);

private:
  mlir::OpBuilder &builder;
  llvm::DenseMap<mlir::Value, mlir::Value> cotangents, accumulators;
  llvm::DenseMap<mlir::Value, bool> needed;
};

/// Classes whose speed differs between device types in unlike ways.
enum class OpClass { Gemm, Attention, Row, Gather };

/// FLOPs (a multiply-add is two) and bytes moved to and from memory per
/// sample; `fixedBytes` (parameters) is moved once whatever the batch.
struct OpCost {
  OpClass opClass = OpClass::Row;
  double flops = 0, bytes = 0, fixedBytes = 0;
  /// A product has a shape per sample: [rows, depth] by [depth, columns], or
  /// with `isDeep` the sum over all samples of [depth, rows]^T by [depth,
  /// columns], where `depth` is a sample's part. For attention, `rows` is the
  /// number of queries.
  double rows = 0, columns = 0, depth = 0;
  bool isDeep = false;
  /// The operands of a product are rounded to 8 bits before.
  bool isFP8 = false;
};

/// The cost of an op on rows: its operands and results go to memory once (what
/// has no batch dimension whatever the batch), and each element of `value`
/// takes `flopsPerElement`. +, *, / and transcendental functions count as one
/// each: such ops are bound by memory, so only the order matters.
OpCost getRowCost(mlir::Operation *op, mlir::Value value,
                  double flopsPerElement);

/// Whether the sides of a product x w are multiples of what libraries multiply
/// in fp8.
bool fitsFP8(mlir::Value x, mlir::Value result);

/// Pairs of a query and a key that attention does not mask, of `length` queries
/// and as many keys; a window of 0 is none.
int64_t countAttentionPairs(int64_t length, bool isCausal, int64_t window);

/// Something that an op tells of the model as a whole.
struct ModelFact {
  /// The key in `nn.model`.
  llvm::StringRef name;
  /// An IntegerAttr or a StringAttr.
  mlir::Attribute value;
  /// For the error: "nn.model: vocab_size is 7, but " + what + " 8".
  std::string what;
};

/// Adds, through `grads`, the cotangents of the operands of `op` from those of
/// its results: does nothing where the results have none, and fails, with a
/// diagnostic at the op, where no derivative exists.
llvm::LogicalResult buildVJP(mlir::Operation *op, mlir::OpBuilder &builder,
                             Gradients &grads);

/// Reverse mode of elementwise and sum-reducing `linalg.generic` ops on
/// tensors, by reverse mode of their scalar regions.
llvm::LogicalResult buildLinalgVJP(mlir::linalg::GenericOp op,
                                   mlir::OpBuilder &builder, Gradients &grads);

/// Builds a function for a few new tokens of each sample from one for whole
/// samples.
class Decoding {
public:
  /// Decodes `tokens` per call, of a sequence of `length`.
  Decoding(mlir::OpBuilder &builder, int64_t tokens, int64_t length)
      : builder(builder), tokens(tokens), length(length) {}
  virtual ~Decoding() = default;

  /// The type for the new tokens alone, from that of whole samples. The second
  /// dimension counts tokens, or heads of them, where the first is the batch.
  mlir::Type convert(mlir::Type type) const;
  mlir::Value lookup(mlir::Value value) const {
    return mapping.lookupOrNull(value);
  }
  void map(mlir::Value from, mlir::Value to) { mapping.map(from, to); }
  /// Clones an op with the operands and the types of the new tokens.
  mlir::Operation *clone(mlir::Operation *op);

  /// Adds a cache of `type`, which the function updates in place and which
  /// keeps its values from call to call.
  virtual mlir::Value addCache(mlir::RankedTensorType type) = 0;
  /// Sets the updated value of a cache.
  virtual void setCache(mlir::Value updated) = 0;

  mlir::OpBuilder &builder;
  const int64_t tokens, length;
  /// Positions of the new tokens in their samples, i32 [B, tokens].
  mlir::Value positions;

private:
  mlir::IRMapping mapping;
};

/// Ranges [begin, end) of a dimension, ascending.
using Ranges = llvm::SmallVector<std::pair<int64_t, int64_t>, 3>;

/// How the columns (the last dimension) of an operand may be divided among the
/// devices that share a unit.
struct OperandSplit {
  enum Kind {
    None,     ///< they may not
    AsResult, ///< as those of the op's first result
    Columns   ///< `ranges` for the device at hand
  };
  Kind kind = None;
  Ranges ranges;
};

class TensorGroup;
class UnitSharding;

} // namespace poplar::nn

#include "Poplar/Dialect/NN/NNInterfaces.h.inc"

#endif // POPLAR_DIALECT_NN_NNINTERFACES_H
