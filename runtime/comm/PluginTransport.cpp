//===- PluginTransport.cpp - Messages by a library ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/PluginTransport.h"
#include "comm/Launcher.h"
#include "comm/TransportPlugin.h"
#include "support/Error.h"
#include "support/Plugin.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

const TransportPlugin comm::MpiPlugin = {"mpi", "POPLAR_MPI_PLUGIN", "MPI",
                                         "libopenmpi-dev openmpi-bin"};
const TransportPlugin comm::TcpPlugin = {"tcp", "POPLAR_TCP_PLUGIN", "UCX",
                                         "libucx-dev libsodium-dev"};

static const PoplarTransportTable &getTable(void *Library,
                                            const std::string &Path) {
  auto Entry = reinterpret_cast<PoplarTransportEntry>(
      dlsym(Library, POPLAR_TRANSPORT_ENTRY));
  const PoplarTransportTable *Table = Entry ? Entry() : nullptr;
  if (!Table || Table->magic != POPLAR_TRANSPORT_MAGIC)
    fail(Path, " is not a transport plug-in of Poplar");
  if (Table->version != POPLAR_TRANSPORT_VERSION)
    fail(Path, " has version ", Table->version, " of the plug-in interface; ",
         POPLAR_TRANSPORT_VERSION,
         " is needed. Build both from the same sources");
  return *Table;
}

static const PoplarTransportTable &loadPlugin(const TransportPlugin &Plugin) {
  // Open MPI's own plug-ins need its symbols to be global.
  constexpr int Flags = RTLD_NOW | RTLD_GLOBAL;
  if (const char *Named = std::getenv(Plugin.Variable)) {
    void *Library = dlopen(Named, Flags);
    if (!Library)
      fail(Plugin.Variable, "=", Named, " cannot be loaded: ", dlerror());
    return getTable(Library, Named);
  }
  std::string Name = std::string("libpoplar_") + Plugin.Name + ".so", Tried;
  for (const std::string &Path : getPluginPaths(Name)) {
    if (void *Library = dlopen(Path.c_str(), Flags))
      return getTable(Library, Path);
    // Why a file that is there cannot be loaded is worth saying: there may be
    // another version of the library, or none, on this host.
    bool Exists = std::filesystem::exists(Path);
    Tried += "\n  " + Path + (Exists ? std::string(": ") + dlerror() : "");
  }
  fail("this process was started as a rank of a job, but the plug-in for ",
       Plugin.Library, " was not found. Build Poplar where ", Plugin.Library,
       " is installed (on Debian: apt-get install ", Plugin.Packages,
       "), and put ", Name,
       " next to the executable (poplar build puts it into lib/ "
       "of the job) or name it in ",
       Plugin.Variable, ". Tried:", Tried);
}

/// Whether a transport was asked for: then the others know of this process.
static bool HasJoined = false;

namespace {

class PluginTransport : public Transport {
public:
  PluginTransport(const TransportPlugin &Plugin,
                  const PoplarTransportTable &Table)
      : Plugin(Plugin), Table(Table) {
    check(Table.init(getStartSeconds(), &Rank, &Size));
    Nodes.resize(Size);
    check(Table.get_nodes(Nodes.data()));
    if (Table.get_descriptor)
      check(Table.get_descriptor(&Descriptor));
  }

  const char *getName() const override { return Plugin.Name; }
  const char *getLibrary() const override { return Table.library; }
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
  int getDescriptor() const override { return Descriptor; }
  bool arm() override {
    int32_t NothingMoved = 1;
    if (Descriptor >= 0)
      check(Table.arm(&NothingMoved));
    return NothingMoved != 0;
  }
  HeartbeatSockets takeSockets() override {
    HeartbeatSockets Result;
    if (!Table.take_sockets)
      return Result;
    Result.ByRank.resize(static_cast<size_t>(Size));
    check(Table.take_sockets(Result.ByRank.data(), &Result.Session));
    return Result;
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
      fail(Table.error());
  }

  const TransportPlugin &Plugin;
  const PoplarTransportTable &Table;
  int32_t Rank = 0, Size = 0, Descriptor = -1;
  std::vector<int> Nodes;
};

} // namespace

std::unique_ptr<Transport> comm::makeTransport(const TransportPlugin &Plugin) {
  HasJoined = true;
  return std::make_unique<PluginTransport>(Plugin, loadPlugin(Plugin));
}

void comm::declineJob(const std::string &Why) {
  // Ranks that are scheduled later find nobody, as where a rank was killed.
  constexpr double MostSeconds = 10;
  if (HasJoined || isStartedByMpi() || !isToldItsRank() || getNumStarted() < 2)
    return;
  try {
    const PoplarTransportTable &Table = loadPlugin(TcpPlugin);
    if (Table.decline)
      Table.decline(std::min(getStartSeconds(), MostSeconds), Why.c_str());
  } catch (const Error &) {
    // Without its library or its place, a rank reaches nobody.
  }
}
