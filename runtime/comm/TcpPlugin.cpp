//===- TcpPlugin.cpp - Messages by UCX ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For processes that no MPI launcher started, but that the environment tells
// their place, in torchrun's words: RANK, WORLD_SIZE, and MASTER_ADDR and
// MASTER_PORT, where rank 0 listens. Every rank sends rank 0 a card with its
// address and gets those of all back. UCX moves the messages: over TCP, or
// shared memory on one host, unless UCX_TLS says otherwise.
//
// See TransportPlugin.h.
//
//===----------------------------------------------------------------------===//

#include "comm/RequestPool.h"
#include "comm/TransportPlugin.h"

#include <ucp/api/ucp.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <netdb.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// What a rank tells of itself.
struct Card {
  int32_t Rank, World;
  char Host[128];
  uint32_t AddressBytes;
  char Address[4096];
};

/// Tags above those of messages between ranks, which are (tag, sender).
constexpr ucp_tag_t CardTag = ucp_tag_t(1) << 63, CardsTag = CardTag + 1,
                    BarrierTag = CardTag + 2;
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t(0);
/// How long ranks wait for each other at the start and at the end, in seconds.
constexpr double kStartSeconds = 60, kEndSeconds = 5;

std::string Message;
int32_t Rank = -1, World = 0;
ucp_context_h Context;
ucp_worker_h Worker;
std::vector<Card> Cards;
std::vector<ucp_ep_h> Endpoints;
/// The connections over which cards went.
std::vector<ucp_ep_h> CardEndpoints;
poplar::runtime::comm::RequestPool<void *> Requests;

int failed(const std::string &Why) {
  Message = Why;
  return 1;
}

/// Whether a call of UCX failed; keeps the reason.
int check(ucs_status_t Status, const char *Call) {
  return Status == UCS_OK
             ? 0
             : failed(std::string(Call) + ": " + ucs_status_string(Status));
}

Clock::time_point after(double Seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(Seconds));
}

