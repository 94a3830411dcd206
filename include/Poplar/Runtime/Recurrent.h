//===- Recurrent.h - Kernels of linear attention ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between generated code and the kernel libraries alone, which are built
// together (ABI.h, PoplarKernel). Dialect/NN/NNRecurrentOps.td says what they
// compute. On a GPU, poplar_gpu_NAME takes the same pointers.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_RECURRENT_H
#define POPLAR_RUNTIME_RECURRENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Where tokens are in their documents (i32 [B,T]), if `positions` is not null
/// in the arguments.
enum PoplarTokens {
  /* A sample is one document. */
  POPLAR_ONE_DOCUMENT = 0,
  /* Position 0 begins a document. */
  POPLAR_DOCUMENTS = 1,
  /* New tokens of a text: a cache holds what came before, unless the first
     position is 0, and what comes is put there. A token at the position of the
     one before it is that token again. */
  POPLAR_NEW_TOKENS = 2
};

/// Shapes of a depthwise causal convolution of x [B,seq_len,channels] with
/// [channels,width].
#define POPLAR_MAX_CONV_WIDTH 16
typedef struct PoplarCausalConv {
  int64_t seq_len, channels, width;
  int32_t type;   /* PoplarType */
  int32_t tokens; /* PoplarTokens */
} PoplarCausalConv;

/// Channels that a part of a call has.
#define POPLAR_CONV_CHANNELS 16

/// args: x, weight, positions, cache [B,width-1,channels] (null without one),
/// result. Extent: batch * ceil(channels / POPLAR_CONV_CHANNELS).
void poplar_causal_conv(const PoplarCausalConv *desc, void *const *args,
                        int64_t batch, int64_t begin, int64_t end);
/// args: dy, weight, positions, dx. The same extent.
void poplar_causal_conv_grad(const PoplarCausalConv *desc, void *const *args,
                             int64_t batch, int64_t begin, int64_t end);
/// args: dy, x, positions, acc (f32), which is added to. Extent:
/// ceil(channels / POPLAR_CONV_CHANNELS).
void poplar_causal_conv_grad_weight(const PoplarCausalConv *desc,
                                    void *const *args, int64_t batch,
                                    int64_t begin, int64_t end);

/// Shapes of the gated delta rule; x, a, b, a_log, dt_bias and the result have
/// type `type`.
#define POPLAR_MAX_DELTA_DIM 128
typedef struct PoplarGatedDelta {
  int64_t seq_len, key_heads, value_heads, key_dim, value_dim;
  int32_t type;   /* PoplarType */
  int32_t tokens; /* PoplarTokens */
} PoplarGatedDelta;

/// args: x, a, b, a_log, dt_bias, positions, state [B,value_heads,key_dim,
/// value_dim] (f32; null without one), result. Extent: batch * value_heads.
void poplar_gated_delta(const PoplarGatedDelta *desc, void *const *args,
                        int64_t batch, int64_t begin, int64_t end);
/// args: dy, x, a, b, a_log, dt_bias, positions, dx, da, db, dlog (f32),
/// scratch (f32). Extent: batch * value_heads. Writes the values' part of dx,
/// and leaves the gradients of queries and keys of each value head in scratch.
void poplar_gated_delta_grad(const PoplarGatedDelta *desc, void *const *args,
                             int64_t batch, int64_t begin, int64_t end);
/// Adds them up for each key head, through the norms. args: x, dx, scratch.
/// Extent: batch * seq_len.
void poplar_gated_delta_grad_keys(const PoplarGatedDelta *desc,
                                  void *const *args, int64_t batch,
                                  int64_t begin, int64_t end);

#ifdef __cplusplus
} // extern "C"
#endif

/// The backward pass goes through chunks of so many tokens, about
/// sqrt(seq_len): it keeps the states at their beginnings, and those of one
/// chunk.
static inline __attribute__((always_inline)) int64_t
poplar_delta_chunk(int64_t seq_len) {
  int64_t chunk = 1;
  while (chunk * chunk < seq_len)
    ++chunk;
  return chunk;
}

/// Floats of a row of a state in scratch: values, and room to a power of two.
static inline __attribute__((always_inline)) int64_t
poplar_delta_width(int64_t value_dim) {
  return value_dim <= 16   ? 16
         : value_dim <= 32 ? 32
         : value_dim <= 64 ? 64
                           : 128;
}
static inline __attribute__((always_inline)) int64_t
poplar_delta_state(const PoplarGatedDelta *desc) {
  return desc->key_dim * poplar_delta_width(desc->value_dim);
}

/// Floats of scratch of a value head: states, then the gradients of queries and
/// of keys of each token, [seq_len,2,key_dim].
static inline __attribute__((always_inline)) int64_t
poplar_delta_head_states(const PoplarGatedDelta *desc) {
  int64_t chunk = poplar_delta_chunk(desc->seq_len),
          chunks = (desc->seq_len + chunk - 1) / chunk;
  return (chunks + chunk) * poplar_delta_state(desc);
}
static inline __attribute__((always_inline)) int64_t
poplar_delta_head_scratch(const PoplarGatedDelta *desc) {
  return poplar_delta_head_states(desc) + desc->seq_len * 2 * desc->key_dim;
}
/// Floats of scratch of a sample.
static inline __attribute__((always_inline)) int64_t
poplar_delta_scratch(const PoplarGatedDelta *desc) {
  return desc->value_heads * poplar_delta_head_scratch(desc);
}

//===----------------------------------------------------------------------===//
// On GPUs
//===----------------------------------------------------------------------===//

/// A block of the delta rule is a sample and a value head; each warp owns some
/// columns of the state, and a lane its rows lane, lane + 32, ...; in
/// gated_delta_grad_keys a block is a token. A block of convolutions is a
/// token and POPLAR_GPU_CONV_THREADS channels, or those channels of all tokens
/// (causal_conv_cached, and causal_conv_grad_weight, of all samples, too).
#define POPLAR_GPU_DELTA_WARPS 8
#define POPLAR_GPU_CONV_THREADS 128

#endif // POPLAR_RUNTIME_RECURRENT_H
