//===- DirectoryFixture.h - Tests with files of their own -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_RECIPE_DIRECTORYFIXTURE_H
#define POPLAR_UNITTESTS_RECIPE_DIRECTORYFIXTURE_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace poplar {

/// A test with a directory, which is removed behind it.
class DirectoryTest : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/poplar-recipe-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    directory = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  void write(const std::string &name, const std::string &text) const {
    std::ofstream(directory + "/" + name, std::ios::binary) << text;
  }

  std::string directory;
};

} // namespace poplar

#endif // POPLAR_UNITTESTS_RECIPE_DIRECTORYFIXTURE_H
