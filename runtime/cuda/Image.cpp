//===- Image.cpp - The loaded kernels of a program ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Image.h"
#include "support/Error.h"

#include <cstring>
#include <string>
#include <string_view>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

/// The version in the directive `.version 8.1`.
static std::string readVersion(std::string_view PTX) {
  constexpr std::string_view Directive = ".version ";
  size_t Place = PTX.find(Directive);
  if (Place == PTX.npos)
    return "of its version";
  PTX.remove_prefix(Place + Directive.size());
  return std::string(PTX.substr(0, PTX.find('\n')));
}

static std::string getDriverName() {
  int Version = Driver::get().Version;
  return "NVIDIA's driver, for CUDA " + std::to_string(Version / 1000) + "." +
         std::to_string(Version % 1000 / 10);
}

static Module load(const PoplarGPUImage &Source) {
  const Driver &D = Driver::get();
  Module Loaded;
  if (Source.cubin) {
    Result R = D.cuModuleLoadDataEx(&Loaded, Source.cubin, 0, nullptr, nullptr);
    // It is for GPUs of one generation; PTX is for all that follow.
    if (R != NoBinaryForGPU && R != InvalidImage) {
      check(R, "load the program's kernels");
      return Loaded;
    }
    // A later toolkit's code is no image to the driver.
    if (R == InvalidImage && !*Source.ptx)
      fail(getDriverName(), ", cannot read the program's code for ",
           Source.chip,
           ", which a later toolkit has made; install a newer driver, or build "
           "it without --no-ptx");
  }
  if (!*Source.ptx)
    fail("the program has code for ", Source.chip,
         " and GPUs of its generation alone; build it without --no-ptx, or for "
         "this GPU");
  char Log[1024] = "";
  int Options[] = {JitErrorLog, JitErrorLogBytes};
  void *Values[] = {Log, reinterpret_cast<void *>(sizeof(Log))};
  Result R = D.cuModuleLoadDataEx(&Loaded, Source.ptx, 2, Options, Values);
  if (R == UnsupportedPTXVersion)
    fail(getDriverName(), ", knows no PTX ", readVersion(Source.ptx),
         ", which the program's kernels for ", Source.chip,
         " are in; install a newer driver");
  if (R != 0 && *Log)
    fail("the GPU's driver cannot compile the program's kernels: ",
         std::string(Log).substr(0, std::string(Log).find('\n')));
  check(R, "compile the program's kernels");
  return Loaded;
}

static int64_t findKernel(const PoplarGPUImage &Source, const char *Name) {
  for (int64_t K = 0; K < Source.num_kernels; ++K)
    if (std::strcmp(Source.kernels[K].name, Name) == 0)
      return K;
  fail("the program has no kernel ", Name, "; build it again");
}

Image::Image(const PoplarGPUImage &Source)
    : SumSquares(findKernel(Source, POPLAR_SUM_SQUARES_KERNEL)),
      Scale(findKernel(Source, POPLAR_SCALE_KERNEL)), Loaded(load(Source)),
      Functions(static_cast<size_t>(Source.num_kernels)) {
  for (int64_t K = 0; K < Source.num_kernels; ++K)
    check(Driver::get().cuModuleGetFunction(&Functions[static_cast<size_t>(K)],
                                            Loaded, Source.kernels[K].name),
          "find a kernel of the program");
}

Image::~Image() { Driver::get().cuModuleUnload(Loaded); }
