//===- Attention.h - Attention by cuDNN -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program that was built for cuDNN's attention has our own kernels, too.
// Which of both computes an attention is decided when it is first needed for a
// batch, which is before it is captured in a graph:
//
//   POPLAR_CUDA_ATTENTION  what happens
//   not set                cuDNN; our kernels where it is missing, too old, has
//                          no engine, or fails when it first runs
//   own                    our kernels
//   cudnn                  cuDNN; where it cannot, an Error
//
// Every outcome is printed once, with its reason.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_ATTENTION_H
#define POPLAR_RUNTIME_CUDA_ATTENTION_H

#include "Poplar/Runtime/ABI.h"
#include "cuda/AttentionGraph.h"
#include "cuda/Driver.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace poplar::runtime::cuda {

class LibraryAttention {
public:
  /// For a stream, whose context is current. Throws an Error if
  /// POPLAR_CUDA_ATTENTION is none of the above.
  explicit LibraryAttention(Stream Queue);
  ~LibraryAttention();
  LibraryAttention(const LibraryAttention &) = delete;
  LibraryAttention &operator=(const LibraryAttention &) = delete;

  /// Queues an attention, with the arguments of poplar_rt_attention; false if
  /// our own kernels are to compute it. The forward pass works in `Scratch`.
  bool run(const PoplarLibraryAttention &What, void *const *Args, int64_t Batch,
           void *Scratch, int64_t ScratchBytes);

  /// Whether the library has computed it before.
  bool isPrepared(const PoplarLibraryAttention &What, int64_t Batch) const {
    auto Known = Graphs.find({&What, Batch});
    return Known != Graphs.end() && Known->second;
  }

private:
  enum class Wish { Any, Own, Library };

  /// Loads the library, once. Returns why it cannot be used.
  std::string load();
  /// Null if our kernels compute it.
  std::unique_ptr<AttentionGraph> prepare(const PoplarLibraryAttention &What,
                                          int64_t Batch, int64_t Bytes);
  /// Says that our kernels compute attention, or throws an Error.
  void refuse(const std::string &Reason);
  void sayOnce(const std::string &Text);

  Stream Queue;
  Wish Wanted = Wish::Any;
  bool IsLoaded = false;
  std::string Obstacle;
  std::unique_ptr<dnn::Cudnn> Library;
  dnn::Handle Handle = nullptr;
  using Key = std::pair<const PoplarLibraryAttention *, int64_t>;
  std::map<Key, std::unique_ptr<AttentionGraph>> Graphs;
  std::set<std::string> Said;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_ATTENTION_H
