//===- TestSupport.h - Files and runs for the runtime's tests ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_RUNTIME_TESTSUPPORT_H
#define POPLAR_UNITTESTS_RUNTIME_TESTSUPPORT_H

#include "Poplar/Runtime/ABI.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

/// A directory that goes away with the test.
class TempDir {
public:
  TempDir();
  ~TempDir();
  std::string operator/(const std::string &Name) const {
    return Path + "/" + Name;
  }

private:
  std::string Path;
};

/// A file without a disk, whose speed would decide how long a test takes.
class MemoryFile {
public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  std::string path() const;
  void write(const std::string &Content);

private:
  int FD;
};

std::string readFile(const std::string &Path);
void writeFile(const std::string &Path, const std::string &Content);

/// Text in which the next byte is mostly decided by the last one.
std::string makeText(size_t Bytes);

/// What a command printed, and its exit status.
struct Result {
  int Status;
  std::string Out, Err;
};
Result runProgram(const PoplarProgram &Program,
                  const std::vector<std::string> &Args);

/// The validation losses in a run's metrics.csv.
std::vector<double> readColumn(const std::string &CSV, size_t Column);

#endif // POPLAR_UNITTESTS_RUNTIME_TESTSUPPORT_H
