//===- Driver.cpp - An emulated driver for NVIDIA's GPUs ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/cuda/ calls of libcuda.so.1, on a CPU: for tests of everything
// but a GPU. PTX becomes C++ (PTX.h), is compiled, and its blocks run one after
// the other (BlockEmulator.h). It is told by the environment:
//
//   POPLAR_EMULATED_GPUS    chips of the GPUs there are; default "sm_90"
//   POPLAR_EMULATED_CUDA    the version of CUDA that the driver is for; 13000
//   POPLAR_EMULATED_MEMORY  bytes of a GPU's memory
//   POPLAR_EMULATED_CACHE   a directory that keeps what was compiled
//   POPLAR_EMULATED_NO_PEERS  if set, no GPU reads the memory of another
//   POPLAR_EMULATED_RACES   if set, races of threads are found (Races.h)
//   POPLAR_EMULATED_ORDER   a number: threads and blocks run in an order of its
//                           own (BlockEmulator.h)
//   POPLAR_EMULATED_COUNT   if set, calls are counted and printed at the end
//
//===----------------------------------------------------------------------===//

#include "cuda/Driver.h"
#include "KernelCompiler.h"
#include "Memory.h"
#include "PTX.h"
#include "Prelude.h"
#include "Races.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

using namespace poplar::emulated;
using namespace poplar::gputest;
namespace cuda = poplar::runtime::cuda;
using cuda::Result;

struct CUctx_st {};
struct CUstream_st {
  /// What waits for events of a stream may be done when that is gone.
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};
struct CUevent_st {
  std::shared_ptr<Queue> queue;
  int64_t number = 0;
  bool hasTime = true;
};
struct CUfunc_st {
  Kernel kernel;
  const PTXKernel *description;
};
struct CUgraph_st {
  std::deque<Queue::Work> work;
};
struct CUgraphExec_st {
  std::deque<Queue::Work> work;
};
struct CUmod_st {
  PTXProgram program;
  std::map<std::string, CUfunc_st> functions;
};

