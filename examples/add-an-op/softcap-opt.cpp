//===- softcap-opt.cpp - poplar-opt with the example's dialect ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Tools/OptMain.h"
#include "Softcap.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<example::ExampleDialect>();
  return poplar::runOptMain(argc, argv, registry);
}
