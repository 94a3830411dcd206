//===- GPUSensors.h - Temperature and power of GPUs -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_GPUSENSORS_H
#define POPLAR_IMPORT_GPUSENSORS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

/// What the vendor's library says of a GPU now. Degrees Celsius, watts, bytes.
struct GPUSensors {
  std::string name;
  std::optional<int64_t> temperature;
  std::optional<double> power;
  std::optional<int64_t> memoryUsed, memory;
};

/// The GPUs of this machine; empty where there are none, or no library that
/// tells.
std::vector<GPUSensors> readGPUSensors();

} // namespace poplar

#endif // POPLAR_IMPORT_GPUSENSORS_H
