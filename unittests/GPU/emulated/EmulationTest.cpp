//===- EmulationTest.cpp - What the emulated driver catches ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The emulation is of use only as far as it is stricter than a GPU.
//
//===----------------------------------------------------------------------===//

#include "PTX.h"
#include "cuda/BlasLt.h"
#include "cuda/Driver.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

using namespace poplar::emulated;
namespace cuda = poplar::runtime::cuda;

namespace poplar::runtime::cuda {
#define DECLARE(NAME, ...) extern "C" Result NAME(__VA_ARGS__);
POPLAR_CUDA_DRIVER(DECLARE)
#undef DECLARE
namespace lt {
#define DECLARE(NAME, ...) extern "C" Status NAME(__VA_ARGS__);
POPLAR_CUBLASLT(DECLARE)
#undef DECLARE
} // namespace lt
} // namespace poplar::runtime::cuda
using namespace poplar::runtime::cuda;
using namespace poplar::runtime::cuda::lt;

namespace {

class Emulation : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), 0);
    cuda::Context context;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    ASSERT_EQ(cuCtxSetCurrent(context), 0);
    ASSERT_EQ(cuStreamCreate(&stream, cuda::NonBlocking), 0);
    ASSERT_EQ(cuMemAlloc_v2(&memory, 256), 0);
  }
  void TearDown() override {
    cuMemFree_v2(memory);
    cuStreamDestroy_v2(stream);
    cuDevicePrimaryCtxRelease_v2(0);
  }

  /// Loads PTX; what is said if that fails.
  static cuda::Result loadText(const std::string &text, cuda::Module &module,
                               std::string &log) {
    char said[1024] = "";
    int options[] = {cuda::JitErrorLog};
    void *values[] = {said};
    cuda::Result result =
        cuModuleLoadDataEx(&module, text.c_str(), 1, options, values);
    log = said;
    return result;
  }
  static std::string write(const std::string &parameters,
                           const std::string &body,
                           const std::string &version = "7.0",
                           const std::string &hints = "") {
    return ".version " + version +
           "\n.target sm_80\n.address_size 64\n.visible .entry k(\n" +
           parameters + "\n)\n" + hints +
           "{\n.reg .b16 %rs<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
           ".reg .pred %p<9>;\n" +
           body + "ret;\n}\n";
  }
  static cuda::Function load(const std::string &parameters,
                             const std::string &body,
                             const std::string &hints = "") {
    cuda::Module module;
    cuda::Function function = nullptr;
    std::string log;
    EXPECT_EQ(loadText(write(parameters, body, "7.0", hints), module, log), 0)
        << log;
    EXPECT_EQ(cuModuleGetFunction(&function, module, "k"), 0);
    return function;
  }
  /// Loads a kernel with one pointer and runs blocks of it.
  void run(const std::string &body, unsigned threads, unsigned blocks = 1) {
    cuda::Function function = load(".param .u64 k_param_0",
                                   "ld.param.b64 %rd1, [k_param_0];\n" + body);
    void *parameters[] = {&memory};
    ASSERT_EQ(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                             parameters, nullptr),
              0);
    cuStreamSynchronize(stream);
  }
  std::vector<uint32_t> read() {
    std::vector<uint32_t> words(64);
    cuMemcpyDtoHAsync_v2(words.data(), memory, 256, stream);
    return words;
  }

  cuda::Stream stream = nullptr;
  cuda::Address memory = 0;
};

TEST_F(Emulation, HostCannotFollowAddressesOfTheGPU) {
  auto *pointer = reinterpret_cast<volatile char *>(memory);
  EXPECT_DEATH(*pointer = 1, "");
}

