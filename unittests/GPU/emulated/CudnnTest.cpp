//===- CudnnTest.cpp - Graphs of attention, and who takes them ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A real cuDNN, if there is one, prepares our graphs for GPUs that are
// described to it; the emulated one computes them, which is compared with
// attention by its definition.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/LibraryAttention.h"
#include "comm/Wire.h"
#include "cuda/AttentionGraph.h"
#include "cuda/Memory.h"
#include "support/Error.h"

#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <random>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

namespace {

struct Case {
  int64_t batch, heads, sharedHeads, tokens, columns;
  bool causal = true;
  int64_t window = 0;
  PoplarType type = POPLAR_BF16;
};

/// Packed rows: queries, keys and values of a token lie behind each other.
PoplarAttention describe(const Case &c) {
  PoplarAttention desc = {};
  desc.seq_len = c.tokens;
  desc.num_heads = c.heads;
  desc.num_kv_heads = c.sharedHeads;
  desc.head_dim = c.columns;
  desc.q_stride = desc.k_stride = desc.v_stride =
      (c.heads + 2 * c.sharedHeads) * c.columns;
  desc.k_offset = c.heads * c.columns;
  desc.v_offset = desc.k_offset + c.sharedHeads * c.columns;
  desc.out_stride = c.heads * c.columns;
  desc.window = c.window;
  desc.scale = 1 / std::sqrt(double(c.columns));
  desc.causal = c.causal;
  desc.type = c.type;
  return desc;
}

//===----------------------------------------------------------------------===//
// A real library
//===----------------------------------------------------------------------===//

/// A GPU as cuDNN writes one down: its compute capability, processors, and
/// bytes of shared memory of a block.
std::string describeGPU(int capability, int processors, int sharedBytes) {
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
         R"("regsPerBlock":65536,"smCountOrigin":0,"warpSize":32,)"
         R"("maxSharedMemoryPerBlock":49152,"oversizedSharedMemoryPerBlock":0,)"
         R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
         R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
         R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
         R"("smClockRateKHz":1500000,"memClockRateKHz":2600000,)"
         R"("l2CacheSize":52428800,"deviceName":"GPU","driverVer":13000,)"
         R"("cudaDeviceId":0,"totalGlobalMem":85520809984,"deviceVer":)" +
         std::to_string(10 * capability) + R"(,"multiProcessorCount":)" +
         std::to_string(processors) + R"(,"maxSharedMemoryPerBlockOptin":)" +
         std::to_string(sharedBytes) + "}";
}

struct GPU {
  int capability, processors, sharedBytes;
};

TEST(Cudnn, RealLibraryHasPlansForOurGraphs) {
  // It stays loaded, under the name by which cuDNN looks for a driver.
  ASSERT_NE(dlopen(POPLAR_STAND_IN_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr)
      << dlerror();
  std::unique_ptr<dnn::Cudnn> library;
  try {
    library = std::make_unique<dnn::Cudnn>();
  } catch (const Error &error) {
    GTEST_SKIP() << error.what();
  }
  if (library->getVersion() < 91100)
    GTEST_SKIP() << library->getName() << " is older than 9.11";
  const GPU gpus[] = {{80, 108, 166912},
                      {89, 128, 101376},
                      {90, 132, 232448},
                      {120, 170, 101376}};
  const Case cases[] = {
      {2, 12, 12, 1024, 64},                      // GPT-2
      {1, 16, 8, 2048, 128, true, 0, POPLAR_F16}, // Qwen3-0.6B
      {2, 16, 16, 512, 64, false},                // BERT
      {1, 8, 2, 1024, 72, true, 256},
  };
  for (const GPU &gpu : gpus) {
    dnn::Object properties = nullptr;
    ASSERT_EQ(
        library->cudnnBackendCreateDescriptor(dnn::PropertiesKind, &properties),
        0);
    std::string text =
        describeGPU(gpu.capability, gpu.processors, gpu.sharedBytes);
    ASSERT_EQ(library->cudnnBackendSetAttribute(
                  properties, dnn::PropertiesText, dnn::TextValue,
                  int64_t(text.size()), text.data()),
              0);
    dnn::Status status = library->cudnnBackendFinalize(properties);
    ASSERT_EQ(status, 0) << library->explain(status);
    for (const Case &c : cases) {
      SCOPED_TRACE("sm_" + std::to_string(gpu.capability) + ", " +
                   std::to_string(c.heads) + " heads of " +
                   std::to_string(c.columns) + " columns");
      PoplarAttention desc = describe(c);
      // What the memory plan gives, less what lies in front of an aligned
      // place.
      int64_t most = c.batch * poplar_attention_workspace(&desc) - 192;
      for (AttentionPass pass :
           {AttentionPass::Forward, AttentionPass::Gradient}) {
        AttentionGraph graph(*library, nullptr, desc, pass, c.batch);
        EXPECT_FALSE(graph.listEngines(properties).empty());
        EXPECT_NO_THROW(graph.plan(
            pass == AttentionPass::Gradient ? most : 1024, properties));
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// The emulated one
//===----------------------------------------------------------------------===//

using Numbers = std::vector<double>;

/// Forward and gradient by their definition; q, k, v and the gradients are
/// packed.
struct Reference {
  PoplarAttention desc;
  int64_t batch;
  Numbers packed, dy, out, lse, gradient;

  double &at(Numbers &rows, int64_t stride, int64_t offset, int64_t b,
             int64_t t, int64_t head, int64_t column) const {
    return rows[size_t((b * desc.seq_len + t) * stride + offset +
                       head * desc.head_dim + column)];
  }
  bool sees(int64_t query, int64_t key) const {
    return (!desc.causal || key <= query) &&
           (desc.window == 0 || key > query - desc.window);
  }
  double dot(Numbers &x, int64_t xStride, int64_t xAt, int64_t xHead,
             int64_t xRow, Numbers &y, int64_t yStride, int64_t yAt,
             int64_t yHead, int64_t yRow, int64_t b) const {
    double sum = 0;
    for (int64_t c = 0; c < desc.head_dim; ++c)
      sum += at(x, xStride, xAt, b, xRow, xHead, c) *
             at(y, yStride, yAt, b, yRow, yHead, c);
    return sum;
  }

  void compute() {
    int64_t rows = batch * desc.seq_len;
    out.assign(size_t(rows * desc.out_stride), 0);
    lse.assign(size_t(rows * desc.num_heads), 0);
    gradient.assign(packed.size(), 0);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < desc.num_heads; ++h)
        for (int64_t t = 0; t < desc.seq_len; ++t)
          computeRow(b, h, t);
  }
  void computeRow(int64_t b, int64_t h, int64_t t) {
    int64_t shared = h / (desc.num_heads / desc.num_kv_heads),
            stride = desc.q_stride, k = desc.k_offset, v = desc.v_offset;
    Numbers p(size_t(desc.seq_len), 0.0);
    double total = 0;
    for (int64_t j = 0; j < desc.seq_len; ++j)
      if (sees(t, j))
        total += p[size_t(j)] =
            std::exp(desc.scale * dot(packed, stride, 0, h, t, packed, stride,
                                      k, shared, j, b));
    lse[size_t((b * desc.num_heads + h) * desc.seq_len + t)] = std::log(total);
    double delta = 0;
    for (int64_t c = 0; c < desc.head_dim; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < desc.seq_len; ++j)
        sum += p[size_t(j)] / total * at(packed, stride, v, b, j, shared, c);
      at(out, desc.out_stride, 0, b, t, h, c) = sum;
      delta += sum * at(dy, desc.out_stride, 0, b, t, h, c);
    }
    for (int64_t j = 0; j < desc.seq_len; ++j) {
      double probability = p[size_t(j)] / total,
             ds = desc.scale * probability *
                  (dot(dy, desc.out_stride, 0, h, t, packed, stride, v, shared,
                       j, b) -
                   delta);
      for (int64_t c = 0; c < desc.head_dim; ++c) {
        at(gradient, stride, v, b, j, shared, c) +=
            probability * at(dy, desc.out_stride, 0, b, t, h, c);
        at(gradient, stride, k, b, j, shared, c) +=
            ds * at(packed, stride, 0, b, t, h, c);
        at(gradient, stride, 0, b, t, h, c) +=
            ds * at(packed, stride, k, b, j, shared, c);
      }
    }
  }
};

uint16_t encode(double value, PoplarType type) {
  auto number = float(value);
  uint16_t bits;
  comm::convert(&number, comm::Type::F32, &bits, comm::Type(type), 1);
  return bits;
}
double decode(uint16_t bits, PoplarType type) {
  float number;
  comm::convert(&bits, comm::Type(type), &number, comm::Type::F32, 1);
  return double(number);
}

/// Relative distance of 2-norms.
double compare(const Numbers &ours, const Numbers &theirs) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < theirs.size(); ++i) {
    difference += (ours[i] - theirs[i]) * (ours[i] - theirs[i]);
    size += theirs[i] * theirs[i];
  }
  return std::sqrt(difference / size);
}

class EmulatedCudnn : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    setenv("POPLAR_CUDA_PATH", POPLAR_EMULATED_DIRECTORY, 1);
    const Driver &driver = Driver::get();
    Context context;
    check(driver.cuDevicePrimaryCtxRetain(&context, 0), "make a context");
    check(driver.cuCtxSetCurrent(context), "use it");
    check(driver.cuStreamCreate(&queue, NonBlocking), "make a stream");
    library = std::make_unique<dnn::Cudnn>();
    ASSERT_EQ(library->cudnnCreate(&handle), 0);
    ASSERT_EQ(library->cudnnSetStream(handle, queue), 0);
  }

