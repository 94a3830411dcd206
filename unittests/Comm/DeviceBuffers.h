//===- DeviceBuffers.h - Collectives of a device, for the suite -*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_COMM_DEVICEBUFFERS_H
#define POPLAR_UNITTESTS_COMM_DEVICEBUFFERS_H

#include "comm/Communicator.h"

#include <memory>

/// The suite's buffers are the host's. What `Inner` is to do with a device's
/// memory gets copies there, which overlap as the originals do, and which are
/// still on their way when it is called.
std::unique_ptr<poplar::runtime::comm::Communicator>
onDevice(std::unique_ptr<poplar::runtime::comm::Communicator> Inner, int GPU);

#endif // POPLAR_UNITTESTS_COMM_DEVICEBUFFERS_H
