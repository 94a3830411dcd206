//===- KernelCases.cpp - What kernels of a GPU should compute -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: kernel-cases CHIP[,CHIP...] DIRECTORY [SET...]
//
// The cases are those for the first chip, the images are for all: PTX, and a
// cubin where a ptxas is at hand that knows the chip. Writes the sets:
// `library`, `library-wide`, `products`, and a model of examples/models with a
// format such as `tiny-llama-f32`, or any configuration, as in
// `DIR/NAME.json-f32`; by default `library`, `products` and
// tiny models.
//
//===----------------------------------------------------------------------===//

#include "KernelCases.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

/// Scratch of cuBLASLt: what a program's memory plan gives it.
static constexpr int64_t kScratchBytes = 32 << 20;

static std::string nameOf(Type type) {
  return type.isF32()    ? "f32"
         : type.isBF16() ? "bf16"
         : type.isF16()  ? "f16"
         : type.isF64()  ? "f64"
                         : "i32";
}

int64_t KernelCases::store(const Buffer &buffer) {
  StringRef bytes(buffer.bytes.data(), buffer.bytes.size());
  auto [known, added] =
      places.try_emplace(bytes, static_cast<int64_t>(data.size()));
  if (added)
    data += bytes;
  return known->second;
}

void KernelCases::add(const KernelCase &entry) {
  llvm::json::Array buffers;
  for (auto [before, after] : llvm::zip_equal(entry.before, entry.after)) {
    bool same = before.bytes == after.bytes;
    bool isExact = same || before.element.isInteger();
    int64_t place = store(before);
    buffers.push_back(
        llvm::json::Object{{"type", nameOf(before.element)},
                           {"bytes", static_cast<int64_t>(before.bytes.size())},
                           {"before", place},
                           {"after", same ? place : store(after)},
                           {"tolerance", isExact ? 0.0 : entry.tolerance}});
  }
  llvm::json::Object object{{"name", entry.name},
                            {"batch", entry.batch},
                            {"extent", entry.extent},
                            {"pointers", llvm::json::Array(entry.pointers)},
                            {"buffers", std::move(buffers)}};
  if (const auto &gemm = entry.product)
    object["gemm"] = llvm::json::Object{{"m", gemm->m},
                                        {"n", gemm->n},
                                        {"k", gemm->k},
                                        {"batched", gemm->batched},
                                        {"trans_a", gemm->trans_a},
                                        {"trans_b", gemm->trans_b},
                                        {"accumulate", gemm->accumulate},
                                        {"has_bias", gemm->has_bias},
                                        {"a_type", gemm->a_type},
                                        {"b_type", gemm->b_type},
                                        {"c_type", gemm->c_type},
                                        {"epilogue", gemm->epilogue},
                                        {"tf32", gemm->tf32},
                                        {"a_row", gemm->a_row},
                                        {"c_row", gemm->c_row},
                                        {"fp8", gemm->fp8}};
  else if (entry.states)
    object["states"] = entry.states, object["bits"] = entry.stateBits;
  else
    object["kernel"] = entry.kernel;
  cases.push_back(std::move(object));
}

static std::string writeText(const std::string &path, StringRef text) {
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (!error)
    out << text;
  out.flush();
  return error || out.has_error() ? "cannot write " + path : "";
}

std::string KernelCases::write(const std::string &directory,
                               ArrayRef<GPUChip> chips, ModuleOp kernels,
                               const std::vector<GPUKernel> &table) const {
  llvm::sys::fs::create_directories(directory);
  llvm::json::Array chipNames;
  for (const GPUChip &chip : chips) {
    std::string stem = directory + "/" + chip.name;
    llvm::sys::fs::remove(stem + ".cubin");
    llvm::SmallString<0> ptx;
    llvm::raw_svector_ostream stream(ptx);
    if (failed(
            emitGPUAssembly(kernels, chip, stream, table, POPLAR_GPU_LIBRARY)))
      return "no PTX for " + directory;
    chipNames.push_back(chip.name);
    if (std::string error = writeText(stem + ".ptx", ptx); !error.empty())
      return error;
    GPUImage image;
    image.chip = chip.name;
    image.ptx = ptx.str().str();
    image.kernels = table;
    // Some shapes are there to try every path, and spill registers: the driver
    // compiles these.
    if (failed(assemblePTX(kernels, directory, image)) || image.cubin.empty()) {
      llvm::errs() << "kernel-cases: " << directory << ": " << image.report
                   << "\n";
      continue;
    }
    if (std::string error = writeText(stem + ".cubin", image.cubin);
        !error.empty())
      return error;
  }
  llvm::json::Array names;
  for (const GPUKernel &kernel : table) {
    auto [x, y, z] = kernel.block;
    names.push_back(
        llvm::json::Object{{"name", kernel.name},
                           {"block", llvm::json::Array{x, y, z}},
                           {"pointers", kernel.pointers},
                           {"parts_per_block", kernel.partsPerBlock}});
  }
  llvm::json::Value description =
      llvm::json::Object{{"chips", std::move(chipNames)},
                         {"scratch", kScratchBytes},
                         {"kernels", std::move(names)},
                         {"cases", llvm::json::Array(cases)}};
  if (std::string error = writeText(directory + "/cases.bin", data);
      !error.empty())
    return error;
  return writeText(directory + "/cases.json",
                   llvm::formatv("{0}", description).str());
}