TEST_F(Emulation, WorkIsDoneWhenItIsWaitedFor) {
  void *staging;
  ASSERT_EQ(cuMemHostAlloc(&staging, 256, 0), 0);
  std::memset(staging, 1, 256);
  cuMemcpyHtoDAsync_v2(memory, staging, 256, stream);
  // Too early: the copy has not been made.
  std::memset(staging, 2, 256);
  EXPECT_EQ(read()[0], 0x02020202u);
  std::vector<char> own(256, 3);
  cuMemcpyHtoDAsync_v2(memory, own.data(), 256, stream);
  std::memset(own.data(), 4, 256);
  EXPECT_EQ(read()[0], 0x03030303u);
  cuMemFreeHost(staging);
}

TEST_F(Emulation, StreamsWaitForNothingButEvents) {
  cuda::Stream other;
  cuda::Event event;
  ASSERT_EQ(cuStreamCreate(&other, cuda::NonBlocking), 0);
  ASSERT_EQ(cuEventCreate(&event, cuda::NoTiming), 0);
  cuMemsetD8Async(memory, 1, 256, stream);
  cuEventRecord(event, stream);
  uint32_t word = 0;
  // Too early: nothing has been waited for.
  cuMemcpyDtoHAsync_v2(&word, memory, 4, other);
  EXPECT_NE(word, 0x01010101u);
  ASSERT_EQ(cuStreamWaitEvent(other, event, 0), 0);
  // What the event is recorded for later does not matter.
  cuMemsetD8Async(memory, 2, 256, stream);
  cuEventRecord(event, stream);
  cuMemcpyDtoHAsync_v2(&word, memory, 4, other);
  EXPECT_EQ(word, 0x01010101u);
  EXPECT_EQ(cuEventQuery(event), 0);
  cuMemcpyDtoHAsync_v2(&word, memory, 4, other);
  EXPECT_EQ(word, 0x02020202u);
  cuEventDestroy_v2(event);
  cuStreamDestroy_v2(other);
}

TEST_F(Emulation, CapturesWorkAndDoesItWithGraphs) {
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, 1), 0);
  EXPECT_EQ(cuMemsetD8Async(memory, 1, 128, stream), 0);
  EXPECT_EQ(cuMemsetD8Async(memory, 2, 64, stream), 0);
  cuda::Graph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), 0);
  cuda::GraphExec graphs = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&graphs, graph, 0), 0);
  ASSERT_EQ(cuGraphDestroy(graph), 0);
  // Nothing so far has been done.
  EXPECT_EQ(read()[0], 0xFFFFFFFFu);
  for (int time = 0; time < 2; ++time) {
    cuMemsetD8Async(memory, 3, 256, stream);
    ASSERT_EQ(cuGraphLaunch(graphs, stream), 0);
    std::vector<uint32_t> words = read();
    EXPECT_EQ(words[0], 0x02020202u);
    EXPECT_EQ(words[16], 0x01010101u);
    EXPECT_EQ(words[32], 0x03030303u);
  }
  cuGraphExecDestroy(graphs);
}

TEST_F(Emulation, RefusesWhatNoGraphHolds) {
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, 1), 0);
  EXPECT_NE(cuStreamBeginCapture_v2(stream, 1), 0);
  EXPECT_NE(cuStreamSynchronize(stream), 0);
  cuda::Address more = 0;
  EXPECT_NE(cuMemAlloc_v2(&more, 16), 0);
  std::vector<char> own(16);
  EXPECT_NE(cuMemcpyHtoDAsync_v2(memory, own.data(), 16, stream), 0);
  EXPECT_NE(cuMemcpyDtoHAsync_v2(own.data(), memory, 16, stream), 0);
  cuda::Graph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), 0);
  cuGraphDestroy(graph);
  EXPECT_NE(cuStreamEndCapture(stream, &graph), 0);
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
}

