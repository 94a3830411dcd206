//===- LibraryTest.cpp - GPU kernels written by hand, against a CPU's -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The library of runtime/kernels/gpu/, specialised and compiled to PTX as in an
// executable, run by the emulated driver, and compared with what the kernels of
// CPUs compute, which have a test of their own against their definition.
// Nothing here runs on a GPU.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/ABI.h"
#include "Poplar/Target/GPUImage.h"
#include "cuda/Driver.h"
#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace mlir;
using namespace poplar;
namespace cuda = poplar::runtime::cuda;

namespace poplar::runtime::cuda {
#define DECLARE(NAME, ...) extern "C" Result NAME(__VA_ARGS__);
POPLAR_CUDA_DRIVER(DECLARE)
#undef DECLARE
} // namespace poplar::runtime::cuda

namespace {

struct Case {
  const char *name;
  int64_t length, heads, kvHeads, dim;
  bool causal, packed;
  int32_t type;
  int64_t window;
  double dropout;
};

const Case cases[] = {
    {"causal", 70, 2, 2, 64, true, false, POPLAR_F32, 0, 0},
    {"full", 64, 2, 2, 32, false, false, POPLAR_F32, 0, 0},
    {"tiny", 5, 2, 2, 8, true, false, POPLAR_F32, 0, 0},
    {"ragged", 50, 3, 3, 20, false, false, POPLAR_F32, 0, 0},
    {"packed", 40, 2, 2, 16, true, true, POPLAR_F32, 0, 0},
    {"groupedPacked", 65, 4, 1, 32, true, true, POPLAR_F32, 0, 0},
    {"window", 100, 2, 1, 16, true, false, POPLAR_F32, 40, 0},
    {"narrowWindow", 100, 1, 1, 16, true, false, POPLAR_F32, 3, 0},
    {"openWindow", 80, 1, 1, 16, false, false, POPLAR_F32, 20, 0},
    {"dropout", 45, 2, 2, 16, true, false, POPLAR_F32, 0, 0.25},
    {"wide", 40, 1, 1, 256, true, false, POPLAR_F32, 0, 0},
    {"oddlyWide", 33, 1, 1, 100, true, false, POPLAR_F32, 0, 0},
    {"bf16", 64, 2, 2, 64, true, false, POPLAR_BF16, 0, 0},
    {"bf16Everything", 70, 4, 2, 24, true, true, POPLAR_BF16, 33, 0.1},
};

PoplarAttention describe(const Case &test) {
  PoplarAttention desc = {};
  int64_t H = test.heads, K = test.kvHeads, d = test.dim;
  desc.seq_len = test.length, desc.num_heads = H, desc.num_kv_heads = K;
  desc.head_dim = d, desc.out_stride = H * d, desc.window = test.window;
  desc.op_id = 5, desc.scale = 1.3 / std::sqrt(double(d));
  desc.dropout = test.dropout, desc.causal = test.causal;
  desc.type = test.type;
  desc.q_stride = test.packed ? (H + 2 * K) * d : H * d;
  desc.k_stride = desc.v_stride = test.packed ? (H + 2 * K) * d : K * d;
  desc.k_offset = test.packed ? H * d : 0;
  desc.v_offset = test.packed ? (H + K) * d : 0;
  return desc;
}

template <typename T> std::vector<int64_t> wordsOf(const T &value) {
  std::vector<int64_t> words(sizeof(T) / 8);
  std::memcpy(words.data(), &value, sizeof(T));
  return words;
}

/// Numbers in memory, of a PoplarType or as they are.
struct Array {
  Array() = default;
  Array(int64_t count, int32_t type, std::mt19937 *random = nullptr)
      : type(type), bytes(size_t(count) * (type == POPLAR_F32 ? 4 : 2)) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i)
      set(i, random ? normal(*random) : NAN);
  }
  const llvm::fltSemantics &semantics() const {
    return type == POPLAR_F32    ? llvm::APFloat::IEEEsingle()
           : type == POPLAR_BF16 ? llvm::APFloat::BFloat()
                                 : llvm::APFloat::IEEEhalf();
  }
  size_t width() const { return type == POPLAR_F32 ? 4 : 2; }
  size_t size() const { return bytes.size() / width(); }
  void set(int64_t i, float value) {
    llvm::APFloat number(value);
    bool ignored;
    number.convert(semantics(), llvm::APFloat::rmNearestTiesToEven, &ignored);
    uint64_t bits = number.bitcastToAPInt().getZExtValue();
    std::memcpy(&bytes[size_t(i) * width()], &bits, width());
  }
  double get(size_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[i * width()], width());
    llvm::APFloat number(semantics(), llvm::APInt(8 * width(), bits));
    bool ignored;
    number.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &ignored);
    return number.convertToDouble();
  }

  int32_t type = POPLAR_F32;
  std::vector<char> bytes;
};

