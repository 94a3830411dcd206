//===- ProgramDescription.h - The PoplarProgram of a module -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_PROGRAMDESCRIPTION_H
#define POPLAR_TARGET_PROGRAMDESCRIPTION_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace llvm {
class Module;
} // namespace llvm

namespace poplar {

namespace nn {
class ParameterOp;
} // namespace nn

struct GPUImage;
struct BuildOptions;

/// What the runtime must know of a program: taken from a module that is
/// planned but not yet lowered, and emitted as `poplar_program` into its
/// translation.
class ProgramDescription {
public:
  /// Fails with a diagnostic if something is missing.
  llvm::LogicalResult take(mlir::ModuleOp module, const BuildOptions &options);

  /// Adds the constant to the translated module. `image` is null where the
  /// program is for a CPU.
  void emit(llvm::Module &module, const GPUImage *image) const;

  /// See PoplarLink.
  struct Link {
    int64_t rank, first, count;
  };

private:
  struct Slice {
    std::string tensor;
    std::vector<int64_t> shape, ranges;
    int64_t dim;
  };
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    int64_t elements, bucket, offset;
    int32_t init, decay;
    double stdDev;
    std::optional<Slice> slice;
    int32_t quantized;
  };
  struct Bucket {
    std::string name;
    int64_t elements, working, gradient;
    std::vector<int64_t> bounds;
    int64_t stage;
    std::vector<int64_t> holders;
    bool frozen, quantized;
    /// By rank, where gradients are not reduced exactly.
    std::vector<int64_t> residuals;
    bool ownMaster;
  };
  struct Rank {
    std::string deviceType, node;
    int64_t microBatch, steps, last, threads;
    int64_t group = 0;
    std::vector<Link> previous, next;
    /// The ranks that share units with it, if any do, and its place there.
    std::vector<int64_t> sharers;
    int64_t position = 0;
    std::vector<int64_t> inFlight;
    std::vector<int32_t> turns, chunks;
  };
  /// Of a pipeline stage: a PoplarChunk, functions by their symbols.
  struct Chunk {
    int64_t slotBytes = 0;
    std::vector<int64_t> messageBytes;
    int64_t keepsSent = 0;
    std::string forward, backward, backwardLast, evaluate, infer;
    /// Empty where there are none.
    std::string decode, prefill;
  };
  /// A PoplarDecoding, its function by its symbol, empty in a pipeline stage.
  struct Decoding {
    int64_t tokens, ids, positions, logits;
    std::string function;
  };
  class Emitter;
  llvm::LogicalResult takeSteps(mlir::ModuleOp module);
  static std::optional<Decoding> takeDecoding(mlir::ModuleOp module,
                                              llvm::StringRef pass);
  llvm::LogicalResult takeState(mlir::ModuleOp module);
  void takeChunks(mlir::ModuleOp module, const zero::ProgramInfo &info);
  static std::optional<Slice> takeSlice(nn::ParameterOp parameter);
  void takeSharers(zero::PlanOp plan);
  void takePipeline(zero::PlanOp plan, const zero::ProgramInfo &info,
                    int64_t tokens);

  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<Rank> ranks;
  int64_t stage = 0, worldSize = 1, numCollectives = 0;
  uint64_t planHash = 0;
  int32_t workingType = 0;
  std::string json;
  int64_t fixedBytes = 0, bytesPerSample = 0, scratchOffset = 0,
          scratchBytes = 0;
  /// ids, targets and keys; and those that not every program has (-1).
  std::vector<int64_t> inputs;
  int64_t positions = -1, dloss = -1;
  /// -1 in a pipeline stage that has none.
  int64_t trainLoss = -1, trainLastLoss = -1, evaluateLoss = -1, logits = -1;
  int64_t group = 0, numGroups = 1;
  /// Of PoplarPipeline, if the program has one.
  std::vector<Chunk> chunks;
  std::optional<Decoding> decode, prefill;
  int64_t samplingBytesPerSample = 0;
  int32_t logitsType = 0;
  double flopsPerSample = 0;
  /// Functions, by their symbol (@train_last is @train where there is none),
  /// and kernels.
  std::string trainLast, adamwKernel, convertKernel;
};

} // namespace poplar

#endif // POPLAR_TARGET_PROGRAMDESCRIPTION_H
