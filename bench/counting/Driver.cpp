//===- Driver.cpp - A driver that counts and computes nothing -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/cuda/ calls of libcuda.so.1, for bench/gpu-kernels.py. Every
// call that a training step may make becomes a line of the trace. Memory of the
// GPU is reserved and never touched; what is read of it is zero. The
// environment says what there is:
//
//   POPLAR_COUNTING_CHIP        the GPU's chip; default "sm_90"
//   POPLAR_COUNTING_PROCESSORS  its multiprocessors; default 132
//   POPLAR_COUNTING_TRACE       the trace's file; PTX is in FILE.1.ptx, ...
//
// Cubins are refused, so that the trace has the PTX of every kernel.
//
//===----------------------------------------------------------------------===//

#include "cuda/Driver.h"
#include "Trace.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <sys/mman.h>

using namespace poplar::counting;
using namespace poplar::runtime::cuda;

struct CUctx_st {};
struct CUevent_st {};
struct CUstream_st {};
struct CUgraph_st {
  int number;
};
struct CUgraphExec_st {
  int number;
};
struct CUmod_st {
  std::string text;
};
struct CUfunc_st {
  std::string name;
  /// Arguments, of eight bytes each.
  int parameters;
};

static CUctx_st primary;
static std::atomic<int> numGraphs = 0, numImages = 0;

static int getNumber(const char *variable, int otherwise) {
  const char *given = std::getenv(variable);
  return given ? std::atoi(given) : otherwise;
}

static int getCapability() {
  const char *chip = std::getenv("POPLAR_COUNTING_CHIP");
  return chip ? std::atoi(chip + std::strlen("sm_")) : 90;
}

std::string poplar::counting::getTracePath() {
  const char *path = std::getenv("POPLAR_COUNTING_TRACE");
  return path ? path : "/dev/null";
}

void poplar::counting::note(const std::string &line) {
  static std::mutex mutex;
  static std::ofstream out(getTracePath());
  std::lock_guard<std::mutex> guard(mutex);
  out << line << '\n' << std::flush;
}

/// Words of eight bytes of a kernel's parameters, by its PTX.
static int countParameters(const std::string &text, const std::string &name) {
  size_t begin = text.find(".entry " + name + "(");
  if (begin == text.npos)
    return -1;
  std::istringstream list(text.substr(begin, text.find(')', begin) - begin));
  int words = 0;
  for (std::string line; std::getline(list, line);)
    if (line.find(".param ") != line.npos) {
      size_t bracket = line.find('[');
      words +=
          bracket == line.npos ? 1 : std::atoi(line.c_str() + bracket + 1) / 8;
    }
  return words;
}

extern "C" {

Result cuInit(unsigned) { return 0; }

Result cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

Result cuGetErrorName(Result, const char **name) {
  *name = "CUDA_ERROR_UNKNOWN";
  return 0;
}

Result cuGetErrorString(Result, const char **text) {
  *text = "the counting driver refuses it";
  return 0;
}

Result cuDeviceGetCount(int *count) {
  *count = 1;
  return 0;
}

Result cuDeviceGet(int *device, int) {
  *device = 0;
  return 0;
}

Result cuDeviceGetName(char *name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "counting driver");
  return 0;
}

Result cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == CapabilityMajor   ? getCapability() / 10
           : attribute == CapabilityMinor ? getCapability() % 10
           : attribute == Multiprocessors
               ? getNumber("POPLAR_COUNTING_PROCESSORS", 132)
               : 1;
  return 0;
}

Result cuDeviceGetPCIBusId(char *name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "0000:01:00.0");
  return 0;
}

Result cuDeviceGetByPCIBusId(int *device, const char *) {
  *device = 0;
  return 0;
}

Result cuDeviceCanAccessPeer(int *can, int, int) {
  *can = 1;
  return 0;
}

Result cuDevicePrimaryCtxRetain(Context *context, int) {
  *context = &primary;
  return 0;
}

Result cuDevicePrimaryCtxRelease_v2(int) { return 0; }
Result cuCtxSetCurrent(Context) { return 0; }

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = *total = size_t(1) << 40;
  return 0;
}

/// Allocations lie at the same addresses in all runs, one behind the other, so
/// that equal programs leave equal traces.
Result cuMemAlloc_v2(Address *place, size_t bytes) {
  static std::atomic<Address> next = Address(1) << 45;
  constexpr Address page = 1 << 21;
  Address wanted = next.fetch_add((bytes + page - 1) / page * page);
  void *memory =
      mmap(reinterpret_cast<void *>(wanted), bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
           /*fd=*/-1, /*offset=*/0);
  if (memory == MAP_FAILED)
    return OutOfMemory;
  *place = reinterpret_cast<Address>(memory);
  note("allocate " + std::to_string(bytes));
  return 0;
}

