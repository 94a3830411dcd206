//===- Nccl.cpp - An emulated NCCL ----------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/cuda/ calls of libnccl.so.2, for tests. The ranks are processes
// of one machine and exchange files, in the directory that the identity names.
// Stricter than NCCL where that shows mistakes:
//
// - ranks that call unlike collectives, or with unlike counts, types or roots,
//   or of which one does not get what another sends, are named and ended,
//   instead of hanging
// - what a collective will write is NaN until it is done
// - every buffer has to be memory of the GPU, all of it
// - calls that do not belong in a group, or a group that is not closed, fail
// - a communicator that does not block takes nothing while a call is in
// progress,
//   which it is until the program has asked
// - a thread without the GPU's context is refused, as are two ranks on a GPU
//   and collectives on a stream that is not of the greatest priority
// - sums are taken in another order for every slice, so that a program that
//   relies on one is found out
// - the communicator has to be finalized, and memory deregistered, before it is
//   destroyed
// - memory is registered as it was allocated, once, and not freed before it is
//   deregistered; what ncclMemAlloc has allocated is ncclMemFree's to free
//
// Told by the environment: POPLAR_EMULATED_NCCL, the version, 22809 by default;
// POPLAR_EMULATED_NCCL_FAIL=n lets the n-th collective of the process end in an
// asynchronous error, POPLAR_EMULATED_NCCL_HANG=n never end, and with
// POPLAR_EMULATED_NCCL_REFUSE=n the n-th call in a group is refused. With
// POPLAR_EMULATED_NCCL_DELAY=ms every collective takes so long from its turn
// on. The first rank writes the names of what it calls to
// POPLAR_EMULATED_NCCL_LOG. POPLAR_EMULATED_NCCL_MEMORY=0 lets ncclMemAlloc
// fail, and POPLAR_EMULATED_NCCL_REGISTER=0 nothing be registered, as
// NCCL_LOCAL_REGISTER=0 does. With POPLAR_EMULATED_NCCL_INIT=0 no communicator
// is made, as where the driver is too old for the library.
//
//===----------------------------------------------------------------------===//

#include "cuda/Nccl.h"
#include "Memory.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace poplar::emulated;
using namespace poplar::runtime::cuda;
using namespace poplar::runtime::cuda::nccl;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr Status unhandledCuda = 1, systemError = 2, invalidArgument = 4;

size_t widthOf(DataType type) {
  switch (type) {
  case Uint8:
    return 1;
  case Float16:
  case BFloat16:
    return 2;
  case Float32:
    return 4;
  case Int64:
    return 8;
  }
  return 0;
}

/// One call of a collective, by one rank. Counts are of what each rank gives,
/// or of the whole in a reduce-scatter. Of ncclSend and ncclRecv the root is
/// the other rank.
struct Call {
  std::string name;
  const void *source;
  void *target;
  size_t count;
  DataType type;
  int root; // -1: none

  std::string describe() const {
    std::ostringstream text;
    text << name << " of " << count << " elements of type " << type;
    if (root >= 0)
      text << " with root " << root;
    return text.str();
  }
  size_t bytes() const { return count * widthOf(type); }
  bool sends() const { return name == "ncclSend"; }
  bool receives() const { return name == "ncclRecv"; }
};

thread_local int depth = 0;

} // namespace

struct ncclComm {
  fs::path directory;
  int rank, size;
  bool blocking;
  std::atomic<Status> state{0};
  std::atomic<bool> aborted{false};
  bool finalized = false;
  std::set<void *> registered;
  int64_t started = 0;
  std::string last;

