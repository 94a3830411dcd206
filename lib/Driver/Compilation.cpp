//===- Compilation.cpp - A module on its way to executables ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/Compilation.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace poplar;

Compilation::Compilation(bool timed)
    : context(mlir::MLIRContext::Threading::DISABLED) {
  timingManager.setEnabled(timed);
  timing = timingManager.getRootScope();
  context.loadDialect<cluster::ClusterDialect, nn::NNDialect, zero::ZeroDialect,
                      exec::ExecDialect, mlir::arith::ArithDialect,
                      mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    // One line: the first error. What follows is its consequence.
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error &&
        error.empty()) {
      llvm::raw_string_ostream stream(error);
      stream << describe(diagnostic.getLocation()) << ": " << diagnostic;
    }
    return mlir::success();
  });
}

/// file:line:column; only the file where the rest is unknown.
std::string Compilation::describe(mlir::Location location) const {
  auto place = location->findInstanceOf<mlir::FileLineColLoc>();
  if (!place || place.getLine() == 0)
    return source;
  return llvm::formatv("{0}:{1}:{2}", place.getFilename().getValue(),
                       place.getLine(), place.getColumn());
}

bool Compilation::load(const std::string &path) {
  source = path;
  if (llvm::sys::fs::is_directory(path)) {
    error = path + ": is a directory, but a file in MLIR is expected here: "
                   "poplar import makes one from a config.json or a directory "
                   "of Hugging Face";
    return false;
  }
  // The parser does not say why it cannot open a file.
  if (auto file = llvm::MemoryBuffer::getFile(path); !file) {
    error = path + ": " + file.getError().message();
    return false;
  }
  // The parser says of JSON that it is no MLIR, but not where MLIR comes from.
  if (auto file = llvm::MemoryBuffer::getFile(path)) {
    llvm::StringRef text = (*file)->getBuffer().ltrim();
    if (text.starts_with("{") && !text.starts_with("{-#")) {
      error = path +
              ":1:1: is JSON, but MLIR is expected here: poplar import makes a "
              "model from a config.json, poplar plan a plan from that model "
              "and a cluster file";
      return false;
    }
  }
  mlir::TimingScope phase = timing.nest("Read the model");
  module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return false;
  mlir::PassManager pm(&context);
  pm.addPass(createNNVerifyConfig());
  return mlir::succeeded(pm.run(*module));
}

bool Compilation::run(mlir::ModuleOp target,
                      llvm::function_ref<void(mlir::OpPassManager &)> build) {
  mlir::TimingScope phase = timing.nest("Plan");
  mlir::PassManager pm(&context);
  pm.enableTiming(phase);
  build(pm);
  return mlir::succeeded(pm.run(target));
}

bool Compilation::schedule(mlir::ModuleOp target, const OverlapOptions &options,
                           IRLevel last) {
  mlir::TimingScope phase = timing.nest("Schedule");
  return mlir::succeeded(schedulePrograms(target, options, phase, last));
}

bool Compilation::emit(mlir::ModuleOp program, const BuildOptions &options,
                       const std::string &directory, std::string &report) {
  // Directories made here go again, if they stay empty.
  llvm::StringRef parent = llvm::sys::path::parent_path(directory);
  bool hadParent = llvm::sys::fs::exists(parent),
       hadDirectory = llvm::sys::fs::exists(directory);
  auto removeEmpty = llvm::scope_exit([&] {
    if (!hadDirectory)
      llvm::sys::fs::remove(directory);
    if (!hadParent)
      llvm::sys::fs::remove(parent);
  });
  if (std::error_code code = createDirectories(directory)) {
    error = directory + ": " + code.message();
    return false;
  }
  llvm::FileRemover objects(directory + "/program.a"),
      resources(directory + "/kernels.txt");
  llvm::sys::fs::remove(directory + "/kernels.txt"); // of an earlier build
  if (mlir::failed(emitObjects(program, options, directory + "/program.a",
                               timing, report)))
    return false;
  mlir::TimingScope phase = timing.nest("Link the program");
  std::string linked = directory + "/program.so";
  llvm::FileRemover temporary(linked + ".tmp");
  if (mlir::failed(
          linkProgram(program, directory + "/program.a", linked + ".tmp")) ||
      !copyExecutable(options.getRuntime(), directory + "/train", error))
    return false;
  if (std::error_code code = llvm::sys::fs::rename(linked + ".tmp", linked)) {
    error = linked + ": " + code.message();
    return false;
  }
  temporary.releaseFile();
  resources.releaseFile();
  return true;
}
