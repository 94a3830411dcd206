//===- TransportPlugin.h - A transport plug-in's functions ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program is not linked with a library that carries messages: MPI has no
// common ABI, and where there is one rank none need be installed. What calls
// the library is a plug-in, built against the one at hand and loaded by
// processes that are ranks of a job:
//
//   libpoplar_mpi.so  MPI, for processes that mpirun or srun started
//   libpoplar_tcp.so  UCX, for processes that were told their rank otherwise
//
// It exports one C function, which returns this table.
//
// The thread that called init calls all functions but those of messages (send,
// receive, test, arm), which another may call as well, never at the same time.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_TRANSPORTPLUGIN_H
#define POPLAR_RUNTIME_COMM_TRANSPORTPLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define POPLAR_TRANSPORT_MAGIC 0x50525450u /* "PTRP" */
#define POPLAR_TRANSPORT_VERSION 6u
#define POPLAR_TRANSPORT_ENTRY "poplar_transport_plugin"

// NOLINTBEGIN(readability-identifier-naming): this is C.
/// Functions that can fail return 0, or 1 with a sentence in error().
typedef struct PoplarTransportTable {
  uint32_t magic, version;
  /// Which library this is, e.g. `Open MPI v4.1.4`.
  const char *library;
  /// Starts the library, and asks for its world; how many messages there will
  /// be at a time comes later, by reserve. Ranks that call each other do so for
  /// this many seconds.
  int (*init)(double start_seconds, int32_t *rank, int32_t *size);
  /// Instead of init, for a rank that cannot take part: ends the start of the
  /// others within so many seconds, and tells them why. May be null: the
  /// launcher of this process ends the others when it ends.
  int (*decline)(double start_seconds, const char *why);
  /// Connected TCP sockets, for heartbeats: on rank 0 one to each rank, on
  /// others one to rank 0, and -1 elsewhere; and the number of the job. They
  /// belong to the caller. May be null: there are none.
  int (*take_sockets)(int32_t *sockets, uint64_t *session);
  /// For each rank, the lowest rank of its node. Collective.
  int (*get_nodes)(int32_t *nodes);
  int (*reserve)(int32_t max_requests);
  /// Nonblocking messages of less than 2 GiB. Requests are small numbers.
  int (*send)(const void *data, size_t bytes, int32_t peer, int32_t tag,
              int32_t *request);
  int (*receive)(void *data, size_t bytes, int32_t peer, int32_t tag,
                 int32_t *request);
  /// Moves other messages, too, if that is cheap: a rank that waits for one
  /// tests only that one, and leaves the others to a thread that tests less
  /// often. It does not yield: see Pause.h.
  int (*test)(int32_t request, int32_t *done);
  /// A descriptor that is readable once a message may have moved, if arm() said
  /// after the last test() that nothing had. Both may be null: then messages
  /// are tested now and then.
  int (*get_descriptor)(int32_t *descriptor);
  int (*arm)(int32_t *nothing_moved);
  int (*finalize)(void);
  /// Ends this process, and all others as far as the library can.
  void (*abort)(void);
  const char *(*error)(void);
} PoplarTransportTable;
// NOLINTEND(readability-identifier-naming)

typedef const PoplarTransportTable *(*PoplarTransportEntry)(void);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // POPLAR_RUNTIME_COMM_TRANSPORTPLUGIN_H
