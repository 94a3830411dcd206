//===- LibraryCases.cpp - Cases of the GPU kernels written by hand --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What they should compute is what the kernels of CPUs do in f32, which have
// tests of their own against their definition, rounded to the case's format.
//
//===----------------------------------------------------------------------===//

#include "KernelCases.h"
#include "Poplar/Runtime/Experts.h"
#include <numeric>

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

namespace {

struct Attention {
  const char *name;
  int64_t length, heads, kvHeads, dim;
  bool causal, packed;
  int64_t window;
  double dropout;
  /// Also in formats of 16 bits.
  bool halves = false;
  double cap = 0;
  /// How long the documents are that share a sample; the next sample has them
  /// in the opposite order.
  std::vector<int64_t> documents = {};
};

const Attention attentions[] = {
    {"causal", 70, 2, 2, 64, true, false, 0, 0, true},
    {"full", 64, 2, 2, 32, false, false, 0, 0},
    {"tiny", 5, 2, 2, 8, true, false, 0, 0},
    {"ragged", 50, 3, 3, 20, false, false, 0, 0, true},
    {"packed", 40, 2, 2, 16, true, true, 0, 0},
    {"grouped, packed", 65, 4, 1, 32, true, true, 0, 0, true},
    {"window", 100, 2, 1, 16, true, false, 40, 0},
    {"narrow window", 100, 1, 1, 16, true, false, 3, 0},
    {"open window", 80, 1, 1, 16, false, false, 20, 0},
    {"dropout", 45, 2, 2, 16, true, false, 0, 0.25},
    {"several tiles", 150, 1, 1, 64, true, false, 0, 0, true},
    {"wide", 40, 1, 1, 128, true, false, 0, 0},
    {"widest", 40, 1, 1, 256, true, false, 0, 0},
    {"oddly wide", 33, 1, 1, 100, true, false, 0, 0, true},
    {"everything", 70, 4, 2, 24, true, true, 33, 0.1, true},
    {"cap", 70, 4, 2, 32, true, false, 33, 0, true, 0.7},
    {"documents",
     150,
     2,
     1,
     32,
     true,
     false,
     0,
     0,
     true,
     0,
     {31, 70, 1, 1, 47}},
    {"documents, window",
     150,
     2,
     1,
     80,
     true,
     true,
     20,
     0.1,
     true,
     0,
     {64, 86}},
    {"cap, widest", 40, 2, 1, 256, true, false, 0, 0, true, 5},
};

/// The shapes of models: widths of heads, long rows, tails of tiles.
const Attention wideAttentions[] = {
    {"wide 64", 1024, 1, 1, 64, true, false, 0, 0, true},
    {"wide 80, window", 700, 1, 1, 80, true, false, 256, 0, true},
    {"wide 96, grouped, dropout", 333, 2, 1, 96, true, false, 0, 0.1, true},
    {"wide 128, grouped, packed", 520, 4, 1, 128, true, true, 0, 0, true},
    {"wide 64, documents",
     700,
     1,
     1,
     64,
     true,
     false,
     0,
     0,
     true,
     0,
     {200, 63, 300, 1, 136}},
    {"wide 256", 257, 1, 1, 256, true, false, 0, 0, true},
};

struct CachedAttention {
  const char *name;
  int64_t room, tokens, first, heads, kvHeads, dim, window;
  double cap = 0;
  bool hasSinks = false;
};

/// One token, and prompts the last of whose tokens come twice.
const CachedAttention cachedAttentions[] = {
    {"decode", 48, 1, 40, 4, 2, 64, 0},
    {"decode, first", 16, 1, 0, 2, 2, 20, 0},
    {"decode, sinks", 48, 1, 40, 4, 2, 64, 0, 0, true},
    {"decode, window, cap", 96, 1, 90, 4, 1, 128, 33, 5},
    {"prefill", 64, 12, 37, 2, 1, 32, 0},
    {"prefill, widest", 32, 5, 0, 1, 1, 256, 3},
};

struct Experts {
  const char *name;
  int64_t length, experts, topK, inputs, outputs;
  bool transposed, ownInputs, ownOutputs;
  /// Also in formats of 16 bits.
  bool halves = false;
  /// Every token goes to the first expert, too.
  bool crowded = false;
};

/// Rows are own where a launch takes all experts of a token; the last expert
/// gets no token.
const Experts expertProducts[] = {
    {"up", 17, 4, 2, 40, 136, true, false, true, true},
    {"up, backward", 17, 4, 2, 72, 40, false, true, false, true},
    {"down", 20, 4, 2, 40, 24, true, true, false},
    {"down, backward", 15, 10, 8, 24, 32, false, false, true},
    {"odd", 19, 3, 2, 21, 35, true, false, true, true},
    {"odd, backward", 9, 3, 1, 35, 133, false, true, true},
    {"one token", 1, 8, 2, 32, 64, true, false, true},
    {"many slots", 800, 3, 2, 8, 8, true, false, true, true, true},
};

struct Route {
  const char *name;
  int64_t length, experts, topK;
  bool normalized;
  bool sigmoid = false, biased = false;
  int32_t groups = 1, topGroups = 1;
};
const Route routes[] = {
    {"few", 21, 4, 2, true},
    {"many", 13, 100, 8, false},
    {"one", 5, 33, 1, false},
    {"normalized", 13, 64, 6, true},
    {"sigmoid", 13, 48, 4, false, true},
    {"biased softmax", 13, 40, 5, true, false, true},
    {"biased sigmoid", 11, 96, 8, true, true, true},
    {"groups", 9, 64, 8, true, true, true, 8, 4},
    {"many groups", 5, 96, 3, false, true, true, 32, 2},
};

PoplarAttention describe(const Attention &test, int32_t type) {
  PoplarAttention desc = {};
  int64_t H = test.heads, K = test.kvHeads, d = test.dim;
  desc.seq_len = test.length, desc.num_heads = H, desc.num_kv_heads = K;
  desc.head_dim = d, desc.out_stride = H * d, desc.window = test.window;
  desc.op_id = 5, desc.scale = 1.3 / std::sqrt(double(d));
  desc.dropout = test.dropout, desc.causal = test.causal, desc.cap = test.cap;
  desc.type = type;
  desc.documents = !test.documents.empty();
  desc.q_stride = test.packed ? (H + 2 * K) * d : H * d;
  desc.k_stride = desc.v_stride = test.packed ? (H + 2 * K) * d : K * d;
  desc.k_offset = test.packed ? H * d : 0;
  desc.v_offset = test.packed ? (H + K) * d : 0;
  return desc;
}

PoplarExperts describe(const Experts &test, int32_t type) {
  return {test.length,     test.experts,   test.topK,
          test.inputs,     test.outputs,   type,
          test.transposed, test.ownInputs, test.ownOutputs};
}

class LibraryCases {
public:
  LibraryCases(MLIRContext &context, const GPUChip &chip,
               std::vector<GPUKernel> &table, KernelCases &cases)
      : chip(chip), table(table), cases(cases), f32(Float32Type::get(&context)),
        f64(Float64Type::get(&context)), i32(IntegerType::get(&context, 32)),
        formats{f32, BFloat16Type::get(&context), Float16Type::get(&context)} {}

