//===- TestProgram.cpp - A program written by hand ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestProgram.h"

#include <algorithm>
#include <cmath>

using namespace testprogram;

namespace {

constexpr int64_t V = Vocab, D = Width, T = SeqLen;

constexpr int64_t align(int64_t Bytes) {
  return (Bytes + POPLAR_ALIGNMENT - 1) / POPLAR_ALIGNMENT * POPLAR_ALIGNMENT;
}

/// Fixed region: weight and gradient of each of the two parameters, then
/// scratch.
constexpr int64_t ParameterBytes = align(V * D * 4);
constexpr int64_t Scratch = 4 * ParameterBytes, ScratchBytes = 1 << 20;
constexpr int64_t FixedBytes = Scratch + ScratchBytes;

/// Batch region, per sample.
constexpr int64_t Ids = 0, Targets = Ids + align(T * 4),
                  Keys = Targets + align(T * 4), DLoss = Keys + align(8),
                  Loss = DLoss + align(T * 4), X = Loss + align(T * 4),
                  DX = X + align(T * D * 4), Logits = DX + align(T * D * 4),
                  BytesPerSample = Logits + align(T * V * 4);

constexpr int64_t array(int64_t Parameter, int64_t Which) {
  return (2 * Parameter + Which) * ParameterBytes;
}

const PoplarParameter Parameters[] = {
    {"model.embed.weight", 2, {V, D}, V * D, 0, 0, POPLAR_NORMAL, 1, 0.1},
    {"head.weight", 2, {V, D}, V * D, 1, 0, POPLAR_NORMAL, 0, 0.1}};

const PoplarParameter OtherParameters[] = {
    Parameters[0],
    {"head.weight", 2, {V / 2, D * 2}, V * D, 1, 0, POPLAR_NORMAL, 0, 0.1}};

const int64_t Bounds[] = {0, V *D};
const PoplarBucket Buckets[] = {
    {"embed", V * D, array(0, 0), array(0, 1), Bounds},
    {"head", V * D, array(1, 0), array(1, 1), Bounds}};

// logits = X head^T; dX = dlogits head; dhead += dlogits^T X.
const PoplarGemm Forward{T, V, D, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0};
const PoplarGemm Backward{T, D, V, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
const PoplarGemm Weight{V, D, T, 2, 1, 0, 1, 0, 0, 0, 0, 0, 0};
const PoplarGemm *const Gemms[] = {&Forward, &Backward, &Weight};

template <typename Ty> Ty *batch(char *Arena, int64_t Offset, int64_t B) {
  return reinterpret_cast<Ty *>(Arena + FixedBytes + B * Offset);
}
float *fixed(char *Arena, int64_t Offset) {
  return reinterpret_cast<float *>(Arena + Offset);
}

/// args: ids, embedding, x; extent: tokens.
void embed(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  const int32_t *Tokens = static_cast<const int32_t *>(Args[0]);
  const float *Table = static_cast<const float *>(Args[1]);
  float *Out = static_cast<float *>(Args[2]);
  for (int64_t I = Begin; I < End; ++I)
    std::copy_n(Table + Tokens[I] * D, D, Out + I * D);
}

/// args: logits, targets, loss, dloss or null; extent: tokens. With dloss the
/// logits become their gradient.
void crossEntropy(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  const int32_t *Wanted = static_cast<const int32_t *>(Args[1]);
  for (int64_t I = Begin; I < End; ++I) {
    float *Row = static_cast<float *>(Args[0]) + I * V;
    float Max = *std::max_element(Row, Row + V), Sum = 0;
    for (int64_t J = 0; J < V; ++J)
      Sum += std::exp(Row[J] - Max);
    bool Counts = Wanted[I] != -1;
    static_cast<float *>(Args[2])[I] =
        Counts ? Max + std::log(Sum) - Row[Wanted[I]] : 0;
    if (!Args[3])
      continue;
    float Scale = Counts ? static_cast<const float *>(Args[3])[I] : 0;
    for (int64_t J = 0; J < V; ++J)
      Row[J] = Scale *
               (std::exp(Row[J] - Max) / Sum - (J == Wanted[I] ? 1.0f : 0.0f));
  }
}

/// args: ids, dx, gradient; extent: columns, so that no two threads add to the
/// same element.
void embedBackward(void *const *Args, int64_t B, int64_t Begin, int64_t End) {
  const int32_t *Tokens = static_cast<const int32_t *>(Args[0]);
  const float *Cotangent = static_cast<const float *>(Args[1]);
  float *Gradient = static_cast<float *>(Args[2]);
  for (int64_t I = 0; I < B * T; ++I)
    for (int64_t J = Begin; J < End; ++J)
      Gradient[Tokens[I] * D + J] += Cotangent[I * D + J];
}

void forward(void *Context, char *Arena, int64_t B) {
  void *Args[] = {batch<void>(Arena, Ids, B), fixed(Arena, array(0, 0)),
                  batch<void>(Arena, X, B)};
  poplar_rt_dispatch(Context, embed, Args, B, B * T, 4);
  poplar_rt_gemm(Context, &Forward, Args[2], fixed(Arena, array(1, 0)), nullptr,
                 nullptr, batch<void>(Arena, Logits, B), B);
}

void loss(void *Context, char *Arena, int64_t B, bool Gradient) {
  void *Args[] = {batch<void>(Arena, Logits, B), batch<void>(Arena, Targets, B),
                  batch<void>(Arena, Loss, B),
                  Gradient ? batch<void>(Arena, DLoss, B) : nullptr};
  poplar_rt_dispatch(Context, crossEntropy, Args, B, B * T, 1);
}

void evaluate(void *Context, char *Arena, int64_t B) {
  forward(Context, Arena, B);
  loss(Context, Arena, B, false);
}

void train(void *Context, char *Arena, int64_t B) {
  forward(Context, Arena, B);
  loss(Context, Arena, B, true);
  void *DLogits = batch<void>(Arena, Logits, B);
  poplar_rt_gemm(Context, &Weight, DLogits, batch<void>(Arena, X, B), nullptr,
                 nullptr, fixed(Arena, array(1, 1)), B);
  poplar_rt_gemm(Context, &Backward, DLogits, fixed(Arena, array(1, 0)),
                 nullptr, nullptr, batch<void>(Arena, DX, B), B);
  void *Args[] = {batch<void>(Arena, Ids, B), batch<void>(Arena, DX, B),
                  fixed(Arena, array(0, 1))};
  poplar_rt_dispatch(Context, embedBackward, Args, B, D, 4);
}

void update(void *Context, char *, int64_t) {
  poplar_rt_norm(Context, 0);
  poplar_rt_adamw(Context, 0);
  poplar_rt_adamw(Context, 1);
}

void adamw(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  float *P = static_cast<float *>(Args[0]);
  const float *G = static_cast<const float *>(Args[1]);
  float *M = static_cast<float *>(Args[2]), *S = static_cast<float *>(Args[3]);
  const float *H = static_cast<const float *>(Args[4]);
  for (int64_t I = Begin; I < End; ++I) {
    float Gradient = G[I] * H[7];
    M[I] = H[1] * M[I] + (1 - H[1]) * Gradient;
    S[I] = H[2] * S[I] + (1 - H[2]) * Gradient * Gradient;
    P[I] = P[I] * (1 - H[0] * H[4]) -
           H[0] * (M[I] / H[5]) / (std::sqrt(S[I] / H[6]) + H[3]);
  }
}

PoplarProgram makeProgram(const PoplarModel &Model,
                          const PoplarParameter *Parameters) {
  PoplarProgram P{};
  P.magic = POPLAR_ABI_MAGIC;
  P.version = POPLAR_ABI_VERSION;
  P.model = &Model;
  P.device_type = "host";
  P.precision = "f32";
  P.isa = P.instructions = "";
  P.world_size = 1;
  P.replicas = 1;
  P.fixed_bytes = FixedBytes;
  P.bytes_per_sample = BytesPerSample;
  P.scratch_offset = Scratch;
  P.scratch_bytes = ScratchBytes;
  P.ids = Ids;
  P.targets = Targets;
  P.keys = Keys;
  P.dloss = DLoss;
  P.train_loss = P.train_last_loss = P.evaluate_loss = Loss;
  P.logits = Logits;
  P.num_parameters = 2;
  P.parameters = Parameters;
  P.num_buckets = 2;
  P.buckets = Buckets;
  P.num_gemms = 3;
  P.gemms = Gemms;
  P.flops_per_sample = 6.0 * T * D * V;
  P.train = P.train_last = train;
  P.update = update;
  P.evaluate = evaluate;
  P.infer = forward;
  P.adamw = adamw;
  return P;
}

constexpr PoplarModel makeModel(const char *Config) {
  PoplarModel M{};
  M.architecture = "bigram";
  M.config = Config;
  M.config_facts = M.weights_path = M.tokenizer = M.tokenizer_hash = "";
  M.vocab_size = M.logits_columns = V;
  M.seq_len = T;
  M.num_elements = 2 * V * D;
  M.lossy_parameters = M.mask_token = -1;
  M.lora_targets = "";
  return M;
}

constexpr PoplarModel makeMaskedModel() {
  PoplarModel M = makeModel("{}");
  M.masked = 1;
  M.mask_token = 255;
  return M;
}

const PoplarModel Causal = makeModel(R"({"model_type": "bigram"})");
const PoplarModel Masked = makeMaskedModel();

} // namespace

const PoplarProgram testprogram::Program = makeProgram(Causal, Parameters);
const PoplarProgram testprogram::MaskedProgram =
    makeProgram(Masked, Parameters);
const PoplarProgram testprogram::OtherProgram =
    makeProgram(Causal, OtherParameters);