TEST_F(Emulation, CallsNeedAContextOfTheirThread) {
  constexpr cuda::Result noContext = 201, contextDestroyed = 709;
  std::thread([&] {
    cuda::Address more = 0;
    EXPECT_EQ(cuMemAlloc_v2(&more, 16), noContext);
    EXPECT_EQ(cuMemFree_v2(memory), noContext);
    EXPECT_EQ(cuMemsetD8Async(memory, 1, 16, stream), noContext);
    EXPECT_EQ(cuStreamSynchronize(stream), noContext);
    cuda::Event event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, 0), noContext);
    cuda::Context context;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    ASSERT_EQ(cuCtxSetCurrent(context), 0);
    EXPECT_EQ(cuStreamSynchronize(stream), 0);
    EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), 0);
  }).join();
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
  // The last release destroys it; the next one is another.
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), 0);
  EXPECT_EQ(cuStreamSynchronize(stream), contextDestroyed);
  cuda::Context context;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
  EXPECT_EQ(cuStreamSynchronize(stream), contextDestroyed);
  ASSERT_EQ(cuCtxSetCurrent(context), 0);
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
}

TEST_F(Emulation, BlocksAreAsTheKernelSays) {
  constexpr cuda::Result tooManyResources = 701;
  auto launch = [&](const char *hints, unsigned x, unsigned y, unsigned z) {
    void *none = nullptr;
    return cuLaunchKernel(load("", "", hints), 1, 1, 1, x, y, z, 0, stream,
                          &none, nullptr);
  };
  EXPECT_EQ(launch(".reqntid 32, 8, 1\n", 32, 8, 1), 0);
  EXPECT_NE(launch(".reqntid 32, 8, 1\n", 256, 1, 1), 0);
  EXPECT_EQ(launch(".maxntid 32, 8, 1\n", 128, 2, 1), 0);
  EXPECT_NE(launch(".maxntid 32, 8, 1\n", 32, 9, 1), 0);
  EXPECT_EQ(launch("", 257, 1, 1), 0);
  EXPECT_EQ(launch("", 258, 1, 1), tooManyResources);
  EXPECT_NE(launch(".maxntid 1, 1, 128\n", 1, 1, 128), 0);
}

TEST_F(Emulation, ImagesHaveLimits) {
  cuda::Module module;
  std::string log;
  auto expect = [&](const std::string &text, cuda::Result result) {
    EXPECT_EQ(loadText(text, module, log), result);
  };
  constexpr cuda::Result invalid = 218;
  auto bytes = [](int64_t count) {
    return ".param .align 8 .b8 k_param_0[" + std::to_string(count) + "]";
  };
  expect(write(bytes(4096), "", "8.0"), 0);
  expect(write(bytes(4104), "", "8.0"), invalid);
  EXPECT_EQ(log, "kernel k has 4104 bytes of parameters, 4096 are the most");
  expect(write(bytes(32760), "", "8.1"), 0);
  expect(write(bytes(32768), "", "8.1"), invalid);
  // Variables outside of kernels count if a kernel names them.
  std::string outside = ".shared .align 16 .b8 one[40000];\n"
                        ".shared .align 16 .b8 other[40000];\n",
              text = write("", "mov.u64 %rd1, one;\n");
  text.insert(text.find(".visible"), outside);
  expect(text, 0);
  text.insert(text.find("ret;"), "mov.u64 %rd2, other;\n");
  expect(text, invalid);
  EXPECT_EQ(log, "kernel k has 80000 bytes of shared memory, 49152 are the "
                 "most");
  expect(write("", "", "7.0", ".reqntid 1025, 1, 1\n"), invalid);
  setenv("POPLAR_EMULATED_CUDA", "12000", 1);
  expect(write("", "", "8.0"), 0);
  expect(write("", "", "8.1"), cuda::UnsupportedPTXVersion);
  setenv("POPLAR_EMULATED_CUDA", "12080", 1);
  expect(write("", "", "8.7"), 0);
  expect(write("", "", "8.8"), cuda::UnsupportedPTXVersion);
  unsetenv("POPLAR_EMULATED_CUDA");
}