  std::unique_ptr<Allocation> allocate(int64_t bytes) {
    return std::make_unique<Allocation>(bytes);
  }
  std::unique_ptr<Allocation> copyIn(const Numbers &values, PoplarType type) {
    std::vector<uint16_t> bits;
    for (double value : values)
      bits.push_back(encode(value, type));
    auto memory = allocate(int64_t(2 * bits.size()));
    check(Driver::get().cuMemcpyHtoDAsync_v2(
              addressOf(memory->data()), bits.data(), 2 * bits.size(), queue),
          "copy");
    check(Driver::get().cuStreamSynchronize(queue), "wait");
    return memory;
  }
  template <typename T> std::vector<T> copyOut(const Allocation &memory) {
    std::vector<T> values(size_t(memory.size()) / sizeof(T));
    check(Driver::get().cuMemcpyDtoHAsync_v2(values.data(),
                                             addressOf(memory.data()),
                                             size_t(memory.size()), queue),
          "copy");
    check(Driver::get().cuStreamSynchronize(queue), "wait");
    return values;
  }
  Numbers read(const Allocation &memory, PoplarType type) {
    Numbers values;
    for (uint16_t bits : copyOut<uint16_t>(memory))
      values.push_back(decode(bits, type));
    return values;
  }

  Stream queue = nullptr;
  std::unique_ptr<dnn::Cudnn> library;
  dnn::Handle handle = nullptr;
};

