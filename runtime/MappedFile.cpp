//===- MappedFile.cpp - A file as memory ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MappedFile.h"
#include "Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace poplar::runtime;

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
}

MappedFile::MappedFile(MappedFile &&Other) noexcept
    : Path(std::move(Other.Path)), Data(std::exchange(Other.Data, nullptr)),
      Size(std::exchange(Other.Size, 0)) {}

MappedFile::~MappedFile() {
  if (Data)
    munmap(const_cast<char *>(Data), Size);
}
