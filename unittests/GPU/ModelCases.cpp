//===- ModelCases.cpp - Cases of the kernels generated for a model --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostKernels.h"
#include "KernelCases.h"
#include "Poplar/Conversion/GPU/Passes.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Target/Build.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

std::string poplar::gputest::writeModelCases(const std::string &model,
                                             const std::string &precision,
                                             ArrayRef<GPUChip> chips,
                                             const std::string &directory) {
  // Kernels are mapped in the same way for all chips of a vendor.
  const GPUChip &chip = chips.front();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string error;
  ImportOptions import;
  // What a kernel does with its rows shows in few of them; those of wide models
  // take long on an emulated GPU.
  import.seqLen = StringRef(model).starts_with("tiny-") ? 24 : 8;
  OwningOpRef<ModuleOp> module = importModel(
      StringRef(model).ends_with(".json")
          ? model
          : std::string(POPLAR_EXAMPLES) + "/models/" + model + ".json",
      import, context, error);
  if (!module)
    return error;
  BuildOptions options;
  // No product is run here, and not every CPU has those of bf16.
  options.workspaceBytes = 0;
  std::optional<NumberFormat> format = parseWord<NumberFormat>(precision);
  if (!format)
    return "unknown precision " + precision;
  options.precision = *format;
  if (failed(setTarget(options, "cuda:" + chip.name)))
    return "no code for " + chip.name;
  PassManager plan(&context), lower(&context);
  buildPlanPipeline(plan, options);
  HostKernels compiled;
  if (failed(plan.run(*module)))
    return "cannot be planned";
  if (error = compiled.compile(*module, chip); !error.empty())
    return error;

  std::mt19937 random(1);
  KernelCases cases;
  for (const KernelPair &kernel : compiled.kernels) {
    KernelCase entry;
    entry.name = entry.kernel = kernel.name;
    // The elements of a flat kernel are not a multiple of anything.
    entry.batch = kernel.isFlat ? 2579 : 3;
    entry.extent = kernel.parts * (kernel.batched ? entry.batch : 1);
    entry.tolerance = format == NumberFormat::F32 ? 1e-5 : 5e-3;
    for (RankedTensorType type : kernel.tensors) {
      entry.pointers.push_back(static_cast<int>(entry.before.size()));
      entry.before.emplace_back(type, entry.batch, random);
    }
    entry.after = entry.before;
    std::vector<void *> pointers;
    for (Buffer &buffer : entry.after)
      pointers.push_back(buffer.data());
    kernel.host(pointers.data(), entry.batch, 0, entry.extent);
    cases.add(entry);
  }

  OwningOpRef<ModuleOp> mapped = module->clone();
  PassManager map(&context);
  map.addPass(createMapKernelsToGPU({chip.subgroupSize}));
  buildGPUKernelPipeline(lower, chip);
  if (failed(map.run(*mapped)) || failed(lower.run(*module)))
    return "has kernels that cannot be lowered";
  // With those of the runtime.
  GPUKernelTable(*mapped).finish();
  return cases.write(directory, chips, *module, takeGPUKernels(*mapped));
}
