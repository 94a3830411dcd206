//===- Library.cpp - Libraries that are loaded when a job runs ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Library.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <glob.h>
#include <link.h>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

/// Stands for the loader's own search: LD_LIBRARY_PATH, ldconfig, /usr/lib.
static constexpr std::string_view Loader = "";

static void addMatches(const std::string &Pattern,
                       std::vector<std::string> &Directories) {
  glob_t Found = {};
  if (glob(Pattern.c_str(), 0, nullptr, &Found) == 0)
    // The newest version last: so the other way round.
    for (size_t I = Found.gl_pathc; I-- > 0;)
      Directories.emplace_back(Found.gl_pathv[I]);
  globfree(&Found);
}

/// The directories that are searched, in their order.
static std::vector<std::string> listDirectories() {
  std::vector<std::string> Directories;
  const char *Path = std::getenv("POPLAR_CUDA_PATH");
  std::istringstream Parts(Path ? Path : "");
  for (std::string Directory; std::getline(Parts, Directory, ':');)
    if (!Directory.empty())
      Directories.push_back(Directory);
  std::error_code NotThere;
  std::string Executable =
      std::filesystem::read_symlink("/proc/self/exe", NotThere);
  if (!NotThere)
    Directories.push_back(Executable.substr(0, Executable.rfind('/')));
  Directories.emplace_back(Loader);
  for (const char *Variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char *Root = std::getenv(Variable))
      addMatches(std::string(Root) + "/lib/python3*/site-packages/nvidia/*/lib",
                 Directories);
  Directories.emplace_back("/usr/local/cuda/lib64");
  addMatches("/usr/local/cuda-*/lib64", Directories);
  return Directories;
}

static std::string describe(const std::vector<std::string> &Directories) {
  std::string Text =
      std::getenv("POPLAR_CUDA_PATH") ? "" : "POPLAR_CUDA_PATH (not set)";
  for (const std::string &Directory : Directories)
    Text += (Text.empty() ? "" : ", ") +
            (Directory.empty() ? "the system's loader" : Directory);
  return Text;
}

Library::Library(std::initializer_list<const char *> Names, const char *Remedy)
    : Remedy(Remedy) {
  std::vector<std::string> Directories = listDirectories();
  std::string Wanted, Unusable;
  for (const char *Candidate : Names)
    Wanted += (Wanted.empty() ? "" : " or ") + std::string(Candidate);
  for (const std::string &Directory : Directories)
    for (const char *Candidate : Names) {
      std::string File =
          Directory.empty() ? Candidate : Directory + "/" + Candidate;
      Handle = dlopen(File.c_str(), RTLD_NOW);
      if (Handle) {
        Name = Candidate;
        struct link_map *Map = nullptr;
        if (dlinfo(Handle, RTLD_DI_LINKMAP, &Map) == 0)
          Path = Map->l_name;
        return;
      }
      // It is there, and does not load: that is the reason to tell.
      const char *Reason = dlerror();
      if (Unusable.empty() && !Directory.empty() &&
          access(File.c_str(), F_OK) == 0)
        Unusable = Reason;
    }
  fail("cannot load ", Wanted, " (",
       Unusable.empty() ? "not found in: " + describe(Directories) : Unusable,
       "); ", Remedy);
}

void *Library::find(const char *Symbol) const {
  void *Address = dlsym(Handle, Symbol);
  if (!Address)
    fail(Path.empty() ? Name : Path, " is too old: it has no ", Symbol, "; ",
         Remedy);
  return Address;
}