  void addAttention(const Attention &test, int32_t type);
  void addEmbedding(int32_t type, int64_t width = 300, int64_t batch = 60,
                    int64_t vocabulary = 40);
  void addCachedAttention(const CachedAttention &test, int32_t type);
  void addExpertProduct(const Experts &test, int32_t type);
  void addExpertGradient(const Experts &test, int32_t type);
  void addRoute(const Route &test, int32_t type);
  void addSinks(int32_t type);
  void addSumOfSquares();
  void addStates();
  void addScale(float last);

private:
  /// Numbers have few bits, as have sums of their products: files of them are
  /// small.
  Buffer eighths(Type type, int64_t count, float factor = 1) {
    Buffer buffer(type, count);
    std::uniform_int_distribution<int> numbers(-8, 8);
    for (size_t i = 0; i < buffer.size(); ++i)
      buffer.set(i, factor * float(numbers(random)) / 8);
    return buffer;
  }
  /// In the case's format, and then in f32 for the host. Of a few bits, or of
  /// more than TF32 keeps.
  Buffer attended(int32_t type, int64_t count, bool few) {
    return (few ? eighths(formats[type], count, /*factor=*/2)
                : normal(formats[type], count))
        .as(f32);
  }
  Buffer choose(const Experts &test, int64_t tokens);
  /// Adds a case of a kernel whose threads are warps of experts.
  void addExperts(KernelCase entry, const std::string &callee, const char *name,
                  int32_t type, exec::RecordAttr descriptor, int64_t extent,
                  int64_t partsPerBlock = 1);

