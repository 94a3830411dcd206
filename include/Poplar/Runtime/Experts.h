//===- Experts.h - Kernels of mixtures of experts ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between generated code and the kernel libraries alone, which are built
// together (ABI.h, PoplarKernel).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXPERTS_H
#define POPLAR_RUNTIME_EXPERTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Shapes of a choice of experts; logits have type `type`.
typedef struct PoplarRoute {
  int64_t seq_len, num_experts, top_k;
  int32_t type;       /* PoplarType */
  int32_t normalized; /* 1: scores of a token add up to 1 */
  int32_t sigmoid;    /* 1: scores are sigmoids; 0: a softmax */
  int32_t biased;     /* 1: what is compared is a score plus a bias */
  int32_t groups;     /* experts are in as many groups, */
  int32_t top_groups; /* and chosen from as many, by their two best */
} PoplarRoute;

/// Biases are [POPLAR_BIAS_PARTS, num_experts]: sums of as many numbers, so
/// that 16 bits hold what f32 does.
#define POPLAR_BIAS_PARTS 3
#define POPLAR_MAX_EXPERT_GROUPS 32
/// Is added to sums of sigmoids that scores are divided by.
#define POPLAR_LEAST_SCORES 1e-20f

/// Shapes of a product of tokens with the weights of their experts. Rows of
/// inputs and outputs are the tokens' or, with `own_`, those of each of their
/// top_k experts.
typedef struct PoplarExperts {
  int64_t seq_len, num_experts, top_k;
  int64_t inputs, outputs; /* columns of a row */
  int32_t type;            /* PoplarType */
  int32_t transposed;      /* 1: weights are [outputs, inputs] */
  int32_t own_inputs;      /* 1: each expert has a row of its own */
  int32_t own_outputs;     /* 0: rows of a token's experts are added up */
  int64_t quantized; /* PoplarType of quantised weights; 0: they have `type` */
} PoplarExperts;

/// Chooses experts. args: logits, scores (f32), experts (i32), and a bias where
/// there is one; or dscores, scores, experts, logits, dlogits. Extent: batch *
/// seq_len.
void poplar_route(const PoplarRoute *desc, void *const *args, int64_t batch,
                  int64_t begin, int64_t end);
void poplar_route_grad(const PoplarRoute *desc, void *const *args,
                       int64_t batch, int64_t begin, int64_t end);
/// args: x, experts, result, and a weight for each expert. Extent: outputs; a
/// part owns its columns of the result.
void poplar_expert_product(const PoplarExperts *desc, void *const *args,
                           int64_t batch, int64_t begin, int64_t end);
/// args: dy, x, experts, and a gradient (f32) [outputs, inputs] for each
/// expert, which is added to. Extent: outputs; a part owns its rows of the
/// gradients.
void poplar_expert_weight_grad(const PoplarExperts *desc, void *const *args,
                               int64_t batch, int64_t begin, int64_t end);

//===----------------------------------------------------------------------===//
// On GPUs
//===----------------------------------------------------------------------===//

/// The kernels of runtime/kernels/gpu/ take the same arguments. Routes take a
/// warp per token. Blocks of products are one expert and one tile of columns of
/// the result, or of rows of the gradient; those on tensor cores (`MMA`) take
/// bf16 or f16, and inputs and outputs that are multiples of 8.
#define POPLAR_GPU_EXPERT_WARPS 8
#define POPLAR_GPU_EXPERT_COLUMNS 128
#define POPLAR_GPU_EXPERT_GRAD_ROWS 64
#define POPLAR_GPU_EXPERT_MMA_COLUMNS 64
#define POPLAR_GPU_EXPERT_MMA_GRAD_ROWS 128

/// Where the rows of a token's experts are added up, each launch takes one of
/// them, so that none adds to what another does.
typedef struct PoplarGPUExperts {
  PoplarExperts shapes;
  int32_t
      taken;    /* of a token's experts, from where args point to: 1 or top_k */
  int32_t adds; /* 1: results are added to what is there */
} PoplarGPUExperts;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // POPLAR_RUNTIME_EXPERTS_H
