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
/// A message under way, and what a receive has to bring.
struct Pending {
  MPI_Request Request = MPI_REQUEST_NULL;
  int Sender = -1; // of a receive
  int Bytes = 0;
};
static poplar::runtime::comm::RequestPool<Pending> Requests;
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

/// Whether the launcher says that all ranks are on one host.
static bool isOneHost() {
  const char *Local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const char *All = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char *Nodes = std::getenv("SLURM_STEP_NUM_NODES");
  return All ? Local && std::string(Local) == All
             : Nodes && std::string(Nodes) == "1";
}

/// Leaves out Open MPI's components that listen on the network, as there is
/// shared memory, and lets NCCL listen on the loopback; what the user has
/// chosen stays.
static void stayInside() {
  setenv("OMPI_MCA_pml", "ob1", /*overwrite=*/0);
  setenv("OMPI_MCA_btl", "^tcp,ofi,uct,openib", /*overwrite=*/0);
  setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
}

/// mpirun and srun have their own limits for the start.
static int init(double, int32_t *Rank, int32_t *Size) {
  // Where there are more ranks than cores, Open MPI yields in every test that
  // finds nothing. Who tests sleeps afterwards (Pause.h), and has the core when
  // it wakes up; who yields beside a busy process has to wait for its slice to
  // end, for 4 ms.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", /*overwrite=*/0);
  if (isOneHost())
    stayInside();
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
  Requests.reserve(MaxRequests, Pending());
  return 0;
}

/// Takes a request, if there is one and the message is not too long. `Sender`
/// is that of a receive, or -1.
static int take(size_t Bytes, int Sender, int32_t *Request) {
  if (Bytes > INT_MAX || !Requests.take(*Request)) {
    Message = Bytes > INT_MAX ? "a message of 2 GiB or more"
                              : "too many messages under way";
    return 1;
  }
  Requests[*Request] = {MPI_REQUEST_NULL, Sender, static_cast<int>(Bytes)};
  return 0;
}

static int send(const void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
                int32_t *Request) {
  return take(Bytes, -1, Request) ||
         check(MPI_Isend(Data, static_cast<int>(Bytes), MPI_BYTE, Peer, Tag,
                         World, &Requests[*Request].Request),
               "MPI_Isend");
}

static int receive(void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
                   int32_t *Request) {
  return take(Bytes, Peer, Request) ||
         check(MPI_Irecv(Data, static_cast<int>(Bytes), MPI_BYTE, Peer, Tag,
                         World, &Requests[*Request].Request),
               "MPI_Irecv");
}

/// Whether a message has the length that both ends know.
static int checkLength(const Pending &Received, int Code,
                       const MPI_Status &Status) {
  int Class = MPI_SUCCESS, Bytes = 0;
  MPI_Error_class(Code, &Class);
  bool IsLonger = Class == MPI_ERR_TRUNCATE;
  if (!IsLonger &&
      (check(Code, "MPI_Test") ||
       check(MPI_Get_count(&Status, MPI_BYTE, &Bytes), "MPI_Get_count")))
    return 1;
  if (!IsLonger && Bytes == Received.Bytes)
    return 0;
  Message = "expected " + std::to_string(Received.Bytes) + " bytes from rank " +
            std::to_string(Received.Sender) + ", which sent " +
            (IsLonger ? "more" : std::to_string(Bytes));
  return 1;
}

static int test(int32_t Request, int32_t *Done) {
  // A message that has failed may be tested again, by another thread.
  if (!Message.empty())
    return 1;
  int Flag = 0;
  Pending &Tested = Requests[Request];
  MPI_Status Status;
  int Code = MPI_Test(&Tested.Request, &Flag, &Status);
  if (Code != MPI_SUCCESS && Tested.Sender >= 0)
    return checkLength(Tested, Code, Status);
  if (check(Code, "MPI_Test"))
    return 1;
  *Done = Flag;
  if (!Flag)
    return 0;
  Pending Ended = Tested;
  Requests.give(Request);
  return Ended.Sender >= 0 ? checkLength(Ended, Code, Status) : 0;
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
                                             /*decline=*/nullptr,
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