/// The relative distance of two arrays, in 2-norms. What neither has written is
/// left out.
double distance(const Array &a, const Array &b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a.get(i)) && std::isnan(b.get(i)))
      continue;
    difference += (a.get(i) - b.get(i)) * (a.get(i) - b.get(i));
    size += a.get(i) * a.get(i);
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

/// All kernels of this test, loaded once.
class Library {
public:
  static Library &get() {
    static Library library;
    return library;
  }
  /// Copies arrays to the GPU, runs a kernel on them, copies them back.
  void run(const std::string &name, std::vector<Array *> arrays, int64_t batch,
           int64_t extent) {
    ASSERT_EQ(error, "");
    const GPUKernel &kernel = kernels[numbers.at(name)];
    ASSERT_EQ(arrays.size(), size_t(kernel.pointers));
    std::map<Array *, cuda::Address> places;
    std::vector<cuda::Address> addresses;
    for (Array *array : arrays) {
      if (!places.count(array)) {
        size_t bytes = array->bytes.size();
        cuda::cuMemAlloc_v2(&places[array], bytes);
        cuda::cuMemcpyHtoDAsync_v2(places[array], array->bytes.data(), bytes,
                                   nullptr);
      }
      addresses.push_back(places[array]);
    }
    std::vector<void *> parameters;
    for (cuda::Address &address : addresses)
      parameters.push_back(&address);
    parameters.push_back(&batch);
    cuda::Function function;
    ASSERT_EQ(cuda::cuModuleGetFunction(&function, module, name.c_str()), 0);
    unsigned blocks = unsigned((extent - 1) / kernel.partsPerBlock + 1);
    ASSERT_EQ(cuda::cuLaunchKernel(function, blocks, 1, 1,
                                   unsigned(kernel.block[0]),
                                   unsigned(kernel.block[1]), 1, 0, nullptr,
                                   parameters.data(), nullptr),
              0);
    for (auto [array, place] : places) {
      cuda::cuMemcpyDtoHAsync_v2(array->bytes.data(), place,
                                 array->bytes.size(), nullptr);
      cuda::cuMemFree_v2(place);
    }
  }

private:
  Library();
  void add(const std::string &name, const char *callee,
           std::vector<int64_t> words, std::array<int32_t, 3> block,
           int32_t pointers, int64_t parts = 1) {
    numbers[name] = kernels.size();
    kernels.push_back({name, block, pointers, parts, callee, std::move(words)});
  }

  std::vector<GPUKernel> kernels;
  std::map<std::string, size_t> numbers;
  cuda::Module module = nullptr;
  std::string error;
};

PoplarEmbeddingGrad embedding(int32_t type) { return {10, 300, type, 3}; }

} // namespace

