//===- Trace.cpp - What a rank did when -----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Trace.h"
#include "comm/Communicator.h"
#include "support/Error.h"
#include "support/JSON.h"

#include <cstdio>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

Trace::Trace(size_t Capacity) : Capacity(Capacity) {
  for (Events &E : Lanes)
    E.Kept.reserve(Capacity);
}

void Trace::record(Lane L, const char *Name, Clock::time_point Begin,
                   Clock::time_point End, int64_t Number, int64_t Bytes) {
  Events &E = Lanes[L];
  if (E.Kept.size() < Capacity)
    E.Kept.push_back({Name, Begin, End, Number, Bytes});
  else
    ++E.Dropped;
}

std::string Trace::toJSON(int Rank, const std::string &Name) const {
  // Ranks on several hosts share no steady clock, so that times are of the
  // calendar.
  auto Offset = std::chrono::system_clock::now().time_since_epoch() -
                Clock::now().time_since_epoch();
  auto ToMicroseconds = [](auto Duration) {
    return std::chrono::duration<double, std::micro>(Duration).count();
  };
  char Buffer[256];
  std::string Result;
  auto Describe = [&](const char *What, int Lane, const std::string &Value) {
    std::snprintf(Buffer, sizeof Buffer,
                  "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,", What,
                  Rank, Lane);
    Result += (Result.empty() ? "" : ",\n") + std::string(Buffer) +
              "\"args\":{\"name\":" + json::quote(Value) + "}}";
  };
  Describe("process_name", 0, "rank " + std::to_string(Rank) + " " + Name);
  const char *Names[] = {"compute", "communication", "device", "steps"};
  for (int Lane : {Compute, Communication, Device, Steps}) {
    const Events &E = Lanes[Lane];
    if (Lane >= Device && E.Kept.empty())
      continue;
    Describe("thread_name", Lane,
             std::string(Names[Lane]) +
                 (E.Dropped ? " (" + std::to_string(E.Dropped) +
                                  " events did not fit)"
                            : ""));
    for (const Event &X : E.Kept) {
      std::snprintf(Buffer, sizeof Buffer,
                    ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,"
                    "\"ts\":%.3f,\"dur\":%.3f,\"args\":{",
                    X.Name, Rank, Lane,
                    ToMicroseconds(X.Begin.time_since_epoch() + Offset),
                    ToMicroseconds(X.End - X.Begin));
      Result += Buffer;
      if (X.Number >= 0)
        Result += "\"number\":" + std::to_string(X.Number);
      if (X.Bytes >= 0)
        Result += std::string(X.Number >= 0 ? "," : "") +
                  "\"bytes\":" + std::to_string(X.Bytes);
      Result += "}}";
    }
  }
  return Result;
}

void Trace::write(Communicator &C, const std::string &Path,
                  const std::string &Name) const {
  std::vector<std::string> Parts = C.gatherStrings(toJSON(C.rank(), Name), 0);
  int64_t Failed = 0;
  if (C.rank() == 0) {
    std::FILE *File = std::fopen(Path.c_str(), "w");
    Failed = !File;
    if (File) {
      std::fputs("{\"traceEvents\":[\n", File);
      for (size_t I = 0; I < Parts.size(); ++I)
        std::fprintf(File, "%s%s", I ? ",\n" : "", Parts[I].c_str());
      std::fputs("\n]}\n", File);
      Failed = std::ferror(File);
      Failed |= std::fclose(File);
    }
  }
  C.allReduceMax(&Failed, 1);
  if (Failed)
    fail("cannot write the trace to ", Path);
}
