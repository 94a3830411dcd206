//===- Build.h - From a model to an executable ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_BUILD_H
#define POPLAR_TARGET_BUILD_H

#include "Poplar/Planner/Cluster/Targets.h"
#include "Poplar/Support/Recomputation.h"
#include "Poplar/Support/Words.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace poplar {

/// The levels of IR that `poplar build` can stop after, in their order.
enum class IRLevel { Model, Train, Zero, Kernels, Memory, LLVM };

/// "model", "train"..., in the order of IRLevel.
llvm::ArrayRef<llvm::StringLiteral> getIRLevelNames();

/// When collectives run, and which functions there are.
struct OverlapOptions {
  /// Collectives overlap with computation; otherwise all are synchronous.
  bool overlap = true;
  /// Gathers and reductions under way at a time, beside the unit at work.
  int overlapDepth = 2;
  /// Functions for sampling with caches are made as well.
  bool decoding = false;
};

/// A word in the JSON that describes a program.
template <typename Word, typename = decltype(Words<Word>::names)>
llvm::json::Value toJSON(const Word &word) {
  return toString(word);
}
inline llvm::json::Value toJSON(const Recomputation &recomputation) {
  return toString(recomputation);
}

/// How the program of a device type is scheduled.
struct ScheduleOptions : OverlapOptions {
  /// f32, bf16 or f16: what activations and working copies are kept in.
  NumberFormat precision = NumberFormat::F32;
  /// Values are only kept in `precision`, and computed in f32.
  bool storesOnly = false;
  Recomputation recompute;
};

/// What the libraries' scratch is planned for.
struct ScratchOptions {
  /// Threads that share it.
  int threads = 1;
  /// Largest micro-batch.
  int64_t maxBatch = 64;
  /// Bytes; below 0, what the library at hand asks.
  int64_t workspaceBytes = -1;
  /// A library of the GPU may compute attention.
  bool libraryAttention = false;
};

/// Who computes attention on NVIDIA GPUs: our kernels, or cuDNN where it can.
enum class AttentionSource : uint32_t { Auto, Own, CuDNN };
template <> struct Words<AttentionSource> {
  static constexpr const char *names[] = {"auto", "own", "cudnn"};
};

/// What code is generated for, and how it is linked.
struct CodeOptions {
  /// The kind of target.
  const TargetKind *kind = findTargetKind("host");
  /// LLVM's name of the CPU; "native" asks the machine at hand.
  std::string cpu = "native";
  /// What oneDNN may use of it, as ONEDNN_MAX_CPU_ISA puts it; empty for all.
  std::string isa;
  /// The GPU that kernels are compiled for, "sm_80"; empty for CPUs.
  std::string chip;
  /// On NVIDIA GPUs.
  AttentionSource attention = AttentionSource::Auto;
  /// On GPUs, GELU is done by the library's products where it can be.
  bool fuseEpilogues = true;
  /// Executables for GPUs hold their kernels as PTX even if there is a cubin.
  bool keepPTX = true;
  /// Fill buffers with NaN when they die: a test of the memory plan.
  bool trapDeadRanges = false;
  /// Where the libraries below are.
  std::string libraryDirectory;

  /// Bitcode of the kernel library (attention), linked into every program.
  std::string getKernelLibrary() const;
  /// Executable with the runtime, which loads a program.
  std::string getRuntime() const;
};

/// All of them, for an executable.
struct BuildOptions : ScheduleOptions, ScratchOptions, CodeOptions {
  /// Neighbouring units with less than this (in f32) share a bucket.
  int64_t bucketBytes = 1 << 20;
};

/// Whether LLVM generates code for a CodeOptions::cpu; it would only warn, and
/// end the process later.
bool isKnownCPU(llvm::StringRef cpu);

/// Sets `cpu`, `isa`, `chip` and `workspaceBytes` for a device type's target,
/// such as "host:avx2-f32" or "cuda:sm_80"; fails for what code cannot be
/// generated for.
llvm::LogicalResult setTarget(BuildOptions &options, llvm::StringRef target);

/// Groups the parameters of a model without a plan; a plan has its buckets.
void buildBucketPipeline(mlir::OpPassManager &pm, const BuildOptions &options);

/// From the model level, on a module that is the program of one device type, to
/// the scheduled level: precision, differentiation, collectives, their order.
/// Ends at `last` if that comes earlier.
void buildSchedulePipeline(mlir::OpPassManager &pm,
                           const ScheduleOptions &options,
                           IRLevel last = IRLevel::Zero);

/// Sets how the program of one device type is scheduled: its number format and
/// what it recomputes.
void chooseScheduleOptions(mlir::ModuleOp program, ScheduleOptions &options);

/// Replaces the plan of a module by the programs of its device types, modules
/// inside this one, at the scheduled level and checked against each other,
/// unless `isChecked` is false; at `last` and unchecked if that comes earlier.
llvm::LogicalResult schedulePrograms(mlir::ModuleOp module,
                                     const OverlapOptions &options,
                                     mlir::TimingScope &timing,
                                     IRLevel last = IRLevel::Zero,
                                     bool isChecked = true);

/// The same for programs of which only the time is asked, one of many plans:
/// nothing is checked, unless assertions are.
llvm::LogicalResult scheduleCandidate(mlir::ModuleOp module,
                                      const OverlapOptions &options);

/// From there to kernels, still on tensors.
void buildKernelPipeline(mlir::OpPassManager &pm, const CodeOptions &options);

/// --plan-memory: from kernels to calls on buffers, each in its place.
void addPlanMemory(mlir::OpPassManager &pm, const ScratchOptions &options);

/// Both.
void buildMemoryPipeline(mlir::OpPassManager &pm, const BuildOptions &options);

/// From the model level to buffers, for a model that one device trains alone.
void buildPlanPipeline(mlir::OpPassManager &pm, const BuildOptions &options);

/// From buffers to the llvm dialect; where there is a `chip`, all but its
/// kernels.
void buildLoweringPipeline(mlir::OpPassManager &pm, const CodeOptions &options);

/// Registers both with the pass manager's text form, as `--poplar-plan` and
/// `--poplar-lower`.
void registerPipelines();

/// Lowers a module that has gone through the plan pipeline and compiles it to
/// an archive: an object that defines `poplar_program`, and one for each kernel
/// of the host. Errors are diagnostics. Phases are timed within `timing`;
/// `report` gets a line about the kernels of a GPU.
llvm::LogicalResult emitObjects(mlir::ModuleOp module,
                                const BuildOptions &options,
                                llvm::StringRef objectsPath,
                                mlir::TimingScope &timing, std::string &report);

/// Links such an archive into a shared object, which the runtime loads. LLD
/// does so within this process. Errors are diagnostics.
llvm::LogicalResult linkProgram(mlir::ModuleOp module,
                                llvm::StringRef objectsPath,
                                llvm::StringRef programPath);

} // namespace poplar

#endif // POPLAR_TARGET_BUILD_H