namespace {

constexpr Result notFound = 500, invalidValue = 1, invalidPTX = 218,
                 notCapturable = 900, notCapturing = 401, noContext = 201,
                 contextDestroyed = 709, invalidHandle = 400,
                 tooManyResources = 701;

/// What a block may have, and a thread at most, on every chip; and a kernel's
/// variables in shared memory, without asking for more.
constexpr int64_t mostThreads = 1024, mostRegisters = 65536,
                  mostRegistersOfThread = 255, mostSharedBytes = 48 << 10;
/// Bytes of parameters, before PTX 8.1 and from then on.
constexpr int64_t fewParameterBytes = 4096, mostParameterBytes = 32764;

/// What a training loop has to do without, and what it should do.
struct Calls {
  int allocations = 0, graphs = 0, graphLaunches = 0, kernelLaunches = 0;
  /// Synchronizations of the host; waits of streams for collectives, and how
  /// many of these were given when the collective was not done.
  int synchronizations = 0, collectiveWaits = 0, earlyWaits = 0;
  ~Calls() {
    if (std::getenv("POPLAR_EMULATED_COUNT"))
      std::printf("emulated GPU: %d allocations, %d graphs made, %d started, "
                  "%d kernels started outside of graphs, %d waits of the host, "
                  "%d waits of streams for collectives, %d of them early\n",
                  allocations, graphs, graphLaunches, kernelLaunches,
                  synchronizations, collectiveWaits, earlyWaits);
  }
} calls;

/// Streams of the thread that capture, all of which count: what could wait for
/// one is refused, as is what would not be the same in a graph.
thread_local int capturing = 0;

std::vector<int> getCapabilities() {
  const char *given = std::getenv("POPLAR_EMULATED_GPUS");
  std::istringstream list(given ? given : "sm_90");
  std::vector<int> capabilities;
  for (std::string chip; std::getline(list, chip, ',');)
    if (chip.size() > 3)
      capabilities.push_back(std::atoi(chip.c_str() + 3));
  return capabilities;
}

using Guard = std::lock_guard<std::recursive_mutex>;

int current = 0;
CUctx_st context;
/// The context is destroyed when it has been released as often as retained: the
/// next one is another. A thread has none before it sets one.
std::atomic<int> retained = 0, generation = 0;
thread_local int ownGeneration = 0;

/// What a call is refused with: without a context, or while the thread captures
/// unless that `isCaptured`; 0 if it is not.
Result refuse(bool isCaptured = false) {
  if (!ownGeneration)
    return noContext;
  if (!retained || ownGeneration != generation)
    return contextDestroyed;
  return capturing && !isCaptured ? notCapturable : 0;
}

/// The version of CUDA that PTX came with: 12.8 for 8.7.
int getCUDA(int ptx) {
  return ptx < 70   ? 0
         : ptx < 80 ? 11000 + ptx % 10 * 10
         : ptx < 86 ? 12000 + ptx % 10 * 10
         : ptx < 90 ? 12010 + ptx % 10 * 10
                    : 13000 + ptx % 10 * 10;
}

/// What the driver's assembler has against a kernel; empty for nothing.
std::string findExcess(const PTXKernel &kernel, int version) {
  int64_t most = version < 81 ? fewParameterBytes : mostParameterBytes,
          bytes = 8 * kernel.countParameterWords();
  std::string excess;
  if (bytes > most)
    excess =
        std::to_string(bytes) + " bytes of parameters, " + std::to_string(most);
  if (kernel.namedSharedBytes > mostSharedBytes)
    excess = std::to_string(kernel.namedSharedBytes) +
             " bytes of shared memory, " + std::to_string(mostSharedBytes);
  if (kernel.mostThreads > mostThreads)
    excess = std::to_string(kernel.mostThreads) + " threads, " +
             std::to_string(mostThreads);
  return excess.empty()
             ? ""
             : "kernel " + kernel.name + " has " + excess + " are the most";
}
/// Memory of the host that is read when a copy is done, not when it is queued.
std::set<std::pair<const char *, size_t>> pinned;

bool isPinned(const void *data, size_t bytes) {
  Guard guard(getLock());
  auto *first = static_cast<const char *>(data);
  for (auto [start, size] : pinned)
    if (first >= start && first + bytes <= start + size)
      return true;
  return false;
}

} // namespace

int getCurrentDevice() { return refuse(true) == 0 ? current : -1; }

static const std::shared_ptr<Queue> &getShared(void *stream) {
  static CUstream_st defaultStream;
  return (stream ? static_cast<CUstream_st *>(stream) : &defaultStream)->queue;
}
Queue &getQueue(void *stream) { return *getShared(stream); }

extern "C" {

Result cuInit(unsigned) { return getCapabilities().empty() ? 100 : 0; }

Result cuDriverGetVersion(int *version) {
  const char *given = std::getenv("POPLAR_EMULATED_CUDA");
  *version = given ? std::atoi(given) : 13000;
  return 0;
}

Result cuGetErrorName(Result, const char **name) {
  *name = "EMULATED";
  return 0;
}
Result cuGetErrorString(Result result, const char **text) {
  *text = result == cuda::OutOfMemory ? "out of memory"
          : result == 100             ? "no CUDA-capable device is detected"
          : result == notFound        ? "named symbol not found"
          : result == notCapturable   ? "operation not permitted in a capture"
          : result == notCapturing    ? "no capture is under way"
                                      : "error of the emulation";
  return 0;
}

Result cuDeviceGetCount(int *count) {
  *count = int(getCapabilities().size());
  return 0;
}
Result cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
Result cuDeviceGetName(char *name, int size, int device) {
  std::snprintf(name, size_t(size), "emulated GPU %d", device);
  return 0;
}
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  int capability = getCapabilities().at(size_t(device));
  if (attribute == cuda::CapabilityMajor)
    *value = capability / 10;
  else if (attribute == cuda::CapabilityMinor)
    *value = capability % 10;
  else if (attribute == cuda::Multiprocessors)
    *value = 2;
  else if (attribute == cuda::ClockKHz)
    *value = 1000000;
  else if (attribute == cuda::MemoryClockKHz)
    *value = 1000000;
  else if (attribute == cuda::MemoryBusBits)
    *value = 64;
  else
    return invalidValue;
  return 0;
}

