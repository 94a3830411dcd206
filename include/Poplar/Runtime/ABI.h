//===- ABI.h - Where generated code and the runtime meet ----------*- C -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The header that the compiler (lib/) and the runtime (runtime/) meet in. A
// program is a shared object of generated code, which defines `poplar_program`.
// The runtime is an executable, which loads it and exports the `poplar_rt_*`
// functions below.
//
// Memory. A rank owns one arena, allocated once. It starts with the fixed
// region (whole copies of buckets, transient buckets, library scratch;
// `fixed_bytes`), then comes the batch region, in which every buffer scales
// with the micro-batch, then the rank's shards, whose sizes differ from rank to
// rank and which generated code never touches:
//   fixed buffer at `offset`:  arena + offset
//   batch buffer at `offset`:  arena + fixed_bytes + batch * offset
//   peak_bytes(rank, batch) = fixed_bytes + batch * bytes_per_sample
//                             + shard_bytes(rank)
// All offsets and per-sample sizes are multiples of POPLAR_ALIGNMENT.
//
// Pipeline stages. A rank of one runs turns (PoplarPipeline), each on the
// memory that its micro-batch has in a chunk: a slot, one of `in_flight`, with
// the inputs and what the backward pass needs; and buffers of messages. There
// are in_flight + 1 of those that are read until the backward pass (activations
// received; those sent, if `keeps_sent`), POPLAR_MESSAGE_BUFFERS of others;
// never more than micro-batches. All lie behind the shards, chunk by chunk, and
// each has room for the largest micro-batch:
//   peak_bytes(rank, batch) += batch * sum over chunks of (
//                              in_flight * slot_bytes
//                              + sum of count * message_bytes, rounded up)
//
// State. Parameters lie in buckets, flat arrays of `elements` elements in which
// gaps between parameters stay 0. The shard of a bucket of rank r of a shard
// group are the elements [bounds[r], bounds[r+1]). Which of these a rank holds
// depends on the stage of ZeRO of the bucket, if the rank is one of those that
// hold it (world_size > 1; otherwise everything is whole):
//                     stage 0   stage 1   stage 2   stage 3
//   working copy      whole     whole     whole     shard
//   gradient, f32     whole     whole     shard     shard
//   master, moments   whole     shard     shard     shard
// A working copy in f32 is the master as well, unless the bucket says
// otherwise. Of a frozen bucket there is nothing but the working copy. Its
// parameters may be quantised (Runtime/Quantized.h): the elements of such a
// bucket are bytes.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ABI_H
#define POPLAR_RUNTIME_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define POPLAR_ABI_MAGIC 0x524C504Fu /* "OPLR" */
#define POPLAR_ABI_VERSION 17u
#define POPLAR_ALIGNMENT 64

/// Element types, also of GEMM operands. Bytes are those of quantised matrices,
/// which a GEMM may have as its second operand; see Runtime/Quantized.h.
enum PoplarType {
  POPLAR_F32 = 0,
  POPLAR_BF16 = 1,
  POPLAR_F16 = 2,
  POPLAR_BYTES = 7,
  POPLAR_NF4 = 8,
  POPLAR_NF4_DOUBLE = 9,
  POPLAR_INT8 = 10
};

/// Normal and uniform numbers have the mean 0 and a given standard deviation;
/// a logarithm is of a number that is uniform in (0.01, 16).
enum PoplarInit {
  POPLAR_NORMAL = 0,
  POPLAR_ZEROS = 1,
  POPLAR_ONES = 2,
  POPLAR_UNIFORM = 3,
  POPLAR_LOG_UNIFORM = 4
};

enum PoplarCollectiveKind {
  POPLAR_ALL_GATHER = 0,
  POPLAR_REDUCE_SCATTER = 1,
  POPLAR_ALL_REDUCE = 2
};

/// On the wire only: blocks of int8, see docs/lossy-wires.md.
enum PoplarWire { POPLAR_I8 = 3 };