TEST_F(Emulation, EventsHaveTimesIfAskedFor) {
  cuda::Event begin, end;
  float milliseconds = 0;
  ASSERT_EQ(cuEventCreate(&begin, 0), 0);
  ASSERT_EQ(cuEventCreate(&end, cuda::NoTiming), 0);
  // Nor before they are recorded, or done.
  EXPECT_NE(cuEventElapsedTime(&milliseconds, begin, begin), 0);
  cuMemsetD8Async(memory, 1, 256, stream);
  cuEventRecord(begin, stream);
  cuEventRecord(end, stream);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, begin), cuda::NotReady);
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, begin), 0);
  EXPECT_NE(cuEventElapsedTime(&milliseconds, begin, end), 0);
  cuEventDestroy_v2(begin);
  cuEventDestroy_v2(end);
}

TEST_F(Emulation, ProductsNeedTheirScratchAndAlignment) {
  lt::Object product, layout, preference;
  ASSERT_EQ(cublasLtMatmulDescCreate(&product, lt::ComputeF32, lt::TypeF32), 0);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, lt::TypeF32, 2, 2, 2), 0);
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), 0);
  uint64_t bytes = 64;
  uint32_t aligned = 64;
  cublasLtMatmulPreferenceSetAttribute(preference, lt::MaxWorkspaceBytes,
                                       &bytes, sizeof(bytes));
  for (int operand = 0; operand < 4; ++operand)
    cublasLtMatmulPreferenceSetAttribute(
        preference, lt::MinAlignmentA + operand, &aligned, sizeof(aligned));
  lt::Heuristic choice;
  int found = 0;
  ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(nullptr, product, layout, layout,
                                           layout, layout, preference, 1,
                                           &choice, &found),
            0);
  const float one = 1, zero = 0;
  auto multiply = [&](uint64_t operand, uint64_t scratch, size_t size) {
    auto *at = reinterpret_cast<void *>(operand);
    return cublasLtMatmul(nullptr, product, &one, at, layout, at, layout, &zero,
                          at, layout, at, layout, &choice.Choice,
                          reinterpret_cast<void *>(scratch), size, stream);
  };
  EXPECT_EQ(multiply(memory + 64, memory, 64), 0);
  EXPECT_NE(multiply(memory + 96, memory, 64), 0);
  EXPECT_NE(multiply(memory + 64, memory, 32), 0);
  EXPECT_NE(multiply(memory, memory + 128, 64), 0);
  EXPECT_NE(multiply(memory + 64, 0, 64), 0);
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
  // No product of f32 is stored in 16 bits.
  lt::Object half;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&half, lt::TypeBF16, 2, 2, 2), 0);
  EXPECT_NE(cublasLtMatmulAlgoGetHeuristic(nullptr, product, layout, layout,
                                           half, half, preference, 1, &choice,
                                           &found),
            0);
}

TEST_F(Emulation, RunsThreadsThatExchange) {
  // Every thread gets the number of its neighbour, and adds 100 if any thread
  // has a number of 33 or more.
  run("cvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n"
      "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n"
      "setp.ge.u32 %p1, %r1, 33;\nbar.red.or.pred %p2, 0, %p1;\n"
      "selp.b32 %r3, 100, 0, %p2;\nadd.s32 %r4, %r2, %r3;\n"
      "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"
      "st.global.b32 [%rd4], %r4;\n",
      64);
  std::vector<uint32_t> words = read();
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(words[i], (i ^ 1) + 100);
}

TEST_F(Emulation, WarpsVote) {
  // The lanes of a warp whose number is a multiple of 3 from 30 on, and how
  // many there are.
  run("mov.u32 %r1, %tid.x;\nrem.u32 %r2, %r1, 3;\n"
      "setp.eq.s32 %p1, %r2, 0;\nsetp.ge.u32 %p2, %r1, 30;\n"
      "and.pred %p3, %p1, %p2;\n"
      "vote.sync.ballot.b32 %r3, %p3, -1;\npopc.b32 %r4, %r3;\n"
      "shr.u32 %r5, %r1, 5;\nmul.wide.u32 %rd2, %r5, 8;\n"
      "add.s64 %rd3, %rd1, %rd2;\nand.b32 %r6, %r1, 31;\n"
      "setp.eq.s32 %p4, %r6, 0;\n"
      "@%p4 st.global.v2.b32 [%rd3], {%r3, %r4};\n",
      64);
  EXPECT_EQ(read()[0], 0x40000000u);
  EXPECT_EQ(read()[1], 1u);
  EXPECT_EQ(read()[2], 0x92492492u);
  EXPECT_EQ(read()[3], 11u);
}

