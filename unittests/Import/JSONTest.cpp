//===- JSONTest.cpp - Located errors of the JSON reader -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/JSON.h"

#include "../Support/Mutator.h"
#include <functional>
#include <gtest/gtest.h>

using namespace poplar;

namespace {

std::string parseError(const std::string &text) {
  return json::Document::parse(text, "f.json")->getError();
}

/// The error left by what `read` does with a parsed text.
std::string readError(const std::string &text,
                      const std::function<void(json::Value)> &read) {
  auto document = json::Document::parse(text, "f.json");
  EXPECT_FALSE(document->hasError()) << document->getError();
  read(document->getRoot());
  return document->getError();
}

TEST(JSON, ReadsValues) {
  auto document = json::Document::parse(
      R"({"b": [1, 2.5, "x", true, null], "a": {"c": -7}})", "f.json");
  json::Value root = document->getRoot();
  EXPECT_TRUE(root.isObject());
  EXPECT_EQ(root.keys(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(root["b"].size(), 5u);
  EXPECT_EQ(root["b"][0].getInteger(), 1);
  EXPECT_EQ(root["b"][0].getNumber(), 1.0);
  EXPECT_EQ(root["b"][1].getNumber(), 2.5);
  EXPECT_EQ(root["b"][2].getString(), "x");
  EXPECT_TRUE(root["b"][3].getBool());
  EXPECT_FALSE(root["b"][4].isPresent());
  EXPECT_EQ(root["a"]["c"].getInteger(-7, 0), -7);
  EXPECT_EQ(root["a"]["c"].getPath(), "a.c");
  EXPECT_EQ(root["b"][3].getPath(), "b[3]");
  EXPECT_EQ(root["absent"].getNumber(0.25), 0.25);
  EXPECT_EQ(root["b"][4].getString("fallback"), "fallback");
  EXPECT_FALSE(root["absent"]["deeper"].isPresent());
  EXPECT_FALSE(document->hasError()) << document->getError();
}

TEST(JSON, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_EQ(parseError("{\"a\": 1}"), "");
  EXPECT_EQ(parseError("").rfind("f.json:1:1: syntax error", 0), 0u);
  EXPECT_EQ(parseError("{\"a\": 1,}").rfind("f.json:1:9: syntax error", 0), 0u);
  EXPECT_EQ(parseError("{\n  \"a\": x\n}").rfind("f.json:2:8: ", 0), 0u)
      << parseError("{\n  \"a\": x\n}");
  EXPECT_EQ(parseError("{\n\n").rfind("f.json:3:1: ", 0), 0u);
  // The text itself, with its line breaks, stays out of the message.
  EXPECT_EQ(parseError("[\"a\nb\"]").find('\n'), std::string::npos);
  EXPECT_NE(parseError("{\"a\": 1e999}"), "");
}

TEST(JSON, TypeErrorsHaveAPath) {
  std::string text =
      R"({"nodes": [{}, {}, {"count": "4", "name": 3}], "n": 5})";
  auto count = [](json::Value root) { return root["nodes"][2]["count"]; };
  EXPECT_EQ(
      readError(text, [&](json::Value root) { count(root).getInteger(); }),
      "f.json: nodes[2].count: expected an integer, found a string");
  EXPECT_EQ(readError(text, [&](json::Value root) { count(root).getNumber(); }),
            "f.json: nodes[2].count: expected a number, found a string");
  EXPECT_EQ(readError(text, [&](json::Value root) { count(root).getBool(); }),
            "f.json: nodes[2].count: expected true or false, found a string");
  EXPECT_EQ(
      readError(text,
                [](json::Value root) { root["nodes"][2]["name"].getString(); }),
      "f.json: nodes[2].name: expected a string, found 3");
  EXPECT_EQ(readError(text, [](json::Value root) { root["nodes"][3]; }),
            "f.json: nodes: expected more than 3 elements, found 3");
  EXPECT_EQ(readError(text, [](json::Value root) { root["nodes"]["x"]; }),
            "f.json: nodes: expected an object, found an array");
  EXPECT_EQ(readError(text, [](json::Value root) { root["n"][0]; }),
            "f.json: n: expected an array, found 5");
  EXPECT_EQ(readError(text, [](json::Value root) { root["m"].getInteger(); }),
            "f.json: m: expected an integer, found nothing");
  EXPECT_EQ(
      readError(text, [](json::Value root) { root["n"].getInteger(6, 9); }),
      "f.json: n: expected an integer from 6 to 9, found 5");
}

TEST(JSON, IntegersDoNotWrap) {
  std::string text = R"({"u": 18446744073709551615, "f": 1e3, "h": 2.5})";
  EXPECT_EQ(readError(text, [](json::Value root) { root["u"].getInteger(); }),
            "f.json: u: expected an integer from -9223372036854775808 to "
            "9223372036854775807, found 18446744073709551615");
  EXPECT_NE(readError(text, [](json::Value root) { root["f"].getInteger(); }),
            "");
  EXPECT_NE(readError(text, [](json::Value root) { root["h"].getInteger(); }),
            "");
}

TEST(JSON, KeepsTheFirstError) {
  EXPECT_EQ(readError("{}",
                      [](json::Value root) {
                        EXPECT_EQ(root["a"].getInteger(3, 9), 3);
                        EXPECT_EQ(root["b"].getString(), "");
                        root.error("third");
                      }),
            "f.json: a: expected an integer, found nothing");
}

TEST(JSON, OpensFilesOnly) {
  EXPECT_EQ(json::Document::open("/", "root")->getError(),
            "root: is a directory");
  EXPECT_EQ(json::Document::open("/no/such/file", "f")->getError(),
            "f: No such file or directory");
  // A device given by mistake ends with an error, not with the memory.
  EXPECT_EQ(json::Document::open("/dev/zero", "zero")->getError(),
            "zero: longer than 64 MiB, which is not a configuration");
}

TEST(JSON, SurvivesDamage) {
  std::string good = R"({"nodes": [{"type": "a100", "count": 4}, {}],
    "links": {"latency": 1e-6, "name": "\u00e9\ud83d\ude00"}, "ok": true})";
  Mutator mutate(4);
  int accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    auto document = json::Document::parse(mutate(good), "f.json");
    if (document->hasError()) {
      EXPECT_EQ(document->getError().rfind("f.json", 0), 0u);
      EXPECT_EQ(document->getError().find('\n'), std::string::npos)
          << document->getError();
      continue;
    }
    ++accepted;
    json::Value root = document->getRoot();
    root["nodes"][0]["count"].getInteger(0, 8);
    root["links"]["latency"].getNumber(1.0);
    root["links"]["name"].getString("");
    root["ok"].getBool(false);
    root.describe();
  }
  EXPECT_GT(accepted, 500);
}

} // namespace