/// A collective of generated code; there is one of each `id`.
typedef struct PoplarCollective {
  int64_t id;
  int32_t kind; /* PoplarCollectiveKind */
  int32_t bucket;
  int32_t wire_type; /* PoplarType, or POPLAR_I8; of a reduction, anything but
                        POPLAR_F32 has error feedback */
  /* 1: the buffer given is transient (gathered parameters of stage 3; the
     gradients of a micro-step, whose sum is added to the shard). 0: it is the
     bucket's whole copy, or null in an all-reduce of shards of gradients, among
     the ranks in one place of all shard groups. */
  int32_t transient;
} PoplarCollective;

/// What ranks that share units exchange inside of a unit. Bounds are over the T
/// tokens of a sample: rank p has B * (bounds[p+1] - bounds[p]) of the B * T
/// tokens of a micro-batch, from B * bounds[p] on.
enum PoplarExchangeKind {
  /* own tokens -> all tokens */
  POPLAR_GATHER_TOKENS = 0,
  /* all tokens -> own tokens from each rank, one buffer for each */
  POPLAR_SCATTER_TOKENS = 1,
  /* a value -> that of each rank, one buffer for each */
  POPLAR_COLLECT = 2
};

#define POPLAR_MAX_SHARERS 16
#define POPLAR_MAX_PIECES 8
typedef struct PoplarExchange {
  int32_t kind;  /* PoplarExchangeKind */
  int32_t count; /* of ranks */
  /* Piece i of P, of a rank's n tokens: from n * i / P to n * (i + 1) / P */
  int64_t pieces;
  int64_t row_bytes; /* of a token; of a sample in POPLAR_COLLECT */
  int64_t bounds[POPLAR_MAX_SHARERS + 1];
} PoplarExchange;

/// What a GEMM does with a value before it stores it. GELU is that by tanh:
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
enum PoplarEpilogue {
  POPLAR_STORE = 0,
  POPLAR_GELU = 1,      /* C = gelu(..) */
  POPLAR_GELU_AUX = 2,  /* the same, and what GELU is given goes to aux */
  POPLAR_GELU_GRAD = 3, /* C = .. gelu'(aux) */
  /* aux, in f32, += the sums of op(A)'s rows, m of them, or of op(B)'s columns,
     n of them */
  POPLAR_BIAS_GRAD_A = 4,
  POPLAR_BIAS_GRAD_B = 5
};

/// Rows of what libraries multiply on a GPU begin at multiples of this: where
/// they do not, cuBLASLt has slow kernels alone.
#define POPLAR_ROW_BYTES 16

/// C[m,n] = op(A)[m,k] op(B)[k,n] (+ bias[n]) (+ C if accumulate); all row
/// major, and dense but for `a_row` and `c_row`. A is [m,k], or [k,m] if
/// trans_a; B is [k,n], or [n,k] if trans_b. One of m and k may be per sample:
/// it is multiplied by the batch.
typedef struct PoplarGemm {
  int64_t m, n, k;
  int32_t batched; /* 0: none, 1: m, 2: k */
  int32_t trans_a, trans_b, accumulate, has_bias;
  int32_t a_type, b_type, c_type; /* PoplarType; bias and aux have c_type,
                                     which is f32 where aux is added to. A
                                     quantised B is the matrix as it is stored,
                                     [n,k] if trans_b */
  int32_t epilogue;               /* PoplarEpilogue; GPUs only */
  int32_t tf32; /* 1: f32 operands are rounded to TF32 (10 bits of fraction) */
  /* Elements from one row of A, and of C, to the next, at multiples of
     POPLAR_ROW_BYTES; 0 where rows are dense. GPUs only, without a bias or an
     epilogue, and of one of the two */
  int64_t a_row, c_row;
  /* 1: operands are rounded to 8 bits, see Runtime/FP8.h. One sample has `m`
     rows, and the epilogue is none or GELU's */
  int32_t fp8;
} PoplarGemm;

/// Shapes of an attention op, all compile-time constants in generated code.
/// Strides and offsets are in elements, of rows (tokens) of q, k, v, out; a
/// packed QKV operand has one pointer for all three and nonzero offsets.
typedef struct PoplarAttention {
  int64_t seq_len, num_heads, num_kv_heads, head_dim;
  int64_t q_stride, k_stride, v_stride, out_stride;
  int64_t q_offset, k_offset, v_offset;
  int64_t window;     /* 0: unlimited */
  int64_t op_id;      /* of the dropout mask */
  int64_t first_head; /* among those that devices share, for the same mask */
  double scale, dropout;
  double cap; /* scores become cap tanh(score / cap); 0: they do not */
  int32_t causal, type; /* PoplarType */
  int64_t documents;    /* 1: documents share samples, see `positions` */
} PoplarAttention;

