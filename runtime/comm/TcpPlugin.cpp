//===- TcpPlugin.cpp - Messages by UCX ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For processes that no MPI launcher started, but that the environment tells
// their place (Meeting.h). They meet by a bootstrap of their own (Bootstrap.h),
// in which every rank gets the addresses of all. UCX moves the messages: over
// TCP by the network device at which the ranks meet, or shared memory on one
// host, unless UCX_TLS or UCX_NET_DEVICES says otherwise.
//
// See TransportPlugin.h.
//
//===----------------------------------------------------------------------===//

#include "comm/Bootstrap.h"
#include "comm/RequestPool.h"
#include "comm/TransportPlugin.h"

#include <ucp/api/ucp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace poplar::runtime;

namespace {

using Clock = std::chrono::steady_clock;

/// Above the tags of messages between ranks, which are (tag, sender).
constexpr ucp_tag_t BarrierTag = ucp_tag_t(1) << 63;
constexpr ucp_tag_t WholeTag = ~ucp_tag_t(0);
/// How long ranks wait for each other at the end, and for a connection to
/// close, in seconds.
constexpr double ArriveSeconds = 60, CloseSeconds = 5;

std::string Message;
int32_t Rank = -1, World = 0;
ucp_context_h Context;
ucp_worker_h Worker;
std::vector<comm::Card> Cards;
std::vector<ucp_ep_h> Endpoints;
std::unique_ptr<comm::Bootstrap> Start;
comm::RequestPool<void *> Requests;

int failed(const std::string &Why) {
  Message = Why;
  return 1;
}

/// Whether a call of UCX failed; keeps the reason.
int check(ucs_status_t Status, const char *Call) {
  return Status == UCS_OK
             ? 0
             : failed(std::string("UCX ") + ucp_get_version_string() +
                      " failed: " + Call + ": " + ucs_status_string(Status));
}

Clock::time_point after(double Seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(Seconds));
}

/// Of a request of UCX, which is null once it is complete. Frees what is done.
ucs_status_t getStatus(void *&Request) {
  if (!Request)
    return UCS_OK;
  ucs_status_t Status = UCS_PTR_IS_ERR(Request)
                            ? UCS_PTR_STATUS(Request)
                            : ucp_request_check_status(Request);
  if (Status != UCS_INPROGRESS) {
    if (!UCS_PTR_IS_ERR(Request))
      ucp_request_free(Request);
    Request = nullptr;
  }
  return Status;
}

/// Waits for a request.
ucs_status_t finish(void *Request, Clock::time_point End) {
  ucs_status_t Status = UCS_INPROGRESS;
  while ((Status = getStatus(Request)) == UCS_INPROGRESS) {
    if (Clock::now() > End) {
      ucp_request_cancel(Worker, Request);
      ucp_request_free(Request);
      return UCS_ERR_TIMED_OUT;
    }
    // Another rank may need the core.
    if (ucp_worker_progress(Worker) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return Status;
}

void *startSend(ucp_ep_h Endpoint, const void *Data, size_t Bytes,
                ucp_tag_t Tag) {
  ucp_request_param_t Parameters = {};
  return ucp_tag_send_nbx(Endpoint, Data, Bytes, Tag, &Parameters);
}
void *startReceive(void *Data, size_t Bytes, ucp_tag_t Tag) {
  ucp_request_param_t Parameters = {};
  return ucp_tag_recv_nbx(Worker, Data, Bytes, Tag, WholeTag, &Parameters);
}

void closeEndpoint(ucp_ep_h Endpoint, Clock::time_point End) {
  ucp_request_param_t Parameters = {};
  // The peer may have gone already, which is no failure by then.
  finish(ucp_ep_close_nbx(Endpoint, &Parameters), End);
}

/// What ranks of one node have in common: the kernel, and its network.
std::string getHost() {
  std::string Boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), Boot);
  char Network[64] = {};
  if (readlink("/proc/self/ns/net", Network, sizeof(Network) - 1) < 0)
    Network[0] = 0;
  return Boot + " " + Network;
}

/// Whether a list of UCX's transports has none but TCP and those inside a host:
/// other networks have devices of their own.
bool isOnlyTcp(const std::string &Transports) {
  std::istringstream Words(Transports);
  for (std::string Word; std::getline(Words, Word, ',');)
    if (Word != "tcp" && Word != "self" && Word != "sm" && Word != "shm" &&
        Word != "posix" && Word != "sysv" && Word != "cma")
      return false;
  return true;
}

