//===- StandInDriver.cpp - A driver that agrees to everything -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A real cuDNN chooses and prepares its engines for a GPU that is described to
// it, and that nobody needs to have. It only wants a driver that loads their
// kernels. This one loads everything and does nothing, so that a test can ask
// the library what it makes of our graphs (CudnnTest.cpp).
//
//===----------------------------------------------------------------------===//

#include <dlfcn.h>

/// What cuDNN 9.19 and 9.26 look for, and nothing is asked of.
#define STAND_IN(X)                                                            \
  X(cuInit)                                                                    \
  X(cuCtxGetCurrent)                                                           \
  X(cuCtxGetLimit)                                                             \
  X(cuCtxPopCurrent)                                                           \
  X(cuCtxPushCurrent)                                                          \
  X(cuDeviceGet)                                                               \
  X(cuKernelGetAttribute)                                                      \
  X(cuKernelSetAttribute)                                                      \
  X(cuLaunchCooperativeKernel)                                                 \
  X(cuLaunchKernel)                                                            \
  X(cuLaunchKernelEx)                                                          \
  X(cuLibraryLoadFromFile)                                                     \
  X(cuLibraryUnload)                                                           \
  X(cuLinkAddData)                                                             \
  X(cuLinkComplete)                                                            \
  X(cuLinkCreate)                                                              \
  X(cuLinkDestroy)                                                             \
  X(cuOccupancyMaxPotentialClusterSize)                                        \
  X(cuStreamGetCtx)

extern "C" {

#define DEFINE(NAME)                                                           \
  int NAME() { return 0; }
STAND_IN(DEFINE)

static char something;

int cuGetErrorName(int, const char **text) {
  *text = "STAND-IN";
  return 0;
}
int cuGetErrorString(int, const char **text) {
  *text = "stand-in";
  return 0;
}
int cuDeviceGetCount(int *count) {
  *count = 0;
  return 0;
}
/// The runtime inside of cuDNN asks for its functions here.
int cuGetProcAddress_v2(const char *name, void **function, int, unsigned long,
                        int *found) {
  *function = dlsym(RTLD_DEFAULT, name);
  if (!*function)
    if (void *own = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
      *function = dlsym(own, name);
  if (found)
    *found = *function ? 0 : 1;
  return 0;
}
/// There are none.
int cuGetExportTable() { return 1; }

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
int cuLibraryLoadData(void **library) {
  *library = &something;
  return 0;
}
int cuLibraryGetKernel(void **kernel) {
  *kernel = &something;
  return 0;
}
int cuKernelGetFunction(void **function) {
  *function = &something;
  return 0;
}

} // extern "C"