Result cuDeviceGetPCIBusId(char *id, int size, int device) {
  std::snprintf(id, size_t(size), "0000:%02x:00.0", device + 1);
  return 0;
}

Result cuDeviceGetByPCIBusId(int *device, const char *id) {
  unsigned number = 0;
  if (std::sscanf(id, "0000:%02x:00.0", &number) != 1 || number == 0 ||
      number > getCapabilities().size())
    return 101;
  *device = int(number) - 1;
  return 0;
}
Result cuDeviceCanAccessPeer(int *can, int, int) {
  *can = !std::getenv("POPLAR_EMULATED_NO_PEERS");
  return 0;
}

Result cuDevicePrimaryCtxRetain(CUctx_st **result, int device) {
  if (retained++ == 0)
    ++generation;
  current = device;
  *result = &context;
  return 0;
}
Result cuDevicePrimaryCtxRelease_v2(int) {
  if (retained == 0)
    return noContext;
  --retained;
  return 0;
}
Result cuCtxGetDevice(int *device) {
  *device = current;
  return 0;
}
Result cuCtxSetCurrent(CUctx_st *next) {
  ownGeneration = next ? generation.load() : 0;
  return 0;
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  if (Result refusal = refuse(true))
    return refusal;
  *free = size_t(Memory::get().getFree());
  *total = size_t(Memory::get().getTotal());
  return 0;
}
Result cuMemAlloc_v2(cuda::Address *address, size_t bytes) {
  if (Result refusal = refuse())
    return refusal;
  ++calls.allocations;
  *address = Memory::get().allocate(int64_t(bytes));
  return *address ? 0 : cuda::OutOfMemory;
}
Result cuMemFree_v2(cuda::Address address) {
  if (Result refusal = refuse())
    return refusal;
  Memory::get().free(address);
  return 0;
}
Result cuMemHostAlloc(void **data, size_t bytes, unsigned) {
  if (Result refusal = refuse())
    return refusal;
  ++calls.allocations;
  *data = std::malloc(bytes);
  Guard guard(getLock());
  pinned.insert({static_cast<char *>(*data), bytes});
  return 0;
}
Result cuMemFreeHost(void *data) {
  if (Result refusal = refuse())
    return refusal;
  Guard guard(getLock());
  auto found = pinned.lower_bound({static_cast<char *>(data), 0});
  if (found == pinned.end() || found->first != data)
    return invalidValue;
  pinned.erase(found);
  std::free(data);
  return 0;
}

Result cuMemcpyHtoDAsync_v2(cuda::Address to, const void *from, size_t bytes,
                            CUstream_st *stream) {
  bool isStaged = isPinned(from, bytes);
  if (Result refusal = refuse(isStaged))
    return refusal;
  if (isStaged) {
    getQueue(stream).add([=] {
      std::memcpy(Memory::get().at(to, int64_t(bytes)), from, bytes);
    });
    return 0;
  }
  auto *data = static_cast<const char *>(from);
  getQueue(stream).add([to, copy = std::vector<char>(data, data + bytes)] {
    std::memcpy(Memory::get().at(to, int64_t(copy.size())), copy.data(),
                copy.size());
  });
  return 0;
}
Result cuMemcpyDtoHAsync_v2(void *to, cuda::Address from, size_t bytes,
                            CUstream_st *stream) {
  bool isStaged = isPinned(to, bytes);
  if (Result refusal = refuse(isStaged))
    return refusal;
  getQueue(stream).add(
      [=] { std::memcpy(to, Memory::get().at(from, int64_t(bytes)), bytes); });
  if (!isStaged)
    getQueue(stream).run();
  return 0;
}
Result cuCtxEnablePeerAccess(CUctx_st *, unsigned) { return 0; }
/// All GPUs have the same memory here.
Result cuMemcpyPeerAsync(cuda::Address to, CUctx_st *, cuda::Address from,
                         CUctx_st *, size_t bytes, CUstream_st *stream) {
  getQueue(stream).add([=] {
    std::memmove(Memory::get().at(to, int64_t(bytes)),
                 Memory::get().at(from, int64_t(bytes)), bytes);
  });
  return 0;
}

