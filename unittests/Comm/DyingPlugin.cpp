//===- DyingPlugin.cpp - A transport whose rank dies at the end -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plug-in that POPLAR_TEST_PLUGIN names, but for one rank's end:
//
//   POPLAR_TEST_DEATH="RANK SIGNAL before|after"
//
// RANK sends itself SIGNAL before it ends the library, while others wait for it
// there, or after it, before the others know that it has.
//
//===----------------------------------------------------------------------===//

#include "comm/TransportPlugin.h"

#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <sstream>
#include <string>
#include <unistd.h>

static const PoplarTransportTable *Real;
static int32_t OwnRank = -1;

static int init(double StartSeconds, int32_t *Rank, int32_t *Size) {
  int Code = Real->init(StartSeconds, Rank, Size);
  OwnRank = *Rank;
  return Code;
}

static int finalize() {
  std::istringstream Death(std::getenv("POPLAR_TEST_DEATH"));
  int Rank = -1, Signal = 0;
  std::string When;
  Death >> Rank >> Signal >> When;
  bool Dies = Rank == OwnRank;
  // Others are in the last barrier by then.
  if (Dies && When == "before") {
    usleep(100000);
    kill(getpid(), Signal);
  }
  int Code = Real->finalize();
  if (Dies && When == "after")
    kill(getpid(), Signal);
  return Code;
}

extern "C" __attribute__((visibility("default"))) const PoplarTransportTable *
poplar_transport_plugin() {
  static PoplarTransportTable Table;
  void *Library =
      dlopen(std::getenv("POPLAR_TEST_PLUGIN"), RTLD_NOW | RTLD_GLOBAL);
  auto Entry = Library ? reinterpret_cast<PoplarTransportEntry>(
                             dlsym(Library, POPLAR_TRANSPORT_ENTRY))
                       : nullptr;
  if (!Entry)
    return nullptr;
  Real = Entry();
  Table = *Real;
  Table.init = init;
  Table.finalize = finalize;
  return &Table;
}