  Buffer normal(Type type, int64_t count) {
    Buffer buffer(type, count);
    std::normal_distribution<float> numbers;
    for (size_t i = 0; i < buffer.size(); ++i)
      buffer.set(i, shorten(numbers(random)));
    return buffer;
  }
  template <typename Descriptor>
  exec::RecordAttr makeRecord(const Descriptor &descriptor) {
    return exec::makeRecord(f32.getContext(), descriptor);
  }
  std::string specialise(const std::string &callee, exec::RecordAttr descriptor,
                         std::array<int32_t, 3> block, int32_t pointers) {
    std::string name = callee + "_" + std::to_string(table.size());
    table.push_back({name, block, pointers, 1, callee, descriptor});
    return name;
  }

  const GPUChip &chip;
  std::vector<GPUKernel> &table;
  KernelCases &cases;
  Type f32, f64, i32, formats[3];
  std::mt19937 random{7};
};

const char *const formatNames[] = {"f32", "bf16", "f16"};

} // namespace

void LibraryCases::addAttention(const Attention &test, int32_t type) {
  PoplarAttention desc = describe(test, type), exact = desc;
  exact.type = POPLAR_F32;
  const int64_t batch = 2, rows = batch * test.length, H = test.heads,
                K = test.kvHeads, d = test.dim;
  // In 16 bits, products of the inputs are exact anyway.
  bool few = type != POPLAR_F32 || test.halves;
  auto input = [&](int64_t count) { return attended(type, count, few); };
  Buffer q = input(rows * desc.q_stride), dy = input(rows * H * d);
  Buffer k = test.packed ? q : input(rows * desc.k_stride);
  Buffer v = test.packed ? q : input(rows * desc.v_stride);
  Buffer keys = normal(f32, 2 * batch); // their bits do not matter
  Buffer positions(i32, rows);
  std::vector<int64_t> lengths = test.documents;
  for (int64_t b = 0, row = 0; b < batch && !lengths.empty(); ++b) {
    for (int64_t length : lengths)
      for (int64_t i = 0; i < length; ++i)
        positions.setBits(size_t(row++), uint64_t(i));
    std::reverse(lengths.begin(), lengths.end());
  }
  Buffer out(f32, rows * H * d), lse(f32, rows * H);
  void *forward[] = {q.data(),         k.data(),   v.data(),  keys.data(),
                     positions.data(), out.data(), lse.data()};
  poplar_attention_forward(
      &exact, forward, batch, 0,
      batch * H * ((test.length - 1) / POPLAR_ATTENTION_BLOCK + 1));
  // The backward pass is given what the forward pass has rounded.
  Buffer rounded = out.as(formats[type]), given = rounded.as(f32);
  Buffer dq(f32, rows * desc.q_stride), dk(f32, rows * desc.k_stride),
      dv(f32, rows * desc.v_stride);
  void *backward[] = {dy.data(),
                      given.data(),
                      lse.data(),
                      q.data(),
                      k.data(),
                      v.data(),
                      keys.data(),
                      positions.data(),
                      dq.data(),
                      test.packed ? dq.data() : dk.data(),
                      test.packed ? dq.data() : dv.data()};
  poplar_attention_backward(&exact, backward, batch, 0, batch * K);

  std::vector<Buffer> inputs;
  for (Buffer *buffer : {&q, &k, &v, &dy})
    inputs.push_back(buffer->as(formats[type]));
  GPUAttention chosen = chooseGPUAttention(desc, chip.getCapability());
  int64_t tiles = chosen.getTiles(desc);
  KernelCase entry;
  entry.batch = batch;
  entry.tolerance = type == POPLAR_F32 ? 2e-6 : 1e-2;
  auto add = [&](const char *what, int64_t heads, std::vector<Buffer> buffers,
                 std::vector<int> pointers,
                 std::vector<std::pair<int, const Buffer *>> results) {
    std::string callee = chosen.stem + what;
    entry.name =
        std::string(formatNames[type]) + " " + callee + ": " + test.name;
    entry.kernel = specialise(callee, makeRecord(desc), chosen.block,
                              static_cast<int32_t>(pointers.size()));
    entry.extent = batch * heads * tiles;
    entry.pointers = std::move(pointers);
    entry.before = entry.after = std::move(buffers);
    for (auto [index, result] : results) {
      Buffer &place = entry.after[static_cast<size_t>(index)];
      place = result->as(place.element);
    }
    cases.add(entry);
  };
  auto empty = [&](const Buffer &like) {
    return Buffer(formats[type], static_cast<int64_t>(like.size()));
  };
  add("forward", H,
      {inputs[0], inputs[1], inputs[2], keys, positions, empty(out),
       Buffer(f32, rows * H)},
      {0, test.packed ? 0 : 1, test.packed ? 0 : 2, 3, 4, 5, 6},
      {{5, &out}, {6, &lse}});
  // Packed gradients lie in one array, of which a kernel writes a part.
  auto keepPart = [&](Buffer &whole, bool ofKeys) {
    Buffer part = whole;
    for (size_t i = 0; test.packed && i < part.size(); ++i)
      if ((int64_t(i) % desc.q_stride >= H * d) != ofKeys)
        part.setBits(i, ~0u);
    return part;
  };
  // dy . out of each row and head, which one kernel leaves for the other.
  Buffer delta(f32, rows * H);
  for (int64_t i = 0; i < rows * H; ++i) {
    int64_t row = i / H, head = i % H;
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) {
      auto at = size_t((row * H + head) * d + c);
      sum += dy.at(at) * given.at(at);
    }
    delta.set(size_t((row / test.length * H + head) * test.length +
                     row % test.length),
              float(sum));
  }
  int key = test.packed ? 3 : 4, value = test.packed ? 3 : 5;
  Buffer ofQueries = keepPart(dq, false), ofKeys = keepPart(dq, true);
  std::vector<Buffer> buffers = {inputs[3], rounded,   lse,
                                 inputs[0], inputs[1], inputs[2],
                                 keys,      positions, Buffer(f32, rows * H),
                                 empty(dq)};
  add("backward_q", H, buffers, {0, 1, 2, 3, key, value, 6, 7, 8, 9},
      {{8, &delta}, {9, &ofQueries}});
  buffers[8] = delta;
  if (test.packed) {
    add("backward_kv", K, buffers, {0, 2, 3, key, value, 6, 7, 8, 9, 9},
        {{9, &ofKeys}});
  } else {
    buffers[9] = empty(dk);
    buffers.push_back(empty(dv));
    add("backward_kv", K, buffers, {0, 2, 3, key, value, 6, 7, 8, 9, 10},
        {{9, &dk}, {10, &dv}});
  }
}

