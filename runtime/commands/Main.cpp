//===- Main.cpp - Entry of a generated executable -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Trainer.h"

int main(int Argc, char **Argv) {
  return poplar::runtime::runMain(poplar_program, Argc, Argv);
}
