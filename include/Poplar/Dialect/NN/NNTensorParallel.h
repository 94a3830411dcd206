//===- NNTensorParallel.h - Units that devices share ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensor parallelism as Megatron-LM's (Shoeybi et al. 2019; with sequence
// parallelism, Korthikanti et al. 2022), also by unequal parts. Every device of
// a tensor group has the micro-batch's samples, and computes a part of every
// unit. A value of a unit lies in one of these ways:
//
//   Whole     all of it on every device
//   Columns   the device's ranges of the last dimension: heads of attention,
//             hidden units of a feed-forward layer, rows of the vocabulary
//   Tokens    the device's tokens: with bounds b over the T tokens of a sample,
//             device p has B * (b[p+1] - b[p]) of the B * T tokens of a
//             micro-batch, those from B * b[p] on, as a tensor
//             [B, b[p+1] - b[p], D]. What is computed token by token does not
//             ask of which sample a token is.
//   Partial   all of its shape, to be added up over the devices
//
// Between units there are Tokens. A parameter that every device reads whole
// sees a part of the tokens on each, so its gradients are added up like those
// of a parameter that two pipeline stages share.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNTENSORPARALLEL_H
#define POPLAR_DIALECT_NN_NNTENSORPARALLEL_H

#include "Poplar/Dialect/NN/NNInterfaces.h"
#include "mlir/IR/IRMapping.h"

namespace poplar::nn {

/// Bounds of `count` things, divided in proportion to `parts` (largest
/// remainders first), at least one each: as many things as parts are needed.
/// As much as can be comes in blocks of up to 16, which products like.
llvm::SmallVector<int64_t> divideByParts(int64_t count,
                                         llvm::ArrayRef<int64_t> parts);

/// The devices that share a unit, and which of them is at hand. Where it can
/// be, columns are cut at multiples of `block`.
class TensorGroup {
public:
  TensorGroup(llvm::ArrayRef<int64_t> parts, int64_t position,
              int64_t block = 1)
      : parts(parts), position(position), block(block) {}

  int64_t size() const { return int64_t(parts.size()); }
  int64_t getPosition() const { return position; }
  int64_t getBlock() const { return block; }
  llvm::SmallVector<int64_t> divide(int64_t count) const {
    return divideByParts(count, parts);
  }
  /// The device's range of `count` things, in blocks of so many if these can be
  /// divided.
  std::pair<int64_t, int64_t> getRange(int64_t count,
                                       int64_t ofBlock = 1) const {
    if (count % ofBlock != 0 || count / ofBlock < size())
      ofBlock = 1;
    llvm::SmallVector<int64_t> bounds = divide(count / ofBlock);
    return {bounds[position] * ofBlock, bounds[position + 1] * ofBlock};
  }

private:
  llvm::ArrayRef<int64_t> parts;
  int64_t position, block;
};

/// How a value lies on the devices.
struct Layout {
  enum Kind { Whole, Columns, Tokens, Partial };
  Kind kind = Whole;
  /// The ranges of a split by columns.
  Ranges ranges;

  bool operator==(const Layout &other) const {
    return kind == other.kind && ranges == other.ranges;
  }
  bool operator!=(const Layout &other) const { return !(*this == other); }
};

/// The number of columns in these ranges.
int64_t countColumns(const Ranges &ranges);

/// What a device holds of a parameter.
struct ParameterShare {
  enum Kind {
    Whole, ///< all of it; the devices' gradients are added
    Slice, ///< `ranges` of dimension `dim`
    First  ///< all of it on the first device, nothing on the others
  };
  Kind kind = Whole;
  int64_t dim = 0;
  Ranges ranges;

  bool operator==(const ParameterShare &other) const {
    return kind == other.kind && dim == other.dim && ranges == other.ranges;
  }
};

/// Whether a part ends inside of blocks of `block` successive elements of the
/// whole tensor.
bool cutsBlocks(llvm::ArrayRef<int64_t> shape, const ParameterShare &share,
                int64_t block);

/// The type of what a device holds of a parameter of `type`. A part of NF4
/// whose scales are quantised as well keeps the f32 values of the scales where
/// it cuts blocks of them.
mlir::RankedTensorType getShareType(mlir::RankedTensorType type,
                                    const ParameterShare &share);

/// Builds what one device computes of a unit, op by op.
/// `TensorParallelOpInterface` speaks of values of the unit ("old"), and gets
/// those of the device ("new").
class UnitSharding {
public:
  UnitSharding(mlir::OpBuilder &builder, const TensorGroup &group)
      : builder(builder), group(group) {}
  virtual ~UnitSharding() = default;

  mlir::OpBuilder &builder;
  const TensorGroup &group;

  Layout getLayout(mlir::Value old) const { return layouts.lookup(old); }
  /// The device's value, as it lies.
  mlir::Value get(mlir::Value old) const { return mapping.lookup(old); }
  void set(mlir::Value old, mlir::Value value, Layout layout = {}) {
    mapping.map(old, value);
    layouts[old] = std::move(layout);
  }

  /// The value in Tokens or whole, with the collective that this takes. Null,
  /// with a diagnostic, where it lies in columns.
  mlir::Value getTokens(mlir::Value old);
  mlir::Value getWhole(mlir::Value old);

  /// A parameter of the unit as the device holds it. Null for what it does not
  /// hold, and, with a diagnostic, where the unit has used it in another way.
  mlir::Value getParameter(mlir::Value old, const ParameterShare &share);

  /// The split of columns that all readers of `value` take, if there is one.
  std::optional<Ranges> findSplit(mlir::Value value);

  /// The device's tokens of so many of a sample.
  virtual std::pair<int64_t, int64_t> getTokenRange(int64_t count) const {
    return group.getRange(count);
  }

  /// A clone of `op` on the new values of its operands, whose results lie as
  /// `layout` says.
  mlir::Operation *clone(mlir::Operation *op, const Layout &layout);

  bool hasFailed() const { return hasError; }

protected:
  virtual mlir::Value gatherTokens(mlir::Location loc, mlir::Value tokens) = 0;
  /// The sum over the devices of a value that lies as Partial.
  virtual mlir::Value scatterTokens(mlir::Value old) = 0;
  /// The split that the readers of a unit's result take, for findSplit.
  virtual std::optional<Ranges> findSplitOfResult(unsigned index) = 0;
  /// Changes the argument that stands for a parameter.
  virtual mlir::Value takeParameter(mlir::Value old,
                                    const ParameterShare &share) = 0;

  mlir::IRMapping mapping;
  llvm::DenseMap<mlir::Value, Layout> layouts;
  llvm::DenseMap<mlir::Value, mlir::Value> gathered;
  llvm::DenseMap<mlir::Value, ParameterShare> shares;
  bool hasError = false;

public:
  /// Loss of a vocabulary that the devices share: [B,T] f32, and the
  /// log-sum-exp over all devices' columns.
  virtual std::pair<mlir::Value, mlir::Value>
  buildCrossEntropy(mlir::Location loc, mlir::Value logits, mlir::Value targets,
                    int64_t firstColumn) = 0;
};

} // namespace poplar::nn

#endif // POPLAR_DIALECT_NN_NNTENSORPARALLEL_H