// Keys and values so far are random. The host's caches lie otherwise.
void LibraryCases::addCachedAttention(const CachedAttention &test,
                                      int32_t type) {
  const int64_t batch = 2, H = test.heads, K = test.kvHeads, d = test.dim,
                P = test.room, N = test.tokens;
  PoplarCachedAttention desc = {};
  PoplarAttention &shapes = desc.attention;
  shapes.seq_len = P, shapes.num_heads = H, shapes.num_kv_heads = K;
  shapes.head_dim = d, shapes.q_stride = shapes.out_stride = H * d;
  shapes.k_stride = shapes.v_stride = K * d, shapes.window = test.window;
  shapes.cap = test.cap, shapes.scale = 1.3 / std::sqrt(double(d));
  shapes.causal = 1, shapes.type = type, desc.tokens = N;
  desc.sinks = test.hasSinks;
  PoplarCachedAttention exact = desc;
  exact.attention.type = POPLAR_F32;
  bool few = type != POPLAR_F32;
  auto input = [&](int64_t count) { return attended(type, count, few); };
  Buffer q = input(batch * N * H * d), k = input(batch * N * K * d),
         v = input(batch * N * K * d), keys = input(batch * K * P * d),
         values = input(batch * K * P * d), positions(i32, batch * N),
         out(f32, batch * N * H * d), sinks = input(H);
  Buffer hostKeys = keys, newKeys = keys, newValues = values;
  for (int64_t head = 0; head < batch * K; ++head)
    for (int64_t at = 0; at < P; ++at)
      for (int64_t c = 0; c < d; ++c)
        hostKeys.set(
            size_t((head * P + at / POPLAR_CACHE_BLOCK * POPLAR_CACHE_BLOCK) *
                       d +
                   c * POPLAR_CACHE_BLOCK + at % POPLAR_CACHE_BLOCK),
            float(keys.at(size_t((head * P + at) * d + c))));
  auto copyRow = [&](Buffer &buffer, int64_t to, int64_t from, int64_t count) {
    std::memcpy(&buffer.bytes[size_t(to * 4)], &buffer.bytes[size_t(from * 4)],
                size_t(count * 4));
  };
  for (int64_t token = 0; token < batch * N; ++token) {
    bool repeats = N > 1 && token % N == N - 1;
    if (repeats)
      for (auto [buffer, width] :
           {std::pair(&q, H * d), {&k, K * d}, {&v, K * d}})
        copyRow(*buffer, token * width, (token - 1) * width, width);
    int64_t at = test.first + token % N - repeats;
    positions.setBits(size_t(token), uint64_t(at));
    for (int64_t i = 0; i < K * d; ++i) {
      size_t to = size_t(((token / N * K + i / d) * P + at) * d + i % d);
      newKeys.set(to, float(k.at(size_t(token * K * d + i))));
      newValues.set(to, float(v.at(size_t(token * K * d + i))));
    }
  }
  Buffer hostValues = values;
  void *args[] = {q.data(),         k.data(),        v.data(),
                  positions.data(), hostKeys.data(), hostValues.data(),
                  out.data(),       sinks.data()};
  poplar_append_cache(&exact, args, batch, 0, batch * K);
  int64_t blocks = (N - 1) / POPLAR_CACHED_ATTENTION_BLOCK + 1;
  poplar_cached_attention(&exact, args, batch, 0, batch * K * blocks);

  auto round = [&](const Buffer &buffer) { return buffer.as(formats[type]); };
  KernelCase entry;
  entry.batch = batch;
  entry.pointers = {0, 1, 2, 3, 4, 5, 6, 7};
  entry.before = {round(q),
                  round(k),
                  round(v),
                  positions,
                  round(keys),
                  round(values),
                  Buffer(formats[type], batch * N * H * d),
                  round(sinks)};
  auto add = [&](const char *callee, std::array<int32_t, 3> block,
                 int64_t extent, double tolerance) {
    entry.name =
        std::string(formatNames[type]) + " " + callee + ": " + test.name;
    entry.kernel = specialise(callee, makeRecord(desc), block, 8);
    entry.extent = extent;
    entry.tolerance = tolerance;
    cases.add(entry);
  };
  constexpr int32_t threads = POPLAR_GPU_FLAT_THREADS;
  entry.after = entry.before;
  entry.after[4] = round(newKeys);
  entry.after[5] = round(newValues);
  add("poplar_gpu_append_cache", {threads, 1, 1}, batch * N * K * d, 0);
  table.back().partsPerBlock = threads;
  entry.before = entry.after;
  entry.after[6] = round(out);
  add("poplar_gpu_cached_attention", {32, threads / 32, 1}, batch * N * H,
      type == POPLAR_F32 ? 2e-6 : 1e-2);
}

