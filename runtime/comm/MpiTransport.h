//===- MpiTransport.h - Messages by MPI -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads the plug-in (MpiPlugin.h). MPI is called from the thread that makes the
// transport, which must also be the one that uses it.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_MPITRANSPORT_H
#define POPLAR_RUNTIME_COMM_MPITRANSPORT_H

#include "comm/Transport.h"

#include <memory>

namespace poplar::runtime::comm {

/// The plug-in is what POPLAR_MPI_PLUGIN names; else it is searched for as
/// - libpoplar_mpi.so and lib/libpoplar_mpi.so next to the executable, or in
///   lib/ next to its directory,
/// - where it was built, or by the dynamic linker's own search.
std::unique_ptr<Transport> makeMpiTransport();

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_MPITRANSPORT_H