Result cuMemcpyDtoDAsync_v2(cuda::Address to, cuda::Address from, size_t bytes,
                            CUstream_st *stream) {
  if (Result refusal = refuse(true))
    return refusal;
  getQueue(stream).add([=] {
    std::memmove(Memory::get().at(to, int64_t(bytes)),
                 Memory::get().at(from, int64_t(bytes)), bytes);
  });
  return 0;
}
Result cuMemsetD8Async(cuda::Address to, unsigned char value, size_t bytes,
                       CUstream_st *stream) {
  if (Result refusal = refuse(true))
    return refusal;
  getQueue(stream).add(
      [=] { std::memset(Memory::get().at(to, int64_t(bytes)), value, bytes); });
  return 0;
}

Result cuStreamCreate(CUstream_st **stream, unsigned) {
  if (Result refusal = refuse(true))
    return refusal;
  *stream = new CUstream_st;
  return 0;
}
Result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = greatestPriority;
  return refuse(true);
}
Result cuStreamCreateWithPriority(CUstream_st **stream, unsigned flags,
                                  int priority) {
  if (Result refusal = cuStreamCreate(stream, flags))
    return refusal;
  // The driver takes the nearest that it has.
  (*stream)->queue->priority = std::clamp(priority, greatestPriority, 0);
  return 0;
}
Result cuStreamBeginCapture_v2(CUstream_st *stream, int mode) {
  if (Result refusal = refuse(true))
    return refusal;
  // The default stream cannot; of the modes, global and that of a thread.
  if (!stream || stream->queue->captures || mode < 0 || mode > 1)
    return notCapturable;
  stream->queue->captures = true;
  ++capturing;
  return 0;
}
Result cuStreamEndCapture(CUstream_st *stream, CUgraph_st **graph) {
  if (Result refusal = refuse(true))
    return refusal;
  if (!stream || !stream->queue->captures)
    return notCapturing;
  stream->queue->captures = false;
  --capturing;
  *graph = new CUgraph_st{std::exchange(stream->queue->captured, {})};
  return 0;
}
Result cuGraphInstantiateWithFlags(CUgraphExec_st **result, CUgraph_st *graph,
                                   unsigned long long flags) {
  if (flags || capturing)
    return flags ? invalidValue : notCapturable;
  ++calls.graphs;
  *result = new CUgraphExec_st{graph->work};
  return 0;
}
Result cuGraphLaunch(CUgraphExec_st *graph, CUstream_st *stream) {
  if (Result refusal = refuse())
    return refusal;
  ++calls.graphLaunches;
  getQueue(stream).add([graph] {
    for (Queue::Work &work : graph->work)
      work();
  });
  return 0;
}
Result cuGraphExecDestroy(CUgraphExec_st *graph) {
  if (Result refusal = refuse(true))
    return refusal;
  delete graph;
  return 0;
}
Result cuGraphDestroy(CUgraph_st *graph) {
  if (Result refusal = refuse(true))
    return refusal;
  delete graph;
  return 0;
}
Result cuStreamDestroy_v2(CUstream_st *stream) {
  if (Result refusal = refuse(true))
    return refusal;
  if (stream->queue->captures)
    return notCapturable;
  stream->queue->run();
  delete stream;
  return 0;
}
Result cuStreamSynchronize(CUstream_st *stream) {
  if (Result refusal = refuse())
    return refusal;
  ++calls.synchronizations;
  getQueue(stream).run();
  return 0;
}