/// Messages take the device at which the ranks meet, unless the user chooses.
ucs_status_t configure(ucp_config_t *Config, const std::string &Device) {
  const char *Chosen = std::getenv("UCX_TLS");
  // A rank alone needs nothing that others can reach.
  std::string Transports = Chosen       ? Chosen
                           : World == 1 ? "self"
                                        : "tcp,sm,self";
  ucs_status_t Status =
      Chosen ? UCS_OK : ucp_config_modify(Config, "TLS", Transports.c_str());
  if (Status != UCS_OK || Device.empty() || std::getenv("UCX_NET_DEVICES") ||
      !isOnlyTcp(Transports))
    return Status;
  return ucp_config_modify(Config, "NET_DEVICES", Device.c_str());
}

int startWorker(const std::string &Device) {
  ucp_config_t *Config;
  if (check(ucp_config_read(nullptr, nullptr, &Config), "ucp_config_read"))
    return 1;
  ucp_params_t Parameters = {};
  Parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  Parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucs_status_t Status = configure(Config, Device);
  if (Status == UCS_OK)
    Status = ucp_init(&Parameters, Config, &Context);
  ucp_config_release(Config);
  if (check(Status, "ucp_init"))
    return 1;
  ucp_worker_params_t Threads = {};
  Threads.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  Threads.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  return check(ucp_worker_create(Context, &Threads, &Worker),
               "ucp_worker_create");
}

int makeCard(comm::Card &Own) {
  Own = {};
  Own.Rank = Rank;
  Own.Pid = getpid();
  comm::Digest Number;
  comm::fillRandom(Number);
  std::memcpy(&Own.Session, Number.data(), sizeof Own.Session);
  std::string Host = getHost();
  Host.copy(Own.Host, sizeof(Own.Host) - 1);
  gethostname(Own.Name, sizeof(Own.Name) - 1);
  ucp_address_t *Address;
  size_t Bytes;
  if (check(ucp_worker_get_address(Worker, &Address, &Bytes),
            "ucp_worker_get_address"))
    return 1;
  bool Fits = Bytes <= sizeof(Own.Address);
  if (Fits) {
    std::memcpy(Own.Address, Address, Bytes);
    Own.AddressBytes = static_cast<uint32_t>(Bytes);
  }
  ucp_worker_release_address(Worker, Address);
  return Fits ? 0
              : failed("UCX's address of this host has " +
                       std::to_string(Bytes) +
                       " bytes; name fewer devices in UCX_NET_DEVICES");
}

int createEndpoint(int32_t Peer) {
  ucp_ep_params_t Parameters = {};
  Parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  Parameters.address =
      reinterpret_cast<const ucp_address_t *>(Cards[Peer].Address);
  Parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  // Requests that a break concerns end with its status.
  Parameters.err_handler.cb = [](void *, ucp_ep_h, ucs_status_t) {};
  return check(ucp_ep_create(Worker, &Parameters, &Endpoints[Peer]),
               "ucp_ep_create");
}

int createEndpoints() {
  Endpoints.assign(World, nullptr);
  for (int32_t Peer = 0; Peer < World; ++Peer)
    if (Peer != Rank && createEndpoint(Peer))
      return 1;
  return 0;
}

/// Throws an Error where this rank cannot join the others.
int meet(const comm::Meeting &Place) {
  comm::Card Own;
  if (World == 1) {
    if (startWorker("") || makeCard(Own))
      return 1;
    Cards = {Own};
    return 0;
  }
  in_addr Local;
  std::string Device = comm::findInterface(Place.Address, Local);
  if (startWorker(Device) || makeCard(Own))
    return 1;
  Start = comm::makeBootstrap(Place);
  Cards = Start->exchange(Own);
  if (createEndpoints()) {
    Start->abandon(Message);
    return 1;
  }
  Start->begin();
  return 0;
}

int init(double StartSeconds, int32_t *OwnRank, int32_t *Size) {
  try {
    comm::Meeting Place = comm::readMeeting(StartSeconds);
    *OwnRank = Rank = Place.Rank;
    *Size = World = Place.World;
    return meet(Place);
  } catch (const std::exception &E) {
    Start.reset();
    return failed(E.what());
  }
}

