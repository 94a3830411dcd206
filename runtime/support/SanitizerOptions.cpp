//===- SanitizerOptions.cpp - What sanitizers are to tolerate -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of every executable of a sanitized build, those of poplar build too, so
// that no environment has to be set. Everything here is about code of others,
// with the reason; ASAN_OPTIONS and the like add to them.
//
//===----------------------------------------------------------------------===//

#include <dlfcn.h>

/// A symbol for the linker to look for, since nothing else here is undefined:
/// the sanitizers' libraries have defaults of their own.
extern "C" const char poplar_sanitizer_options[] = "";

// NOLINTBEGIN(readability-identifier-naming): the sanitizers' names.
extern "C" const char *__asan_default_options() {
  // LLVM's allocators poison what they have not handed out yet. They are
  // templates, instantiated here, with the sanitizer, and in libLLVM, without:
  // what one side poisons, the other does not know to unpoison. Libraries that
  // are loaded, such as the emulated ones, are linked with this file as well.
  return "allow_user_poisoning=0:detect_odr_violation=1";
}

extern "C" const char *__ubsan_default_options() {
  return "print_stacktrace=1";
}

// Open MPI never frees some of what its components allocate, and unloads them:
// their frames have no name left by which a suppression could know them. So
// leaks are only looked for in processes that have not loaded it, among them
// all jobs of one rank and the tests of ranks that are threads.
extern "C" int __lsan_is_turned_off() {
  return dlsym(RTLD_DEFAULT, "MPI_Init_thread") != nullptr;
}
// NOLINTEND(readability-identifier-naming)
