//===- MappedFile.cpp - A file as memory ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/MappedFile.h"
#include "support/CommandName.h"
#include "support/Error.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace poplar::runtime;

namespace {

/// A mapping, for a signal handler: nothing here is ever freed.
struct Mapping {
  std::atomic<const char *> Begin{nullptr};
  std::atomic<size_t> Size{0};
  char Path[512];
};

} // namespace

static constexpr size_t MaxMappings = 4096;
static Mapping Mappings[MaxMappings];
/// POPLAR_FAILURE_REPORT, where the launcher looks for the reason of an end.
static const char *ReportPath = nullptr;

static void writeText(int FD, const char *Text) {
  for (size_t Left = std::strlen(Text); Left;) {
    ssize_t Written = write(FD, Text, Left);
    if (Written <= 0)
      return;
    Text += Written;
    Left -= static_cast<size_t>(Written);
  }
}

static void writeEnd(int FD, const char *Path) {
  writeText(FD, CommandName);
  writeText(FD, ": error: '");
  writeText(FD, Path);
  writeText(FD, "' was cut short, or cannot be read any more, while the "
                "program was reading it\n");
}

/// A page of a mapping is gone: the file was cut, or its disk has failed.
static void endAtLostPage(int Signal, siginfo_t *Info, void *) {
  const char *Address = static_cast<const char *>(Info->si_addr);
  for (const Mapping &M : Mappings) {
    const char *Begin = M.Begin;
    if (!Begin || Address < Begin || Address >= Begin + M.Size)
      continue;
    int FD = -1;
    if (ReportPath)
      FD = open(ReportPath, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    writeEnd(FD >= 0 ? FD : STDERR_FILENO, M.Path);
    _exit(1);
  }
  // Other memory ends as without a handler.
  signal(Signal, SIG_DFL);
}

static void catchLostPages() {
  static const bool Once = [] {
    ReportPath = std::getenv("POPLAR_FAILURE_REPORT");
    struct sigaction Action = {};
    Action.sa_sigaction = endAtLostPage;
    Action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &Action, nullptr) == 0;
  }();
  (void)Once;
}

/// A file that does not fit the table is mapped all the same.
static void remember(const char *Data, size_t Size, const std::string &Path) {
  catchLostPages();
  // Begin is set last and cleared first: an entry that is seen is whole.
  static std::atomic<bool> Busy{false};
  while (Busy.exchange(true))
    ;
  for (Mapping &M : Mappings)
    if (!M.Begin) {
      std::strncpy(M.Path, Path.c_str(), sizeof M.Path - 1);
      M.Path[sizeof M.Path - 1] = 0;
      M.Size = Size;
      M.Begin = Data;
      break;
    }
  Busy = false;
}

static void forget(const char *Data) {
  for (Mapping &M : Mappings)
    if (M.Begin == Data)
      M.Begin = nullptr;
}

/// Git LFS keeps large files elsewhere; a checkout without it has such pointers
/// in their places.
static bool isLfsPointer(std::string_view Text) {
  constexpr std::string_view Begin = "version https://git-lfs.";
  return Text.size() < 1024 && Text.substr(0, Begin.size()) == Begin;
}

MappedFile::MappedFile(const std::string &Path) : Path(Path) {
  // Without waiting for the writer of a pipe.
  int FD = open(Path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (FD < 0)
    fail("cannot open '", Path, "': ", std::strerror(errno));
  struct stat Status;
  if (fstat(FD, &Status) != 0 || !S_ISREG(Status.st_mode)) {
    close(FD);
    fail("'", Path, "' is not a regular file");
  }
  Size = static_cast<size_t>(Status.st_size);
  void *Address = nullptr;
  // An empty mapping is not allowed, and not needed.
  if (Size)
    Address = mmap(nullptr, Size, PROT_READ, MAP_PRIVATE, FD, 0);
  int Code = errno;
  close(FD);
  if (Address == MAP_FAILED)
    fail("cannot map '", Path, "': ", std::strerror(Code));
  Data = static_cast<const char *>(Address);
  if (!Data)
    return;
  if (isLfsPointer(text())) {
    munmap(Address, Size);
    fail("'", Path,
         "' is a pointer of Git LFS and not the file itself; run 'git lfs "
         "pull' in its repository");
  }
  remember(Data, Size, Path);
}

MappedFile::MappedFile(MappedFile &&Other) noexcept
    : Path(std::move(Other.Path)), Data(std::exchange(Other.Data, nullptr)),
      Size(std::exchange(Other.Size, 0)) {}

MappedFile::~MappedFile() {
  if (!Data)
    return;
  forget(Data);
  munmap(const_cast<char *>(Data), Size);
}
