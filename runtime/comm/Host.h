//===- Host.h - Which ranks are on one host ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_HOST_H
#define POPLAR_RUNTIME_COMM_HOST_H

#include <string>

namespace poplar::runtime::comm {

/// What processes have in common that reach each other by shared memory and by
/// the loopback: the kernel, and their namespaces of networks, of shared memory
/// and of processes. Less than 128 characters.
std::string getHostIdentity();

/// The name of this host; empty if it has none.
std::string getHostName();

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_HOST_H
