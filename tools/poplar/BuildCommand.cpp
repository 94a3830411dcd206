//===- BuildCommand.cpp - poplar build and poplar plan --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Installation.h"
#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Conversion/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Target/Host.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/Threading.h"
#include <chrono>
#include <memory>

using namespace poplar;

namespace {

struct Arguments {
  std::string model, output;
  HostOptions host;
};

/// A model on its way to an executable, with everything it needs alive.
class Compilation {
public:
  explicit Compilation(HostOptions options)
      : options(std::move(options)),
        context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<nn::NNDialect, mlir::arith::ArithDialect,
                        mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                        mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  }

  bool plan(const std::string &path) {
    if (!isKnownCPU(options.cpu)) {
      error = "--cpu: LLVM knows no processor '" + options.cpu +
              "' of this architecture; llc --mcpu=help lists those it knows";
      return false;
    }
    std::string message;
    mlir::DiagnosticEngine &engine = context.getDiagEngine();
    handler = engine.registerHandler([this](mlir::Diagnostic &diagnostic) {
      // One line: the first error. What follows is its consequence.
      if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error &&
          error.empty()) {
        llvm::raw_string_ostream stream(error);
        stream << describe(diagnostic.getLocation()) << ": " << diagnostic;
      }
      return mlir::success();
    });
    source = path;
    // The parser does not say why it cannot open a file.
    if (auto file = llvm::MemoryBuffer::getFile(path); !file) {
      error = path + ": " + file.getError().message();
      return false;
    }
    module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
    if (!module)
      return false;
    mlir::PassManager pm(&context);
    buildPlanPipeline(pm, options);
    return mlir::succeeded(pm.run(*module));
  }

  /// Writes `directory`/train, or nothing at all.
  bool emit(const std::string &directory) {
    if (std::error_code code = llvm::sys::fs::create_directories(directory)) {
      error = directory + ": " + code.message();
      return false;
    }
    llvm::FileRemover object(directory + "/program.o"),
        temporary(directory + "/train.tmp");
    std::string executable = directory + "/train";
    if (mlir::failed(
            emitHostObject(*module, options, directory + "/program.o")) ||
        mlir::failed(linkHostExecutable(*module, options,
                                        directory + "/program.o",
                                        directory + "/train.tmp")))
      return false;
    if (std::error_code code =
            llvm::sys::fs::rename(directory + "/train.tmp", executable)) {
      error = executable + ": " + code.message();
      return false;
    }
    temporary.releaseFile();
    return true;
  }

  /// peak_bytes(b) = fixed + b * per_sample, as a person reads it.
  void printMemory() const {
    auto memory = (*module)->getAttrOfType<mlir::DictionaryAttr>(kMemoryAttr);
    auto integer = [&](llvm::StringRef name) {
      return memory.getAs<mlir::IntegerAttr>(name).getInt();
    };
    int64_t fixed = integer("fixed") + getShardBytes(*module, 0),
            perSample = integer("per_sample"),
            live = integer("live_per_sample");
    llvm::outs() << llvm::formatv("memory    peak_bytes(b) = {0} + b * {1}\n",
                                  fixed, perSample);
    for (int64_t batch : {1, 4, 16})
      llvm::outs() << llvm::formatv(
          "          micro-batch {0,2}: {1,10:f1} MiB\n", batch,
          (fixed + batch * perSample) / 1048576.0);
    llvm::outs() << llvm::formatv(
        "          parameters, gradients and optimizer {0:f1} MiB, library "
        "scratch {1:f1} MiB\n          activations are placed within {2:f2} "
        "% of the largest sum of live bytes\n",
        (fixed - integer("scratch_bytes")) / 1048576.0,
        integer("scratch_bytes") / 1048576.0,
        live ? 100.0 * (perSample - live) / live : 0.0);
  }

  std::string error;

private:
  /// file:line:column; only the file where the rest is unknown.
  std::string describe(mlir::Location location) const {
    auto place = location->findInstanceOf<mlir::FileLineColLoc>();
    if (!place || place.getLine() == 0)
      return source;
    return llvm::formatv("{0}:{1}:{2}", place.getFilename().getValue(),
                         place.getLine(), place.getColumn());
  }

  std::string source;
  HostOptions options;
  mlir::MLIRContext context;
  mlir::DiagnosticEngine::HandlerID handler = 0;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

void addHostOptions(CLI::App *command, const std::shared_ptr<Arguments> &args) {
  command->add_option("model", args->model, "Model written by poplar import")
      ->type_name("MODEL_MLIR")
      ->required();
  command
      ->add_option("--precision", args->host.precision,
                   "Format of activations and working weights")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command
      ->add_option("--recompute", args->host.recompute,
                   "What the backward pass computes again to save memory")
      ->check(CLI::IsMember({"keep", "recompute-attention", "recompute-unit"}));
  command
      ->add_option("--cpu", args->host.cpu,
                   "LLVM's name of the CPU to generate code for")
      ->type_name("NAME");
  args->host.threads =
      llvm::heavyweight_hardware_concurrency().compute_thread_count();
  command
      ->add_option("--threads", args->host.threads,
                   "Threads to plan the libraries' scratch for")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--max-batch", args->host.maxBatch,
                   "Largest micro-batch to plan the libraries' scratch for")
      ->check(CLI::Range(1, 1 << 20));
}

} // namespace

void addBuildCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("build", "Compile a model into an executable");
  command->footer("Without a cluster file, the machine at hand is the cluster: "
                  "writes DIR/host/train.\n\nExample:\n"
                  "  poplar build model.mlir -o build/gpt2 --recompute "
                  "recompute-attention");
  auto args = std::make_shared<Arguments>();
  addHostOptions(command, args);
  command->add_option("-o,--output", args->output, "Directory to write to")
      ->type_name("DIR")
      ->required();
  command->callback([args, &status] {
    auto start = std::chrono::steady_clock::now();
    std::string directory = args->output + "/host";
    locateLibraries(args->host);
    Compilation compilation(args->host);
    if (!compilation.plan(args->model)) {
      status = reportError(compilation.error);
      return;
    }
    compilation.printMemory();
    if (!compilation.emit(directory)) {
      status = reportError(compilation.error);
      return;
    }
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    llvm::outs() << llvm::formatv("built     {0}/train in {1:f1} s\n",
                                  directory, seconds.count());
  });
}

void addPlanCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("plan", "Say what a model needs before building it");
  command->footer("Example:\n  poplar plan model.mlir --recompute "
                  "recompute-unit");
  auto args = std::make_shared<Arguments>();
  addHostOptions(command, args);
  command->callback([args, &status] {
    Compilation compilation(args->host);
    if (!compilation.plan(args->model)) {
      status = reportError(compilation.error);
      return;
    }
    compilation.printMemory();
  });
}