// The sums are those of a CPU to the bit, also where tokens repeat in other
// chunks.
void LibraryCases::addEmbedding(int32_t type, int64_t width, int64_t batch,
                                int64_t vocabulary) {
  PoplarEmbeddingGrad desc = {10, width, type, 3};
  const int64_t tokens = batch * desc.seq_len;
  Buffer dy = normal(formats[type], tokens * desc.width),
         before = normal(f32, vocabulary * desc.width), ids(i32, tokens);
  std::uniform_int_distribution<int32_t> any(0, vocabulary - 1);
  Buffer after = before;
  for (int64_t i = 0; i < tokens; ++i) {
    int32_t id = any(random);
    ids.setBits(size_t(i), uint64_t(id));
    for (int64_t c = 0; c < desc.width && id != desc.padding_idx; ++c) {
      size_t at = size_t(id * desc.width + c);
      after.set(at,
                float(after.at(at)) + float(dy.at(size_t(i * desc.width + c))));
    }
  }
  KernelCase entry;
  entry.name = std::string(formatNames[type]) +
               " poplar_gpu_embedding_grad, width " + std::to_string(width);
  entry.kernel = specialise("poplar_gpu_embedding_grad", makeRecord(desc),
                            {POPLAR_GPU_EMBEDDING_THREADS, 1, 1}, 3);
  entry.batch = batch;
  entry.extent = tokens;
  entry.pointers = {0, 1, 2};
  entry.before = {dy, ids, before};
  entry.after = {dy, ids, after};
  entry.tolerance = 0;
  cases.add(entry);
}

