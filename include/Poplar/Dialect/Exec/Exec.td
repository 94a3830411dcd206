//===- Exec.td - All ops of the exec dialect ----------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For the reference.
//
//===----------------------------------------------------------------------===//

include "Poplar/Dialect/Exec/ExecOps.td"
include "Poplar/Dialect/Exec/ExecExpertOps.td"
include "Poplar/Dialect/Exec/ExecRecurrentOps.td"