/// The event is as it is now, whatever it records later.
Result cuStreamWaitEvent(CUstream_st *stream, CUevent_st *event, unsigned) {
  if (Result refusal = refuse(true))
    return refusal;
  if (stream && stream->queue->captures)
    return notCapturable;
  if (!event->number)
    return 0;
  if (event->queue->collects) {
    ++calls.collectiveWaits;
    calls.earlyWaits += !event->queue->isDone(event->number);
  }
  getQueue(stream).addAttempt([other = event->queue, number = event->number] {
    return other->tryTo(number);
  });
  return 0;
}

Result cuEventCreate(CUevent_st **event, unsigned flags) {
  if (Result refusal = refuse(true))
    return refusal;
  *event = new CUevent_st;
  (*event)->hasTime = !(flags & cuda::NoTiming);
  return 0;
}
Result cuEventDestroy_v2(CUevent_st *event) {
  if (Result refusal = refuse(true))
    return refusal;
  delete event;
  return 0;
}
Result cuEventRecord(CUevent_st *event, CUstream_st *stream) {
  // Would become part of the graph, which the runtime never asks for.
  if (Result refusal = refuse())
    return refusal;
  event->queue = getShared(stream);
  event->number = event->queue->getLast();
  return 0;
}
Result cuEventSynchronize(CUevent_st *event) {
  if (Result refusal = refuse())
    return refusal;
  ++calls.synchronizations;
  if (event->number)
    event->queue->runTo(event->number);
  return 0;
}
/// Emulation has no speed: every piece of work takes a microsecond.
Result cuEventElapsedTime(float *milliseconds, CUevent_st *begin,
                          CUevent_st *end) {
  for (const CUevent_st *event : {begin, end}) {
    // Events that are recorded when there is nothing to do have no number.
    if (!event->hasTime || !event->queue)
      return invalidHandle;
    if (!event->queue->isDone(event->number))
      return cuda::NotReady;
  }
  *milliseconds = 0.001f;
  return 0;
}
Result cuEventQuery(CUevent_st *event) {
  if (Result refusal = refuse())
    return refusal;
  bool done = !event->number || event->queue->tryTo(event->number);
  return done ? 0 : cuda::NotReady;
}
/// A cubin is for a real GPU: the program has to fall back to its PTX. With
/// POPLAR_EMULATED_CUBIN=new, a later toolkit has made it.
Result cuModuleLoadDataEx(CUmod_st **result, const void *image, unsigned count,
                          int *options, void **values) {
  if (Result refusal = refuse())
    return refusal;
  auto *text = static_cast<const char *>(image);
  const char *cubin = std::getenv("POPLAR_EMULATED_CUBIN");
  if (std::memcmp(text, "\177ELF", 4) == 0)
    return cubin && !std::strcmp(cubin, "new") ? cuda::InvalidImage
                                               : cuda::NoBinaryForGPU;
  auto say = [&](const std::string &error) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == cuda::JitErrorLog)
        std::strncpy(static_cast<char *>(values[i]), error.c_str(), 1023);
    return invalidPTX;
  };
  auto module = std::make_unique<CUmod_st>();
  std::string error = translatePTX(text, module->program);
  if (!error.empty())
    return say(error);
  int newest = 0;
  cuDriverGetVersion(&newest);
  if (getCUDA(module->program.version) > newest)
    return cuda::UnsupportedPTXVersion;
  if (std::atoi(module->program.chip.c_str() + 3) >
      getCapabilities().at(size_t(current)))
    return cuda::NoBinaryForGPU;
  for (const PTXKernel &kernel : module->program.kernels)
    if (std::string excess = findExcess(kernel, module->program.version);
        !excess.empty())
      return say(excess);
  // Now and not when one is started: other ranks would wait for this one then.
  const std::vector<PTXKernel> &kernels = module->program.kernels;
  const std::vector<Kernel> compiled = compileKernels(kernels);
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!compiled[i])
      return say("what PTX became cannot be compiled: kernel " +
                 kernels[i].name);
    module->functions[kernels[i].name] = {compiled[i], &kernels[i]};
  }
  *result = module.release();
  return 0;
}
Result cuModuleUnload(CUmod_st *module) {
  if (Result refusal = refuse(true))
    return refusal;
  delete module;
  return 0;
}
Result cuModuleGetFunction(CUfunc_st **function, CUmod_st *module,
                           const char *name) {
  if (Result refusal = refuse(true))
    return refusal;
  auto found = module->functions.find(name);
  if (found == module->functions.end())
    return notFound;
  *function = &found->second;
  return 0;
}