/// The same of attention of `tokens` new tokens of each sample over caches of
/// seq_len positions, a multiple of POPLAR_CACHE_BLOCK. In a cache lie, by
/// sample and key-value head, keys [seq_len / POPLAR_CACHE_BLOCK, head_dim,
/// POPLAR_CACHE_BLOCK] or values [seq_len, head_dim].
#define POPLAR_CACHE_BLOCK 16
typedef struct PoplarCachedAttention {
  PoplarAttention attention;
  int64_t tokens;
  int64_t sinks; /* 1: there are sinks */
} PoplarCachedAttention;

/// Attention that a library of the machine may compute, as cuDNN on GPUs, and
/// the kernels of the image that compute it otherwise: forward, or those of the
/// gradients of queries and of keys and values.
typedef struct PoplarLibraryAttention {
  PoplarAttention attention;
  int64_t gradient;   /* 1: the gradient, else forward */
  int64_t kernels[2]; /* by number */
  int64_t parts[2];   /* of a kernel's extent, for each sample */
  int64_t workspace; /* bytes of delta for each sample: memory that the gradient
                        works in */
} PoplarLibraryAttention;

/// Shapes of the gradient of an embedding; dy has type `type`.
typedef struct PoplarEmbeddingGrad {
  int64_t seq_len, width;
  int32_t type;        /* PoplarType */
  int32_t padding_idx; /* the row that gets no gradient, -1 if none */
  /* Of a table that devices share: the first of the rows that are here, and how
     many of them; ids of others are skipped. 0 and 0 of a whole table. */
  int64_t first_row, rows;
} PoplarEmbeddingGrad;

/// A generated kernel: does the part [begin, end) of its `extent`.
typedef void (*PoplarKernel)(void *const *args, int64_t batch, int64_t begin,
                             int64_t end);

/// Kernels that are linked into generated code as bitcode and specialised
/// there for constant descriptors (kernels.bc). Head dimensions up to
/// POPLAR_MAX_HEAD_DIM, types f32 and bf16.
///
/// Forward. args: q, k, v, keys, positions, out, lse; k and v equal q when it
/// is one operand, keys is null without dropout, positions (i32 [B,T]) where a
/// sample is one document. Extent:
/// batch * num_heads * ceil(seq_len / POPLAR_ATTENTION_BLOCK).
#define POPLAR_ATTENTION_BLOCK 64
#define POPLAR_MAX_HEAD_DIM 256
void poplar_attention_forward(const PoplarAttention *desc, void *const *args,
                              int64_t batch, int64_t begin, int64_t end);
/// Backward. args: dy, out, lse, q, k, v, keys, positions, dq, dk, dv; the
/// gradients lie as q, k and v do. Extent: batch * num_kv_heads.
void poplar_attention_backward(const PoplarAttention *desc, void *const *args,
                               int64_t batch, int64_t begin, int64_t end);
/// Adds a score of each head, its sink, to the rows of scores that out and lse
/// were computed of. args: out, lse, sinks. Extent: batch * seq_len.
void poplar_attention_sinks(const PoplarAttention *desc, void *const *args,
                            int64_t batch, int64_t begin, int64_t end);
/// Writes the keys and values of new tokens into caches; then attends over
/// them. args: q, k, v, positions (i32 [B,tokens]), key cache, value cache,
/// out, sinks where desc says that there are. Extents: batch * num_kv_heads;
/// that times ceil(tokens / POPLAR_CACHED_ATTENTION_BLOCK).
#define POPLAR_CACHED_ATTENTION_BLOCK 8
void poplar_append_cache(const PoplarCachedAttention *desc, void *const *args,
                         int64_t batch, int64_t begin, int64_t end);
void poplar_cached_attention(const PoplarCachedAttention *desc,
                             void *const *args, int64_t batch, int64_t begin,
                             int64_t end);