/// Other experts of each token, in any order.
Buffer LibraryCases::choose(const Experts &test, int64_t tokens) {
  Buffer chosen(i32, tokens * test.topK);
  std::vector<int64_t> order(size_t(test.experts - 1));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t token = 0; token < tokens; ++token) {
    std::shuffle(order.begin() + test.crowded, order.end(), random);
    for (int64_t k = 0; k < test.topK; ++k)
      chosen.setBits(size_t(token * test.topK + k), uint64_t(order[size_t(k)]));
  }
  return chosen;
}

void LibraryCases::addExperts(KernelCase entry, const std::string &callee,
                              const char *name, int32_t type,
                              exec::RecordAttr descriptor, int64_t extent,
                              int64_t partsPerBlock) {
  entry.name = std::string(formatNames[type]) + " " + callee + ": " + name;
  entry.extent = extent;
  entry.tolerance = type == POPLAR_F32 ? 2e-6 : 1e-2;
  for (int i = 0; i < int(entry.before.size()); ++i)
    entry.pointers.push_back(i);
  entry.kernel =
      specialise(callee, descriptor, {32, POPLAR_GPU_EXPERT_WARPS, 1},
                 static_cast<int32_t>(entry.pointers.size()));
  table.back().partsPerBlock = partsPerBlock;
  cases.add(entry);
}

// Where a launch takes one expert of each token, the host is given what the
// launch takes: the first expert, and its rows.
void LibraryCases::addExpertProduct(const Experts &test, int32_t type) {
  const int64_t batch = 2, tokens = batch * test.length,
                taken = test.ownOutputs ? test.topK : 1,
                rows = tokens * (test.ownInputs ? test.topK : 1),
                width = test.inputs;
  PoplarExperts desc = describe(test, type), exact = desc;
  exact.type = POPLAR_F32;
  Buffer x = eighths(formats[type], rows * width).as(f32),
         experts = choose(test, tokens), hostX = x, hostExperts = experts;
  if (taken < test.topK) {
    exact.top_k = 1;
    hostExperts = Buffer(i32, tokens);
    hostX = Buffer(f32, tokens * width);
    for (int64_t token = 0; token < tokens; ++token) {
      auto from = size_t(token * test.topK);
      hostExperts.setBits(size_t(token), uint64_t(experts.at(from)));
      for (size_t i = 0; i < size_t(width); ++i)
        hostX.set(size_t(token * width) + i,
                  float(x.at(from * size_t(width) + i)));
    }
  }
  Buffer y(f32, tokens * taken * test.outputs);
  std::vector<Buffer> weights;
  for (int64_t e = 0; e < test.experts; ++e)
    weights.push_back(eighths(formats[type], width * test.outputs).as(f32));
  std::vector<void *> args = {hostX.data(), hostExperts.data(), y.data()};
  for (Buffer &weight : weights)
    args.push_back(weight.data());
  poplar_expert_product(&exact, args.data(), batch, 0, test.outputs);

  GPUExperts chosen = chooseGPUExperts(desc, chip.getCapability());
  KernelCase entry;
  entry.batch = batch;
  entry.before = {x.as(formats[type]), experts,
                  Buffer(formats[type], int64_t(y.size()))};
  for (Buffer &weight : weights)
    entry.before.push_back(weight.as(formats[type]));
  int64_t extent = test.experts * ((test.outputs - 1) / chosen.columns + 1);
  auto add = [&](int32_t adds) {
    PoplarGPUExperts launch = {desc, int32_t(taken), adds};
    addExperts(entry, "poplar_gpu_expert_product" + chosen.suffix, test.name,
               type, makeRecord(launch), extent);
  };
  entry.after = entry.before;
  entry.after[2] = y.as(formats[type]);
  add(0);
  if (test.ownOutputs)
    return;
  entry.before[2] = eighths(formats[type], int64_t(y.size()));
  for (size_t i = 0; i < y.size(); ++i)
    entry.after[2].set(i, float(y.at(i) + entry.before[2].at(i)));
  add(1);
}