  fs::path place(const std::string &what, int of) const {
    return directory / (what + "." + std::to_string(of));
  }
  /// Appears with all that is in it.
  void publish(const std::string &what, const std::string &text) const {
    fs::path own = place(what + ".tmp", rank);
    std::ofstream(own, std::ios::binary) << text;
    fs::rename(own, place(what, rank));
  }
  bool arePublished(const std::string &what) const {
    std::error_code code;
    for (int r = 0; r < size; ++r)
      if (!fs::exists(place(what, r), code))
        return false;
    return true;
  }
  std::string read(const std::string &what, int of) const {
    std::ifstream file(place(what, of), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
};

namespace {

/// Calls of the open group, of one communicator and stream.
thread_local std::vector<Call> group;
thread_local Comm groupComm = nullptr;
thread_local Stream groupStream = nullptr;
/// Error of a call in the group; what starts the group fails then, too.
thread_local Status groupError = 0;
std::atomic<int64_t> numCalls{0};
/// Why a communicator was not made.
std::string startError;
/// What ncclMemAlloc has allocated, and what is registered, as often as it is.
std::set<void *> allocated;
std::multiset<void *> inUse;
using Guard = std::lock_guard<std::recursive_mutex>;

bool isOff(const char *variable) {
  const char *given = std::getenv(variable);
  return given && std::strcmp(given, "0") == 0;
}

char *at(const void *address, size_t bytes) {
  return Memory::get().at(reinterpret_cast<uint64_t>(address), int64_t(bytes));
}

size_t sourceBytes(const Comm comm, const Call &c) {
  if (c.receives())
    return 0;
  if (c.name == "ncclReduceScatter")
    return c.bytes() * size_t(comm->size);
  return c.name == "ncclBroadcast" && comm->rank != c.root ? 0 : c.bytes();
}
size_t targetBytes(const Comm comm, const Call &c) {
  if (c.sends())
    return 0;
  if (c.name == "ncclAllGather")
    return c.bytes() * size_t(comm->size);
  return c.name == "ncclReduce" && comm->rank != c.root ? 0 : c.bytes();
}

/// The sum of all ranks' values, from rank `first` on.
void sum(char *target, const std::vector<std::string> &parts, size_t offset,
         size_t count, int first) {
  int size = int(parts.size());
  for (size_t i = 0; i < count; ++i) {
    float total = 0;
    for (int r = 0; r < size; ++r) {
      float value;
      std::memcpy(&value,
                  parts[size_t((first + r) % size)].data() + offset + 4 * i, 4);
      total = r ? total + value : value;
    }
    std::memcpy(target + 4 * i, &total, 4);
  }
}

void finish(Comm comm, const Call &c, const std::vector<std::string> &parts) {
  size_t bytes = c.bytes(), size = size_t(comm->size);
  char *target =
      targetBytes(comm, c) ? at(c.target, targetBytes(comm, c)) : nullptr;
  if (c.name == "ncclAllGather") {
    for (size_t r = 0; r < size; ++r)
      std::memcpy(target + r * bytes, parts[r].data(), bytes);
  } else if (c.name == "ncclBroadcast") {
    std::memcpy(target, parts[size_t(c.root)].data(), bytes);
  } else if (c.name == "ncclReduceScatter") {
    sum(target, parts, size_t(comm->rank) * bytes, c.count, comm->rank + 1);
  } else if (c.name == "ncclReduce") {
    if (target)
      sum(target, parts, 0, c.count, c.root + 1);
  } else { // ncclAllReduce: in slices, as a ring does it
    size_t slice = (c.count + size - 1) / size;
    for (size_t r = 0; r < size; ++r) {
      size_t begin = std::min(c.count, r * slice);
      size_t end = std::min(c.count, begin + slice);
      sum(target + 4 * begin, parts, 4 * begin, end - begin, int(r) + 1);
    }
  }
}

[[noreturn]] void differ(Comm comm, int other, const std::string &mine,
                         const std::string &theirs) {
  std::fprintf(stderr,
               "emulated NCCL: rank %d calls %s, but rank %d calls %s\n",
               comm->rank, mine.c_str(), other, theirs.c_str());
  std::abort();
}

/// Collectives that were queued together. Each rank writes a file with what it
/// calls and gives, waits for those of the others, and makes its results.
class Exchange {
public:
  Exchange(Comm comm, std::vector<Call> list)
      : comm(comm), calls(std::move(list)), number(comm->started++) {
    int64_t count = ++numCalls;
    auto reaches = [&](const char *variable) {
      const char *given = std::getenv(variable);
      return given && count >= std::atoll(given);
    };
    fails = reaches("POPLAR_EMULATED_NCCL_FAIL");
    hangs = reaches("POPLAR_EMULATED_NCCL_HANG");
  }

  bool attempt() {
    if (comm->aborted)
      return true;
    if (fails) {
      comm->state = RemoteError;
      comm->last = "made to fail by POPLAR_EMULATED_NCCL_FAIL";
      return false;
    }
    if (hangs)
      return false;
    std::string name = "call" + std::to_string(number);
    if (!published) {
      publish(name);
      published = true;
      const char *delay = std::getenv("POPLAR_EMULATED_NCCL_DELAY");
      end = Clock::now() +
            std::chrono::milliseconds(delay ? std::atoi(delay) : 0);
    }
    if (!comm->arePublished(name) || Clock::now() < end)
      return false;
    bool isPairs = !calls.empty() && (calls[0].sends() || calls[0].receives());
    isPairs ? takePairs(name) : take(name);
    // All have finished the call before: nobody reads this any more.
    std::error_code code;
    if (number > 0)
      fs::remove(comm->place("call" + std::to_string(number - 1), comm->rank),
                 code);
    return true;
  }

private:
  void publish(const std::string &name) {
    std::string text = std::to_string(calls.size()) + "\n";
    for (const Call &c : calls)
      text += c.describe() + "\n";
    for (const Call &c : calls)
      if (size_t bytes = sourceBytes(comm, c))
        text.append(at(c.source, bytes), bytes);
    comm->publish(name, text);
    // Sources that are targets have been read.
    for (const Call &c : calls)
      if (size_t bytes = targetBytes(comm, c))
        std::memset(at(c.target, bytes), 0xFF, bytes);
  }

  void take(const std::string &name) {
    std::vector<std::string> texts;
    std::vector<size_t> places;
    for (int r = 0; r < comm->size; ++r) {
      texts.push_back(comm->read(name, r));
      std::istringstream lines(texts.back());
      std::string line;
      std::getline(lines, line);
      size_t theirs = size_t(std::atoll(line.c_str()));
      for (size_t i = 0; i < std::max(theirs, calls.size()); ++i) {
        std::string mine = i < calls.size() ? calls[i].describe() : "nothing";
        line = "nothing";
        if (i < theirs)
          std::getline(lines, line);
        if (line != mine)
          differ(comm, r, mine, line);
      }
      places.push_back(size_t(lines.tellg()));
    }
    for (const Call &c : calls) {
      std::vector<std::string> parts;
      for (int r = 0; r < comm->size; ++r) {
        size_t bytes = c.bytes();
        if (c.name == "ncclReduceScatter")
          bytes *= size_t(comm->size);
        if (c.name == "ncclBroadcast" && r != c.root)
          bytes = 0;
        parts.push_back(texts[size_t(r)].substr(places[size_t(r)], bytes));
        places[size_t(r)] += bytes;
      }
      finish(comm, c, parts);
    }
  }

  /// Sends and receives: all ranks have some, and those between two of them
  /// belong together in their order.
  void takePairs(const std::string &name) {
    std::vector<std::string> texts;
    /// What each rank sends to this one, and where it lies in the text.
    std::vector<std::vector<std::pair<Call, size_t>>> sent;
    for (int r = 0; r < comm->size; ++r) {
      texts.push_back(comm->read(name, r));
      std::istringstream lines(texts.back());
      std::string line;
      std::getline(lines, line);
      std::vector<Call> theirs(size_t(std::atoll(line.c_str())));
      for (Call &c : theirs) {
        char what[32] = "";
        std::getline(lines, line);
        if (std::sscanf(line.c_str(),
                        "%31s of %zu elements of type %d with root %d", what,
                        &c.count, &c.type, &c.root) != 4)
          differ(comm, r, calls[0].describe(), line);
        c.name = what;
        if (!c.sends() && !c.receives())
          differ(comm, r, calls[0].describe(), line);
      }
      auto place = size_t(lines.tellg());
      sent.emplace_back();
      for (const Call &c : theirs) {
        if (!c.sends())
          continue;
        if (c.root == comm->rank)
          sent.back().push_back({c, place});
        place += c.bytes();
      }
    }
    std::vector<size_t> next(sent.size());
    for (const Call &c : calls) {
      if (!c.receives())
        continue;
      auto &from = sent[size_t(c.root)];
      size_t &index = next[size_t(c.root)];
      if (index == from.size() || from[index].first.bytes() != c.bytes())
        differ(comm, c.root, c.describe(),
               index == from.size() ? "nothing" : from[index].first.describe());
      std::memcpy(at(c.target, c.bytes()),
                  texts[size_t(c.root)].data() + from[index].second, c.bytes());
      ++index;
    }
    for (size_t r = 0; r < sent.size(); ++r)
      if (next[r] < sent[r].size())
        differ(comm, int(r), "no ncclRecv", sent[r][next[r]].first.describe());
  }

  Comm comm;
  std::vector<Call> calls;
  int64_t number;
  bool fails, hangs, published = false;
  Clock::time_point end;
};

Status queue(Comm comm, Stream stream, std::vector<Call> calls) {
  getQueue(stream).collects = true;
  auto exchange = std::make_shared<Exchange>(comm, std::move(calls));
  getQueue(stream).addAttempt([exchange] { return exchange->attempt(); });
  if (comm->blocking)
    return 0;
  return comm->state = InProgress;
}

Status add(Comm comm, Stream stream, Call call) {
  bool sums = call.name.find("Reduce") != std::string::npos;
  if (!comm || comm->finalized || !stream || !widthOf(call.type) ||
      (sums && call.type != Float32) || call.root >= comm->size ||
      (call.name == "ncclSend" && call.root == comm->rank))
    return invalidArgument;
  if (getCurrentDevice() < 0)
    return unhandledCuda;
  if (getQueue(stream).priority != greatestPriority) {
    comm->last = "on a stream whose blocks wait behind those of products";
    return InvalidUsage;
  }
  if (const char *log = std::getenv("POPLAR_EMULATED_NCCL_LOG");
      log && comm->rank == 0)
    std::ofstream(log, std::ios::app) << call.name << "\n";
  if (comm->state == InProgress)
    return invalidArgument;
  if (size_t bytes = sourceBytes(comm, call))
    at(call.source, bytes);
  if (size_t bytes = targetBytes(comm, call))
    at(call.target, bytes);
  if (depth == 0)
    return queue(comm, stream, {std::move(call)});
  if (groupComm && (groupComm != comm || groupStream != stream))
    return InvalidUsage;
  static std::atomic<int64_t> inGroups{0};
  const char *refused = std::getenv("POPLAR_EMULATED_NCCL_REFUSE");
  if (refused && ++inGroups == std::atoll(refused))
    return groupError = invalidArgument;
  groupComm = comm;
  groupStream = stream;
  group.push_back(std::move(call));
  return 0;
}

} // namespace

extern "C" {

Status ncclGetVersion(int *version) {
  const char *given = std::getenv("POPLAR_EMULATED_NCCL");
  *version = given ? std::atoi(given) : 22809;
  return 0;
}

const char *ncclGetErrorString(Status status) {
  constexpr const char *texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a "
                                   "network error",
                                   "NCCL operation in progress"};
  return status >= 0 && status < 8 ? texts[status] : "unknown result code";
}
const char *ncclGetLastError(Comm comm) {
  return comm ? comm->last.c_str() : startError.c_str();
}

Status ncclGetUniqueId(UniqueId *id) {
  std::string name = fs::temp_directory_path() / "poplar-nccl-XXXXXX";
  if (name.size() >= sizeof(id->Internal) || !mkdtemp(name.data()))
    return systemError;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->Internal, name.data(), name.size());
  return 0;
}

Status ncclCommGetAsyncError(Comm comm, Status *state);

Status ncclCommInitRankConfig(Comm *result, int size, UniqueId id, int rank,
                              Config *config) {
  if (rank < 0 || rank >= size || config->Magic != 0xcafebeef ||
      config->Size < sizeof(Config))
    return invalidArgument;
  if (getCurrentDevice() < 0)
    return unhandledCuda;
  if (isOff("POPLAR_EMULATED_NCCL_INIT")) {
    startError = "made to fail by POPLAR_EMULATED_NCCL_INIT";
    return unhandledCuda;
  }
  auto comm = std::make_unique<ncclComm>();
  comm->directory = id.Internal;
  comm->rank = rank;
  comm->size = size;
  comm->blocking = config->Blocking;
  comm->publish("init", std::to_string(getCurrentDevice()));
  comm->state = InProgress;
  *result = comm.release();
  Status state = InProgress;
  while (config->Blocking && state == InProgress) {
    usleep(100);
    ncclCommGetAsyncError(*result, &state);
  }
  return config->Blocking ? state : Status(InProgress);
}

Status ncclCommGetAsyncError(Comm comm, Status *state) {
  if (comm->state == InProgress && comm->arePublished("init")) {
    comm->state = 0;
    for (int r = 0; r < comm->size; ++r)
      if (r != comm->rank &&
          comm->read("init", r) == comm->read("init", comm->rank)) {
        comm->state = InvalidUsage;
        comm->last = "Duplicate GPU detected : rank " +
                     std::to_string(comm->rank) + " and rank " +
                     std::to_string(r);
      }
  }
  *state = comm->state;
  return 0;
}

/// The rank that leaves last takes the directory with it.
static void leave(Comm comm) {
  comm->publish("left", "");
  std::error_code code;
  if (comm->arePublished("left"))
    fs::remove_all(comm->directory, code);
}

/// Calls that are still queued have it: it stays, where a search for leaks
/// finds it.
static void retire(Comm comm) {
  static std::vector<std::unique_ptr<ncclComm>> retired;
  leave(comm);
  Guard guard(getLock());
  retired.emplace_back(comm);
}
Status ncclCommFinalize(Comm comm) {
  if (!comm->registered.empty() || comm->finalized)
    return InvalidUsage;
  comm->finalized = true;
  return 0;
}
Status ncclCommDestroy(Comm comm) {
  if (!comm->finalized)
    return InvalidUsage;
  retire(comm);
  return 0;
}
Status ncclCommAbort(Comm comm) {
  // NCCL does it when the group ends.
  if (depth > 0) {
    std::fputs("ncclCommAbort waits for the end of a group\n", stderr);
    return 0;
  }
  comm->aborted = true;
  retire(comm);
  return 0;
}

Status ncclMemAlloc(void **memory, size_t bytes) {
  if (getCurrentDevice() < 0 || isOff("POPLAR_EMULATED_NCCL_MEMORY"))
    return unhandledCuda;
  *memory = reinterpret_cast<void *>(Memory::get().allocate(int64_t(bytes)));
  if (!*memory)
    return unhandledCuda;
  Guard guard(getLock());
  allocated.insert(*memory);
  return 0;
}
Status ncclMemFree(void *memory) {
  Guard guard(getLock());
  if (inUse.count(memory) || !allocated.erase(memory))
    return InvalidUsage;
  Memory::get().free(reinterpret_cast<uint64_t>(memory));
  return 0;
}

Status ncclCommRegister(Comm comm, void *memory, size_t bytes, void **handle) {
  uint64_t begin = 0, end = 0;
  auto address = reinterpret_cast<uint64_t>(memory);
  if (!Memory::get().find(address, begin, end) || address != begin ||
      address + bytes != end)
    return invalidArgument;
  *handle = nullptr;
  if (isOff("POPLAR_EMULATED_NCCL_REGISTER"))
    return 0;
  Guard guard(getLock());
  if (!comm->registered.insert(memory).second)
    return InvalidUsage;
  inUse.insert(memory);
  *handle = memory;
  return 0;
}
Status ncclCommDeregister(Comm comm, void *handle) {
  Guard guard(getLock());
  if (!comm->registered.erase(handle))
    return InvalidUsage;
  inUse.erase(inUse.find(handle));
  return 0;
}

Status ncclBroadcast(const void *source, void *target, size_t count,
                     DataType type, int root, Comm comm, Stream stream) {
  return add(comm, stream,
             {"ncclBroadcast", source, target, count, type, root});
}
Status ncclReduce(const void *source, void *target, size_t count, DataType type,
                  Operation, int root, Comm comm, Stream stream) {
  return add(comm, stream, {"ncclReduce", source, target, count, type, root});
}
Status ncclAllGather(const void *source, void *target, size_t count,
                     DataType type, Comm comm, Stream stream) {
  return add(comm, stream, {"ncclAllGather", source, target, count, type, -1});
}
Status ncclReduceScatter(const void *source, void *target, size_t count,
                         DataType type, Operation, Comm comm, Stream stream) {
  return add(comm, stream,
             {"ncclReduceScatter", source, target, count, type, -1});
}
Status ncclAllReduce(const void *source, void *target, size_t count,
                     DataType type, Operation, Comm comm, Stream stream) {
  return add(comm, stream, {"ncclAllReduce", source, target, count, type, -1});
}

Status ncclSend(const void *source, size_t count, DataType type, int peer,
                Comm comm, Stream stream) {
  return add(comm, stream, {"ncclSend", source, nullptr, count, type, peer});
}
Status ncclRecv(void *target, size_t count, DataType type, int peer, Comm comm,
                Stream stream) {
  return add(comm, stream, {"ncclRecv", nullptr, target, count, type, peer});
}

Status ncclGroupStart() {
  ++depth;
  return 0;
}
Status ncclGroupEnd() {
  if (depth == 0)
    return InvalidUsage;
  if (--depth > 0)
    return 0;
  if (groupError) {
    group.clear();
    groupComm = nullptr;
    return std::exchange(groupError, 0);
  }
  if (group.empty())
    return 0;
  Comm comm = std::exchange(groupComm, nullptr);
  return queue(comm, std::exchange(groupStream, nullptr),
               std::exchange(group, {}));
}

} // extern "C"
