//===- LauncherGuard.cpp - Keeps mpirun of one host off the network -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// launch.sh preloads this library into mpirun where all ranks are on one host.
// Open MPI 4 listens for its daemons on other hosts at all addresses, whatever
// oob_tcp_if_include says, and stops working when a stranger connects and says
// nothing: it waits for the rest. On one host there are no daemons. Here, what
// mpirun binds to all addresses is bound to the loopback, and the kernel drops
// all that arrives there.
//
// Ranks are not concerned: the library takes itself out of their environment.
// The port of PMIx, at which they call mpirun, is on the loopback as it is. A
// stranger who calls there reaches mpirun only with something to say, and with
// less than a rank's greeting finds the connection closed.
//
//===----------------------------------------------------------------------===//

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace {

/// Whether this process is mpirun, and not a shell that will start it.
bool findLauncher() {
  char Path[4096];
  ssize_t Length = readlink("/proc/self/exe", Path, sizeof Path);
  std::string Name(Path, Length > 0 ? static_cast<size_t>(Length) : 0);
  Name.erase(0, Name.rfind('/') + 1);
  return Name == "orterun" || Name == "prterun" || Name == "mpirun" ||
         Name == "mpiexec";
}

bool isLauncher() {
  static const bool Result = findLauncher();
  return Result;
}

/// Processes that mpirun starts are not guarded.
__attribute__((constructor)) void forgetPreload() {
  if (!isLauncher())
    return;
  const char *Others = std::getenv("POPLAR_OTHER_PRELOAD");
  if (Others && *Others)
    setenv("LD_PRELOAD", Others, 1);
  else
    unsetenv("LD_PRELOAD");
}

void dropArrivals(int Socket) {
  sock_filter Nothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  sock_fprog Program = {1, Nothing};
  setsockopt(Socket, SOL_SOCKET, SO_ATTACH_FILTER, &Program, sizeof Program);
}

/// Whether a caller has said as much as a rank does in one message.
bool hasGreeted(int Socket) {
  constexpr ssize_t Least = 32; // more than the header of PMIx's
  char Greeting[Least];
  for (int Turn = 0; Turn < 10; ++Turn) {
    if (recv(Socket, Greeting, Least, MSG_PEEK | MSG_DONTWAIT) >= Least)
      return true;
    poll(nullptr, 0, 2); // of a message in pieces, the next one
  }
  return false;
}

/// A connection whose other end is closed.
int makeClosed() {
  int Ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, Ends) != 0)
    return -1;
  close(Ends[1]);
  return Ends[0];
}

} // namespace

extern "C" __attribute__((visibility("default"))) int listen(int Socket,
                                                             int Backlog) {
  using Listen = int (*)(int, int);
  static const Listen Real =
      reinterpret_cast<Listen>(dlsym(RTLD_NEXT, "listen"));
  // The kernel keeps silent callers. This has no effect on sockets other than
  // those of TCP.
  int Seconds = 60;
  if (isLauncher())
    setsockopt(Socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, &Seconds, sizeof Seconds);
  return Real(Socket, Backlog);
}

extern "C" __attribute__((visibility("default"))) int
accept(int Socket, sockaddr *Address, socklen_t *Length) {
  using Accept = int (*)(int, sockaddr *, socklen_t *);
  static const Accept Real =
      reinterpret_cast<Accept>(dlsym(RTLD_NEXT, "accept"));
  int Caller = Real(Socket, Address, Length);
  int Domain = AF_UNSPEC;
  socklen_t Size = sizeof Domain;
  if (Caller < 0 || !isLauncher() ||
      getsockopt(Caller, SOL_SOCKET, SO_DOMAIN, &Domain, &Size) != 0 ||
      Domain == AF_UNIX || hasGreeted(Caller))
    return Caller;
  close(Caller);
  return makeClosed();
}

extern "C" __attribute__((visibility("default"))) int
bind(int Socket, const sockaddr *Address, socklen_t Length) {
  using Bind = int (*)(int, const sockaddr *, socklen_t);
  static const Bind Real = reinterpret_cast<Bind>(dlsym(RTLD_NEXT, "bind"));
  if (!Address || !isLauncher())
    return Real(Socket, Address, Length);
  if (Address->sa_family == AF_INET && Length >= sizeof(sockaddr_in)) {
    sockaddr_in Place;
    std::memcpy(&Place, Address, sizeof Place);
    if (Place.sin_addr.s_addr != htonl(INADDR_ANY))
      return Real(Socket, Address, Length);
    Place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    dropArrivals(Socket);
    return Real(Socket, reinterpret_cast<sockaddr *>(&Place), sizeof Place);
  }
  if (Address->sa_family == AF_INET6 && Length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 Place;
    std::memcpy(&Place, Address, sizeof Place);
    if (!IN6_IS_ADDR_UNSPECIFIED(&Place.sin6_addr))
      return Real(Socket, Address, Length);
    // Not ::1, which a host without IPv6 does not have.
    Place.sin6_addr = in6addr_any;
    Place.sin6_addr.s6_addr[10] = Place.sin6_addr.s6_addr[11] = 0xff;
    Place.sin6_addr.s6_addr[12] = 127;
    Place.sin6_addr.s6_addr[15] = 1;
    dropArrivals(Socket);
    return Real(Socket, reinterpret_cast<sockaddr *>(&Place), sizeof Place);
  }
  return Real(Socket, Address, Length);
}