void LibraryCases::addExpertGradient(const Experts &test, int32_t type) {
  const int64_t batch = 2, tokens = batch * test.length;
  PoplarExperts desc = describe(test, type), exact = desc;
  desc.transposed = exact.transposed = 1;
  exact.type = POPLAR_F32;
  auto input = [&](bool own, int64_t columns) {
    return eighths(formats[type], tokens * (own ? test.topK : 1) * columns)
        .as(f32);
  };
  Buffer dy = input(test.ownOutputs, test.outputs),
         x = input(test.ownInputs, test.inputs), experts = choose(test, tokens);
  std::vector<Buffer> gradients;
  for (int64_t e = 0; e < test.experts; ++e)
    gradients.push_back(eighths(f32, test.inputs * test.outputs));
  KernelCase entry;
  entry.batch = batch;
  entry.before = {dy.as(formats[type]), x.as(formats[type]), experts};
  entry.after = entry.before;
  entry.before.insert(entry.before.end(), gradients.begin(), gradients.end());
  std::vector<void *> args = {dy.data(), x.data(), experts.data()};
  for (Buffer &gradient : gradients)
    args.push_back(gradient.data());
  poplar_expert_weight_grad(&exact, args.data(), batch, 0, test.outputs);
  entry.after.insert(entry.after.end(), gradients.begin(), gradients.end());
  GPUExperts chosen = chooseGPUExperts(desc, chip.getCapability());
  PoplarGPUExperts launch = {desc, int32_t(test.topK), 0};
  addExperts(entry, "poplar_gpu_expert_weight_grad" + chosen.suffix, test.name,
             type, makeRecord(launch),
             test.experts * ((test.outputs - 1) / chosen.gradientRows + 1));
}

void LibraryCases::addRoute(const Route &test, int32_t type) {
  const int64_t batch = 2, tokens = batch * test.length;
  PoplarRoute desc = {test.length, test.experts,    test.topK,
                      type,        test.normalized, test.sigmoid,
                      test.biased, test.groups,     test.topGroups},
              exact = desc;
  exact.type = POPLAR_F32;
  Buffer logits = normal(formats[type], tokens * test.experts).as(f32),
         scores(f32, tokens * test.topK), experts(i32, tokens * test.topK),
         dscores = normal(f32, tokens * test.topK),
         dlogits(f32, tokens * test.experts),
         bias =
             eighths(formats[type], POPLAR_BIAS_PARTS * test.experts).as(f32);
  KernelCase entry;
  entry.batch = batch;
  auto given = logits.as(formats[type]);
  entry.before = {given, scores, experts};
  void *forward[] = {logits.data(), scores.data(), experts.data(), bias.data()};
  poplar_route(&exact, forward, batch, 0, tokens);
  entry.after = {given, scores, experts};
  if (test.biased) {
    entry.before.push_back(bias.as(formats[type]));
    entry.after.push_back(bias.as(formats[type]));
  }
  addExperts(
      entry, test.biased ? "poplar_gpu_route_biased" : "poplar_gpu_route",
      test.name, type, makeRecord(desc), tokens, POPLAR_GPU_EXPERT_WARPS);
  entry.before = entry.after = {dscores, scores, experts, given,
                                Buffer(formats[type], int64_t(dlogits.size()))};
  void *backward[] = {dscores.data(), scores.data(), experts.data(),
                      logits.data(), dlogits.data()};
  poplar_route_grad(&exact, backward, batch, 0, tokens);
  entry.after[4] = dlogits.as(formats[type]);
  addExperts(entry, "poplar_gpu_route_grad", test.name, type, makeRecord(desc),
             tokens, POPLAR_GPU_EXPERT_WARPS);
}

void LibraryCases::addSinks(int32_t type) {
  const int64_t batch = 2, T = 5, H = 3, d = 20;
  PoplarAttention desc = {};
  desc.seq_len = T, desc.num_heads = H, desc.head_dim = d;
  desc.out_stride = H * d, desc.type = type;
  PoplarAttention exact = desc;
  exact.type = POPLAR_F32;
  Buffer out = normal(formats[type], batch * T * H * d).as(f32),
         lse = normal(f32, batch * H * T),
         sinks = normal(formats[type], H).as(f32);
  KernelCase entry;
  entry.batch = batch;
  entry.before = {out.as(formats[type]), lse, sinks.as(formats[type])};
  void *args[] = {out.data(), lse.data(), sinks.data()};
  poplar_attention_sinks(&exact, args, batch, 0, batch * T);
  entry.after = {out.as(formats[type]), lse, sinks.as(formats[type])};
  addExperts(entry, "poplar_gpu_attention_sinks", "sinks", type,
             makeRecord(desc), batch * T * H, POPLAR_GPU_EXPERT_WARPS);
}

