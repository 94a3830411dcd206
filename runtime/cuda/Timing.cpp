//===- Timing.cpp - How long each kernel of a GPU takes -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Timing.h"
#include "support/CommandName.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

/// Pairs of events that are in use before the host waits for them.
static constexpr size_t MostPairs = 4096;

static const char *getPath() { return std::getenv("POPLAR_CUDA_TIMES"); }

bool Timing::isWanted() { return getPath() && *getPath(); }

Timing::Timing(Stream Queue) : Queue(Queue), Path(getPath()) {}

Timing::~Timing() {
  try {
    collect();
  } catch (const std::exception &) {
    // The error that ends the job is told elsewhere: what is known is written.
  }
  for (const Pair &P : Pairs) {
    Driver::get().cuEventDestroy_v2(P.Begin);
    Driver::get().cuEventDestroy_v2(P.End);
  }
  std::ofstream Out(Path);
  // Sums of bytes are whole numbers of many digits.
  Out.precision(15);
  Out << "what,calls,microseconds,flops,bytes\n";
  for (const auto &[What, E] : Table)
    Out << What << ',' << E.Calls - 1 << ',' << E.Microseconds << ','
        << E.Total.Flops << ',' << E.Total.Bytes << '\n';
  Out.flush();
  if (!Out)
    std::fprintf(stderr, "%s: error: cannot write '%s'\n", CommandName,
                 Path.c_str());
}

void Timing::begin() {
  if (Used == MostPairs)
    collect();
  if (Used == Pairs.size()) {
    Pair P;
    check(Driver::get().cuEventCreate(&P.Begin, 0), "create an event");
    check(Driver::get().cuEventCreate(&P.End, 0), "create an event");
    Pairs.push_back(P);
  }
  check(Driver::get().cuEventRecord(Pairs[Used].Begin, Queue),
        "record an event");
}

void Timing::end(const std::string &What, Cost Each) {
  Pair &P = Pairs[Used++];
  check(Driver::get().cuEventRecord(P.End, Queue), "record an event");
  P.What = What;
  P.Each = Each;
}

void Timing::collect() {
  for (size_t I = 0; I < Used; ++I) {
    const Pair &P = Pairs[I];
    float Milliseconds = 0;
    check(Driver::get().cuEventSynchronize(P.End), "wait for a kernel");
    check(Driver::get().cuEventElapsedTime(&Milliseconds, P.Begin, P.End),
          "measure a kernel");
    Entry &E = Table[P.What];
    if (E.Calls++ == 0)
      continue;
    E.Microseconds += 1000.0 * static_cast<double>(Milliseconds);
    E.Total.Flops += P.Each.Flops;
    E.Total.Bytes += P.Each.Bytes;
  }
  Used = 0;
}
