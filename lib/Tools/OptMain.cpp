//===- OptMain.cpp - poplar-opt, with more dialects -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Tools/OptMain.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Tools/Registration.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int poplar::runOptMain(int argc, char **argv, mlir::DialectRegistry &registry) {
  if (std::string error = poplar::checkMaxISA(); !error.empty()) {
    llvm::errs() << "poplar-opt: error: " << error << '\n';
    return 1;
  }
  poplar::registerDialectsAndPasses(registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "Poplar's optimizer: the passes of the compiler, by flag\n",
      registry));
}
