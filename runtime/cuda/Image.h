//===- Image.h - The loaded kernels of a program ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_IMAGE_H
#define POPLAR_RUNTIME_CUDA_IMAGE_H

#include "Poplar/Runtime/ABI.h"
#include "cuda/Driver.h"

#include <vector>

namespace poplar::runtime::cuda {

/// Loads into the current context: the cubin if there is one and the GPU takes
/// it, else the PTX, which the driver compiles.
class Image {
public:
  explicit Image(const PoplarGPUImage &Source);
  ~Image();
  Image(const Image &) = delete;
  Image &operator=(const Image &) = delete;

  Function get(int64_t Number) const {
    return Functions[static_cast<size_t>(Number)];
  }

  /// Numbers of the runtime's kernels.
  int64_t SumSquares, Scale;

private:
  Module Loaded = nullptr;
  std::vector<Function> Functions;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_IMAGE_H