TEST_F(Emulation, ParametersMayBeArrays) {
  cuda::Function function =
      load(".param .align 8 .b8 k_param_0[16],\n.param .u64 k_param_1",
           "mov.b64 %rd1, k_param_0;\nmov.u32 %r1, %ctaid.x;\n"
           "mul.wide.u32 %rd2, %r1, 8;\nadd.s64 %rd3, %rd1, %rd2;\n"
           "ld.param.b64 %rd4, [%rd3];\nld.param.b32 %r2, [k_param_1];\n"
           "st.global.b32 [%rd4], %r2;\n");
  uint64_t packed[] = {memory, memory + 8, 7};
  size_t bytes = sizeof(packed);
  void *extra[] = {cuda::ParameterBuffer, packed, cuda::ParameterBytes, &bytes,
                   cuda::ParametersEnd};
  auto launch = [&] {
    return cuLaunchKernel(function, 2, 1, 1, 1, 1, 1, 0, stream, nullptr,
                          extra);
  };
  ASSERT_EQ(launch(), 0);
  EXPECT_EQ(read()[0], 7u);
  EXPECT_EQ(read()[2], 7u);
  bytes -= 8;
  EXPECT_NE(launch(), 0);
}

TEST_F(Emulation, ExtractsBits) {
  run("mov.u64 %rd7, 0x1234567890ABCDEF;\n"
      "bfe.u64 %rd7, %rd7, 20, 40;\n"
      "st.global.b64 [%rd1], %rd7;\n",
      1);
  EXPECT_EQ(read()[0], 0x4567890Au);
  EXPECT_EQ(read()[1], 0x23u);
  // A negative byte, and one that ends beyond the register.
  run("mov.u64 %rd7, 0x1234567890ABCDEF;\n"
      "bfe.s64 %rd7, %rd7, 8, 8;\n"
      "st.global.b64 [%rd1], %rd7;\n"
      "mov.u32 %r1, 0x90ABCDEF;\n"
      "bfe.s32 %r1, %r1, 28, 8;\n"
      "st.global.b32 [%rd1+8], %r1;\n",
      1);
  EXPECT_EQ(read()[0], 0xFFFFFFCDu);
  EXPECT_EQ(read()[1], 0xFFFFFFFFu);
  EXPECT_EQ(read()[2], 0xFFFFFFF9u);
}

TEST_F(Emulation, FlushesSubnormalPowersWhereAsked) {
  // 2 to the power of -130 and -126.
  run("ex2.approx.f32 %r1, 0fC3020000;\n"
      "ex2.approx.ftz.f32 %r2, 0fC3020000;\n"
      "ex2.approx.ftz.f32 %r3, 0fC2FC0000;\n"
      "st.global.v2.b32 [%rd1], {%r1, %r2};\nst.global.b32 [%rd1+8], %r3;\n",
      1);
  std::vector<uint32_t> words = read();
  EXPECT_EQ(words[0], 1u << 19);
  EXPECT_EQ(words[1], 0u);
  EXPECT_EQ(words[2], 1u << 23);
}

TEST_F(Emulation, EndsAtAccessesOutOfBounds) {
  EXPECT_DEATH(run("st.global.b32 [%rd1+256], 1;\n", 1), "are not there");
  EXPECT_DEATH(run("st.global.b32 [%rd1+2], 1;\n", 1), "not aligned");
  EXPECT_DEATH(run("mov.u64 %rd2, 64;\nst.shared.b32 [%rd2], 1;\n", 1),
               "shared memory");
}

TEST_F(Emulation, EndsAtBarriersThatOthersNeverReach) {
  EXPECT_DEATH(run("mov.u32 %r1, %tid.x;\nsetp.eq.b32 %p1, %r1, 0;\n"
                   "@%p1 bra $L__BB0_1;\nbar.sync 0;\n$L__BB0_1:\n",
                   2),
               "never reach");
}

