//===- DetectGPUs.h - Cluster files of machines with GPUs -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_DETECTGPUS_H
#define POPLAR_IMPORT_DETECTGPUS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>
#include <string>
#include <vector>

namespace poplar {

/// A GPU, as NVIDIA's management library (NVML) has it.
struct DetectedGPU {
  /// "NVIDIA A100-SXM4-80GB".
  std::string name;
  /// 80 for 8.0.
  int capability = 0;
  /// Bytes in all.
  int64_t memory = 0;
  /// Watts that the driver lets the board draw; 0 if it does not say.
  double power = 0;
  /// To other GPUs by NVLink, all links together, and to the host by PCIe; in
  /// bytes per second and one direction, by the links' specifications.
  double nvlinkBandwidth = 0, pcieBandwidth = 0;
  int nvlinks = 0, pcieGeneration = 0, pcieWidth = 0;
};

struct GPUMachine {
  /// The version of the driver: "580.65.06".
  std::string driver;
  std::vector<DetectedGPU> gpus;
  /// Whether every two GPUs have NVLink between them, and whether every two
  /// read each other's memory in any way.
  bool nvlinkEverywhere = false, peersEverywhere = false;
};

/// Asks libnvidia-ml.so.1, in the directories of POPLAR_CUDA_PATH and then
/// where the system looks. Fails where it cannot be loaded or tells nothing;
/// `missing` then says whether it is not there at all.
llvm::LogicalResult detectGPUs(GPUMachine &machine, bool &missing,
                               std::string &error);

/// The device of the library that a GPU is: of its target, with its name and
/// nearly its memory. Empty if there is none, or if several could be meant.
std::string findKnownDevice(const DetectedGPU &gpu);

/// Copies between every two GPUs of a machine, the slowest: seconds, and bytes
/// per second.
struct LinkProbe {
  double latency = 0, bandwidth = 0;
};

/// Measures it, by the driver; takes 64 MiB on every GPU for that time.
llvm::LogicalResult probeLinks(LinkProbe &probe, std::string &error);

/// A cluster of one node with these GPUs; those that are alike are one type.
/// The link between them is what was measured, or else follows from the
/// specifications of NVLink and PCIe. Null on failure.
mlir::OwningOpRef<mlir::ModuleOp>
describeGPUs(const GPUMachine &machine, const std::optional<LinkProbe> &probe,
             mlir::MLIRContext &context, std::string &error);

} // namespace poplar

#endif // POPLAR_IMPORT_DETECTGPUS_H
