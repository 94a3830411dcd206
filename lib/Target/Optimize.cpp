//===- Optimize.cpp - LLVM's optimisations for a machine -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Optimize.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"

void poplar::optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  // What nobody calls is not worth optimising. Constants of descriptors are
  // known where kernels are inlined; from there they are propagated into what
  // the kernels call.
  llvm::ModulePassManager passes;
  passes.addPass(llvm::GlobalDCEPass());
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(
      builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3));
  passes.run(module, modules);
}
