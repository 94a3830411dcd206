//===- Profiling.h - Programs that measure themselves -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_PROFILING_H
#define POPLAR_DRIVER_PROFILING_H

#include "Poplar/Driver/Compilation.h"

namespace poplar {

/// What `poplar profile` is asked for.
struct ProfileRequest {
  std::string model, cluster, deviceType;
  /// A ZeRO stage, or "all".
  std::string stage = "all";
  /// File for the profiles.
  std::string output;
  /// 0 for the micro-batch beyond which throughput does not grow.
  int64_t maxBatch = 0;
  /// After which it ends, about; the stages share them. 0 for no limit.
  double seconds = 0;
  /// With the other cores busy.
  bool loaded = false;
  /// The version of poplar, as profiles name it.
  std::string version;
  std::string libraryDirectory;
};

/// Builds the program that a rank of the device type would run in a job of the
/// cluster, lets it measure itself (runtime/commands/Profile.cpp), and writes
/// the profiles. Lines about the progress go to `print`. Returns false on
/// failure, with `compilation.error` set unless the program has said why.
bool profileDeviceType(Compilation &compilation, const ProfileRequest &request,
                       llvm::function_ref<void(const std::string &)> print);

} // namespace poplar

#endif // POPLAR_DRIVER_PROFILING_H