TEST_F(Emulation, EndsAtBarriersThatAWarpDoesNotShare) {
  // Lanes with an even and with an odd number wait at barriers of their own.
  const char *text = "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, ONE;\n"
                     "setp.eq.b32 %p1, %r2, 0;\n@%p1 bra $L__BB0_1;\n"
                     "bar.sync 0;\nbra $L__BB0_2;\n"
                     "$L__BB0_1:\nbar.sync 0;\n$L__BB0_2:\n";
  auto split = [&](const char *bit) {
    std::string body = text;
    return body.replace(body.find("ONE"), 3, bit);
  };
  EXPECT_DEATH(run(split("1"), 64), "come to one instruction: they are at");
  // Warps may.
  run(split("32"), 64);
}

/// Every thread of these has its number in %r1 and 4 x that, in %rd4, after
/// the memory's address; %rd5 is that of shared memory.
class Races : public Emulation {
protected:
  void SetUp() override {
    Emulation::SetUp();
    setenv("POPLAR_EMULATED_RACES", "1", 1);
  }
  void TearDown() override {
    unsetenv("POPLAR_EMULATED_RACES");
    Emulation::TearDown();
  }
  void run(const std::string &body, unsigned threads, unsigned blocks = 1) {
    Emulation::run(".shared .align 16 .b8 s[1024];\nmov.u32 %r1, %tid.x;\n"
                   "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
                   "mov.u64 %rd6, s;\nadd.s64 %rd5, %rd6, %rd3;\n" +
                       body,
                   threads, blocks);
  }
};

TEST_F(Races, OneWriterAndOneReader) {
  std::string write = "st.shared.b32 [%rd5], %r1;\n",
              read = "ld.shared.b32 %r2, [%rd6+4];\n";
  EXPECT_DEATH(run(write + read, 2),
               "race in k on shared memory at 0x4: .*thread [01] of block 0 "
               "(reads|writes) it at line [0-9]+, `.*`; thread [01] of block 0 "
               "(reads|writes) it at line [0-9]+, .*nothing orders the two");
  EXPECT_DEATH(run(write + read, 64), "race in k on shared");
  run(write + "bar.sync 0;\n" + read, 64);
  // A write after a read has to wait, too.
  EXPECT_DEATH(run(write + "bar.sync 0;\n" + read + write, 64),
               "race in k on shared memory");
  run(write + "bar.sync 0;\n" + read + "bar.sync 0;\n" + write, 64);
}

TEST_F(Races, ManyReadersAndOneWriter) {
  // The first two are by two warps, the last by the last thread of the second.
  std::string reads = "ld.shared.b32 %r2, [%rd6];\n",
              write = "setp.eq.b32 %p1, %r1, 63;\n"
                      "@%p1 st.shared.b32 [%rd6], %r1;\n";
  EXPECT_DEATH(run(reads + write, 64), "race in k on shared memory at 0x0");
  EXPECT_DEATH(run(reads + "bar.warp.sync -1;\n" + write, 64), "race in k");
  run(reads + "bar.sync 0;\n" + write, 64);
}

TEST_F(Races, StoresOfTheSameValue) {
  EXPECT_DEATH(run("st.shared.b32 [%rd6], 1;\n", 2), "race in k on shared");
  EXPECT_DEATH(run("st.global.b32 [%rd1], 1;\n", 2), "race in k on global");
  run("red.global.or.b32 [%rd1], 1;\n", 2, 3);
  EXPECT_DEATH(
      run("red.global.or.b32 [%rd1], 1;\nld.global.b32 %r2, [%rd1];\n", 2),
      "changes atomically");
}

