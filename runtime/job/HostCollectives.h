//===- HostCollectives.h - Collectives that are the hosts' ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_HOSTCOLLECTIVES_H
#define POPLAR_RUNTIME_HOSTCOLLECTIVES_H

#include "Poplar/Runtime/ABI.h"

#include <string>

namespace poplar::runtime {

/// Why collectives of parameters and gradients are the hosts', whatever the
/// libraries of devices can do; empty where they are not.
std::string explainHostCollectives(const PoplarProgram &Program);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_HOSTCOLLECTIVES_H
