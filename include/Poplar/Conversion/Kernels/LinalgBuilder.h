//===- LinalgBuilder.h - Building linalg.generic row by row -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For implementations of LinalgLoweringOpInterface: a builder that writes a
// linalg.generic as an einsum is written, and the scalar builder for its body.
// Every iteration space is (b, t) or (b, t, d), reduced over rows (d), columns
// (b, t) or samples (b), or one flat dimension: the forms --form-kernels fuses
// and --lower-kernels emits.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_KERNELS_LINALGBUILDER_H
#define POPLAR_CONVERSION_KERNELS_LINALGBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"

namespace poplar {

/// Builds the scalar code of one element. Floats are computed in f32, and every
/// operation is rounded as it is written: a multiply and an add never become
/// one FMA. Whether LLVM can form one depends on the kernel that the element is
/// fused into and on the CPU, but a unit that is recomputed in another kernel,
/// and a replica on another CPU, have to get the same bits.
class ElementBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;
  using Value = mlir::Value;

  Value f32(double value);
  Value i32(int64_t value);
  Value i64(int64_t value);
  Value index(int64_t value);

  Value add(Value lhs, Value rhs);
  Value sub(Value lhs, Value rhs);
  Value mul(Value lhs, Value rhs);
  Value div(Value lhs, Value rhs);
  Value neg(Value value);
  Value sqrt(Value value);
  /// Adds to the running value of a reduction; LLVM may reassociate these, and
  /// only these, to keep several partial sums.
  Value accumulate(Value running, Value value);

  /// Position in iteration dimension `dim`.
  Value position(int64_t dim);
  /// An element of a tensor read at computed indices.
  Value extract(Value tensor, mlir::ValueRange indices);
  /// Changes the float type; a no-op if it is that type already.
  Value convert(Value value, mlir::Type type);
  Value toF32(Value value) { return convert(value, getF32Type()); }
};

/// A tensor and the iteration dimensions that index it: letters name
/// dimensions ("btd", "bt", "d"), '0' is the constant 0. A tensor may have more
/// rows than the iteration (position tables): `modulo` > 0 writes the index of
/// 't' modulo that number, as linalg wants a plain dimension to fit exactly.
/// With `heads` = h > 1, an operand "btd" has h times the columns that are
/// iterated, and the iteration h times its positions: row t of the iteration is
/// head t mod h of position t / h.
struct Operand {
  mlir::Value value;
  llvm::StringRef dims;
  int64_t modulo = 0;
  int64_t heads = 1;
};

/// Builds the ops that replace one nn op.
class LinalgBuilder {
public:
  /// Computes the outputs' elements. Floats of `inputs` and `outputs` arrive
  /// extended to f32; what is returned is rounded to the outputs' types.
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      ElementBuilder &, mlir::ValueRange inputs, mlir::ValueRange outputs)>;
  /// The same for one output that does not read its old value.
  using MapBody =
      llvm::function_ref<mlir::Value(ElementBuilder &, mlir::ValueRange)>;
  /// The same for one output that does.
  using ReduceBody = llvm::function_ref<mlir::Value(
      ElementBuilder &, mlir::ValueRange, mlir::Value running)>;

  LinalgBuilder(mlir::PatternRewriter &rewriter, mlir::Location loc)
      : rewriter(rewriter), loc(loc) {}

  /// An uninitialised tensor whose dynamic dimensions are those of `like`.
  mlir::Value empty(mlir::Value like, mlir::RankedTensorType type);
  mlir::Value empty(mlir::Value like, llvm::ArrayRef<int64_t> shape,
                    mlir::Type elementType);
  /// An f32 [B,T*heads] tensor for activations `like`, filled with `value`.
  mlir::Value filledPerToken(mlir::Value like, double value, int64_t heads = 1);

  /// One linalg.generic over `dims`, in order; capitals are the reductions:
  /// "btD" reduces rows, "BTd" columns.
  mlir::ValueRange generic(llvm::StringRef dims, llvm::ArrayRef<Operand> inputs,
                           llvm::ArrayRef<Operand> outputs, Body body);

  /// A new tensor of `type`, each element computed from those at the same place
  /// in `inputs`, which have its shape.
  mlir::Value mapElements(mlir::Type type, mlir::ValueRange inputs,
                          MapBody body);
  /// A new tensor of `type`, elementwise over `dims` (all parallel).
  mlir::Value map(llvm::StringRef dims, mlir::Type type,
                  llvm::ArrayRef<Operand> inputs, MapBody body);
  /// An f32 [B,T] tensor computed from operands [B,T].
  mlir::Value mapTokens(llvm::ArrayRef<mlir::Value> inputs, MapBody body);
  /// Reduces the rows of activations to f32 [B,T], from `initial`; with
  /// `heads` of the first operand, those of its heads to [B,T*heads].
  mlir::Value reduceRows(llvm::ArrayRef<Operand> inputs, double initial,
                         ReduceBody body);
  /// reduceRows for a sum of the body's values.
  mlir::Value sumRows(llvm::ArrayRef<Operand> inputs, MapBody body);

  mlir::PatternRewriter &rewriter;
  mlir::Location loc;
};

} // namespace poplar

#endif // POPLAR_CONVERSION_KERNELS_LINALGBUILDER_H
