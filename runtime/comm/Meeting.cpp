//===- Meeting.cpp - Where ranks without MPI meet -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Meeting.h"
#include "support/Error.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sodium.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

/// A shorter secret could be guessed; a longer file is none.
static constexpr size_t LeastSecret = 16, MostSecret = 4096;
/// Under torchrun's agent: how many ports are tried, and from where on. They
/// are below those that Linux gives to outgoing connections.
static constexpr int NumPorts = 8;
static constexpr uint32_t FirstPort = 20000, PortRange = 12000;

static std::string getVariable(const char *Name) {
  const char *Text = std::getenv(Name);
  return Text ? Text : "";
}

static int32_t readNumber(const char *Name, int32_t Least, int32_t Most) {
  const char *Text = std::getenv(Name);
  if (!Text)
    fail(Name, " is not set; a job needs RANK, WORLD_SIZE, MASTER_ADDR, "
               "MASTER_PORT");
  int32_t Value = 0;
  const char *End = Text + std::strlen(Text);
  auto [Stop, Code] = std::from_chars(Text, End, Value);
  if (Code != std::errc() || Stop != End || Value < Least || Value > Most)
    fail(Name, "=", Text, ": expected a number from ", Least, " to ", Most);
  return Value;
}

static Digest hash(const std::string &Text) {
  Digest Result;
  crypto_hash_sha256(Result.data(),
                     reinterpret_cast<const unsigned char *>(Text.data()),
                     Text.size());
  return Result;
}

/// The bytes of a file that nobody but its owner can read.
static std::string readSecretFile(const std::string &Path) {
  auto Refuse = [&](const std::string &Why) {
    fail("POPLAR_SECRET_FILE=", Path, ": ", Why);
  };
  int File = open(Path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (File < 0)
    Refuse(std::strerror(errno));
  struct stat Facts;
  std::string Text(MostSecret + 1, 0);
  bool IsKnown = fstat(File, &Facts) == 0;
  ssize_t Bytes = IsKnown && S_ISREG(Facts.st_mode)
                      ? read(File, Text.data(), Text.size())
                      : -1;
  close(File);
  if (!IsKnown || !S_ISREG(Facts.st_mode))
    Refuse("not a regular file");
  if (Facts.st_uid != geteuid() && Facts.st_uid != 0)
    Refuse("belongs to another user");
  if (Facts.st_mode & (S_IRWXG | S_IRWXO))
    Refuse("other users may read or write it; run chmod 600 on it");
  if (Bytes < 0 || static_cast<size_t>(Bytes) > MostSecret)
    Refuse("cannot be read, or has more than 4096 bytes");
  Text.resize(static_cast<size_t>(Bytes));
  Text.erase(Text.find_last_not_of(" \t\r\n") + 1);
  return Text;
}

static std::string readSecret(const Meeting &M) {
  std::string Own = getVariable("POPLAR_SECRET");
  std::string File = getVariable("POPLAR_SECRET_FILE");
  if (!Own.empty() && !File.empty())
    fail("POPLAR_SECRET and POPLAR_SECRET_FILE are both set; set one");
  if (Own == "none")
    return "";
  bool IsLoopback = ntohl(M.Address.s_addr) >> 24 == IN_LOOPBACKNET;
  if (Own.empty() && File.empty()) {
    if (IsLoopback)
      return "";
    fail("ranks meet at ", formatAddress(M.Address),
         ", which other hosts can reach, and have no secret by which they know "
         "each other. Give all ranks the same POPLAR_SECRET (such as the "
         "output of `openssl rand -hex 32`), or a POPLAR_SECRET_FILE that "
         "holds it; POPLAR_SECRET=none trusts everybody on the network");
  }
  std::string Secret = File.empty() ? Own : readSecretFile(File);
  if (Secret.size() < LeastSecret)
    fail(File.empty() ? "POPLAR_SECRET" : "POPLAR_SECRET_FILE", " holds ",
         Secret.size(), " characters; a secret has at least ", LeastSecret,
         ", such as the output of `openssl rand -hex 32`");
  return Secret;
}

/// torchrun's agent listens at MASTER_PORT for as long as the job runs, and all
/// ranks know the same run, from which they derive where they meet instead.
static void choosePorts(Meeting &M, int32_t MasterPort) {
  std::string Id = getVariable("POPLAR_JOB_ID");
  std::string Run = "torchrun " + getVariable("TORCHELASTIC_RUN_ID") + " " +
                    getVariable("TORCHELASTIC_RESTART_COUNT") + " " +
                    std::to_string(MasterPort);
  bool IsHeld = getVariable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  M.Job = hash(!Id.empty() ? "job " + Id : IsHeld ? Run : "");
  if (std::getenv("POPLAR_MASTER_PORT")) {
    MasterPort = readNumber("POPLAR_MASTER_PORT", 1, 65535);
    IsHeld = false;
  }
  if (!IsHeld) {
    M.Ports = {static_cast<uint16_t>(MasterPort)};
    return;
  }
  for (int I = 0; static_cast<int>(M.Ports.size()) < NumPorts; ++I) {
    Digest D = hash(Run + " " + std::to_string(I));
    uint32_t Number = D[0] | D[1] << 8 | D[2] << 16;
    auto Port = static_cast<uint16_t>(FirstPort + Number % PortRange);
    if (Port != MasterPort &&
        std::find(M.Ports.begin(), M.Ports.end(), Port) == M.Ports.end())
      M.Ports.push_back(Port);
  }
}

std::string comm::formatAddress(in_addr Address) {
  char Text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &Address, Text, sizeof Text);
  return Text;
}