TEST_P(EmulatedCudnn, ComputesAttention) {
  const Case &c = GetParam();
  Reference reference = {describe(c), c.batch, {}, {}, {}, {}, {}};
  const PoplarAttention &desc = reference.desc;
  int64_t rows = c.batch * c.tokens;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  auto draw = [&](int64_t count) {
    Numbers values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(decode(encode(normal(random), c.type), c.type));
    return values;
  };
  reference.packed = draw(rows * desc.q_stride);
  reference.dy = draw(rows * desc.out_stride);
  reference.compute();

  auto packed = copyIn(reference.packed, c.type),
       dy = copyIn(reference.dy, c.type),
       out = allocate(2 * rows * desc.out_stride),
       lse = allocate(4 * rows * c.heads),
       gradient = allocate(2 * rows * desc.q_stride);
  int64_t bytes = c.batch * poplar_attention_workspace(&desc);
  auto workspace = allocate(bytes);
  auto at = [&](const Allocation &memory, int64_t elements) -> void * {
    return memory.data() + 2 * elements;
  };
  AttentionOperands operands = {};
  operands.Q = packed->data();
  operands.K = at(*packed, desc.k_offset);
  operands.V = at(*packed, desc.v_offset);
  operands.Out = out->data();
  operands.Lse = lse->data();
  operands.Dy = dy->data();
  operands.Dq = gradient->data();
  operands.Dk = at(*gradient, desc.k_offset);
  operands.Dv = at(*gradient, desc.v_offset);
  for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::Gradient}) {
    AttentionGraph graph(*library, handle, desc, pass, c.batch);
    graph.plan(bytes);
    EXPECT_EQ(graph.run(operands, workspace->data()), "");
    // What is queued does not need the graph any more.
  }
  EXPECT_LT(compare(read(*out, c.type), reference.out), 1e-2);
  std::vector<float> sums = copyOut<float>(*lse);
  EXPECT_LT(compare(Numbers(sums.begin(), sums.end()), reference.lse), 1e-4);
  EXPECT_LT(compare(read(*gradient, c.type), reference.gradient), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EmulatedCudnn,
    testing::Values(Case{2, 3, 3, 24, 16}, Case{1, 4, 2, 40, 8},
                    Case{2, 4, 1, 32, 24, true, 7},
                    Case{1, 2, 2, 33, 16, false},
                    Case{2, 2, 2, 16, 32, true, 0, POPLAR_F16}));

