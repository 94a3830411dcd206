//===- MpiTransport.cpp - Messages by MPI ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/MpiTransport.h"
#include "Error.h"
#include "comm/MpiPlugin.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

/// Where the plug-in may be, in order.
static std::vector<std::string> getCandidates() {
  const std::string Name = "libpoplar_mpi.so";
  std::vector<std::string> Paths;
  std::error_code Ignored;
  std::filesystem::path Executable =
      std::filesystem::read_symlink("/proc/self/exe", Ignored);
  if (!Executable.empty()) {
    std::filesystem::path Directory = Executable.parent_path();
    Paths.push_back(Directory / Name);
    Paths.push_back(Directory / "lib" / Name);
    Paths.push_back(Directory.parent_path() / "lib" / Name);
  }
  Paths.push_back(POPLAR_MPI_PLUGIN_PATH);
  Paths.push_back(Name);
  return Paths;
}

static const PoplarMpiTable &getTable(void *Library, const std::string &Path) {
  auto Entry =
      reinterpret_cast<PoplarMpiEntry>(dlsym(Library, POPLAR_MPI_ENTRY));
  const PoplarMpiTable *Table = Entry ? Entry() : nullptr;
  if (!Table || Table->magic != POPLAR_MPI_MAGIC)
    fail(Path, " is not an MPI plug-in of Poplar");
  if (Table->version != POPLAR_MPI_VERSION)
    fail(Path, " has version ", Table->version, " of the plug-in interface; ",
         POPLAR_MPI_VERSION, " is needed. Build both from the same sources");
  return *Table;
}

static const PoplarMpiTable &loadPlugin() {
  // Open MPI's own plug-ins need its symbols to be global.
  constexpr int Flags = RTLD_NOW | RTLD_GLOBAL;
  if (const char *Named = std::getenv("POPLAR_MPI_PLUGIN")) {
    void *Library = dlopen(Named, Flags);
    if (!Library)
      fail("POPLAR_MPI_PLUGIN=", Named, " cannot be loaded: ", dlerror());
    return getTable(Library, Named);
  }
  std::string Tried;
  for (const std::string &Path : getCandidates()) {
    if (void *Library = dlopen(Path.c_str(), Flags))
      return getTable(Library, Path);
    // Why a file that is there cannot be loaded is worth saying: there may be
    // another MPI, or none, on this host.
    bool Exists = std::filesystem::exists(Path);
    Tried += "\n  " + Path + (Exists ? std::string(": ") + dlerror() : "");
  }
  fail("this process was started by an MPI launcher, but the MPI plug-in was "
       "not found. Build Poplar where MPI is installed (on Debian: apt-get "
       "install libopenmpi-dev openmpi-bin), and put libpoplar_mpi.so next to "
       "the executable or name it in POPLAR_MPI_PLUGIN. Tried:",
       Tried);
}

namespace {

class MpiTransport : public Transport {
public:
  explicit MpiTransport(const PoplarMpiTable &Table) : Table(Table) {
    check(Table.init(&Rank, &Size));
    Nodes.resize(Size);
    check(Table.get_nodes(Nodes.data()));
  }

  const char *getName() const override { return "mpi"; }
  int rank() const override { return Rank; }
  int size() const override { return Size; }
  std::vector<int> getNodes() const override { return Nodes; }
  Request receive(int Peer, int Tag, void *Data, size_t Bytes) override {
    Request R;
    check(Table.receive(Data, Bytes, Peer, Tag, &R));
    return R;
  }
  bool test(Request R) override {
    if (R == None)
      return true;
    int32_t Done = 0;
    check(Table.test(R, &Done));
    return Done != 0;
  }
  void close() override { check(Table.finalize()); }
  void abort(const std::string &Message) override {
    std::fprintf(stderr, "rank %d: error: %s\n", Rank, Message.c_str());
    std::fflush(stderr);
    Table.abort();
  }

protected:
  void doReserve(int Requests) override { check(Table.reserve(Requests)); }
  Request doSend(int Peer, int Tag, const void *Data, size_t Bytes) override {
    Request R;
    check(Table.send(Data, Bytes, Peer, Tag, &R));
    return R;
  }

private:
  void check(int Failed) const {
    if (Failed)
      fail("MPI (", Table.library, ") failed: ", Table.error());
  }

  const PoplarMpiTable &Table;
  int32_t Rank = 0, Size = 0;
  std::vector<int> Nodes;
};

} // namespace

std::unique_ptr<Transport> comm::makeMpiTransport() {
  return std::make_unique<MpiTransport>(loadPlugin());
}