void LibraryCases::addSumOfSquares() {
  const int64_t count = 2 * POPLAR_SUM_CHUNK + 777;
  KernelCase entry;
  entry.name = entry.kernel = POPLAR_SUM_SQUARES_KERNEL;
  entry.batch = entry.extent = count;
  entry.pointers = {0, 1};
  entry.before = {normal(f32, count), Buffer(f64, 3)};
  entry.after = entry.before;
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    double sum = 0;
    for (size_t i = chunk * POPLAR_SUM_CHUNK;
         i < std::min<size_t>((chunk + 1) * POPLAR_SUM_CHUNK, count); ++i)
      sum += entry.before[0].at(i) * entry.before[0].at(i);
    uint64_t bits;
    std::memcpy(&bits, &sum, sizeof(bits));
    entry.after[1].setBits(chunk, bits);
  }
  entry.tolerance = 1e-12;
  cases.add(entry);
}

void LibraryCases::addStates() {
  KernelCase entry = {};
  entry.name = "8-bit optimizer states";
  // Blocks of every kind, and a part of one.
  entry.states = 9 * 256 + 77;
  cases.add(entry);
  entry.name = "4-bit optimizer states";
  entry.states = 9 * 256;
  entry.stateBits = 4;
  cases.add(entry);
}

/// Notes a product that is not finite.
void LibraryCases::addScale(float last) {
  const int64_t count = 1000;
  KernelCase entry;
  entry.name = POPLAR_SCALE_KERNEL;
  entry.name += ", last " + std::to_string(last);
  entry.kernel = POPLAR_SCALE_KERNEL;
  entry.batch = entry.extent = count;
  entry.pointers = {0, 1, 2};
  Buffer values = normal(f32, count), factor(f32, 1), flag(i32, 1);
  // In two blocks.
  values.set(1, last);
  values.set(count - 1, last);
  factor.set(0, 0.25f);
  flag.setBits(0, 0);
  entry.before = entry.after = {values, factor, flag};
  for (size_t i = 0; i < size_t(count); ++i)
    entry.after[0].set(i, float(values.at(i)) * 0.25f);
  entry.after[2].setBits(0, std::isfinite(last) ? 0 : 1);
  entry.tolerance = 0;
  cases.add(entry);
}

void poplar::gputest::addLibraryCases(MLIRContext &context, const GPUChip &chip,
                                      std::vector<GPUKernel> &table,
                                      KernelCases &cases) {
  LibraryCases library(context, chip, table, cases);
  for (int32_t type : {POPLAR_F32, POPLAR_BF16, POPLAR_F16}) {
    if (type == POPLAR_BF16 && chip.getCapability() < 80)
      continue;
    for (const Attention &test : attentions)
      if (type == POPLAR_F32 || test.halves)
        library.addAttention(test, type);
    library.addEmbedding(type);
    for (const Experts &test : expertProducts) {
      if (type != POPLAR_F32 && !test.halves)
        continue;
      library.addExpertProduct(test, type);
      if (test.transposed)
        library.addExpertGradient(test, type);
    }
    for (const Route &test : routes)
      library.addRoute(test, type);
    library.addSinks(type);
  }
  for (const CachedAttention &test : cachedAttentions)
    for (int32_t type : {POPLAR_F32, POPLAR_BF16, POPLAR_F16})
      if (type != POPLAR_BF16 || chip.getCapability() >= 80)
        library.addCachedAttention(test, type);
  library.addSumOfSquares();
  library.addStates();
  for (float last : {0.0f, INFINITY})
    library.addScale(last);
}

void poplar::gputest::addWideLibraryCases(MLIRContext &context,
                                          const GPUChip &chip,
                                          std::vector<GPUKernel> &table,
                                          KernelCases &cases) {
  LibraryCases library(context, chip, table, cases);
  int32_t half = chip.getCapability() >= 80 ? POPLAR_BF16 : POPLAR_F16;
  for (const Attention &test : wideAttentions)
    library.addAttention(test, half);
  for (int64_t width : {768, 1280, 2048, 4096})
    library.addEmbedding(half, width, 20, 90);
}