TEST_F(EmulatedCudnn, RefusesWhatCudnnDoes) {
  auto explain = [&](const Case &c, int64_t bytes) -> std::string {
    try {
      AttentionGraph graph(*library, handle, describe(c),
                           AttentionPass::Gradient, c.batch);
      graph.plan(bytes);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(explain({1, 2, 2, 32, 16}, 1 << 20), "");
  EXPECT_NE(explain({1, 2, 2, 32, 12}, 1 << 20), "");
  EXPECT_NE(explain({1, 2, 2, 32, 136}, 1 << 20).find("columns"),
            std::string::npos);
  // 2 * 2 * 64 * 128 bytes of dS, 256 of the sums, which are 256, and 256 more.
  EXPECT_EQ(explain({1, 2, 2, 32, 16}, 33280), "");
  EXPECT_EQ(
      explain({1, 2, 2, 32, 16}, 33279),
      "cuDNN 9.19.0 does not run attention: it needs a workspace of 33280 "
      "bytes, and the plan of the memory has 33279");
  // Descriptors: without an attribute, of another type, and once finalised.
  dnn::Object tensor;
  ASSERT_EQ(library->cudnnBackendCreateDescriptor(dnn::TensorKind, &tensor), 0);
  EXPECT_NE(library->cudnnBackendFinalize(tensor), 0);
  int64_t number = 1;
  EXPECT_NE(library->cudnnBackendSetAttribute(tensor, dnn::TensorId,
                                              dnn::BooleanValue, 1, &number),
            0);
  EXPECT_NE(library->cudnnBackendSetAttribute(tensor, dnn::PlanConfig,
                                              dnn::Int64Value, 1, &number),
            0);
  dnn::Object function;
  ASSERT_EQ(library->cudnnBackendCreateDescriptor(dnn::MatmulKind, &function),
            0);
  ASSERT_EQ(library->cudnnBackendSetAttribute(function, dnn::MatmulType,
                                              dnn::TypeValue, 1, &dnn::F32),
            0);
  ASSERT_EQ(library->cudnnBackendFinalize(function), 0);
  EXPECT_NE(library->cudnnBackendSetAttribute(function, dnn::MatmulType,
                                              dnn::TypeValue, 1, &dnn::F32),
            0);
}

} // namespace
