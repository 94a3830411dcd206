//===- GPUImage.cpp - What a GPU loads of a program -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/GPUImage.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace poplar;

/// What a thread may spill to memory, which the nearest cache holds: a kernel
/// that keeps a state in all of its registers, as that of the gated delta rule,
/// may lack a few. More is a mistake in a kernel, which would be slow.
static constexpr int64_t kMostSpiltBytes = 64;

LogicalResult poplar::buildGPUImage(ModuleOp source, const GPUChip &chip,
                                    std::vector<GPUKernel> kernels,
                                    StringRef library, StringRef directory,
                                    GPUImage &image) {
  // The host's part goes another way.
  OwningOpRef<ModuleOp> copy(source.clone());
  PassManager pm(source.getContext());
  buildGPUKernelPipeline(pm, chip);
  if (failed(pm.run(*copy)))
    return failure();
  image.chip = chip.name;
  image.kernels = std::move(kernels);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  if (failed(emitGPUAssembly(*copy, chip, stream, image.kernels, library)))
    return failure();
  image.ptx = text.str().str();
  return assemblePTX(source, directory, image);
}

namespace {
/// What the assembler says of one kernel.
struct Resources {
  std::string kernel;
  int64_t registers = 0, sharedBytes = 0, stackBytes = 0, spiltBytes = 0;
};
} // namespace

/// The number before `what` in a line of the assembler's log; 0 if there is
/// none.
static int64_t findNumber(StringRef line, StringRef what) {
  auto [before, after] = line.split(what);
  int64_t value = 0;
  if (before.size() == line.size() ||
      before.rtrim().rsplit(' ').second.getAsInteger(10, value))
    return 0;
  return value;
}

/// Kernels in the order of the log of ptxas -v.
static std::vector<Resources> readLog(StringRef log) {
  std::vector<Resources> kernels;
  for (StringRef line : llvm::split(log, '\n')) {
    auto [before, after] = line.split("Compiling entry function '");
    if (!after.empty()) {
      kernels.push_back({after.split('\'').first.str()});
      continue;
    }
    if (kernels.empty())
      continue;
    Resources &kernel = kernels.back();
    kernel.registers += findNumber(line, " registers");
    kernel.sharedBytes += findNumber(line, " bytes smem");
    kernel.stackBytes += findNumber(line, " bytes stack frame");
    kernel.spiltBytes += findNumber(line, " bytes spill stores");
  }
  return kernels;
}

/// The table of `poplar build`, and its line.
static void describe(const std::vector<Resources> &kernels, GPUImage &image) {
  Resources most;
  image.resources =
      llvm::formatv("{0,-40} {1,9} {2,12} {3,12} {4,12}\n", "kernel",
                    "registers", "shared bytes", "stack bytes", "spilt bytes");
  for (const Resources &kernel : kernels) {
    image.resources += llvm::formatv(
        "{0,-40} {1,9} {2,12} {3,12} {4,12}\n", kernel.kernel, kernel.registers,
        kernel.sharedBytes, kernel.stackBytes, kernel.spiltBytes);
    most.registers = std::max(most.registers, kernel.registers);
    most.sharedBytes = std::max(most.sharedBytes, kernel.sharedBytes);
    most.spiltBytes = std::max(most.spiltBytes, kernel.spiltBytes);
  }
  std::string spilt = most.spiltBytes
                          ? std::to_string(most.spiltBytes) + " bytes spilt"
                          : "nothing spilt";
  image.report =
      llvm::formatv("{0} kernels, at most {1} registers and {2} bytes of "
                    "shared memory, {3}",
                    kernels.size(), most.registers, most.sharedBytes, spilt);
}

LogicalResult poplar::assemblePTX(Operation *op, StringRef directory,
                                  GPUImage &image) {
  std::string kernels = llvm::formatv("{0} kernels", image.kernels.size());
  auto ptxas = llvm::sys::findProgramByName("ptxas");
  if (!ptxas)
    ptxas = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  if (!ptxas) {
    image.report = kernels + "; no ptxas here: the driver compiles the PTX";
    return success();
  }
  std::string base = (directory + "/kernels").str();
  llvm::FileRemover ptx(base + ".ptx"), cubin(base + ".cubin"),
      log(base + ".log");
  {
    std::error_code error;
    llvm::raw_fd_ostream out(base + ".ptx", error);
    if (error)
      return op->emitError("cannot write ")
             << base << ".ptx: " << error.message();
    out << image.ptx;
  }
  std::string architecture = "-arch=" + image.chip;
  int status = llvm::sys::ExecuteAndWait(
      *ptxas,
      {*ptxas, "-v", "-O3", architecture, base + ".ptx", "-o", base + ".cubin"},
      std::nullopt, {std::nullopt, base + ".log", base + ".log"});
  auto buffer = llvm::MemoryBuffer::getFile(base + ".log");
  StringRef said = buffer ? (*buffer)->getBuffer() : "";
  // "Value 'sm_70' is not defined for option 'gpu-name'".
  if (status != 0 && said.contains("is not defined for option")) {
    image.report = kernels + "; this ptxas knows no " + image.chip +
                   ": a driver that does compiles the PTX";
    return success();
  }
  if (status != 0)
    return op->emitError("ptxas: ") << said.split('\n').first;
  std::vector<Resources> resources = readLog(said);
  for (const Resources &kernel : resources)
    if (kernel.spiltBytes > kMostSpiltBytes)
      return op->emitError("kernel ")
             << kernel.kernel << " spills " << kernel.spiltBytes
             << " bytes of registers on " << image.chip;
  if (resources.size() != image.kernels.size())
    return op->emitError("ptxas reports ")
           << resources.size() << " kernels, expected " << image.kernels.size();
  auto code = llvm::MemoryBuffer::getFile(base + ".cubin");
  if (!code)
    return op->emitError("cannot read ")
           << base << ".cubin: " << code.getError().message();
  image.cubin = (*code)->getBuffer().str();
  describe(resources, image);
  return success();
}