TEST_F(Races, LanesOfAWarp) {
  std::string write = "st.shared.b32 [%rd5], %r1;\n",
              read = "xor.b32 %r3, %r1, 1;\nmul.wide.u32 %rd7, %r3, 4;\n"
                     "add.s64 %rd8, %rd6, %rd7;\nld.shared.b32 %r2, [%rd8];\n";
  EXPECT_DEATH(run(write + read, 32), "race in k");
  // An exchange orders no memory.
  EXPECT_DEATH(
      run(write + "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n" + read, 32),
      "race in k");
  run(write + "bar.warp.sync -1;\n" + read, 64);
}

TEST_F(Races, BlocksOfALaunch) {
  EXPECT_DEATH(run("st.global.b32 [%rd4], 1;\nbar.sync 0;\n", 32, 2),
               "race in k on global memory at 0x[0-9a-f]+: thread 0 of block 0 "
               "writes.*thread 0 of block 1 writes");
  EXPECT_DEATH(run("ld.global.b32 %r2, [%rd4];\nmov.u32 %r3, %ctaid.x;\n"
                   "setp.eq.b32 %p1, %r3, 1;\n@%p1 st.global.b32 [%rd4], 1;\n",
                   32, 3),
               "race in k on global memory");
  // Launches are one after the other, and threads have words of their own.
  run("st.global.b32 [%rd4], 1;\n", 32);
  run("st.global.b32 [%rd4], 1;\n", 32);
}

TEST_F(Races, PartsOfAWord) {
  run("add.s64 %rd7, %rd1, 0;\nmul.wide.u32 %rd7, %r1, 2;\n"
      "add.s64 %rd8, %rd1, %rd7;\ncvt.u16.u32 %rs1, %r1;\n"
      "st.global.b16 [%rd8], %rs1;\n",
      32);
}

TEST_F(Races, CopiesNobodyWaitedFor) {
  // Thread 0 copies 16 bytes; it, or all, read them.
  auto branch = [](const std::string &label) {
    return "setp.ne.b32 %p1, %r1, 0;\n@%p1 bra " + label +
           ";\ncp.async.cg.shared.global [%rd6], [%rd1], 16, 16;\n" + label +
           ":\ncp.async.commit_group;\n";
  };
  std::string copy = branch("$L1"), again = branch("$L2"),
              wait = "cp.async.wait_group 0;\n", barrier = "bar.sync 0;\n",
              read = "ld.shared.b32 %r2, [%rd6];\n";
  EXPECT_DEATH(run(copy + read + wait, 1), "has not been waited for");
  EXPECT_DEATH(run(copy + barrier + read + wait, 32),
               "has not been waited for");
  EXPECT_DEATH(run(copy + wait + read, 32), "nothing orders the two");
  run(copy + wait + barrier + read, 32);
  // What a copy overwrites must have been read by all.
  EXPECT_DEATH(run(copy + wait + barrier + read + again + wait, 32),
               "race in k on shared memory");
}

TEST_F(Races, AreNotLookedForUnlessAsked) {
  unsetenv("POPLAR_EMULATED_RACES");
  run("st.shared.b32 [%rd6], 1;\n", 2);
}

TEST_F(Emulation, RunsThreadsInAnotherOrder) {
  // The last that comes wins.
  auto winner = [&](const char *order) {
    setenv("POPLAR_EMULATED_ORDER", order, 1);
    run("mov.u32 %r1, %tid.x;\nst.global.b32 [%rd1], %r1;\n", 64);
    unsetenv("POPLAR_EMULATED_ORDER");
    return read()[0];
  };
  EXPECT_EQ(winner("0"), 63u);
  EXPECT_NE(winner("1"), winner("2"));
  EXPECT_EQ(winner("2"), winner("2"));
}

TEST(PTX, RefusesWhatIsNotKnown) {
  PTXProgram program;
  EXPECT_EQ(translatePTX(".version 7.0\n.target sm_80\n.address_size 64\n"
                         ".visible .entry k(\n)\n{\n.reg .b32 %r<2>;\n"
                         "brev.b32 %r1, %r1;\nret;\n}\n",
                         program),
            "the emulation does not know instruction brev in `brev.b32 %r1, "
            "%r1;` of k");
}

} // namespace
