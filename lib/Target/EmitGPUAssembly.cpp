//===- EmitGPUAssembly.cpp - Write the kernels of a GPU -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/GPU.h"
#include "Poplar/Target/Passes.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ToolOutputFile.h"

namespace poplar {
#define GEN_PASS_DEF_EMITGPUASSEMBLY
#include "Poplar/Target/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class EmitGPUAssemblyPass
    : public poplar::impl::EmitGPUAssemblyBase<EmitGPUAssemblyPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto fail = [&](const Twine &message) {
      module.emitError(message);
      signalPassFailure();
    };
    std::optional<GPUChip> known = findGPUChip(chip);
    if (!known)
      return fail("unknown chip '" + chip + "'; there are " +
                  llvm::join(listGPUChips(), ", "));
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream(text);
    if (failed(emitGPUAssembly(module, *known, stream)))
      return signalPassFailure();
    std::string error;
    auto file = openOutputFile(output, &error);
    if (!file)
      return fail(error);
    file->os() << text;
    file->keep();
  }
};

} // namespace
