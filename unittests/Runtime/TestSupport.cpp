//===- TestSupport.cpp - Files and runs for the runtime's tests -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "training/Trainer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

TempDir::TempDir() {
  std::string Template = testing::TempDir() + "/poplar-XXXXXX";
  Path = mkdtemp(Template.data());
}

TempDir::~TempDir() {
  std::error_code Code;
  std::filesystem::remove_all(Path, Code);
}

MemoryFile::MemoryFile() : FD(memfd_create("test", MFD_CLOEXEC)) {}

MemoryFile::~MemoryFile() { close(FD); }

std::string MemoryFile::path() const {
  return "/proc/self/fd/" + std::to_string(FD);
}

void MemoryFile::write(const std::string &Content) {
  ASSERT_EQ(ftruncate(FD, 0), 0);
  ASSERT_EQ(pwrite(FD, Content.data(), Content.size(), 0),
            static_cast<ssize_t>(Content.size()));
}

std::string readFile(const std::string &Path) {
  std::ifstream In(Path, std::ios::binary);
  std::ostringstream Content;
  Content << In.rdbuf();
  return Content.str();
}

void writeFile(const std::string &Path, const std::string &Content) {
  std::ofstream(Path, std::ios::binary) << Content;
}

std::string makeText(size_t Bytes) {
  std::string Text;
  unsigned State = 12345;
  char Last = 'a';
  for (size_t I = 0; I < Bytes; ++I) {
    State = State * 1664525u + 1013904223u;
    unsigned Draw = State >> 24;
    Last = static_cast<char>('a' + ((Last - 'a') * 5 + 3 + (Draw < 32)) % 26);
    Text += Last;
  }
  return Text;
}

Result runProgram(const PoplarProgram &Program,
                  const std::vector<std::string> &Args) {
  std::vector<const char *> Argv = {"train"};
  for (const std::string &Arg : Args)
    Argv.push_back(Arg.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Result R;
  auto Load = [&]() -> const PoplarProgram & { return Program; };
  R.Status = poplar::runtime::runMain(Load, static_cast<int>(Argv.size()),
                                      Argv.data());
  R.Out = testing::internal::GetCapturedStdout();
  R.Err = testing::internal::GetCapturedStderr();
  return R;
}

std::vector<double> readColumn(const std::string &CSV, size_t Column) {
  std::istringstream Lines(readFile(CSV));
  std::string Line, Field;
  std::vector<double> Values;
  std::getline(Lines, Line);
  while (std::getline(Lines, Line)) {
    std::istringstream Fields(Line);
    for (size_t I = 0; I <= Column; ++I)
      std::getline(Fields, Field, ',');
    if (!Field.empty())
      Values.push_back(std::strtod(Field.c_str(), nullptr));
  }
  return Values;
}
