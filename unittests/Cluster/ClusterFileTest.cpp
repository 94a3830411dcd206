//===- ClusterFileTest.cpp - Cluster files into modules -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Support/Mutator.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Import/Cluster.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace poplar;

namespace {

constexpr llvm::StringLiteral kModel = R"mlir(
  module @model {
    module @inner {}
  }
)mlir";

constexpr llvm::StringLiteral kCluster = R"json({
  "device_types": {"cpu": {"target": "host", "memory": "1GiB"}},
  "nodes": [{"name": "n", "devices": {"cpu": 1}}]
})json";

class ClusterFileTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("poplar", directory));
    context.loadDialect<cluster::ClusterDialect>();
    model = parseSourceString<ModuleOp>(kModel, &context);
    ASSERT_TRUE(model);
  }
  void TearDown() override { llvm::sys::fs::remove_directories(directory); }

  std::string write(llvm::StringRef name, llvm::StringRef text) {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    std::error_code code;
    llvm::raw_fd_ostream(path, code) << text;
    EXPECT_FALSE(code);
    return path.str().str();
  }

  /// The names of the module's ops, in order.
  std::string list() {
    std::string names;
    for (Operation &op : *model->getBody())
      names += op.getName().getStringRef().str() + " ";
    return names;
  }

  /// The module as text.
  std::string printed() {
    std::string text;
    llvm::raw_string_ostream(text) << *model;
    return text;
  }

  llvm::SmallString<128> directory;
  MLIRContext context;
  OwningOpRef<ModuleOp> model;
  std::string error;
};

TEST_F(ClusterFileTest, GoesBeforeTheModel) {
  std::string file = write("c.json", kCluster);
  ASSERT_TRUE(succeeded(applyClusterFile(*model, file, error))) << error;
  EXPECT_EQ(list(), "cluster.device_type cluster.node builtin.module ");

  // Two clusters would be one with other ranks.
  EXPECT_TRUE(failed(applyClusterFile(*model, file, error)));
  EXPECT_EQ(error, file + ": the module describes a cluster already");
  EXPECT_EQ(list(), "cluster.device_type cluster.node builtin.module ");
}

// From a plan, it takes what the plan is for.
TEST_F(ClusterFileTest, TakesClusterOpsOnly) {
  std::string file = write("c.mlir", R"mlir(
    module @other {}
    cluster.device_type @cpu target "host" memory 1 precision f32
    cluster.node @n devices [@cpu]
  )mlir");
  ASSERT_TRUE(succeeded(applyClusterFile(*model, file, error))) << error;
  EXPECT_EQ(list(), "cluster.device_type cluster.node builtin.module ");
}

TEST_F(ClusterFileTest, NameOfTheModelIsTaken) {
  std::string file = write("c.json", R"json({
    "device_types": {"inner": {"target": "host", "memory": "1GiB"}},
    "nodes": [{"name": "n", "devices": {"inner": 1}}]
  })json");
  EXPECT_TRUE(failed(applyClusterFile(*model, file, error)));
  EXPECT_EQ(error, file + ": device_types.inner: the name 'inner' is taken in "
                          "the module");
  EXPECT_EQ(list(), "builtin.module ");
}

TEST_F(ClusterFileTest, ProfilesFollowTheCluster) {
  ASSERT_TRUE(
      succeeded(applyClusterFile(*model, write("c.json", kCluster), error)));
  std::string file = write("p.json", R"json({"profiles": [
    {"device_type": "cpu", "stage": 0, "micro_batches": [1, 2],
     "seconds": [0.5, 0.75]}
  ]})json");
  ASSERT_TRUE(succeeded(applyProfiles(*model, file, error))) << error;
  EXPECT_EQ(list(), "cluster.device_type cluster.node cluster.profile "
                    "builtin.module ");
  // The same once more is refused, and nothing of it stays.
  EXPECT_TRUE(failed(applyProfiles(*model, file, error)));
  EXPECT_EQ(error, file + ": profiles[0]: a second profile of @cpu in stage 0 "
                          "for the same model, precision and recompute policy");
  EXPECT_EQ(list(), "cluster.device_type cluster.node cluster.profile "
                    "builtin.module ");
}

// Measured links take the place of those between the same nodes; a failure
// leaves all where it was.
TEST_F(ClusterFileTest, MeasuredLinksReplace) {
  ASSERT_TRUE(succeeded(applyClusterFile(*model, write("c.json", R"json({
    "device_types": {"cpu": {"target": "host", "memory": "1GiB"}},
    "nodes": [{"name": "a", "devices": {"cpu": 1}},
              {"name": "b", "devices": {"cpu": 1}},
              {"name": "c", "devices": {"cpu": 1}}],
    "links": [{"between": ["a", "b"], "latency": 1, "bandwidth": 1},
              {"between": "nodes", "latency": 2, "bandwidth": 2}]
  })json"),
                                         error)))
      << error;
  std::string before = printed();
  std::string oneWay = write("one.json", R"json({"links": [
    {"from": "b", "to": "a", "latency": 3, "bandwidth": 3},
    {"from": "b", "to": "a", "latency": 4, "bandwidth": 4}
  ]})json");
  EXPECT_TRUE(failed(applyProfiles(*model, oneWay, error)));
  EXPECT_EQ(printed(), before);
  std::string both = write("both.json", R"json({"links": [
    {"from": "b", "to": "a", "latency": 3, "bandwidth": 3},
    {"from": "a", "to": "b", "latency": 4, "bandwidth": 4}
  ]})json");
  ASSERT_TRUE(succeeded(applyProfiles(*model, both, error))) << error;
  ClusterView view = cluster::buildClusterView(*model);
  EXPECT_EQ(view.getLink(0, 1).latency, 4);
  EXPECT_EQ(view.getLink(1, 0).latency, 3);
  EXPECT_EQ(view.getLink(0, 2).latency, 2);
}