int takeSockets(int32_t *Sockets, uint64_t *Session) {
  *Session = Cards[0].Session;
  std::fill_n(Sockets, World, -1);
  if (Start) {
    std::vector<int> Taken = Start->takeSockets();
    std::copy_n(Taken.begin(), World, Sockets);
  }
  Start.reset();
  return 0;
}

int getNodes(int32_t *Nodes) {
  for (int32_t R = 0; R < World; ++R)
    Nodes[R] = static_cast<int32_t>(
        std::find_if(Cards.begin(), Cards.end(),
                     [&](const comm::Card &Other) {
                       return !std::strcmp(Other.Host, Cards[R].Host);
                     }) -
        Cards.begin());
  return 0;
}

int reserve(int32_t MaxRequests) {
  Requests.reserve(MaxRequests, nullptr);
  return 0;
}

/// Keeps what was started as a request of ours.
int keep(void *Started, const char *Call, int32_t *Request) {
  if (Started && UCS_PTR_IS_ERR(Started))
    return check(UCS_PTR_STATUS(Started), Call);
  if (!Requests.take(*Request))
    return failed("too many messages under way");
  Requests[*Request] = Started;
  return 0;
}

ucp_tag_t getTag(int32_t Sender, int32_t Tag) {
  return ucp_tag_t(uint32_t(Sender)) << 31 | uint32_t(Tag);
}

int send(const void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
         int32_t *Request) {
  return keep(startSend(Endpoints[Peer], Data, Bytes, getTag(Rank, Tag)),
              "ucp_tag_send_nbx", Request);
}

int receive(void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
            int32_t *Request) {
  return keep(startReceive(Data, Bytes, getTag(Peer, Tag)), "ucp_tag_recv_nbx",
              Request);
}

int test(int32_t Request, int32_t *Done) {
  ucp_worker_progress(Worker);
  ucs_status_t Status = getStatus(Requests[Request]);
  *Done = Status != UCS_INPROGRESS;
  if (!*Done)
    return 0;
  Requests.give(Request);
  return check(Status, "a message");
}

int getDescriptor(int32_t *Descriptor) {
  int Found = -1;
  if (check(ucp_worker_get_efd(Worker, &Found), "ucp_worker_get_efd"))
    return 1;
  *Descriptor = Found;
  return 0;
}

int arm(int32_t *NothingMoved) {
  ucs_status_t Status = ucp_worker_arm(Worker);
  *NothingMoved = Status == UCS_OK;
  return Status == UCS_ERR_BUSY ? 0 : check(Status, "ucp_worker_arm");
}

/// Nobody leaves before all have arrived.
int waitForAll() {
  Clock::time_point End = after(ArriveSeconds);
  for (int32_t Step = 1; Step < World; Step *= 2) {
    int32_t To = (Rank + Step) % World, From = (Rank - Step + World) % World;
    char Sent = 0, Received;
    void *Receive =
        startReceive(&Received, 1, BarrierTag + ucp_tag_t(From) * 4);
    void *Send =
        startSend(Endpoints[To], &Sent, 1, BarrierTag + ucp_tag_t(Rank) * 4);
    if (check(finish(Send, End), "ucp_tag_send_nbx") ||
        check(finish(Receive, End), "ucp_tag_recv_nbx"))
      return 1;
  }
  return 0;
}

int finalize() {
  if (waitForAll())
    return 1;
  Clock::time_point End = after(CloseSeconds);
  for (ucp_ep_h Endpoint : Endpoints)
    if (Endpoint)
      closeEndpoint(Endpoint, End);
  ucp_worker_destroy(Worker);
  ucp_cleanup(Context);
  return 0;
}

/// The others' watchdogs notice.
void abortAll() { std::_Exit(1); }

const char *getError() { return Message.c_str(); }

const char *getLibrary() {
  static const std::string Name =
      std::string("UCX ") + ucp_get_version_string();
  return Name.c_str();
}

} // namespace

extern "C" __attribute__((visibility("default"))) const PoplarTransportTable *
poplar_transport_plugin() {
  static const PoplarTransportTable Table = {POPLAR_TRANSPORT_MAGIC,
                                             POPLAR_TRANSPORT_VERSION,
                                             getLibrary(),
                                             init,
                                             takeSockets,
                                             getNodes,
                                             reserve,
                                             send,
                                             receive,
                                             test,
                                             getDescriptor,
                                             arm,
                                             finalize,
                                             abortAll,
                                             getError};
  return &Table;
}
