//===- ProbeLinks.cpp - How fast GPUs of a machine talk -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/DetectGPUs.h"
#include "VendorLibrary.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include <algorithm>
#include <chrono>

using namespace mlir;
using namespace poplar;

/// Copies, of which the first gives the latency and the difference the rate.
static constexpr size_t kSmallBytes = 4, kLargeBytes = 64 << 20;
static constexpr int kRepetitions = 7;

namespace {

class Driver {
public:
  bool load(std::string &error) {
    constexpr const char *name = "libcuda.so.1";
    void *handle = nvidia::loadLibrary(name, error);
    if (!handle)
      return false;
#define POPLAR_LOAD(NAME, ...)                                                 \
  NAME = reinterpret_cast<decltype(NAME)>(                                     \
      nvidia::findFunction(handle, name, #NAME, error));                       \
  if (!NAME)                                                                   \
    return false;
    POPLAR_PROBE_DRIVER(POPLAR_LOAD)
#undef POPLAR_LOAD
    return true;
  }

#define POPLAR_MEMBER(NAME, ...) nvidia::Status (*NAME)(__VA_ARGS__) = nullptr;
  POPLAR_PROBE_DRIVER(POPLAR_MEMBER)
#undef POPLAR_MEMBER
};

/// A GPU with room for a copy.
struct End {
  int device = 0;
  nvidia::Handle context = nullptr;
  nvidia::Address memory = 0;
};

class Probe {
public:
  /// False, with `error` set, on failure.
  bool run(LinkProbe &result, std::string &error) {
    auto require = [&](nvidia::Status status, const char *what) {
      if (status && error.empty())
        error = std::string("cannot measure links between GPUs: the driver "
                            "cannot ") +
                what + " (status " + std::to_string(status) + ")";
      return status == 0;
    };
    int count = 0;
    if (!driver.load(error) || !require(driver.cuInit(0), "start") ||
        !require(driver.cuDeviceGetCount(&count), "count GPUs"))
      return false;
    std::vector<End> ends(static_cast<size_t>(count));
    llvm::scope_exit release([&] { free(ends); });
    for (auto [index, end] : llvm::enumerate(ends))
      if (!require(driver.cuDeviceGet(&end.device, static_cast<int>(index)),
                   "find a GPU") ||
          !require(driver.cuDevicePrimaryCtxRetain(&end.context, end.device),
                   "make a context") ||
          !require(driver.cuCtxSetCurrent(end.context), "use a context") ||
          !require(driver.cuMemAlloc_v2(&end.memory, kLargeBytes),
                   "allocate 64 MiB on every GPU"))
        return false;
    for (const End &from : ends)
      for (const End &to : ends) {
        LinkProbe one;
        if (&from == &to)
          continue;
        if (!require(measure(from, to, one), "copy from one GPU to another"))
          return false;
        result.latency = std::max(result.latency, one.latency);
        result.bandwidth = result.bandwidth > 0
                               ? std::min(result.bandwidth, one.bandwidth)
                               : one.bandwidth;
      }
    return true;
  }

private:
  nvidia::Status measure(const End &from, const End &to, LinkProbe &result) {
    if (nvidia::Status status = driver.cuCtxSetCurrent(from.context))
      return status;
    int can = 0;
    if (driver.cuDeviceCanAccessPeer(&can, from.device, to.device) == 0 && can)
      if (nvidia::Status status = driver.cuCtxEnablePeerAccess(to.context, 0);
          status && status != nvidia::kPeerAlreadyEnabled)
        return status;
    nvidia::Handle stream = nullptr;
    if (nvidia::Status status = driver.cuStreamCreate(&stream, /*flags=*/1))
      return status;
    llvm::scope_exit destroy([&] { driver.cuStreamDestroy_v2(stream); });
    double seconds[2];
    for (int slot = 0; slot < 2; ++slot) {
      size_t bytes = slot == 0 ? kSmallBytes : kLargeBytes;
      std::vector<double> times;
      for (int i = 0; i < kRepetitions; ++i) {
        auto begin = std::chrono::steady_clock::now();
        if (nvidia::Status status =
                driver.cuMemcpyPeerAsync(to.memory, to.context, from.memory,
                                         from.context, bytes, stream))
          return status;
        if (nvidia::Status status = driver.cuStreamSynchronize(stream))
          return status;
        times.push_back(std::chrono::duration<double>(
                            std::chrono::steady_clock::now() - begin)
                            .count());
      }
      // The first one connects the GPUs.
      std::nth_element(times.begin(), times.begin() + kRepetitions / 2,
                       times.end());
      seconds[slot] = times[kRepetitions / 2];
    }
    result.latency = seconds[0];
    result.bandwidth = static_cast<double>(kLargeBytes - kSmallBytes) /
                       std::max(seconds[1] - seconds[0], 1e-9);
    return 0;
  }

  void free(const std::vector<End> &ends) {
    for (const End &end : ends) {
      if (!end.context)
        continue;
      driver.cuCtxSetCurrent(end.context);
      if (end.memory)
        driver.cuMemFree_v2(end.memory);
      driver.cuDevicePrimaryCtxRelease_v2(end.device);
    }
  }

  Driver driver;
};

} // namespace

LogicalResult poplar::probeLinks(LinkProbe &probe, std::string &error) {
  return success(Probe().run(probe, error));
}