std::string Meeting::getPlace() const {
  std::string Result = "MASTER_ADDR=" + Host;
  if (Host != formatAddress(Address))
    Result += " (" + formatAddress(Address) + ")";
  Result += Ports.size() == 1 ? ", port " : ", ports ";
  for (uint16_t Port : Ports)
    Result += (Port == Ports[0] ? "" : ", ") + std::to_string(Port);
  return Result;
}

static in_addr findAddress(const std::string &Host) {
  // What torchrun calls a host may be reached by others, or mean nothing; ranks
  // of one host meet where nobody else comes.
  in_addr Address = {htonl(INADDR_LOOPBACK)};
  if (std::getenv("TORCHELASTIC_RUN_ID") &&
      getVariable("LOCAL_WORLD_SIZE") == getVariable("WORLD_SIZE"))
    return Address;
  addrinfo Hints = {}, *Found;
  Hints.ai_family = AF_INET;
  Hints.ai_socktype = SOCK_STREAM;
  int Code = getaddrinfo(Host.c_str(), nullptr, &Hints, &Found);
  Hints.ai_family = AF_INET6;
  if (Code && getaddrinfo(Host.c_str(), nullptr, &Hints, &Found) == 0) {
    freeaddrinfo(Found);
    fail("MASTER_ADDR=", Host,
         " has an IPv6 address alone, and ranks meet by "
         "IPv4; give an IPv4 address of rank 0's host, such as one of a "
         "WireGuard network, or start the job by mpirun");
  }
  if (Code)
    fail("MASTER_ADDR=", Host, ": ", gai_strerror(Code));
  Address = reinterpret_cast<sockaddr_in *>(Found->ai_addr)->sin_addr;
  freeaddrinfo(Found);
  return Address;
}

Meeting comm::readMeeting(double StartSeconds) {
  if (sodium_init() < 0)
    fail("libsodium does not start: no source of random numbers");
  Meeting M;
  M.StartSeconds = StartSeconds;
  M.World = readNumber("WORLD_SIZE", 1, 1 << 20);
  M.Rank = readNumber("RANK", 0, M.World - 1);
  if (M.World == 1)
    return M;
  choosePorts(M, readNumber("MASTER_PORT", 1, 65535));
  M.Host = getVariable("MASTER_ADDR");
  if (M.Host.empty())
    fail("MASTER_ADDR is not set: the host of rank 0");
  M.Address = findAddress(M.Host);
  M.Secret = readSecret(M);
  return M;
}

/// This host's end of a connection to `Address`, or the error.
static int findRoute(in_addr Address, in_addr &Local) {
  // Sends nothing: this only asks for the route.
  int Socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in Place = {};
  Place.sin_family = AF_INET;
  Place.sin_addr = Address;
  Place.sin_port = htons(9);
  socklen_t Length = sizeof Place;
  auto *Generic = reinterpret_cast<sockaddr *>(&Place);
  bool Found = Socket >= 0 && connect(Socket, Generic, Length) == 0 &&
               getsockname(Socket, Generic, &Length) == 0;
  int Code = errno;
  if (Socket >= 0)
    close(Socket);
  Local = Place.sin_addr;
  return Found ? 0 : Code;
}

/// The device that has an address, and whether it is up and has a link: else no
/// transport takes it.
static std::string findDevice(in_addr Local, bool &Runs) {
  std::string Name;
  ifaddrs *First = nullptr;
  Runs = false;
  if (getifaddrs(&First) != 0)
    return Name;
  for (ifaddrs *A = First; A; A = A->ifa_next) {
    auto *In = reinterpret_cast<const sockaddr_in *>(A->ifa_addr);
    if (!In || In->sin_family != AF_INET)
      continue;
    // The whole of 127.0.0.0/8 is the loopback's.
    bool BothLoop = (A->ifa_flags & IFF_LOOPBACK) &&
                    ntohl(Local.s_addr) >> 24 == IN_LOOPBACKNET;
    if (In->sin_addr.s_addr == Local.s_addr || BothLoop) {
      Name = A->ifa_name;
      Runs = (A->ifa_flags & IFF_UP) && (A->ifa_flags & IFF_RUNNING);
    }
  }
  freeifaddrs(First);
  return Name;
}

std::string comm::findInterface(in_addr Address, in_addr &Local) {
  constexpr auto Most = std::chrono::seconds(6);
  auto End = std::chrono::steady_clock::now() + Most;
  while (true) {
    bool Runs = false;
    int Code = findRoute(Address, Local);
    std::string Name = Code ? "" : findDevice(Local, Runs);
    if (Runs || (!Code && Name.empty()))
      return Name;
    if (std::chrono::steady_clock::now() > End) {
      std::string Seconds = " for " + std::to_string(Most.count()) + " s";
      if (Code)
        fail("this host has no route to MASTER_ADDR, ", formatAddress(Address),
             Seconds, ": ", std::strerror(Code));
      fail("network device ", Name,
           ", by which this host reaches MASTER_ADDR, ", formatAddress(Address),
           ", is down or has no link", Seconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}
