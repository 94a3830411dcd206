//===- Zero.h - The zero dialect --------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_ZERO_H
#define POPLAR_DIALECT_ZERO_ZERO_H

#include "Poplar/Dialect/Cluster/ClusterEnums.h"
#include "Poplar/Dialect/NN/Entries.h"
#include "Poplar/Dialect/NN/NNInterfaces.h"
#include "Poplar/Planner/Model/StateBytes.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Pipeline/Timetable.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "Poplar/Dialect/Zero/ZeroDialect.h.inc"
#include "Poplar/Dialect/Zero/ZeroEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Poplar/Dialect/Zero/ZeroTypes.h.inc"

namespace poplar::zero {

/// An exchange between ranks that share units: each gets the tokens of the
/// others, or its own tokens from each of them, or all tokens from each.
struct TokenExchange {
  ExchangeKind kind;
  int64_t bytesPerToken;
};

} // namespace poplar::zero

#include "Poplar/Dialect/Zero/ZeroInterfaces.h.inc"

namespace poplar::zero {
class GroupOp;
class PlanOp;
class RankOp;
} // namespace poplar::zero

#define GET_OP_CLASSES
#include "Poplar/Dialect/Zero/ZeroOps.h.inc"

namespace poplar::zero {

/// Attributes of turns, the functions that are given a micro-batch's memory
/// (@forward, @backward, @evaluate, ...; see getTurnName). The first one is the
/// chunk of the function. The others mark results and arguments that go from
/// @forward to @backward: by their number in that memory, as lying where they
/// were received, and as lying where they were sent from.
inline constexpr llvm::StringLiteral kTurnAttr = "zero.turn",
                                     kResidualAttr = "zero.residual",
                                     kReceivedAttr = "zero.received",
                                     kSentAttr = "zero.sent";

/// What the zero.program of a module says. A module without one is the program
/// of one rank, the machine at hand.
struct ProgramInfo {
  /// Symbol of the device type and its target, such as "host:avx512-f32".
  std::string deviceType, target = "host";
  /// The format of activations and working copies.
  NumberFormat precision = NumberFormat::F32;
  Recomputation recompute;
  /// Other device types of the job recompute otherwise.
  bool mixedRecompute = false;
  int64_t stage = 0, worldSize = 1;
  /// Shard groups, each of which holds all of the state.
  int64_t replicas = 1;
  /// The pipeline stage of the program, the number of stages, and of chunks.
  int64_t group = 0, numGroups = 1, numChunks = 1;
  /// Shares of each unit that the ranks that share units compute, and the
  /// position of the program (joinsParts()); one share where none do.
  llvm::SmallVector<int64_t, 0> parts = {1};
  int64_t position = 0;
  /// The bandwidth of the slowest link between ranks of the group that share
  /// units, in bytes a second; 0 where none do.
  double sharersBandwidth = 0;
  /// Element type of gathered parameters on the wire: the widest of all
  /// device types.
  WireFormat wire = WireFormat::F32;
  /// The format of gradients on the wire: f32, or what a plan says where links
  /// are slow.
  WireFormat gradientWire = WireFormat::F32;
  /// Parameters are rounded on the wire to less than what ranks compute in.
  bool hasLossyParameters = false;
  /// Element types of the activations that a pipeline stage receives and sends,
  /// and of their gradients; none if they are the stage's own.
  std::optional<NumberFormat> received, sent;
  /// Some pipeline stage of the job keeps gradients in f16.
  bool scaled = false;

  static ProgramInfo get(mlir::ModuleOp module);
  /// Creates the zero.program at the builder's place, the start of a module.
  ProgramOp create(mlir::OpBuilder &builder, mlir::Location location) const;
  /// The format of the working copies of parameters.
  NumberFormat getWorkingFormat() const {
    return poplar::getWorkingFormat(target, precision);
  }
  /// Whether gradients carry a loss scale until they are reduced.
  bool isScaled() const { return scaled || precision == NumberFormat::F16; }
  int64_t getShardGroupSize() const { return worldSize / replicas; }
  bool isPipelineStage() const { return numGroups > 1; }
  bool sharesUnits() const { return parts.size() > 1; }
  std::string getProgramName() const;
  /// The function of a pass (nn::Entry::Forward, Backward, ...) through a
  /// chunk. Its name ends with the chunk where there are several.
  std::string getTurnName(nn::Entry pass, int64_t chunk) const;
  /// Where in a pipeline a chunk of the program's group is, from 0 on.
  int64_t getVirtualStage(int64_t chunk) const {
    return chunk * numGroups + group;
  }
  int64_t countVirtualStages() const { return numChunks * numGroups; }
  /// The chunk of the program's group that a message is of, to or from a chunk
  /// of another group.
  int64_t getOwnChunk(MessageKind kind, bool sends, int64_t otherGroup,
                      int64_t otherChunk) const;
  /// How the ranks that hold `bucket` shard it; whether the program's group
  /// holds it, and whether other groups do as well.
  int64_t getStage(BucketOp bucket) const;
  bool holds(BucketOp bucket) const;
  bool isShared(BucketOp bucket) const;
  /// The elements [first, second) of a bucket of `elements` that a rank holds
  /// the optimizer's state of.
  std::pair<int64_t, int64_t> getShard(BucketOp bucket, int64_t elements,
                                       int64_t rank) const;
  /// Whether a rank's masters are apart from the working copies that it
  /// gathers, though these are in f32, too: gathering rounds what it brings.
  bool hasOwnMaster(BucketOp bucket) const;
};

/// The zero.program of a module; null where it has none.
ProgramOp getProgram(mlir::ModuleOp module);

/// The chunk that a turn goes through; 0 of any other function.
int64_t getChunk(mlir::Operation *function);

/// A collective's bytes of an element that it carries as `wire`.
double getElementBytes(mlir::Type wire);

/// The type of a format of the wire; i8 stands for blocks of int8.
mlir::Type getWireType(mlir::MLIRContext *context, WireFormat wire);
/// The type of values in memory.
mlir::FloatType getFloatType(mlir::MLIRContext *context, NumberFormat format);

/// Where the parameters of a bucket lie in its flat array.
struct BucketLayout {
  /// Parameters start at multiples of this many elements: 64 bytes, the
  /// alignment of buffers, in the narrowest format; and where elements are
  /// bytes.
  static constexpr int64_t kAlignment = 32, kByteAlignment = 64;

  /// Offsets of the parameters in elements, or in bytes if they are quantised.
  llvm::SmallVector<int64_t> offsets;
  /// Elements of the whole array, padding included.
  int64_t elements = 0;

  explicit BucketLayout(llvm::ArrayRef<int64_t> sizes,
                        int64_t alignment = kAlignment);
  /// Fails without a diagnostic where a parameter does not exist.
  static llvm::FailureOr<BucketLayout>
  get(BucketOp bucket, mlir::SymbolTableCollection &symbols);
};

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_ZERO_H
