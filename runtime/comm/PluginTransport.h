//===- PluginTransport.h - Messages by a library ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads a plug-in (TransportPlugin.h). The library is called from the thread
// that makes the transport, which must also be the one that uses it.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_PLUGINTRANSPORT_H
#define POPLAR_RUNTIME_COMM_PLUGINTRANSPORT_H

#include "comm/Transport.h"

#include <memory>

namespace poplar::runtime::comm {

/// A plug-in of the runtime's.
struct TransportPlugin {
  /// The name of the backend: "mpi", whose plug-in is libpoplar_mpi.so.
  const char *Name;
  /// The environment variable that may name another file.
  const char *Variable;
  /// The library and its packages, for error messages.
  const char *Library, *Packages;
};
extern const TransportPlugin MpiPlugin, TcpPlugin;

/// The plug-in is what its variable names; else it is searched for
/// - next to the executable, in lib/ there, or in lib/ next to its directory,
/// - where it was built, or by the dynamic linker's own search.
std::unique_ptr<Transport> makeTransport(const TransportPlugin &Plugin);

/// Reports the failure of a process that has not called makeTransport to the
/// other ranks, if it knows its rank and they can be reached in time.
void declineJob(const std::string &Why);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_PLUGINTRANSPORT_H
