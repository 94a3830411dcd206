//===- ExecRecurrent.h - Linear attention on buffers ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECRECURRENT_H
#define POPLAR_DIALECT_EXEC_EXECRECURRENT_H

#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Runtime/Recurrent.h"

#define GET_OP_CLASSES
#include "Poplar/Dialect/Exec/ExecRecurrentOps.h.inc"

#endif // POPLAR_DIALECT_EXEC_EXECRECURRENT_H