/// A buffer of all parameters, one after the other; null if `packed` is not one
/// of so many bytes.
static const char *unpack(void **packed, size_t bytes) {
  char *buffer = nullptr;
  size_t size = 0;
  for (; *packed != cuda::ParametersEnd; packed += 2) {
    if (packed[0] == cuda::ParameterBuffer)
      buffer = static_cast<char *>(packed[1]);
    else if (packed[0] == cuda::ParameterBytes)
      size = *static_cast<size_t *>(packed[1]);
    else
      return nullptr;
  }
  return size == bytes ? buffer : nullptr;
}

Result cuLaunchKernel(CUfunc_st *function, unsigned blocks, unsigned y,
                      unsigned z, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned shared, CUstream_st *stream,
                      void **parameters, void **extra) {
  if (Result refusal = refuse(true))
    return refusal;
  const PTXKernel &description = *function->description;
  auto threads = int64_t(blockX) * blockY * blockZ;
  const std::array<int64_t, 3> block = {blockX, blockY, blockZ};
  if (y != 1 || z != 1 || shared != 0 || !parameters == !extra || blocks == 0 ||
      blocks > INT32_MAX || threads == 0 || threads > mostThreads ||
      blockZ > 64 || (description.block[0] && block != description.block) ||
      (description.mostThreads && threads > description.mostThreads))
    return invalidValue;
  // A kernel that does not say how large its blocks are may have any number of
  // registers.
  if (!description.mostThreads &&
      threads * mostRegistersOfThread > mostRegisters)
    return tooManyResources;
  // The caller's are gone when the kernel runs.
  std::vector<uint64_t> values(size_t(description.countParameterWords()));
  const char *packed = extra ? unpack(extra, 8 * values.size()) : nullptr;
  if (extra && !packed)
    return invalidValue;
  size_t place = 0, number = 0;
  for (int64_t words : description.parameterWords) {
    const void *from = packed ? packed + 8 * place : parameters[number++];
    std::memcpy(&values[place], from, 8 * size_t(words));
    place += size_t(words);
  }
  calls.kernelLaunches += !capturing;
  Launch launch = {{int32_t(blockX), int32_t(blockY), int32_t(blockZ)},
                   int64_t(blocks),
                   32,
                   description.sharedBytes,
                   description.waits};
  getQueue(stream).add([=]() mutable {
    std::vector<void *> arguments;
    size_t first = 0;
    for (int64_t words : function->description->parameterWords) {
      arguments.push_back(&values[first]);
      first += size_t(words);
    }
    watchLaunch(function->description);
    std::string error =
        run(function->kernel, arguments.data(), launch.sharedBytes, launch);
    watchLaunch(nullptr);
    if (!error.empty()) {
      std::fprintf(stderr, "emulated GPU: %s: %s\n",
                   function->description->name.c_str(), error.c_str());
      std::abort();
    }
  });
  return 0;
}

} // extern "C"