Library::Library() {
  constexpr int32_t tile = POPLAR_GPU_ATTENTION_TILE,
                    threads = POPLAR_GPU_FLAT_THREADS;
  for (const Case &test : cases) {
    std::vector<int64_t> words = wordsOf(describe(test));
    std::string name = test.name;
    add(name + "_forward", "poplar_gpu_attention_forward", words,
        {tile, tile / 4, 1}, 6);
    add(name + "_q", "poplar_gpu_attention_backward_q", words,
        {tile, tile / 4, 1}, 8);
    add(name + "_kv", "poplar_gpu_attention_backward_kv", words,
        {tile, tile / 4, 1}, 9);
  }
  for (int32_t type : {POPLAR_F32, POPLAR_BF16, POPLAR_F16})
    add("embedding" + std::to_string(type), "poplar_gpu_embedding_grad",
        wordsOf(embedding(type)), {POPLAR_GPU_EMBEDDING_THREADS, 1, 1}, 3);
  add("sum_squares", "poplar_gpu_sum_squares", {}, {threads, 1, 1}, 2,
      POPLAR_SUM_CHUNK);
  add("scale", "poplar_gpu_scale", {}, {threads, 1, 1}, 3, threads);

  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<gpu::GPUDialect>();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> source = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(source->getBody());
  gpu::GPUModuleOp::create(builder, builder.getUnknownLoc(), "kernels");
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  if (failed(emitGPUAssembly(*source, *findGPUChip("sm_90"), stream, kernels,
                             POPLAR_GPU_LIBRARY))) {
    error = "no PTX";
    return;
  }
  char log[1024] = "";
  int options[] = {cuda::JitErrorLog};
  void *values[] = {log};
  if (cuda::cuModuleLoadDataEx(&module, text.c_str(), 1, options, values) != 0)
    error = log;
}

namespace {

class GPUAttention : public testing::TestWithParam<Case> {};

TEST_P(GPUAttention, AgreesWithTheCPUs) {
  const Case &test = GetParam();
  PoplarAttention desc = describe(test);
  const int64_t batch = 2, rows = batch * test.length, H = test.heads,
                K = test.kvHeads, d = test.dim;
  std::mt19937 random(7);
  Array q(rows * desc.q_stride, test.type, &random),
      k(rows * desc.k_stride, test.type, &random),
      v(rows * desc.v_stride, test.type, &random),
      dy(rows * H * d, test.type, &random);
  Array keys(2 * batch, POPLAR_F32, &random); // their bits do not matter
  Array &ka = test.packed ? q : k, &va = test.packed ? q : v;

  // Of the CPU, and of the GPU, which goes on from its own results.
  struct Results {
    Array out, lse, dq, dk, dv;
  };
  Results cpu = {Array(rows * H * d, test.type), Array(rows * H, POPLAR_F32),
                 Array(rows * desc.q_stride, test.type),
                 Array(rows * desc.k_stride, test.type),
                 Array(rows * desc.v_stride, test.type)};
  Results gpu = cpu;
  auto gradients = [&](Results &results) {
    return std::array<Array *, 3>{&results.dq,
                                  test.packed ? &results.dq : &results.dk,
                                  test.packed ? &results.dq : &results.dv};
  };
  auto [cq, ck, cv] = gradients(cpu);
  void *forward[] = {q.bytes.data(),       ka.bytes.data(),
                     va.bytes.data(),      keys.bytes.data(),
                     cpu.out.bytes.data(), cpu.lse.bytes.data()};
  poplar_attention_forward(
      &desc, forward, batch, 0,
      batch * H * ((test.length - 1) / POPLAR_ATTENTION_BLOCK + 1));
  void *backward[] = {dy.bytes.data(),      cpu.out.bytes.data(),
                      cpu.lse.bytes.data(), q.bytes.data(),
                      ka.bytes.data(),      va.bytes.data(),
                      keys.bytes.data(),    cq->bytes.data(),
                      ck->bytes.data(),     cv->bytes.data()};
  poplar_attention_backward(&desc, backward, batch, 0, batch * K);

  Library &library = Library::get();
  auto [gq, gk, gv] = gradients(gpu);
  int64_t tiles = (test.length - 1) / POPLAR_GPU_ATTENTION_TILE + 1;
  std::string name = test.name;
  library.run(name + "_forward", {&q, &ka, &va, &keys, &gpu.out, &gpu.lse},
              batch, batch * H * tiles);
  library.run(name + "_q", {&dy, &gpu.out, &gpu.lse, &q, &ka, &va, &keys, gq},
              batch, batch * H * tiles);
  library.run(name + "_kv",
              {&dy, &gpu.out, &gpu.lse, &q, &ka, &va, &keys, gk, gv}, batch,
              batch * K * tiles);

  double tolerance = test.type == POPLAR_F32 ? 2e-6 : 1e-2;
  EXPECT_LE(distance(cpu.out, gpu.out), tolerance);
  EXPECT_LE(distance(cpu.lse, gpu.lse), 1e-6);
  EXPECT_LE(distance(cpu.dq, gpu.dq), tolerance);
  EXPECT_LE(distance(cpu.dk, gpu.dk), tolerance);
  EXPECT_LE(distance(cpu.dv, gpu.dv), tolerance);
  EXPECT_FALSE(std::isnan(gpu.out.get(gpu.out.size() - 1)));
}

INSTANTIATE_TEST_SUITE_P(Variants, GPUAttention, testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });

