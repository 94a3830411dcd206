//===- EmbeddingRowsTest.cpp - Rows for new tokens ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmbeddingRows.h"
#include "DirectoryFixture.h"
#include "NewRows.h"
#include "Poplar/Support/JSON.h"

#include <cmath>
#include <cstring>
#include <map>

using namespace poplar;

namespace {

/// A tensor of a file of weights.
struct TestTensor {
  std::string type;
  std::vector<int64_t> shape;
  std::string bytes;
};
using TestTensors = std::map<std::string, TestTensor>;

class EmbeddingRowsTest : public DirectoryTest {
protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DirectoryTest::SetUp());
    std::filesystem::create_directory(directory + "/out");
  }

  /// Writes tensors in the order of their names.
  void writeTensors(const std::string &name, const TestTensors &tensors) const {
    std::string header = "{", data;
    for (const auto &[key, tensor] : tensors) {
      header += (header == "{" ? "\"" : ",\"") + key + R"(":{"dtype":")" +
                tensor.type + R"(","shape":[)";
      for (size_t i = 0; i < tensor.shape.size(); ++i)
        header += (i ? "," : "") + std::to_string(tensor.shape[i]);
      header += R"(],"data_offsets":[)" + std::to_string(data.size()) + ",";
      data += tensor.bytes;
      header += std::to_string(data.size()) + "]}";
    }
    header += "}";
    uint64_t length = header.size();
    std::string begin(reinterpret_cast<const char *>(&length), 8);
    write(name, begin + header + data);
  }

  static std::string readText(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TestTensors read(const std::string &name) const {
    std::string text = readText(directory + "/out/" + name);
    uint64_t length = 0;
    EXPECT_GE(text.size(), 8u) << name;
    if (text.size() < 8)
      return {};
    std::memcpy(&length, text.data(), 8);
    EXPECT_EQ(length % 8, 0u);
    auto document = json::Document::parse(text.substr(8, length), name);
    json::Value root = document->getRoot();
    TestTensors tensors;
    size_t covered = 0;
    for (const std::string &key : root.keys()) {
      if (key == "__metadata__")
        continue;
      TestTensor &tensor = tensors[key];
      tensor.type = root[key]["dtype"].getString();
      for (size_t i = 0; i < root[key]["shape"].size(); ++i)
        tensor.shape.push_back(root[key]["shape"][i].getInteger());
      size_t begin = root[key]["data_offsets"][0].getInteger(),
             end = root[key]["data_offsets"][1].getInteger();
      tensor.bytes = text.substr(8 + length + begin, end - begin);
      covered += end - begin;
    }
    EXPECT_EQ(document->getError(), "");
    EXPECT_EQ(covered, text.size() - 8 - length);
    return tensors;
  }

  static std::string makeBytes(size_t count, char first) {
    std::string bytes(count, '\0');
    for (size_t i = 0; i < count; ++i)
      bytes[i] = static_cast<char>(first + i);
    return bytes;
  }

  /// What goes wrong; empty if nothing.
  std::string change(const WeightChanges &weights, int64_t oldRows,
                     int64_t newRows,
                     TokenChanges::Rows rows = TokenChanges::Random) {
    std::string error;
    written.clear();
    bool isWritten =
        writeWeights(directory, {weights, oldRows, newRows, rows, /*seed=*/7},
                     directory + "/out", written, error);
    EXPECT_NE(isWritten, !error.empty());
    return error;
  }

  std::set<std::string> written;
};

const TokenTensor kEmbedding = {"model.embed_tokens.weight", 0.5},
                  kHead = {"lm_head.weight", 0.5};

TEST_F(EmbeddingRowsTest, OldRowsAndOtherWeightsKeepTheirBytes) {
  TestTensors before = {
      {"lm_head.bias", {"F32", {3}, makeBytes(12, 90)}},
      {"lm_head.weight", {"F32", {3, 2}, makeBytes(24, 1)}},
      {"model.embed_tokens.weight", {"BF16", {3, 2}, makeBytes(12, 40)}},
      {"model.norm.weight", {"I64", {3}, makeBytes(24, 60)}}};
  writeTensors("model.safetensors", before);
  WeightChanges weights = {{kEmbedding, kHead, {"lm_head.bias", 0}}, {}, false};
  ASSERT_EQ(change(weights, 3, 5), "");
  EXPECT_EQ(written, std::set<std::string>{"model.safetensors"});
  TestTensors after = read("model.safetensors");
  ASSERT_EQ(after.size(), before.size());
  for (auto &[name, tensor] : after) {
    const TestTensor &old = before[name];
    EXPECT_EQ(tensor.type, old.type);
    EXPECT_EQ(tensor.bytes.substr(0, old.bytes.size()), old.bytes) << name;
    bool isChanged = name != "model.norm.weight";
    EXPECT_EQ(tensor.shape[0], isChanged ? 5 : 3) << name;
    EXPECT_EQ(tensor.bytes.size(),
              old.bytes.size() / old.shape[0] * tensor.shape[0])
        << name;
  }
  EXPECT_EQ(after["lm_head.bias"].bytes.substr(12), std::string(8, '\0'));
  EXPECT_NE(after["lm_head.weight"].bytes.substr(24), std::string(16, '\0'));
  // The same again: the file is left as it is.
  auto time =
      std::filesystem::last_write_time(directory + "/out/model.safetensors");
  ASSERT_EQ(change(weights, 3, 5), "");
  EXPECT_EQ(time, std::filesystem::last_write_time(directory +
                                                   "/out/model.safetensors"));
  std::string first = readText(directory + "/out/model.safetensors");
  ASSERT_EQ(change(weights, 3, 5, TokenChanges::NearMean), "");
  EXPECT_NE(readText(directory + "/out/model.safetensors"), first);
}

TEST_F(EmbeddingRowsTest, OnlyFilesWithRowsOfTokensAreWritten) {
  // A head that is stored though it is tied stays a copy of the embedding.
  writeTensors("a.safetensors",
               {{"model.language_model.embed_tokens.weight",
                 {"F16", {2, 2}, makeBytes(8, 1)}},
                {"lm_head.weight", {"F16", {2, 2}, makeBytes(8, 1)}}});
  writeTensors("b.safetensors", {{"x", {"F16", {1}, "ab"}}});
  write("model.safetensors.index.json",
        R"({"metadata": {"total_size": 18}, "weight_map": {
                "lm_head.weight": "a.safetensors", "x": "b.safetensors",
                "model.language_model.embed_tokens.weight": "a.safetensors"}})");
  ASSERT_EQ(change({{kEmbedding}, kHead, false}, 2, 4), "");
  EXPECT_EQ(written, (std::set<std::string>{"a.safetensors",
                                            "model.safetensors.index.json"}));
  TestTensors after = read("a.safetensors");
  const std::string &rows =
      after["model.language_model.embed_tokens.weight"].bytes;
  EXPECT_EQ(rows.size(), 16u);
  EXPECT_EQ(after["lm_head.weight"].bytes, rows);
  std::string index = readText(directory + "/out/model.safetensors.index.json");
  EXPECT_NE(index.find("\"total_size\": 34"), index.npos) << index;
}