/// A product of one row for each sample, bound by the memory that B is read
/// from. args: A, B, bias (null without one), C. Extent: columns; a part owns
/// its own.
void poplar_row_product(const PoplarGemm *desc, void *const *args,
                        int64_t batch, int64_t begin, int64_t end);
/// args: dy, ids, acc (f32). Extent: width; a part owns its columns, and adds
/// the tokens in their order.
void poplar_embedding_grad(const PoplarEmbeddingGrad *desc, void *const *args,
                           int64_t batch, int64_t begin, int64_t end);

/// Kernels of every image, with pointers and batch as the others. Batch and
/// extent are the number of values.
///   poplar_sum_squares: values, sums (f64, one per POPLAR_SUM_CHUNK values)
///   poplar_scale: values, factor (f32), flag (i32, set to 1 by a product that
///     is not finite)
#define POPLAR_SUM_CHUNK 16384
#define POPLAR_SUM_SQUARES_KERNEL "poplar_sum_squares"
#define POPLAR_SCALE_KERNEL "poplar_scale"

/// One of the functions of a program: runs a micro-batch of `batch` samples.
typedef void (*PoplarFunction)(void *context, char *arena, int64_t batch);

/// Kernels that are linked into images of GPUs and specialised there
/// (kernels-nvptx.bc): poplar_gpu_NAME(descriptor, pointers..., batch).
/// Attention takes the pointers of its CPU's counterpart; but backward_q writes
/// delta (f32 [B,H,T]: dy . out of each row) in front of dq, and backward_kv
/// reads it in front of dk and takes no out. Blocks of (32, tile / 4) threads
/// have a tile of queries, or of keys (backward_kv); in embedding_grad, a
/// token. On tensor cores (poplar_gpu_attention_mma_NAME: bf16 and f16, sm_80
/// and on), heads of at most POPLAR_GPU_MMA_HEAD_DIM columns begin at multiples
/// of 16 bytes, and blocks have (32, POPLAR_GPU_MMA_WARPS) threads.
#define POPLAR_GPU_ATTENTION_TILE 32
#define POPLAR_GPU_MMA_TILE 64
#define POPLAR_GPU_MMA_WARPS 4
#define POPLAR_GPU_MMA_HEAD_DIM 128
#define POPLAR_GPU_EMBEDDING_THREADS 256
#define POPLAR_GPU_FLAT_THREADS 256

/// What a message between pipeline stages holds.
enum PoplarMessageKind { POPLAR_ACTIVATION = 0, POPLAR_GRADIENT = 1 };
#define POPLAR_MESSAGE_BUFFERS 2

/// Memory of a micro-batch in a chunk, by index of the array that a turn is
/// given.
enum PoplarPort {
  POPLAR_SLOT = 0,
  POPLAR_ACTIVATION_IN = 1,
  POPLAR_ACTIVATION_OUT = 2,
  POPLAR_GRADIENT_IN = 3,
  POPLAR_GRADIENT_OUT = 4,
  POPLAR_NUM_PORTS = 5
};

/// A pass of a micro-batch of `batch` samples through a chunk.
typedef void (*PoplarTurn)(void *context, char *arena, char *const *ports,
                           int64_t batch);

// The tables: PoplarProgram and what it points to.
#define POPLAR_STRUCT(S) typedef struct S {
#define POPLAR_FIELD(T, F) T F;
#define POPLAR_ARRAY(T, F, N) T F[N];
#define POPLAR_END(S)                                                          \
  }                                                                            \
  S;
#include "Poplar/Runtime/ABI.def"

extern const PoplarProgram poplar_program;

// What generated code calls.
#define POPLAR_ENTRY(F, ...) void F(__VA_ARGS__);
#include "Poplar/Runtime/EntryPoints.def"

/// Bytes of scratch a GEMM needs for any batch up to `max_batch` on this
/// machine with `threads` threads. Called by the compiler's memory plan, too.
int64_t poplar_gemm_scratch_bytes(const PoplarGemm *gemm, int64_t max_batch,
                                  int32_t threads);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // POPLAR_RUNTIME_ABI_H
