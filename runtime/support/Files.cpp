//===- Files.cpp - Writing files so that they are whole or absent ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Files.h"
#include "support/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace poplar::runtime;

/// Why `open` has failed; with O_NOFOLLOW, a link is a loop.
static std::string describeOpenError() {
  return errno == ELOOP ? "it is a symbolic link, which is not followed; "
                          "remove it, or choose another place"
                        : std::strerror(errno);
}

OutputFile::OutputFile(const std::string &Path, bool RemovesFirst)
    : Path(Path) {
  if (RemovesFirst)
    unlink(Path.c_str());
  FD = open(Path.c_str(),
            O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                (RemovesFirst ? O_EXCL : O_TRUNC),
            0644);
  if (FD < 0)
    fail("cannot create '", Path, "': ", describeOpenError());
}

OutputFile::~OutputFile() {
  if (FD >= 0)
    ::close(FD);
}

void OutputFile::write(const void *Data, size_t Bytes) {
  const char *Position = static_cast<const char *>(Data);
  while (Bytes) {
    // The kernel takes at most 2^31 - 4096 bytes at once.
    ssize_t Written =
        ::write(FD, Position, std::min<size_t>(Bytes, size_t(1) << 30));
    if (Written < 0 && errno == EINTR)
      continue;
    if (Written < 0)
      fail("cannot write '", Path, "': ", std::strerror(errno));
    Position += Written;
    Bytes -= static_cast<size_t>(Written);
  }
}

void OutputFile::close() {
  int Code = fsync(FD) == 0 ? 0 : errno;
  if (::close(FD) != 0 && Code == 0)
    Code = errno;
  FD = -1;
  if (Code)
    fail("cannot write '", Path, "': ", std::strerror(Code));
}

/// Whether `Path` still is the file that is open.
static bool isOpen(int FD, const std::string &Path) {
  struct stat Open, Named;
  return fstat(FD, &Open) == 0 && lstat(Path.c_str(), &Named) == 0 &&
         Open.st_ino == Named.st_ino && Open.st_dev == Named.st_dev;
}

constexpr const char *HolderPrefix = "process ";

/// Whether nothing is lost with what the file holds: the line of a holder that
/// was killed, or nothing, under one name.
static bool isLock(int FD) {
  struct stat Facts;
  std::string Start(std::strlen(HolderPrefix), 0);
  return fstat(FD, &Facts) == 0 && S_ISREG(Facts.st_mode) &&
         Facts.st_nlink <= 1 &&
         (Facts.st_size == 0 || (pread(FD, Start.data(), Start.size(), 0) ==
                                     static_cast<ssize_t>(Start.size()) &&
                                 Start == HolderPrefix));
}

/// The text that the holder of the lock has written.
static std::string readHolder(int FD) {
  char Text[300];
  ssize_t Bytes = pread(FD, Text, sizeof Text, 0);
  std::string Holder(Text, Bytes > 0 ? static_cast<size_t>(Bytes) : 0);
  Holder = Holder.substr(0, Holder.find('\n'));
  return Holder.empty() ? "another process" : Holder;
}

/// Locks the open file of a directory, or closes it with an Error that names
/// who has the lock. False where the file system has no locks.
static bool takeLock(int FD, const std::string &Directory) {
  if (flock(FD, LOCK_EX | LOCK_NB) == 0)
    return true;
  // There is nothing that could be done.
  if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS)
    return false;
  std::string Holder = readHolder(FD);
  ::close(FD);
  fail("'", Directory, "' is in use by ", Holder,
       "; wait for its end, or choose another --out");
}

void DirectoryLock::checkFree(const std::string &Directory) {
  int FD = open((Directory + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (FD < 0)
    return;
  takeLock(FD, Directory);
  ::close(FD);
}

DirectoryLock::DirectoryLock(const std::string &Directory)
    : Path(Directory + "/lock") {
  while (true) {
    FD = open(Path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (FD < 0)
      fail("cannot create '", Path, "': ", describeOpenError());
    if (!takeLock(FD, Directory))
      return;
    // Whoever had it may have removed the file just before.
    if (isOpen(FD, Path))
      break;
    ::close(FD);
  }
  if (!isLock(FD)) {
    ::close(FD);
    FD = -1;
    fail("'", Path,
         "' is not a lock of a run; move it, or choose another "
         "--out");
  }
  char Host[256] = {};
  gethostname(Host, sizeof Host - 1);
  std::string Text =
      HolderPrefix + std::to_string(getpid()) + " on " + Host + "\n";
  // On a full disk the lock holds all the same.
  if (ftruncate(FD, 0) != 0 || pwrite(FD, Text.data(), Text.size(), 0) < 0)
    return;
}

DirectoryLock::~DirectoryLock() {
  if (FD < 0)
    return;
  if (isOpen(FD, Path))
    unlink(Path.c_str());
  ::close(FD);
}

void poplar::runtime::writeFileAtomically(const std::string &Path,
                                          std::string_view Text) {
  // A device or a pipe is written to: a file would take its place for everyone.
  std::error_code Code;
  std::filesystem::file_status Status = std::filesystem::status(Path, Code);
  if (std::filesystem::is_other(Status)) {
    std::ofstream Stream(Path);
    Stream << Text << std::flush;
    if (!Stream)
      fail("cannot write '", Path, "'");
    return;
  }
  std::string Temporary = Path + ".tmp";
  try {
    OutputFile File(Temporary, /*RemovesFirst=*/true);
    File.write(Text);
    File.close();
    renamePath(Temporary, Path);
  } catch (const Error &) {
    std::remove(Temporary.c_str());
    throw;
  }
}

void poplar::runtime::replaceSymlink(const std::string &Target,
                                     const std::string &Path) {
  std::string Temporary = Path + ".tmp";
  std::remove(Temporary.c_str());
  if (symlink(Target.c_str(), Temporary.c_str()) != 0)
    fail("cannot create '", Temporary, "': ", std::strerror(errno));
  renamePath(Temporary, Path);
}

void poplar::runtime::syncDirectory(const std::string &Path) {
  int FD = open(Path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (FD < 0)
    return;
  // Not all file systems can; the rename is then as durable as they make it.
  fsync(FD);
  close(FD);
}

std::string poplar::runtime::getJobDirectory() {
  std::error_code Code;
  std::filesystem::path Executable =
      std::filesystem::read_symlink("/proc/self/exe", Code);
  return Code ? "" : Executable.parent_path().parent_path().string();
}

void poplar::runtime::createDirectories(const std::string &Path) {
  std::error_code Code;
  std::filesystem::create_directories(Path, Code);
  if (Code || !std::filesystem::is_directory(Path, Code))
    fail("cannot create the directory '", Path, "'",
         Code ? ": " + Code.message() : "");
}

void poplar::runtime::renamePath(const std::string &From,
                                 const std::string &To) {
  if (std::rename(From.c_str(), To.c_str()) != 0)
    fail("cannot rename '", From, "' to '", To, "': ", std::strerror(errno));
}
