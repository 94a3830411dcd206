//===- Files.cpp - Writing files so that they are whole or absent ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Files.h"
#include "Error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace poplar::runtime;

OutputFile::OutputFile(const std::string &Path)
    : Path(Path),
      FD(open(Path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (FD < 0)
    fail("cannot create '", Path, "': ", std::strerror(errno));
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

void poplar::runtime::writeFileAtomically(const std::string &Path,
                                          std::string_view Text) {
  std::string Temporary = Path + ".tmp";
  try {
    OutputFile File(Temporary);
    File.write(Text);
    File.close();
  } catch (const Error &) {
    std::remove(Temporary.c_str());
    throw;
  }
  renamePath(Temporary, Path);
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
