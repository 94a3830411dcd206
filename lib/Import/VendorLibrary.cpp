//===- VendorLibrary.cpp - Libraries of NVIDIA's --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VendorLibrary.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdlib>
#include <dlfcn.h>

using llvm::StringRef;

void *poplar::nvidia::loadLibrary(const char *name, std::string &error) {
  const char *path = std::getenv("POPLAR_CUDA_PATH");
  for (StringRef directory : llvm::split(StringRef(path ? path : ""), ':'))
    if (!directory.empty())
      if (void *handle =
              dlopen((directory + "/" + name).str().c_str(), RTLD_NOW))
        return handle;
  void *handle = dlopen(name, RTLD_NOW);
  if (!handle)
    error = std::string("cannot load ") + name + " (" + dlerror() + ")";
  return handle;
}

void *poplar::nvidia::findFunction(void *library, const char *libraryName,
                                   const char *function, std::string &error) {
  void *address = dlsym(library, function);
  if (!address)
    error = std::string(libraryName) + " is too old: it has no " + function;
  return address;
}

bool poplar::nvidia::ManagementLibrary::load(bool &missing,
                                             std::string &error) {
  constexpr const char *name = "libnvidia-ml.so.1";
  void *handle = loadLibrary(name, error);
  missing = !handle;
  if (!handle)
    return false;
#define POPLAR_NVML_LOAD(NAME, ...)                                            \
  NAME = reinterpret_cast<decltype(NAME)>(                                     \
      findFunction(handle, name, #NAME, error));                               \
  if (!NAME)                                                                   \
    return false;
  POPLAR_NVML(POPLAR_NVML_LOAD)
#undef POPLAR_NVML_LOAD
  std::string ignored;
#define POPLAR_NVML_LOAD(NAME, ...)                                            \
  NAME = reinterpret_cast<decltype(NAME)>(                                     \
      findFunction(handle, name, #NAME, ignored));
  POPLAR_NVML_OPTIONAL(POPLAR_NVML_LOAD)
#undef POPLAR_NVML_LOAD
  return true;
}
