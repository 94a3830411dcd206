//===- AttentionGraph.h - Attention as a graph of cuDNN ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuDNN recognises attention in a graph of products, sums and functions of
// single numbers whose intermediate values are never in memory. The graphs here
// are those that NVIDIA's own frontend makes for all versions of cuDNN 9
// (cudnn-frontend 1.32, scaled_dot_product_flash_attention.h); a test has a
// real library accept them, if there is one.
//
//   forward   S = scale q k^T, masked; lse = max S + log sum exp(S - max S);
//             out = softmax(S) v
//   gradient  d = sum dy out; P = exp(S - lse); dv = P^T dy;
//             dS = scale P (dy v^T - d); dk = dS^T q; dq = dS k
//
// Every tensor is [B,H,T,D] with the strides of where rows lie, so operands are
// never copied. The log-sum-exp is the one of our own kernels: which of both
// computes one pass does not matter to the other.
//
// The gradient of the queries is a sum over blocks of keys. cuDNN adds up
// either in the order in which blocks happen to end, or behind dS, which it
// then keeps in memory: [B,H,T,T] in 16 bits. Runs of a job are to repeat to
// the bit, so the latter is asked for (`set_deterministic_algorithm` of the
// frontend).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_ATTENTIONGRAPH_H
#define POPLAR_RUNTIME_CUDA_ATTENTIONGRAPH_H

#include "Poplar/Runtime/ABI.h"
#include "cuda/Cudnn.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace poplar::runtime::cuda {

enum class AttentionPass { Forward, Gradient };

/// Operands of a pass, by their place; those that a pass has not are null.
struct AttentionOperands {
  const void *Q, *K, *V;
  /// Results of the forward pass, and operands of the gradient.
  void *Out, *Lse;
  const void *Dy;
  void *Dq, *Dk, *Dv;
};

/// What the library offers for a graph.
struct AttentionEngine {
  int64_t Number = -1, WorkspaceBytes = 0;
  bool IsDeterministic = false;
};

/// A graph of an attention for a batch, and how the library runs it.
class AttentionGraph {
public:
  /// Describes the operations. Throws an Error if the library refuses them.
  /// `Handle` is null in tests without a GPU.
  AttentionGraph(const dnn::Cudnn &Library, dnn::Handle Handle,
                 const PoplarAttention &Shapes, AttentionPass Pass,
                 int64_t Batch);
  ~AttentionGraph();
  AttentionGraph(const AttentionGraph &) = delete;
  AttentionGraph &operator=(const AttentionGraph &) = delete;

  /// Makes a plan of the library's best engine that repeats to the bit and
  /// needs no more memory than `MostBytes`. Throws an Error if there is none.
  /// `Properties` are those of a GPU that is not there, in tests.
  void plan(int64_t MostBytes, dnn::Object Properties = nullptr);
  /// The engines that the library would try, best first.
  std::vector<AttentionEngine> listEngines(dnn::Object Properties) const;

  int64_t getWorkspaceBytes() const { return WorkspaceBytes; }
  /// Queues the pass. Returns why, if the library refuses.
  std::string run(const AttentionOperands &Operands, void *Workspace) const;

private:
  friend class AttentionBuilder;

  /// Configurations of engines, best first, of `Mode`.
  std::vector<dnn::Object> queryConfigs(int32_t Mode,
                                        dnn::Object Properties) const;
  /// Whether the engine says that its sums depend on time.
  bool isDeterministic(dnn::Object Config) const;
  dnn::Object getEngine(dnn::Object Config) const;
  dnn::Object create(int Kind) const;
  void set(dnn::Object To, int Name, int Type, const void *Values,
           int64_t Count = 1) const;
  void finalise(dnn::Object Own, const char *What) const;
  void check(dnn::Status S, const char *What) const;

  const dnn::Cudnn &Library;
  dnn::Handle Handle;
  PoplarAttention Shapes;
  /// Everything that was created, to be destroyed.
  mutable std::vector<dnn::Object> Objects;
  std::vector<dnn::Object> Operations;
  dnn::Object Graph = nullptr, Plan = nullptr;
  /// The workspace has the sums of dy . out in front of what the engine asks.
  int64_t WorkspaceBytes = 0, DeltaBytes = 0;
  /// Numbers of tensors that operands are given for: ours, and the scalars.
  std::vector<int64_t> Bound;
  std::vector<std::pair<int64_t, float>> Scalars;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_ATTENTIONGRAPH_H