// The sums are those of a CPU to the bit, also where tokens repeat in other
// chunks.
TEST(GPULibrary, AddsGradientsOfAnEmbeddingInOrder) {
  for (int32_t type : {POPLAR_F32, POPLAR_BF16, POPLAR_F16}) {
    PoplarEmbeddingGrad desc = embedding(type);
    const int64_t batch = 60, tokens = batch * desc.seq_len, vocabulary = 40;
    std::mt19937 random(3);
    Array dy(tokens * desc.width, type, &random),
        before(vocabulary * desc.width, POPLAR_F32, &random), ids;
    std::uniform_int_distribution<int32_t> any(0, vocabulary - 1);
    std::vector<int32_t> numbers;
    for (int64_t i = 0; i < tokens; ++i)
      numbers.push_back(any(random));
    ids.bytes.resize(size_t(tokens) * 4);
    std::memcpy(ids.bytes.data(), numbers.data(), ids.bytes.size());
    Array expected = before, got = before;
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t c = 0; c < desc.width && numbers[size_t(i)] != 3; ++c) {
        int64_t at = numbers[size_t(i)] * desc.width + c;
        expected.set(at, float(expected.get(size_t(at))) +
                             float(dy.get(size_t(i * desc.width + c))));
      }
    Library::get().run("embedding" + std::to_string(type), {&dy, &ids, &got},
                       batch, tokens);
    EXPECT_EQ(got.bytes, expected.bytes);
  }
}

TEST(GPULibrary, SumsSquaresByChunks) {
  const int64_t count = 2 * POPLAR_SUM_CHUNK + 777;
  std::mt19937 random(5);
  Array values(count, POPLAR_F32, &random), sums;
  sums.bytes.resize(3 * sizeof(double));
  Library::get().run("sum_squares", {&values, &sums}, count, count);
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    double expected = 0, got;
    for (size_t i = chunk * POPLAR_SUM_CHUNK;
         i < std::min<size_t>((chunk + 1) * POPLAR_SUM_CHUNK, count); ++i)
      expected += values.get(i) * values.get(i);
    std::memcpy(&got, &sums.bytes[chunk * sizeof(double)], sizeof(double));
    EXPECT_NEAR(got, expected, 1e-12 * expected);
  }
}

TEST(GPULibrary, ScalesAndNotesWhatIsNotFinite) {
  for (float bad : {0.0f, INFINITY, NAN}) {
    std::mt19937 random(6);
    Array values(1000, POPLAR_F32, &random), factor(1, POPLAR_F32), flag;
    values.set(999, bad);
    factor.set(0, 0.25f);
    flag.bytes.resize(4);
    Array before = values;
    Library::get().run("scale", {&values, &factor, &flag}, 1000, 1000);
    for (size_t i = 0; i < 999; ++i)
      ASSERT_EQ(values.get(i), before.get(i) / 4);
    EXPECT_EQ(flag.bytes[0], bad == 0 ? 0 : 1);
  }
}

} // namespace