std::vector<GPUKernel> poplar::gputest::getRuntimeKernels() {
  constexpr int32_t threads = POPLAR_GPU_FLAT_THREADS;
  return {{POPLAR_SUM_SQUARES_KERNEL,
           {threads, 1, 1},
           2,
           POPLAR_SUM_CHUNK,
           "poplar_gpu_sum_squares",
           {}},
          {POPLAR_SCALE_KERNEL,
           {threads, 1, 1},
           3,
           threads,
           "poplar_gpu_scale",
           {}}};
}

/// Cases without generated kernels.
static std::string writeAlone(
    ArrayRef<GPUChip> chips, const std::string &directory,
    function_ref<void(MLIRContext &, std::vector<GPUKernel> &, KernelCases &)>
        fill) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<gpu::GPUDialect, exec::ExecDialect>();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(module->getBody());
  gpu::GPUModuleOp::create(builder, builder.getUnknownLoc(), "kernels");
  std::vector<GPUKernel> table = getRuntimeKernels();
  KernelCases cases;
  fill(context, table, cases);
  return cases.write(directory, chips, *module, table);
}

static std::string writeSet(StringRef set, ArrayRef<GPUChip> chips,
                            const std::string &directory) {
  if (set == "library")
    return writeAlone(chips, directory,
                      [&](MLIRContext &context, auto &table, auto &cases) {
                        addLibraryCases(context, chips[0], table, cases);
                        addRecurrentCases(context, chips[0], table, cases);
                      });
  if (set == "library-wide")
    return writeAlone(chips, directory,
                      [&](MLIRContext &context, auto &table, auto &cases) {
                        addWideLibraryCases(context, chips[0], table, cases);
                      });
  if (set == "products")
    return writeAlone(chips, directory,
                      [&](MLIRContext &context, auto &, auto &cases) {
                        addProductCases(context, chips[0], cases);
                      });
  auto [model, precision] = set.rsplit('-');
  if (model.ends_with(".json"))
    return writeModelCases(model.str(), precision.str(), chips,
                           (llvm::sys::path::parent_path(directory) + "/" +
                            llvm::sys::path::stem(model) + "-" + precision)
                               .str());
  return writeModelCases(model.str(), precision.str(), chips, directory);
}

int main(int argc, char **argv) {
  auto fail = [&](const std::string &error) {
    llvm::errs() << "kernel-cases: error: " << error << "\n";
    return 1;
  };
  if (argc < 3)
    return fail("usage: kernel-cases CHIP[,CHIP...] DIRECTORY [SET...]");
  std::vector<GPUChip> chips;
  for (StringRef name : llvm::split(argv[1], ',')) {
    std::optional<GPUChip> chip = findGPUChip(name);
    if (!chip || !chip->isNVIDIA())
      return fail("no such chip: " + name.str());
    chips.push_back(*chip);
  }
  std::vector<std::string> sets(argv + 3, argv + argc);
  if (sets.empty()) {
    sets = {"library", "products"};
    std::string half = chips[0].getCapability() >= 80 ? "bf16" : "f16";
    for (std::string model : {"tiny-gpt2", "tiny-llama", "tiny-bert"})
      for (const std::string &precision : {std::string("f32"), half})
        sets.push_back(model + "-" + precision);
  }
  for (const std::string &set : sets)
    if (std::string error = writeSet(set, chips,
                                     std::string(argv[2]) + "/" +
                                         llvm::sys::path::filename(set).str());
        !error.empty())
      return fail(set + ": " + error);
  return 0;
}
