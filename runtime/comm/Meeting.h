//===- Meeting.h - Where ranks without MPI meet -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the environment says, in torchrun's words: RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT, and the secret that the ranks of a job share.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_MEETING_H
#define POPLAR_RUNTIME_COMM_MEETING_H

#include <array>
#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <vector>

namespace poplar::runtime::comm {

using Digest = std::array<unsigned char, 32>;

struct Meeting {
  int32_t Rank = 0, World = 1;
  /// Where rank 0 listens, and as it was written.
  in_addr Address = {};
  std::string Host;
  /// Rank 0 takes the first one that is free; the others try them in order.
  /// There is one, unless torchrun's agent listens at MASTER_PORT.
  std::vector<uint16_t> Ports;
  /// Names the job, so that ranks of two jobs do not take each other for their
  /// own: a hash of POPLAR_JOB_ID, or of what torchrun calls its run.
  Digest Job = {};
  /// Empty where POPLAR_SECRET=none, or on the loopback without a secret.
  std::string Secret;
  /// How long rank 0 waits for a rank to call, and the others for rank 0.
  double StartSeconds = 60;

  /// `MASTER_ADDR=a, MASTER_PORT=29500`, for messages.
  std::string getPlace() const;
};

/// Reads the environment; throws an Error. A job of one rank has no place.
Meeting readMeeting(double StartSeconds);

/// The device with this host's end of a connection to `Address`, such as
/// `eth0`, and in `Local` its address. A network may just be coming up: throws
/// an Error if there is no route for some seconds, or the device stays down.
std::string findInterface(in_addr Address, in_addr &Local);

/// `10.0.0.1`
std::string formatAddress(in_addr Address);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_MEETING_H
