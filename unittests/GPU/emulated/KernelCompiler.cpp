//===- KernelCompiler.cpp - Kernels as shared objects ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCompiler.h"
#include "Memory.h"
#include "Prelude.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/file.h>
#include <unistd.h>

using namespace poplar::emulated;
namespace fs = std::filesystem;

namespace {

constexpr const char *flags =
    " -std=c++17 -O1 -march=native -w -fPIC -ffp-contract=off -fno-math-errno ";

/// Held by one process at a time; others wait.
class FileLock {
public:
  explicit FileLock(const fs::path &path)
      : descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (descriptor >= 0)
      flock(descriptor, LOCK_EX);
  }
  ~FileLock() {
    if (descriptor >= 0)
      close(descriptor);
  }
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

private:
  int descriptor;
};

std::string readFile(const fs::path &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// What the source of every kernel includes, and what -march=native means here.
std::string describeSurroundings() {
  std::string text = std::string(POPLAR_EMULATED_COMPILER) + flags;
  for (const char *name :
       {"/Prelude.h", "/Races.h", "/PTX.h", "/../BlockEmulator.h"})
    text += readFile(std::string(POPLAR_EMULATED_INCLUDE) + name);
  std::istringstream processor(readFile("/proc/cpuinfo"));
  for (std::string line; std::getline(processor, line) && !line.empty();)
    if (line.compare(0, 5, "flags") == 0 || line.compare(0, 5, "model") == 0)
      text += line;
  return text;
}

std::string nameOf(const std::string &text) {
  std::ostringstream name;
  name << "poplar-emulated-" << std::hex << std::hash<std::string>()(text)
       << "-" << text.size();
  return name.str();
}

/// The directory of objects, in which Prelude.h is compiled once; one of the
/// process alone unless the environment names one.
class Store {
public:
  static Store &get() {
    static Store store;
    return store;
  }

  /// The object of `source`; empty if the compiler fails.
  fs::path find(const std::string &source) {
    fs::path object = directory / (nameOf(surroundings + source) + ".so");
    std::error_code code;
    if (fs::exists(object, code))
      return object;
    FileLock lock(fs::path(object).replace_extension(".lock"));
    if (fs::exists(object, code))
      return object;
    fs::path text = fs::path(object).replace_extension(".cpp"),
             fresh = fs::path(object).replace_extension(".new");
    std::ofstream(text) << source;
    bool isCompiled = run("-shared", text, fresh);
    fs::remove(text, code);
    if (!isCompiled)
      return {};
    fs::rename(fresh, object, code);
    return code ? fs::path() : object;
  }

  ~Store() {
    std::error_code code;
    if (owner == getpid())
      fs::remove_all(directory, code);
  }

private:
  Store() : surroundings(describeSurroundings()) {
    const char *given = std::getenv("POPLAR_EMULATED_CACHE");
    owner = given ? 0 : getpid();
    directory = given ? fs::path(given)
                      : fs::temp_directory_path() /
                            ("poplar-emulated-" + std::to_string(getpid()));
    // The compiler takes NAME.gch for NAME where it finds both on its path.
    headers = directory / nameOf(surroundings);
    std::error_code code;
    fs::create_directories(headers, code);
    fs::path header = headers / "Prelude.h.gch";
    FileLock lock(fs::path(headers) += ".lock");
    if (fs::exists(header, code))
      return;
    // Nothing that a header of the library could have the name of.
    fs::path fresh = fs::path(header) += ".new";
    if (run("-x c++-header", fs::path(POPLAR_EMULATED_INCLUDE) / "Prelude.h",
            fresh))
      fs::rename(fresh, header, code);
  }

  bool run(const std::string &kind, const fs::path &source,
           const fs::path &output) {
    std::string command =
        std::string(POPLAR_EMULATED_COMPILER) + flags + "-I'" +
        headers.string() + "' -I" POPLAR_EMULATED_INCLUDE " -o '" +
        output.string() + "' " + kind + " '" + source.string() + "'";
    return std::system(command.c_str()) == 0;
  }

  const std::string surroundings;
  fs::path directory, headers;
  /// The process that removes the directory at its end; a fork of it does not.
  pid_t owner = 0;
};

} // namespace

poplar::gputest::Kernel
poplar::emulated::compileKernel(const PTXKernel &kernel) {
  fs::path object = Store::get().find(kernel.source);
  // It calls back.
  Dl_info self;
  dladdr(reinterpret_cast<void *>(compileKernel), &self);
  dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  void *library = object.empty() ? nullptr : dlopen(object.c_str(), RTLD_NOW);
  if (!library)
    return nullptr;
  auto *table =
      static_cast<const PoplarTable *>(dlsym(library, "poplarTables"));
  for (; table->data; ++table)
    Memory::get().add(table->data, table->bytes);
  return reinterpret_cast<gputest::Kernel>(dlsym(library, "poplarKernel"));
}
