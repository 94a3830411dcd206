//===- Targets.h - What devices can be --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one table of targets. All that differs among targets, and is not code, is
// here: number formats, the processor that code is generated for, the
// instructions it needs, the model of its speed, and how executables are
// linked.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_TARGETS_H
#define POPLAR_PLANNER_CLUSTER_TARGETS_H

#include "Poplar/Support/Words.h"
#include <string>
#include <string_view>
#include <vector>

namespace poplar {

/// What the targets of a vendor share.
struct TargetKind {
  /// In front of the colon: "host", "cuda".
  std::string_view name;
  /// LLVM's triple of kernels; empty for the machine that compiles.
  std::string_view triple;
  /// Threads of a GPU that run in step; 0 for hosts.
  int subgroupSize;
  /// The executable with the runtime and the bitcode of the kernel library,
  /// within the directory of libraries. Empty as long as there is no runtime.
  std::string_view runtime, kernels;

  bool isHost() const { return subgroupSize == 0; }
};

/// Which constants of Roofline.cpp hold.
enum class SpeedModel {
  Host,
  Pascal,
  Volta,
  Turing,
  Ampere,
  AmpereRTX,
  Ada,
  Hopper,
  Blackwell,
  BlackwellRTX,
  CDNA
};

struct TargetInfo {
  /// "host:avx2-f32", "cuda:sm_80".
  std::string_view name;
  /// Formats the target computes in, or keeps data in, the best first.
  std::vector<NumberFormat> formats;
  SpeedModel speed;
  /// LLVM's name of the processor, and the features beside it: for NVIDIA's,
  /// the first version of PTX that knows it.
  std::string_view processor, features;
  /// For hosts: the most that oneDNN may use, as ONEDNN_MAX_CPU_ISA puts it,
  /// and features, as LLVM names them, without which a program stops at an
  /// illegal instruction.
  std::string_view isa;
  std::vector<std::string_view> instructions;

  const TargetKind &getKind() const;
  /// Whether products of operands in e4m3 run: on matrix units that have the
  /// format, or on a host, which rounds operands and multiplies in `formats`.
  bool hasFP8Products() const;
  /// Behind the colon; empty for "host".
  std::string_view getChip() const;
};

/// All of them, in the order in which messages list them; hosts the fastest
/// first.
const std::vector<TargetInfo> &getTargetInfos();
/// Null if there is no target of this name.
const TargetInfo *findTargetInfo(std::string_view name);

const std::vector<TargetKind> &getTargetKinds();
/// The kind of a target by its name; null if there is none.
const TargetKind *findTargetKind(std::string_view target);

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_TARGETS_H
