//===- YAMLTest.cpp - Located errors of the YAML reader -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/YAML.h"

#include "../Support/Mutator.h"
#include <gtest/gtest.h>

using namespace poplar;

namespace {

std::string parseError(const std::string &text) {
  std::string error;
  EXPECT_FALSE(yaml::parse(text, "f.yaml", error)) << text;
  return error;
}

TEST(YAML, ReadsValuesWithTheirPlaces) {
  std::string error;
  auto root = yaml::parse("a: 1 # first\nb:\n  - x\n  - {c: \"yes\", d: ~}\n",
                          "f.yaml", error);
  ASSERT_TRUE(root) << error;
  ASSERT_EQ(root->members.size(), 2u);
  EXPECT_EQ(root->members[1].place.line, 2);
  const yaml::Content *list = root->find("b");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->describe(), "[x, {c: yes, d: null}]");
  const yaml::Content *quoted = list->elements[1].find("c");
  ASSERT_TRUE(quoted);
  EXPECT_TRUE(quoted->isQuoted);
  EXPECT_EQ(quoted->place.line, 4);
  EXPECT_EQ(quoted->place.column, 9);
  EXPECT_FALSE(root->find("a")->isQuoted);
  EXPECT_EQ(root->find("z"), nullptr);
}

TEST(YAML, AnEmptyFileIsNull) {
  std::string error;
  for (const char *text : {"", "\n", "# nothing\n"}) {
    auto root = yaml::parse(text, "f.yaml", error);
    ASSERT_TRUE(root) << error;
    EXPECT_EQ(root->kind, yaml::Content::Null);
  }
}

TEST(YAML, RefusesWhatAReaderCouldMiss) {
  EXPECT_EQ(parseError("a: 1\nb: 2\na: 3\n"),
            "f.yaml:3:1: duplicate key `a`; the first one is in line 1");
  EXPECT_EQ(parseError("a: &x 1\nb: *x\n").substr(0, 11), "f.yaml:1:4:");
  EXPECT_EQ(parseError("<<: {a: 1}\n"),
            "f.yaml:1:1: merge keys are not read: write the members out here");
  EXPECT_EQ(parseError("a: !!python/object x\n").substr(0, 11), "f.yaml:1:4:");
  EXPECT_EQ(parseError("a: 1\n---\nb: 2\n"),
            "f.yaml:3:1: a second document begins here, and one is expected");
  EXPECT_EQ(parseError("? [a]\n: 1\n"),
            "f.yaml:1:3: a key is a word, and not null, a list or a map");
  EXPECT_EQ(parseError("a: [1, 2\n").substr(0, 7), "f.yaml:");
  EXPECT_EQ(parseError(std::string(10000, '[')).substr(0, 7), "f.yaml:");
  std::string error;
  EXPECT_FALSE(yaml::readFile("/nonexistent/f.yaml", error));
  EXPECT_EQ(error, "/nonexistent/f.yaml: No such file or directory");
  EXPECT_FALSE(yaml::readFile("/tmp", error));
}

TEST(YAML, AnyTextIsReadOrRefused) {
  const std::string text =
      "a: 1\nb: [x, 'y']\nc:\n  d: |\n    z\n  e: {f: ~}\n";
  Mutator mutator(1);
  for (int i = 0; i < 5000; ++i) {
    std::string error;
    auto root = yaml::parse(mutator(text), "f.yaml", error);
    EXPECT_NE(root.has_value(), !error.empty());
  }
}

} // namespace