TEST_F(EmbeddingRowsTest, AnEmbeddingThatIsTheHeadBecomesTwo) {
  writeTensors("a.safetensors", {{"model.embed_tokens.weight",
                                  {"F32", {2, 2}, makeBytes(16, 1)}}});
  writeTensors("b.safetensors", {{"x", {"F32", {1}, "abcd"}}});
  write("model.safetensors.index.json",
        R"({"metadata": {"total_size": 20}, "weight_map": {
                "model.embed_tokens.weight": "a.safetensors",
                "x": "b.safetensors"}})");
  for (int64_t rows : {2, 3}) {
    ASSERT_EQ(change({{kEmbedding}, kHead, true}, 2, rows), "");
    TestTensors after = read("a.safetensors");
    ASSERT_EQ(after.size(), 2u);
    EXPECT_EQ(after["lm_head.weight"].bytes,
              after["model.embed_tokens.weight"].bytes);
    EXPECT_EQ(after["lm_head.weight"].bytes.substr(0, 16), makeBytes(16, 1));
    EXPECT_EQ(after["lm_head.weight"].shape, (std::vector<int64_t>{rows, 2}));
  }
  std::string index = readText(directory + "/out/model.safetensors.index.json");
  EXPECT_NE(index.find("\"total_size\": 52"), index.npos) << index;
  EXPECT_NE(index.find("\"lm_head.weight\": \"a.safetensors\""), index.npos)
      << index;
}

