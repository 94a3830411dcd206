//===- NamesTest.cpp - Names of devices and nodes -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include <cstdio>
#include <gtest/gtest.h>

using namespace poplar;

TEST(NamesTest, Rule) {
  for (const char *name : {"a", "7", "a100", "n0.example.org", "big_gpu-2",
                           "A.", "lib", "launch.sh", "x..y"})
    EXPECT_TRUE(isName(name)) << name;
  for (const char *name :
       {"", ".", "..", "../x", "-rf", "_a", "a b", "a/b", "a\nb", "$(x)", "a'b",
        "a\"b", "a:2", "\xc3\xa9", "a*", "~", "a;b", "a\\b"})
    EXPECT_FALSE(isName(name)) << name;
  EXPECT_TRUE(isName(std::string(kMaxNameLength, 'a')));
  EXPECT_FALSE(isName(std::string(kMaxNameLength + 1, 'a')));
  EXPECT_FALSE(isName(llvm::StringRef("a\0b", 3)));
}

TEST(NamesTest, ShownOnOneLine) {
  EXPECT_EQ(showName("a b"), "'a b'");
  EXPECT_EQ(showName("a\n\"b"), "'a\\0A\\22b'");
  EXPECT_LT(showName(std::string(100000, 'a')).size(), 200u);
}

/// What a shell takes the quoted word for.
static std::string passThroughShell(const std::string &text) {
  std::string command = "printf '%s' " + quoteForShell(text), output;
  FILE *pipe = popen(command.c_str(), "r");
  if (!pipe)
    return "no shell";
  char buffer[256];
  while (size_t size = fread(buffer, 1, sizeof(buffer), pipe))
    output.append(buffer, size);
  pclose(pipe);
  return output;
}

TEST(NamesTest, QuotedForShell) {
  EXPECT_EQ(quoteForShell("a100"), "'a100'");
  for (const char *text :
       {"", "a b", "it's", "''", "\"", "$(touch X)", "`touch X`", "${HOME}",
        "a\nb", "\\", "*", "~", "!x", "-n", "a;b|c&d", "\xc3\xa9", "#x"})
    EXPECT_EQ(passThroughShell(text), text);
}
