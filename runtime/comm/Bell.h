//===- Bell.h - Wakes a thread that sleeps on descriptors -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_RUNTIME_COMM_BELL_H
#define POPLAR_RUNTIME_COMM_BELL_H

#include "support/Error.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace poplar::runtime::comm {

/// A descriptor that can be read from when another thread rings until the one
/// that sleeps on it silences it.
class Bell {
public:
  Bell() : Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (Descriptor < 0)
      fail("no file descriptor is left for the communication thread");
  }
  ~Bell() { ::close(Descriptor); }
  Bell(const Bell &) = delete;
  Bell &operator=(const Bell &) = delete;

  int getDescriptor() const { return Descriptor; }
  void ring() const { eventfd_write(Descriptor, 1); }
  void silence() const {
    eventfd_t Rings;
    eventfd_read(Descriptor, &Rings);
  }

private:
  int Descriptor;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_BELL_H
