//===- MpiPlugin.cpp - Messages by MPI ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only file that includes <mpi.h>. See TransportPlugin.h.
//
//===----------------------------------------------------------------------===//

#include "comm/RequestPool.h"
#include "comm/TransportPlugin.h"

#include <mpi.h>

#include <climits>
#include <cstdlib>
#include <string>

static MPI_Comm World = MPI_COMM_NULL;
static poplar::runtime::comm::RequestPool<MPI_Request> Requests;
static std::string Message;

/// Whether an MPI call failed; keeps the reason.
static int check(int Code, const char *Call) {
  if (Code == MPI_SUCCESS)
    return 0;
  char Text[MPI_MAX_ERROR_STRING];
  int Length = 0;
  MPI_Error_string(Code, Text, &Length);
  Message =
      std::string("MPI failed: ") + Call + ": " + std::string(Text, Length);
  return 1;
}

/// mpirun and srun have their own limits for the start.
static int init(double, int32_t *Rank, int32_t *Size) {
  // Where there are more ranks than cores, Open MPI yields in every test that
  // finds nothing. Who tests sleeps afterwards (Pause.h), and has the core when
  // it wakes up; who yields beside a busy process has to wait for its slice to
  // end, for 4 ms.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", /*overwrite=*/0);
  int Provided;
  if (check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &Provided),
            "MPI_Init_thread"))
    return 1;
  if (Provided < MPI_THREAD_SERIALIZED) {
    Message = "this MPI does not support calls of two threads, one at a time";
    return 1;
  }
  // A communicator of our own, so that errors come back to us.
  if (check(MPI_Comm_dup(MPI_COMM_WORLD, &World), "MPI_Comm_dup") ||
      check(MPI_Comm_set_errhandler(World, MPI_ERRORS_RETURN),
            "MPI_Comm_set_errhandler") ||
      check(MPI_Comm_rank(World, Rank), "MPI_Comm_rank") ||
      check(MPI_Comm_size(World, Size), "MPI_Comm_size"))
    return 1;
  // Tags number ranks, and then kinds of messages, of which a chunk of a
  // pipeline stage has two.
  int *Largest = nullptr, Found = 0;
  if (check(MPI_Comm_get_attr(World, MPI_TAG_UB, &Largest, &Found),
            "MPI_Comm_get_attr"))
    return 1;
  if (Found && *Largest < *Size + 1024) {
    Message = "this MPI does not have tags enough for so many ranks";
    return 1;
  }
  return 0;
}

static int getNodes(int32_t *Nodes) {
  MPI_Comm Node;
  int First;
  if (check(MPI_Comm_rank(World, &First), "MPI_Comm_rank") ||
      check(MPI_Comm_split_type(World, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                                &Node),
            "MPI_Comm_split_type") ||
      check(MPI_Allreduce(MPI_IN_PLACE, &First, 1, MPI_INT, MPI_MIN, Node),
            "MPI_Allreduce") ||
      check(MPI_Comm_free(&Node), "MPI_Comm_free"))
    return 1;
  return check(MPI_Allgather(&First, 1, MPI_INT, Nodes, 1, MPI_INT, World),
               "MPI_Allgather");
}

static int reserve(int32_t MaxRequests) {
  Requests.reserve(MaxRequests, MPI_REQUEST_NULL);
  return 0;
}

/// Takes a request, if there is one and the message is not too long.
static int take(size_t Bytes, int32_t *Request) {
  if (Bytes > INT_MAX || !Requests.take(*Request)) {
    Message = Bytes > INT_MAX ? "a message of 2 GiB or more"
                              : "too many messages under way";
    return 1;
  }
  return 0;
}

static int send(const void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
                int32_t *Request) {
  return take(Bytes, Request) ||
         check(MPI_Isend(Data, static_cast<int>(Bytes), MPI_BYTE, Peer, Tag,
                         World, &Requests[*Request]),
               "MPI_Isend");
}

static int receive(void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
                   int32_t *Request) {
  return take(Bytes, Request) ||
         check(MPI_Irecv(Data, static_cast<int>(Bytes), MPI_BYTE, Peer, Tag,
                         World, &Requests[*Request]),
               "MPI_Irecv");
}

static int test(int32_t Request, int32_t *Done) {
  int Flag = 0;
  if (check(MPI_Test(&Requests[Request], &Flag, MPI_STATUS_IGNORE), "MPI_Test"))
    return 1;
  *Done = Flag;
  if (Flag)
    Requests.give(Request);
  return 0;
}

static int finalize() {
  return check(MPI_Comm_free(&World), "MPI_Comm_free") ||
         check(MPI_Finalize(), "MPI_Finalize");
}

static void abortAll() { MPI_Abort(MPI_COMM_WORLD, 1); }

static const char *getError() { return Message.c_str(); }

static const char *getLibrary() {
  static char Text[MPI_MAX_LIBRARY_VERSION_STRING];
  int Length = 0;
  MPI_Get_library_version(Text, &Length);
  return Text;
}

extern "C" __attribute__((visibility("default"))) const PoplarTransportTable *
poplar_transport_plugin() {
  static const PoplarTransportTable Table = {POPLAR_TRANSPORT_MAGIC,
                                             POPLAR_TRANSPORT_VERSION,
                                             getLibrary(),
                                             init,
                                             /*take_sockets=*/nullptr,
                                             getNodes,
                                             reserve,
                                             send,
                                             receive,
                                             test,
                                             /*get_descriptor=*/nullptr,
                                             /*arm=*/nullptr,
                                             finalize,
                                             abortAll,
                                             getError};
  return &Table;
}
