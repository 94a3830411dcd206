//===- ImportTest.cpp - Importers survive damaged configurations ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/Import.h"

#include "../Support/Mutator.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include <fstream>
#include <gtest/gtest.h>

using namespace poplar;

namespace {

class ImportTest : public testing::TestWithParam<const char *> {};

// A damaged configuration ends in a valid module or in one line that names the
// file; the importers' own errors and checks leave no third way.
TEST_P(ImportTest, SurvivesDamage) {
  std::string source = std::string(POPLAR_EXAMPLES "/models/") + GetParam();
  auto good = llvm::MemoryBuffer::getFile(source);
  ASSERT_TRUE(bool(good)) << source;
  llvm::SmallString<128> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("config", "json", path));
  llvm::FileRemover remove(path);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        diagnostics += diagnostic.str() + "\n";
        return mlir::success();
      });
  Mutator mutate(5);
  int imported = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text = mutate((*good)->getBuffer().str());
    std::ofstream(path.c_str(), std::ios::binary) << text;
    std::string error;
    auto module = importModel(path, ImportOptions(), context, error);
    EXPECT_EQ(bool(module), error.empty()) << error << "\n" << text;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_TRUE(module || error.rfind(path.c_str(), 0) == 0) << error;
    EXPECT_EQ(diagnostics, "") << text;
    ++(module ? imported : refused);
  }
  EXPECT_GT(imported, 3);
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Models, ImportTest,
                         testing::Values("tiny-llama.json",
                                         "tiny-llama-gqa-scaled.json",
                                         "tiny-mistral.json", "tiny-qwen2.json",
                                         "tiny-gpt2.json", "tiny-bert.json"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           std::string name =
                               llvm::StringRef(info.param).drop_back(5).str();
                           llvm::replace(name, '-', '_');
                           return name;
                         });

} // namespace