// The process ends soon, and with it the reservation.
Result cuMemFree_v2(Address) { return 0; }

Result cuMemHostAlloc(void **place, size_t bytes, unsigned) {
  *place = std::calloc(1, bytes);
  return *place ? 0 : OutOfMemory;
}

Result cuMemFreeHost(void *place) {
  std::free(place);
  return 0;
}

Result cuMemcpyHtoDAsync_v2(Address, const void *, size_t bytes, Stream) {
  note("copy-in " + std::to_string(bytes));
  return 0;
}

Result cuMemcpyDtoHAsync_v2(void *to, Address, size_t bytes, Stream) {
  std::memset(to, 0, bytes);
  note("copy-out " + std::to_string(bytes));
  return 0;
}

Result cuMemcpyDtoDAsync_v2(Address, Address, size_t bytes, Stream) {
  note("copy " + std::to_string(bytes));
  return 0;
}

Result cuMemsetD8Async(Address, unsigned char, size_t bytes, Stream) {
  note("fill " + std::to_string(bytes));
  return 0;
}

Result cuStreamCreate(Stream *stream, unsigned) {
  *stream = new CUstream_st;
  return 0;
}

Result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return 0;
}

Result cuStreamCreateWithPriority(Stream *stream, unsigned flags, int) {
  return cuStreamCreate(stream, flags);
}

Result cuStreamDestroy_v2(Stream stream) {
  delete stream;
  return 0;
}

Result cuStreamSynchronize(Stream) {
  note("synchronize");
  return 0;
}

Result cuStreamWaitEvent(Stream, Event, unsigned) {
  note("wait-event");
  return 0;
}

Result cuEventCreate(Event *event, unsigned) {
  *event = new CUevent_st;
  return 0;
}

Result cuEventDestroy_v2(Event event) {
  delete event;
  return 0;
}

Result cuEventRecord(Event, Stream) {
  note("record-event");
  return 0;
}

Result cuEventSynchronize(Event) {
  note("synchronize-event");
  return 0;
}

Result cuEventElapsedTime(float *milliseconds, Event, Event) {
  *milliseconds = 1;
  return 0;
}

Result cuEventQuery(Event) { return 0; }

Result cuStreamBeginCapture_v2(Stream, int) {
  note("begin-capture");
  return 0;
}

Result cuStreamEndCapture(Stream, Graph *graph) {
  *graph = new CUgraph_st{++numGraphs};
  note("end-capture " + std::to_string((*graph)->number));
  return 0;
}

Result cuGraphInstantiateWithFlags(GraphExec *executable, Graph graph,
                                   unsigned long long) {
  *executable = new CUgraphExec_st{graph->number};
  return 0;
}

Result cuGraphLaunch(GraphExec graph, Stream) {
  note("launch-graph " + std::to_string(graph->number));
  return 0;
}

Result cuGraphExecDestroy(GraphExec graph) {
  delete graph;
  return 0;
}

Result cuGraphDestroy(Graph graph) {
  delete graph;
  return 0;
}

Result cuModuleLoadDataEx(Module *module, const void *image, unsigned, int *,
                          void **) {
  if (std::memcmp(image, "\177ELF", 4) == 0)
    return NoBinaryForGPU;
  *module = new CUmod_st{static_cast<const char *>(image)};
  std::ofstream(getTracePath() + "." + std::to_string(++numImages) + ".ptx")
      << (*module)->text;
  return 0;
}

Result cuModuleUnload(Module module) {
  delete module;
  return 0;
}

Result cuModuleGetFunction(Function *function, Module module,
                           const char *name) {
  constexpr Result NotFound = 500;
  int parameters = countParameters(module->text, name);
  if (parameters < 0)
    return NotFound;
  *function = new CUfunc_st{name, parameters};
  return 0;
}

/// kernel NAME GRID BLOCK SHARED PARAMETER..., in hexadecimal.
Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned sharedBytes, Stream,
                      void **parameters, void **packed) {
  std::ostringstream line;
  line << "kernel " << function->name << ' ' << gridX << 'x' << gridY << 'x'
       << gridZ << ' ' << blockX << 'x' << blockY << 'x' << blockZ << ' '
       << sharedBytes << std::hex;
  // Packed: ParameterBuffer, the buffer, ParameterBytes, their number, the end.
  const auto *words =
      packed ? static_cast<const unsigned long long *>(packed[1]) : nullptr;
  for (int i = 0; i < function->parameters; ++i)
    line << ' '
         << (words ? words[i]
                   : *static_cast<const unsigned long long *>(parameters[i]));
  note(line.str());
  return 0;
}

} // extern "C"
