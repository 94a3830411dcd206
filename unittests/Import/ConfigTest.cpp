//===- ConfigTest.cpp - Configurations are read whole or refused ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replays the verdicts that scripts/goldens/check_configs.py found together
// with transformers: for each change of one key whether the configuration is
// refused, and otherwise whether the model changes.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Support/JSON.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"
#include <fstream>
#include <gtest/gtest.h>

using namespace poplar;

namespace {

/// `text` with the member at `path` replaced, or removed where `value` is
/// empty.
std::string change(const std::string &text,
                   const std::vector<std::string> &path,
                   const std::string &value) {
  auto document = json::Document::parse(text, "config");
  document->remove(llvm::join(path, "."));
  std::string changed = document->getText();
  if (value.empty())
    return changed;
  size_t at = 0;
  for (size_t i = 0; i + 1 < path.size(); ++i)
    at = changed.find('"' + path[i] + "\":", at);
  at = changed.find('{', at) + 1;
  return changed.insert(at, '"' + path.back() + "\": " + value + ", ");
}

class ConfigTest : public testing::TestWithParam<const char *> {
protected:
  /// The model of a configuration without its text; empty if it is refused.
  std::string import(const std::string &text, std::string &error) {
    std::ofstream(path.c_str(), std::ios::binary) << text;
    ImportOptions options;
    options.seqLen = 24;
    auto module = importModel(path, options, context, error);
    if (!module)
      return "";
    nn::Model model = nn::Model::of(*module);
    model.clearConfig();
    model.clearConfigFacts();
    model.attachTo(*module);
    std::string printed;
    llvm::raw_string_ostream(printed) << *module;
    return printed;
  }

  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("config", "json", path));
    remover.setFile(path);
  }

  llvm::SmallString<128> path;
  llvm::FileRemover remover;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(ConfigTest, IsReadAsRecorded) {
  std::string file =
      std::string(POPLAR_TEST_INPUTS "/configs/") + GetParam() + ".json";
  auto golden = json::Document::open(file, file);
  ASSERT_EQ(golden->getError(), "");
  std::string base = golden->getRoot()["base"].dump(), error;
  std::string unchanged = import(base, error);
  ASSERT_EQ(error, "");
  json::Value changes = golden->getRoot()["changes"];
  ASSERT_GT(changes.size(), 200u);
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<std::string> key;
    for (size_t k = 0; k < changes[i]["path"].size(); ++k)
      key.push_back(changes[i]["path"][k].getString());
    std::string value = changes[i]["value"].dump();
    std::string text =
        key.empty() ? base
                    : change(base, key, value == "\"(absent)\"" ? "" : value);
    error.clear();
    std::string model = import(text, error);
    std::string verdict = model.empty()        ? "refused"
                          : model == unchanged ? "same"
                                               : "changed";
    std::string expected = changes[i]["verdict"].getString();
    EXPECT_EQ(verdict, expected)
        << llvm::join(key, ".") << " = " << value << "\n"
        << error;
    EXPECT_TRUE(!model.empty() || error.rfind(path.c_str(), 0) == 0) << error;
  }
  EXPECT_EQ(golden->getError(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Families, ConfigTest,
    testing::Values("arcee", "bert", "cohere2", "deepseek_v2", "deepseek_v3",
                    "exaone4", "gemma", "gemma2", "gemma3", "glm", "glm4",
                    "glm4_moe", "gpt2", "gpt_neox", "gpt_oss", "granite",
                    "hunyuan", "llama", "mimo", "ministral3", "mistral",
                    "mistral4", "mixtral", "nemotron", "olmo2", "olmo3", "phi",
                    "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_5",
                    "qwen3_5_moe", "qwen3_moe", "qwen3_next", "seed_oss",
                    "smollm3", "stablelm", "starcoder2"));

} // namespace
