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
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <sys/file.h>
#include <unistd.h>

using namespace poplar::emulated;
namespace fs = std::filesystem;

namespace {

constexpr const char *flags =
    " -std=c++17 -O1 -march=native -w -fPIC -ffp-contract=off -fno-math-errno "
    "-foptimize-sibling-calls ";

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
  for (const char *name : {"/Prelude.h", "/Accesses.h", "/../BlockCalls.h"})
    text += readFile(std::string(POPLAR_EMULATED_INCLUDE) + name);
  std::istringstream processor(readFile("/proc/cpuinfo"));
  for (std::string line; std::getline(processor, line) && !line.empty();)
    if (line.compare(0, 5, "flags") == 0 || line.compare(0, 5, "model") == 0)
      text += line;
  return text;
}

/// Also the end of a symbol's name.
std::string nameOf(const std::string &text) {
  std::ostringstream name;
  name << std::hex << std::hash<std::string>()(text) << "_" << text.size();
  return name.str();
}

/// What the compiler gets at a time, at most, unless a single kernel is more.
constexpr size_t kMostBytes = 1 << 20;

/// The directory of objects, in which Prelude.h is compiled once; one of the
/// process alone unless the environment names one.
class Store {
public:
  static Store &get() {
    static Store store;
    return store;
  }

  /// What the kernels of a source are called in its object.
  std::string getKey(const std::string &source) const {
    return nameOf(surroundings + source);
  }
  fs::path getObject(const std::string &key) const {
    return directory / ("poplar-emulated-" + key + ".so");
  }

  /// Compiles what has no object yet, of sources by key. A source without one
  /// afterwards cannot be compiled.
  void compile(const std::map<std::string, std::string> &sources) {
    // All processes lock in the order of keys, so none waits for one that
    // waits.
    std::deque<FileLock> locks;
    std::map<std::string, std::string> batch;
    size_t bytes = 0;
    for (const auto &[key, source] : sources) {
      fs::path object = getObject(key);
      std::error_code code;
      if (fs::exists(object, code))
        continue;
      locks.emplace_back(object.replace_extension(".lock"));
      if (fs::exists(getObject(key), code))
        continue;
      if (!batch.empty() && bytes + source.size() > kMostBytes) {
        compileBatch(batch);
        batch.clear();
        bytes = 0;
      }
      batch[key] = source;
      bytes += source.size();
    }
    if (!batch.empty())
      compileBatch(batch);
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
    headers = directory / ("poplar-emulated-" + nameOf(surroundings));
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

  /// One object, which is that of each kernel.
  void compileBatch(const std::map<std::string, std::string> &batch) {
    fs::path fresh = getObject(batch.begin()->first).replace_extension(".new"),
             text = fs::path(fresh).replace_extension(".cpp");
    {
      std::ofstream out(text);
      out << "#include \"Prelude.h\"\n";
      for (const auto &[key, source] : batch)
        out << "#define poplarKernel poplarKernel_" << key
            << "\n#define poplarTables poplarTables_" << key
            << "\nnamespace kernel_" << key << " {\n"
            << source << "}\n#undef poplarKernel\n#undef poplarTables\n";
    }
    bool isCompiled = run("-shared", text, fresh);
    std::error_code code;
    fs::remove(text, code);
    if (!isCompiled)
      return;
    for (const auto &[key, source] : batch)
      fs::create_hard_link(fresh, getObject(key), code);
    fs::remove(fresh, code);
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

std::vector<poplar::gputest::Kernel>
poplar::emulated::compileKernels(const std::vector<PTXKernel> &kernels) {
  Store &store = Store::get();
  std::vector<std::string> keys;
  std::map<std::string, std::string> sources;
  for (const PTXKernel &kernel : kernels) {
    keys.push_back(store.getKey(kernel.source));
    sources[keys.back()] = kernel.source;
  }
  store.compile(sources);
  // Objects call back.
  Dl_info self;
  dladdr(reinterpret_cast<void *>(compileKernels), &self);
  dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  std::vector<gputest::Kernel> functions;
  for (const std::string &key : keys) {
    void *library = dlopen(store.getObject(key).c_str(), RTLD_NOW);
    functions.push_back(nullptr);
    if (!library)
      continue;
    auto *table = static_cast<const PoplarTable *>(
        dlsym(library, ("poplarTables_" + key).c_str()));
    for (; table->data; ++table)
      Memory::get().add(table->data, table->bytes);
    functions.back() = reinterpret_cast<gputest::Kernel>(
        dlsym(library, ("poplarKernel_" + key).c_str()));
  }
  return functions;
}
