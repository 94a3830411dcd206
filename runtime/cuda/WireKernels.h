//===- WireKernels.h - Types of elements, on a GPU --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_WIREKERNELS_H
#define POPLAR_RUNTIME_CUDA_WIREKERNELS_H

#include "comm/Wire.h"
#include "cuda/Driver.h"

namespace poplar::runtime::cuda {

/// What collectives do to elements, as comm/Wire.h does it on a CPU, to the
/// bit. Loaded into the current context from PTX that the runtime contains.
class WireKernels {
public:
  WireKernels();
  ~WireKernels();
  WireKernels(const WireKernels &) = delete;
  WireKernels &operator=(const WireKernels &) = delete;

  /// Rounds to `Wire`, and from there to `To`. Source and target may be the
  /// same if their types are.
  void convert(const void *Source, comm::Type From, comm::Type Wire,
               void *Target, comm::Type To, int64_t Count, Stream Queue) const;
  /// Sum[i] += Source[i].
  void add(float *Sum, const float *Source, int64_t Count, Stream Queue) const;

private:
  Module Loaded = nullptr;
  Function Convert, Add;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_WIREKERNELS_H
