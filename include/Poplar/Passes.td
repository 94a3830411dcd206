//===- Passes.td - All of Poplar's passes ------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A directory has a Passes.td of its own. This lists them in the order in which
// `poplar build` runs their passes; the reference is made from it.
//
//===----------------------------------------------------------------------===//

include "Poplar/Transforms/Plan/Passes.td"
include "Poplar/Simulation/Passes.td"
include "Poplar/Allocation/Passes.td"
include "Poplar/Transforms/Model/Passes.td"
include "Poplar/Transforms/Zero/Passes.td"
include "Poplar/Transforms/Schedule/Passes.td"
include "Poplar/Report/Passes.td"
include "Poplar/Conversion/Kernels/Passes.td"
include "Poplar/Conversion/Memory/Passes.td"
include "Poplar/Conversion/GPU/Passes.td"
include "Poplar/Conversion/Program/Passes.td"
include "Poplar/Target/Passes.td"
