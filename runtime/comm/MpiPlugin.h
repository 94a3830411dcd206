//===- MpiPlugin.h - The MPI plug-in's table of functions -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MPI has no common ABI, so that what calls it is a plug-in, libpoplar_mpi.so,
// built against the MPI at hand and loaded when a process was started by
// mpirun or srun. It exports one C function, which returns this table.
//
// All functions are called from the thread that called init.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_MPIPLUGIN_H
#define POPLAR_RUNTIME_COMM_MPIPLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define POPLAR_MPI_MAGIC 0x49504D50u /* "PMPI" */
#define POPLAR_MPI_VERSION 1u
#define POPLAR_MPI_ENTRY "poplar_mpi_plugin"

// NOLINTBEGIN(readability-identifier-naming): this is C.
/// Functions that can fail return 0, or 1 with a message in error().
typedef struct PoplarMpiTable {
  uint32_t magic, version;
  /// Which MPI this is, e.g. `Open MPI v4.1.4`.
  const char *library;
  /// Starts MPI, and asks for its world; `max_requests` messages at a time come
  /// later, by reserve.
  int (*init)(int32_t *rank, int32_t *size);
  /// For each rank, the lowest rank of its node. Collective.
  int (*get_nodes)(int32_t *nodes);
  int (*reserve)(int32_t max_requests);
  /// Nonblocking messages of less than 2 GiB. Requests are small numbers.
  int (*send)(const void *data, size_t bytes, int32_t peer, int32_t tag,
              int32_t *request);
  int (*receive)(void *data, size_t bytes, int32_t peer, int32_t tag,
                 int32_t *request);
  int (*test)(int32_t request, int32_t *done);
  int (*finalize)(void);
  /// Ends all processes.
  void (*abort)(void);
  const char *(*error)(void);
} PoplarMpiTable;
// NOLINTEND(readability-identifier-naming)

typedef const PoplarMpiTable *(*PoplarMpiEntry)(void);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // POPLAR_RUNTIME_COMM_MPIPLUGIN_H