// What `poplar profile` writes is read back.
TEST_F(ClusterFileTest, ExportsProfilesAlone) {
  ASSERT_TRUE(
      succeeded(applyClusterFile(*model, write("c.json", kCluster), error)));
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> profiles = ModuleOp::create(loc);
  OpBuilder builder = OpBuilder::atBlockEnd(profiles->getBody());
  cluster::ProfileOp::create(
      builder, loc, FlatSymbolRefAttr::get(&context, "cpu"),
      builder.getI64IntegerAttr(3), builder.getDenseI64ArrayAttr({1, 2}),
      builder.getDenseF64ArrayAttr({0.1, 1.0 / 3}), /*spread=*/nullptr,
      builder.getI64IntegerAttr(9), /*fixed_bytes=*/nullptr,
      /*bytes_per_sample=*/nullptr, /*optimizer=*/nullptr,
      /*precision=*/nullptr, /*recompute=*/nullptr, /*estimate=*/nullptr,
      builder.getStringAttr("m"), builder.getStringAttr("quote \" and \\"),
      /*versions=*/nullptr, /*source=*/nullptr);
  std::string file = write("p.json", exportClusterJSON(*profiles));
  ASSERT_TRUE(succeeded(applyProfiles(*model, file, error))) << error;
  cluster::ProfileOp read = *model->getOps<cluster::ProfileOp>().begin();
  EXPECT_EQ(read.getSeconds()[1], 1.0 / 3);
  EXPECT_EQ(read.getMaxMicroBatch(), 9u);
  EXPECT_EQ(read.getMachine(), "quote \" and \\");
}

// A damaged file of a cluster or of profiles is read and can be written again,
// or it ends in one line that names the file, and the module stays as it was.
TEST_F(ClusterFileTest, SurvivesDamage) {
  const std::string goodCluster = R"json({
    "device_types": {
      "cpu": {"target": "host:avx2-f32", "memory": "1GiB", "threads": 1,
              "precision": "f32", "recompute": "keep",
              "flops": {"f32": 4e10}, "bandwidth": 1e10, "source": "a"},
      "gpu": {"device": "a100-40"}},
    "nodes": [{"name": "n", "count": 2, "devices": {"cpu": 1}},
              {"name": "m", "devices": ["gpu", "cpu"]}],
    "links": [{"inside": "nodes", "latency": 2e-6, "bandwidth": 5e9},
              {"between": ["n0", "m"], "latency": 1e-4, "bandwidth": 1e9},
              {"from": "n1", "to": "m", "latency": 1, "bandwidth": 1,
               "overhead": 1e-10},
              {"between": "nodes", "latency": 1e-4, "bandwidth": 1e9}]
  })json";
  const std::string goodProfiles = R"json({"profiles": [
    {"device_type": "cpu", "stage": 1, "micro_batches": [1, 2, 4],
     "seconds": [0.5, 0.75, 1.5], "spread": [0, 0.1, 0],
     "max_micro_batch": 64, "memory": {"fixed": 1000, "per_sample": 10},
     "optimizer": 0.001, "precision": "f32", "recompute": "keep",
     "estimate": false, "model": "0123", "machine": "a",
     "versions": {"poplar": "1"}, "source": "b"}
  ]})json";
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "\n";
    return success();
  });
  ASSERT_TRUE(
      succeeded(applyClusterFile(*model, write("c.json", goodCluster), error)))
      << error;
  OwningOpRef<ModuleOp> whole = model->clone();
  Mutator mutate(6);
  int read = 0, refused = 0;
  auto check = [&](const std::string &text, const std::string &file, bool done,
                   OwningOpRef<ModuleOp> &module) {
    EXPECT_EQ(done, error.empty()) << error << "\n" << text;
    EXPECT_EQ(diagnostics, "") << text;
    if (done) {
      EXPECT_TRUE(succeeded(verify(*module))) << text;
      EXPECT_NE(exportClusterJSON(*module), "");
    } else {
      EXPECT_EQ(error.rfind(file, 0), 0u) << error;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    }
    ++(done ? read : refused);
    error.clear();
  };
  for (int i = 0; i < 600; ++i) {
    std::string text = mutate(goodCluster), file = write("c.json", text);
    OwningOpRef<ModuleOp> module = importCluster(file, context, error);
    check(text, file, bool(module), module);
    text = mutate(goodProfiles);
    file = write("p.json", text);
    OwningOpRef<ModuleOp> copy = whole->clone();
    std::string before, after;
    llvm::raw_string_ostream(before) << *copy;
    bool done = succeeded(applyProfiles(*copy, file, error));
    llvm::raw_string_ostream(after) << *copy;
    if (!done) {
      EXPECT_EQ(before, after) << text;
    }
    check(text, file, done, copy);
  }
  EXPECT_GT(read, 10);
  EXPECT_GT(refused, 300);
}

} // namespace