TEST_F(EmbeddingRowsTest, OtherWeightsAreRefused) {
  EXPECT_EQ(change({{kEmbedding}, {}, false}, 3, 4),
            directory + ": has no model.safetensors whose embedding could get "
                        "rows; save_pretrained of transformers 4.35 or later "
                        "writes it");
  std::string path = directory + "/model.safetensors";
  auto refuse = [&](const TestTensors &tensors) {
    writeTensors("model.safetensors", tensors);
    return change({{kEmbedding}, {}, false}, 3, 4);
  };
  const std::string name = kEmbedding.name;
  EXPECT_EQ(refuse({{name, {"F32", {2, 1}, makeBytes(8, 0)}}}),
            path + ": tensor '" + name +
                "' has no 3 rows, which is the vocab_size of config.json");
  EXPECT_EQ(refuse({{name, {"I8", {3, 1}, "abc"}}}),
            path + ": tensor '" + name +
                "' is of type I8; F32, BF16 and F16 can get rows");
  EXPECT_EQ(refuse({{"x", {"I8", {3, 1}, "abc"}}}),
            directory + ": no file of weights has a tensor '" + name + "'");
  for (const char *text : {"", "12345678", "\x08\0\0\0\0\0\0\0{}"}) {
    write("model.safetensors", text);
    EXPECT_EQ(change({{kEmbedding}, {}, false}, 3, 4),
              path + ": is no file of safetensors");
  }
  EXPECT_FALSE(std::filesystem::exists(directory + "/out/model.safetensors"));
  EXPECT_TRUE(std::filesystem::is_empty(directory + "/out"));
}

std::vector<float> toFloats(const std::string &bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(NewRowsTest, RandomRowsAreNormal) {
  NewRows rows = {RowFormat::F32, 10, 100, 200, 3};
  std::vector<float> values = toFloats(drawRandom(rows, 0.02));
  double sum = 0, squares = 0, fourths = 0;
  for (double x : values) {
    x /= 0.02;
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  auto count = double(values.size());
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourths / count, 3, 5 * std::sqrt(96 / count));
  rows.key = 4;
  EXPECT_NE(values, toFloats(drawRandom(rows, 0.02)));
}

TEST(NewRowsTest, RowsNearTheMeanHaveItsCovariance) {
  // Two columns that depend on each other, around (1, -2).
  constexpr int64_t Rows = 60, Count = 20000;
  std::vector<float> old;
  double covariance[3] = {};
  for (int64_t i = 0; i < Rows; ++i) {
    double x = std::sin(double(i)), y = 0.5 * x + 0.3 * std::cos(2.7 * i);
    old.push_back(float(1 + x));
    old.push_back(float(-2 + y));
  }
  double mean[2] = {};
  for (int64_t i = 0; i < 2 * Rows; ++i)
    mean[i % 2] += old[i] / double(Rows);
  auto add = [&](double x, double y, double *sums, double count) {
    sums[0] += x * x / count;
    sums[1] += x * y / count;
    sums[2] += y * y / count;
  };
  for (int64_t i = 0; i < Rows; ++i)
    add(old[2 * i] - mean[0], old[2 * i + 1] - mean[1], covariance, Rows);
  std::string bytes(reinterpret_cast<const char *>(old.data()), 8 * Rows);
  NewRows rows = {RowFormat::F32, Rows, 2, Count, 3};
  std::vector<float> drawn = toFloats(drawNearMean(rows, bytes));
  double found[3] = {}, unit = std::sqrt(1e-9);
  for (int64_t i = 0; i < Count; ++i)
    add((drawn[2 * i] - mean[0]) / unit, (drawn[2 * i + 1] - mean[1]) / unit,
        found, Count);
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(found[i], covariance[i], 0.03 * covariance[0]) << i;
  // With no more rows than columns, it is the mean.
  rows = {RowFormat::F32, 2, 60, 1, 3};
  drawn = toFloats(drawNearMean(rows, bytes));
  for (int64_t i = 0; i < 60; ++i)
    EXPECT_EQ(drawn[i], float((double(old[i]) + old[60 + i]) / 2));
}

} // namespace