/// Lets messages move until `isDone`; sleeps between polls, for another rank
/// may need the core.
template <typename Function>
bool progressUntil(Clock::time_point End, Function isDone) {
  while (!isDone()) {
    if (Clock::now() > End)
      return false;
    if (ucp_worker_progress(Worker) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
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

/// Waits for a request; whatever `Stop` tells ends the wait, too.
template <typename Function>
ucs_status_t finish(void *Request, Clock::time_point End, Function Stop) {
  ucs_status_t Status = UCS_INPROGRESS;
  bool InTime = progressUntil(End, [&] {
    Status = getStatus(Request);
    return Status != UCS_INPROGRESS || Stop();
  });
  if (Status != UCS_INPROGRESS)
    return Status;
  ucp_request_cancel(Worker, Request);
  ucp_request_free(Request);
  return InTime ? UCS_ERR_CANCELED : UCS_ERR_TIMED_OUT;
}
ucs_status_t finish(void *Request, Clock::time_point End) {
  return finish(Request, End, [] { return false; });
}

void *startSend(ucp_ep_h Endpoint, const void *Data, size_t Bytes,
                ucp_tag_t Tag) {
  ucp_request_param_t Parameters = {};
  return ucp_tag_send_nbx(Endpoint, Data, Bytes, Tag, &Parameters);
}
void *startReceive(void *Data, size_t Bytes, ucp_tag_t Tag) {
  ucp_request_param_t Parameters = {};
  return ucp_tag_recv_nbx(Worker, Data, Bytes, Tag, kWholeTag, &Parameters);
}

void closeEndpoint(ucp_ep_h Endpoint, uint32_t Flags, Clock::time_point End) {
  ucp_request_param_t Parameters = {};
  Parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  Parameters.flags = Flags;
  // The peer may have gone already, which is no failure by then.
  finish(ucp_ep_close_nbx(Endpoint, &Parameters), End);
}

/// Connects; `Broken` is set, if it is not null, when the connection breaks.
ucs_status_t connect(ucp_ep_params_t Parameters, bool *Broken,
                     ucp_ep_h &Endpoint) {
  Parameters.field_mask |=
      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  Parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  // Requests that a break concerns end with its status.
  Parameters.err_handler.cb = [](void *Flag, ucp_ep_h, ucs_status_t) {
    if (Flag)
      *static_cast<bool *>(Flag) = true;
  };
  Parameters.err_handler.arg = Broken;
  return ucp_ep_create(Worker, &Parameters, &Endpoint);
}

/// A number of the environment.
int read(const char *Name, int32_t Least, int32_t Most, int32_t &Value) {
  const char *Text = std::getenv(Name);
  if (!Text)
    return failed(std::string(Name) + " is not set; a job needs RANK, "
                                      "WORLD_SIZE, MASTER_ADDR, MASTER_PORT");
  const char *End = Text + std::strlen(Text);
  auto [Stop, Code] = std::from_chars(Text, End, Value);
  if (Code != std::errc() || Stop != End || Value < Least || Value > Most)
    return failed(std::string(Name) + "=" + Text + ": expected a number from " +
                  std::to_string(Least) + " to " + std::to_string(Most));
  return 0;
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

int startWorker() {
  ucp_config_t *Config;
  if (check(ucp_config_read(nullptr, nullptr, &Config), "ucp_config_read"))
    return 1;
  ucs_status_t Modified = std::getenv("UCX_TLS")
                              ? UCS_OK
                              : ucp_config_modify(Config, "TLS", "tcp,sm,self");
  ucp_params_t Parameters = {};
  Parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  Parameters.features = UCP_FEATURE_TAG;
  ucs_status_t Status =
      Modified == UCS_OK ? ucp_init(&Parameters, Config, &Context) : Modified;
  ucp_config_release(Config);
  if (check(Status, "ucp_init"))
    return 1;
  ucp_worker_params_t Threads = {};
  Threads.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  Threads.thread_mode = UCS_THREAD_MODE_SINGLE;
  return check(ucp_worker_create(Context, &Threads, &Worker),
               "ucp_worker_create");
}

int makeCard(Card &Own) {
  Own = {};
  Own.Rank = Rank;
  Own.World = World;
  std::string Host = getHost();
  Host.copy(Own.Host, sizeof(Own.Host) - 1);
  ucp_address_t *Address;
  size_t Bytes;
  if (check(ucp_worker_get_address(Worker, &Address, &Bytes),
            "ucp_worker_get_address"))
    return 1;
  bool Fits = Bytes <= sizeof(Own.Address);
  if (Fits)
    std::memcpy(Own.Address, Address, Bytes);
  Own.AddressBytes = static_cast<uint32_t>(Bytes);
  ucp_worker_release_address(Worker, Address);
  return Fits ? 0
              : failed("this host's address has " + std::to_string(Bytes) +
                       " bytes; name fewer devices in UCX_NET_DEVICES");
}

int createEndpoint(int32_t Peer) {
  ucp_ep_params_t Parameters = {};
  Parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  Parameters.address =
      reinterpret_cast<const ucp_address_t *>(Cards[Peer].Address);
  return check(connect(Parameters, nullptr, Endpoints[Peer]), "ucp_ep_create");
}

int createEndpoints() {
  Endpoints.assign(World, nullptr);
  for (int32_t Peer = 0; Peer < World; ++Peer)
    if (Peer != Rank && createEndpoint(Peer))
      return 1;
  return 0;
}

/// Rank 0: waits for the cards of all, and sends them to all.
int collectCards(const addrinfo &Address) {
  std::vector<ucp_conn_request_h> Callers;
  ucp_listener_params_t Listening = {};
  Listening.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                         UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  Listening.sockaddr = {Address.ai_addr, Address.ai_addrlen};
  Listening.conn_handler.cb = [](ucp_conn_request_h Caller, void *List) {
    static_cast<std::vector<ucp_conn_request_h> *>(List)->push_back(Caller);
  };
  Listening.conn_handler.arg = &Callers;
  ucp_listener_h Listener;
  ucs_status_t Status = ucp_listener_create(Worker, &Listening, &Listener);
  if (Status != UCS_OK)
    return failed(std::string("rank 0 cannot listen at MASTER_ADDR=") +
                  std::getenv("MASTER_ADDR") +
                  ", MASTER_PORT=" + std::getenv("MASTER_PORT") + ": " +
                  ucs_status_string(Status));

  Clock::time_point End = after(kStartSeconds);
  std::vector<bool> Known(World);
  Known[0] = true;
  for (int32_t Missing = World - 1; Missing > 0 && Status == UCS_OK;) {
    Card Arrived;
    Status = finish(startReceive(&Arrived, sizeof(Card), CardTag), End, [&] {
      for (ucp_conn_request_h Caller : std::exchange(Callers, {})) {
        ucp_ep_params_t Parameters = {};
        Parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
        Parameters.conn_request = Caller;
        ucp_ep_h Endpoint;
        // One that is gone again will call again.
        if (connect(Parameters, nullptr, Endpoint) == UCS_OK)
          CardEndpoints.push_back(Endpoint);
      }
      return false;
    });
    if (Status == UCS_ERR_TIMED_OUT) {
      std::string Absent;
      for (int32_t Peer = 0; Peer < World; ++Peer)
        if (!Known[Peer])
          Absent += (Absent.empty() ? "" : ", ") + std::to_string(Peer);
      return failed("no word from rank " + Absent + " in " +
                    std::to_string(int(kStartSeconds)) + " s");
    }
    if (Status != UCS_OK)
      break;
    if (Arrived.World != World || Arrived.Rank < 1 || Arrived.Rank >= World ||
        Known[Arrived.Rank])
      return failed("rank " + std::to_string(Arrived.Rank) + " of " +
                    std::to_string(Arrived.World) + " called, which is " +
                    (Arrived.World == World ? "there already"
                                            : "of another job; this one has " +
                                                  std::to_string(World)) +
                    ": check RANK, WORLD_SIZE and MASTER_PORT");
    Known[Arrived.Rank] = true;
    Cards[Arrived.Rank] = Arrived;
    --Missing;
  }
  ucp_listener_destroy(Listener);
  if (check(Status, "ucp_tag_recv_nbx") || createEndpoints())
    return 1;
  std::vector<void *> Sends;
  for (int32_t Peer = 1; Peer < World; ++Peer)
    Sends.push_back(startSend(Endpoints[Peer], Cards.data(),
                              Cards.size() * sizeof(Card), CardsTag));
  for (void *Send : Sends)
    if (check(finish(Send, End), "ucp_tag_send_nbx"))
      return 1;
  return 0;
}

/// The others: call rank 0 until it answers.
int exchangeCards(const addrinfo &Address) {
  Clock::time_point End = after(kStartSeconds);
  void *Answer =
      startReceive(Cards.data(), Cards.size() * sizeof(Card), CardsTag);
  while (true) {
    bool Broken = false;
    ucp_ep_params_t Parameters = {};
    Parameters.field_mask =
        UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    Parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    Parameters.sockaddr = {Address.ai_addr, Address.ai_addrlen};
    ucp_ep_h Endpoint;
    ucs_status_t Status = connect(Parameters, &Broken, Endpoint);
    if (check(Status, "ucp_ep_create"))
      return 1;
    Status = finish(startSend(Endpoint, &Cards[Rank], sizeof(Card), CardTag),
                    End, [&] { return Broken; });
    if (Status == UCS_OK)
      progressUntil(End, [&] {
        Status = getStatus(Answer);
        return Status != UCS_INPROGRESS || Broken;
      });
    // The handler must not outlive its flag.
    closeEndpoint(Endpoint, Status == UCS_OK ? 0 : UCP_EP_CLOSE_FLAG_FORCE,
                  after(kEndSeconds));
    if (Status == UCS_OK)
      return createEndpoints();
    if (Clock::now() > End)
      return failed(std::string("rank 0 does not answer at MASTER_ADDR=") +
                    std::getenv("MASTER_ADDR") +
                    ", MASTER_PORT=" + std::getenv("MASTER_PORT") + " in " +
                    std::to_string(int(kStartSeconds)) + " s");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

int init(int32_t *OwnRank, int32_t *Size) {
  int32_t Port = 0;
  if (read("WORLD_SIZE", 1, 1 << 20, World) ||
      read("RANK", 0, World - 1, Rank) || startWorker())
    return 1;
  *OwnRank = Rank;
  *Size = World;
  Cards.assign(World, {});
  if (makeCard(Cards[Rank]) || World == 1)
    return World == 1 ? 0 : 1;
  if (read("MASTER_PORT", 1, 65535, Port))
    return 1;
  const char *Name = std::getenv("MASTER_ADDR");
  if (!Name)
    return failed("MASTER_ADDR is not set: the host of rank 0");
  addrinfo Hints = {}, *Found;
  Hints.ai_family = AF_INET;
  Hints.ai_socktype = SOCK_STREAM;
  if (int Code = getaddrinfo(Name, std::getenv("MASTER_PORT"), &Hints, &Found))
    return failed(std::string("MASTER_ADDR=") + Name + ": " +
                  gai_strerror(Code));
  int Failed = Rank == 0 ? collectCards(*Found) : exchangeCards(*Found);
  freeaddrinfo(Found);
  return Failed;
}

int getNodes(int32_t *Nodes) {
  for (int32_t R = 0; R < World; ++R)
    Nodes[R] = static_cast<int32_t>(
        std::find_if(Cards.begin(), Cards.end(),
                     [&](const Card &Other) {
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

/// Nobody leaves before all have arrived.
int waitForAll() {
  Clock::time_point End = after(kStartSeconds);
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
  Clock::time_point End = after(kEndSeconds);
  for (ucp_ep_h Endpoint : Endpoints)
    if (Endpoint)
      closeEndpoint(Endpoint, 0, End);
  for (ucp_ep_h Endpoint : CardEndpoints)
    closeEndpoint(Endpoint, UCP_EP_CLOSE_FLAG_FORCE, End);
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
                                             getNodes,
                                             reserve,
                                             send,
                                             receive,
                                             test,
                                             finalize,
                                             abortAll,
                                             getError};
  return &Table;
}
