//===- Passes.h - All of Poplar's passes ------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PASSES_H
#define POPLAR_PASSES_H

#include "Poplar/Allocation/Passes.h"
#include "Poplar/Conversion/GPU/Passes.h"
#include "Poplar/Conversion/Kernels/Passes.h"
#include "Poplar/Conversion/Memory/Passes.h"
#include "Poplar/Conversion/Program/Passes.h"
#include "Poplar/Report/Passes.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Target/Passes.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "Poplar/Transforms/Schedule/Passes.h"
#include "Poplar/Transforms/Zero/Passes.h"

namespace poplar {

inline void registerPoplarPasses() {
  registerPlanPasses();
  registerSimulationPasses();
  registerAllocationPasses();
  registerModelPasses();
  registerZeroPasses();
  registerSchedulePasses();
  registerReportPasses();
  registerKernelsPasses();
  registerMemoryPasses();
  registerGPUKernelPasses();
  registerProgramPasses();
  registerTargetPasses();
}

} // namespace poplar

#endif // POPLAR_PASSES_H
