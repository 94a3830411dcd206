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
// TCP by the network device at which the ranks meet, and shared memory inside a
// host, unless UCX_TLS or UCX_NET_DEVICES says otherwise. Where all ranks are
// on one host, there is nothing but shared memory, and UCX listens nowhere.
//
// UCX does not authenticate messages. Their tags are a keyed hash, so that who
// does not know the key matches no receive, and their lengths are checked.
//
// See TransportPlugin.h.
//
//===----------------------------------------------------------------------===//

#include "comm/Bootstrap.h"
#include "comm/Host.h"
#include "comm/RequestPool.h"
#include "comm/TransportPlugin.h"

#include <sodium.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace poplar::runtime;

namespace {

using Clock = std::chrono::steady_clock;

/// No message between ranks has this tag.
constexpr int32_t BarrierTag = -1;
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
/// Whether all ranks are on one host.
bool IsOneHost = false;
/// The key of the hash that makes tags.
unsigned char TagKey[crypto_shorthash_KEYBYTES];

/// A message under way.
struct Pending {
  void *Request = nullptr; // of UCX; null once it is complete
  int32_t Sender = -1;     // of a receive
  size_t Bytes = 0;        // that it has to bring
};
comm::RequestPool<Pending> Requests;

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

/// The status of a request of UCX, which is null once it is complete. Frees
/// what is done.
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
/// Never null: of what is complete at once, UCX 1.13 does not tell the length.
void *startReceive(void *Data, size_t Bytes, ucp_tag_t Tag) {
  ucp_request_param_t Parameters = {};
  Parameters.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  return ucp_tag_recv_nbx(Worker, Data, Bytes, Tag, WholeTag, &Parameters);
}

ucp_tag_t getTag(int32_t Sender, int32_t Tag) {
  int32_t Words[] = {Sender, Tag};
  ucp_tag_t Result;
  static_assert(sizeof Result == crypto_shorthash_BYTES, "a whole tag");
  crypto_shorthash(reinterpret_cast<unsigned char *>(&Result),
                   reinterpret_cast<const unsigned char *>(Words), sizeof Words,
                   TagKey);
  return Result;
}

/// Derives the key from the secret and from the number that rank 0 has drawn
/// for this job.
void makeTagKey(const std::string &Secret) {
  std::string Text = "poplar tags of messages " +
                     std::to_string(Cards[0].Session) + " " + Secret;
  unsigned char Hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(Hash, reinterpret_cast<unsigned char *>(Text.data()),
                     Text.size());
  std::copy_n(Hash, sizeof TagKey, TagKey);
}

void closeEndpoint(ucp_ep_h Endpoint, Clock::time_point End) {
  ucp_request_param_t Parameters = {};
  // The peer may have gone already, which is no failure by then.
  finish(ucp_ep_close_nbx(Endpoint, &Parameters), End);
}

/// Whether a list of UCX's transports has none but those inside a host, and
/// `Also`.
bool isInsideHost(const std::string &Transports, const std::string &Also = "") {
  std::istringstream Words(Transports);
  for (std::string Word; std::getline(Words, Word, ',');)
    if (Word != Also && Word != "self" && Word != "sm" && Word != "shm" &&
        Word != "posix" && Word != "sysv" && Word != "cma")
      return false;
  return true;
}

/// The transports that UCX is to use.
std::string getTransports() {
  const char *Chosen = std::getenv("UCX_TLS");
  // Ranks of one host need nothing that others can reach.
  return Chosen       ? Chosen
         : World == 1 ? "self"
         : IsOneHost  ? "sm,self"
                      : "tcp,sm,self";
}

/// Messages take the device at which the ranks meet, unless the user chooses.
ucs_status_t configure(ucp_config_t *Config, const std::string &Device) {
  const char *Chosen = std::getenv("UCX_TLS");
  std::string Transports = getTransports();
  ucs_status_t Status =
      Chosen ? UCS_OK : ucp_config_modify(Config, "TLS", Transports.c_str());
  if (Status != UCS_OK || Device.empty() || std::getenv("UCX_NET_DEVICES") ||
      !isInsideHost(Transports, "tcp"))
    return Status; // other networks have devices of their own
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

/// Without an address yet.
comm::Card makeCard() {
  comm::Card Own = {};
  Own.Rank = Rank;
  Own.Pid = getpid();
  comm::Digest Number;
  comm::fillRandom(Number);
  std::memcpy(&Own.Session, Number.data(), sizeof Own.Session);
  std::string Host = comm::getHostIdentity();
  Host.copy(Own.Host, sizeof(Own.Host) - 1);
  gethostname(Own.Name, sizeof(Own.Name) - 1);
  return Own;
}

int addAddress(comm::Card &Own) {
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

int createEndpoint(int32_t Peer, const std::string &Device) {
  ucp_ep_params_t Parameters = {};
  Parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  Parameters.address =
      reinterpret_cast<const ucp_address_t *>(Cards[Peer].Address);
  // Shared memory breaks no connection: the watchdog sees who is gone.
  Parameters.err_mode = isInsideHost(getTransports())
                            ? UCP_ERR_HANDLING_MODE_NONE
                            : UCP_ERR_HANDLING_MODE_PEER;
  // Requests that a break concerns end with its status.
  Parameters.err_handler.cb = [](void *, ucp_ep_h, ucs_status_t) {};
  ucs_status_t Status = ucp_ep_create(Worker, &Parameters, &Endpoints[Peer]);
  if (Status != UCS_ERR_UNREACHABLE)
    return check(Status, "ucp_ep_create");
  return failed("UCX " + std::string(ucp_get_version_string()) +
                " has no way from here to " + Cards[Peer].describe() +
                " by UCX_TLS=" + getTransports() +
                (IsOneHost ? "" : " and device " + Device) +
                (IsOneHost ? ": the ranks of one host share no memory; set "
                             "UCX_TLS=tcp,self on all ranks"
                           : ": one of the two devices is down, or has no "
                             "address; UCX_NET_DEVICES names another one"));
}

int createEndpoints(const std::string &Device) {
  Endpoints.assign(World, nullptr);
  for (int32_t Peer = 0; Peer < World; ++Peer)
    if (Peer != Rank && createEndpoint(Peer, Device))
      return 1;
  return 0;
}

/// Throws an Error where this rank cannot join the others. The ranks introduce
/// themselves first: where UCX listens depends on who is on which host.
int meet(const comm::Meeting &Place) {
  comm::Card Own = makeCard();
  if (World == 1) {
    Cards = {Own};
    return startWorker("");
  }
  in_addr Local;
  std::string Device = comm::findInterface(Place.Address, Local);
  Start = comm::makeBootstrap(Place);
  Cards = Start->exchange(Own);
  makeTagKey(Place.Secret);
  IsOneHost = std::all_of(Cards.begin(), Cards.end(), [&](const auto &Other) {
    return !std::strcmp(Other.Host, Own.Host);
  });
  if (IsOneHost) // NCCL need not listen on the network either
    setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  if (startWorker(Device) || addAddress(Own)) {
    Start->abandon(Message, comm::kFarewellSeconds);
    return 1;
  }
  Cards = Start->exchange(Own);
  if (createEndpoints(Device)) {
    Start->abandon(Message, comm::kFarewellSeconds);
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

int decline(double StartSeconds, const char *Why) {
  try {
    comm::Meeting Place = comm::readMeeting(StartSeconds);
    if (Place.World > 1)
      comm::makeBootstrap(Place)->abandon(Why, StartSeconds);
    return 0;
  } catch (const std::exception &E) {
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
  Requests.reserve(MaxRequests, Pending());
  return 0;
}

/// Keeps what was started as a request of ours.
int keep(Pending Started, const char *Call, int32_t *Request) {
  if (Started.Request && UCS_PTR_IS_ERR(Started.Request))
    return check(UCS_PTR_STATUS(Started.Request), Call);
  if (!Requests.take(*Request))
    return failed("too many messages under way");
  Requests[*Request] = Started;
  return 0;
}

int send(const void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
         int32_t *Request) {
  Pending Started;
  Started.Request = startSend(Endpoints[Peer], Data, Bytes, getTag(Rank, Tag));
  return keep(Started, "ucp_tag_send_nbx", Request);
}

/// Whether a message has the length that both ends know. Of one that is longer
/// than what receives it, UCX tells no length.
int checkLength(const Pending &Received, const size_t *Bytes) {
  if (Bytes && *Bytes == Received.Bytes)
    return 0;
  return failed("expected " + std::to_string(Received.Bytes) +
                " bytes from rank " + std::to_string(Received.Sender) +
                ", which sent " + (Bytes ? std::to_string(*Bytes) : "more"));
}

int receive(void *Data, size_t Bytes, int32_t Peer, int32_t Tag,
            int32_t *Request) {
  Pending Started;
  Started.Request = startReceive(Data, Bytes, getTag(Peer, Tag));
  Started.Sender = Peer;
  Started.Bytes = Bytes;
  return keep(Started, "ucp_tag_recv_nbx", Request);
}

int test(int32_t Request, int32_t *Done) {
  // A message that has failed may be tested again, by another thread.
  if (!Message.empty())
    return 1;
  ucp_worker_progress(Worker);
  Pending &Tested = Requests[Request];
  bool Receives = Tested.Sender >= 0;
  ucp_tag_recv_info_t Info = {};
  ucs_status_t Status =
      Receives ? ucp_tag_recv_request_test(Tested.Request, &Info) : UCS_OK;
  if (Status != UCS_INPROGRESS)
    Status = getStatus(Tested.Request);
  *Done = Status != UCS_INPROGRESS;
  if (!*Done)
    return 0;
  Pending Ended = Tested;
  Requests.give(Request);
  if (Receives && Status == UCS_ERR_MESSAGE_TRUNCATED)
    return checkLength(Ended, nullptr);
  return check(Status, "a message") ||
         (Receives && checkLength(Ended, &Info.length));
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
    void *Receive = startReceive(&Received, 1, getTag(From, BarrierTag));
    void *Send = startSend(Endpoints[To], &Sent, 1, getTag(Rank, BarrierTag));
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
                                             decline,
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
