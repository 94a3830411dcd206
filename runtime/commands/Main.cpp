//===- Main.cpp - Entry of a generated executable -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/ABI.h"
#include "support/Error.h"
#include "support/MappedFile.h"
#include "training/Trainer.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>

using namespace poplar::runtime;

/// Whether a file is a shared object up to its end, where the table of its
/// sections is: the loader maps what is missing, too, and the process would end
/// by a signal.
static bool isWhole(const std::string &Path) {
  MappedFile File(Path);
  Elf64_Ehdr Header;
  if (File.text().size() < sizeof(Header))
    return false;
  std::memcpy(&Header, File.text().data(), sizeof(Header));
  return std::memcmp(Header.e_ident, ELFMAG, SELFMAG) == 0 &&
         Header.e_shoff <= File.text().size() &&
         static_cast<size_t>(Header.e_shnum) * Header.e_shentsize <=
             File.text().size() - Header.e_shoff;
}

/// The program beside this executable, which `poplar build` has compiled. It
/// calls the functions of EntryPoints.def, which this executable exports.
static const PoplarProgram &loadProgram() {
  std::error_code Code;
  std::filesystem::path Executable =
      std::filesystem::read_symlink("/proc/self/exe", Code);
  if (Code)
    fail("cannot read /proc/self/exe: ", Code.message());
  std::string Path = Executable.parent_path() / "program.so";
  if (!std::filesystem::exists(Path, Code))
    fail("there is no '", Path,
         "', the program that belongs to this executable; "
         "copy the whole directory, or build it again");
  if (!isWhole(Path))
    fail("'", Path, "' is damaged; build it again");
  void *Library = dlopen(Path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!Library)
    fail("cannot load the program: ", dlerror());
  void *Program = dlsym(Library, "poplar_program");
  if (!Program)
    fail("'", Path, "' is no program of poplar build: ", dlerror());
  return *static_cast<const PoplarProgram *>(Program);
}

int main(int Argc, char **Argv) { return runMain(loadProgram, Argc, Argv); }
