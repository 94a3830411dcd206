//===- AttentionChoice.cpp - Who computes attention on a GPU --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/AttentionChoice.h"
#include "Poplar/Conversion/GPU/GPUKernels.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Target/GPU.h"
#include "llvm/Support/FormatVariadic.h"

using namespace poplar;

namespace {

/// FLOP/s of attention in 16 bits, relative to the highest dense FLOP/s of the
/// card: forward and gradient, as check-cuda.sh measures them. 0: not measured.
struct MeasuredRates {
  int capability;
  struct {
    double forward, gradient;
  } own, library;

  /// Time of both passes, for the FLOPs of one: 2 products forward, 5 in the
  /// gradient.
  template <typename Rates> static double getTime(const Rates &rates) {
    return 2 / rates.forward + 5 / rates.gradient;
  }
  bool isMeasured() const { return library.forward > 0; }
  bool isLibraryFaster() const { return getTime(library) < getTime(own); }
};

/// GPT-2 124M with 16 x 1024 tokens on an H200 (docs/gpu-results.md). A row
/// whose cuDNN has been measured decides `auto`.
constexpr MeasuredRates kMeasured[] = {{90, {0.20, 0.15}, {0, 0}}};

/// The first chips whose 16-bit attention cuDNN has kernels for, that repeat to
/// the bit.
constexpr int kFirstCapability = 80;

} // namespace

AttentionChoice poplar::chooseAttention(AttentionSource wanted,
                                        int capability) {
  if (wanted == AttentionSource::Own)
    return {false, "as --gpu-attention says"};
  if (capability < kFirstCapability)
    return {false, capability ? "cuDNN has none before sm_80"
                              : "cuDNN is for NVIDIA GPUs"};
  if (wanted == AttentionSource::CuDNN)
    return {true, "as --gpu-attention says"};
  for (const MeasuredRates &rates : kMeasured)
    if (rates.capability == capability && rates.isMeasured())
      return {rates.isLibraryFaster(), "measured"};
  return {false, llvm::formatv("cuDNN has not been measured on sm_{0}; "
                               "--gpu-attention cudnn tries it",
                               capability)};
}

std::string poplar::describeAttention(mlir::ModuleOp program,
                                      const BuildOptions &options) {
  int64_t all = 0, library = 0;
  std::string obstacle;
  auto count = [&](auto op) {
    ++all;
    library += op.getLibrary();
    if (llvm::StringRef found = explainOwnAttention(op.getDescriptor());
        !found.empty())
      obstacle = found.str();
  };
  program.walk([&](exec::AttentionOp op) { count(op); });
  program.walk([&](exec::AttentionGradOp op) { count(op); });
  std::optional<GPUChip> chip = findGPUChip(options.chip);
  if (!all || !chip)
    return "";
  AttentionChoice choice =
      chooseAttention(options.attention, chip->getCapability());
  std::string why =
      choice.isLibrary && library < all ? "cuDNN: " + obstacle : choice.reason;
  if (library == 0)
    return "own kernels (" + why + ")";
  if (library == all)
    return "cuDNN, if the machine has it (" + why + ")";
  return llvm::formatv("cuDNN, if the machine has it, in {0} of {1} calls ({2} "
                       "in the others)",
                       library, all, why);
}
