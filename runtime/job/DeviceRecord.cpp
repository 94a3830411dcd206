//===- DeviceRecord.cpp - What the devices of a run do --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/DeviceRecord.h"
#include "comm/Host.h"
#include "program/ModelInfo.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

using namespace poplar::runtime;

static constexpr const char *Columns =
    "step,rank,device,host,seconds,waiting,communicating,memory\n";
/// Bytes of a name that ranks tell each other; what is longer is cut.
static constexpr size_t NameBytes = 64;
/// Values of a rank in a row.
static constexpr size_t NumValues = 3;

namespace {

/// What a rank tells the others at the beginning.
struct Introduction {
  char Device[NameBytes] = {}, Host[NameBytes] = {};
  int64_t Bytes = 0;
};
static_assert(sizeof(Introduction) % sizeof(int64_t) == 0);

} // namespace

/// A name in a cell: what would end it is left out.
static void copyName(const std::string &Name, char (&To)[NameBytes]) {
  size_t Length = 0;
  for (char C : Name)
    if (C != ',' && C != '\n' && C != '"' && Length + 1 < NameBytes)
      To[Length++] = C;
}

DeviceRecord::DeviceRecord(Collectives *Group, const PoplarProgram &Program,
                           int64_t Bytes)
    : Group(Group), Ranks(static_cast<size_t>(Group ? Program.world_size : 1)),
      Values(Ranks.size() * NumValues) {
  std::vector<Introduction> All(Ranks.size());
  Introduction &Own = All[static_cast<size_t>(Group ? Group->rank() : 0)];
  copyName(Group && Program.ranks ? Program.ranks[Group->rank()].device_type
                                  : ModelInfo(Program).DeviceType,
           Own.Device);
  copyName(comm::getHostName(), Own.Host);
  Own.Bytes = Bytes;
  // Each rank adds to zeros.
  if (Group)
    Group->sum(reinterpret_cast<int64_t *>(All.data()),
               static_cast<int64_t>(All.size() * sizeof(Introduction) /
                                    sizeof(int64_t)));
  for (size_t I = 0; I < Ranks.size(); ++I)
    Ranks[I] = {All[I].Device, All[I].Host, All[I].Bytes};
}

DeviceRecord::~DeviceRecord() {
  if (File)
    std::fclose(File);
}

void DeviceRecord::open(const std::string &Run, int64_t Resumed) {
  Path = Run + "/devices.csv";
  std::error_code Code;
  std::string Text = Columns;
  if (Resumed > 0 && std::filesystem::exists(Path, Code)) {
    MappedFile Old(Path);
    std::string_view Rest = Old.text();
    for (size_t End; (End = Rest.find('\n')) != Rest.npos;
         Rest.remove_prefix(End + 1)) {
      std::string_view Line = Rest.substr(0, End + 1);
      int64_t Step = 0;
      auto [Stop, Error] =
          std::from_chars(Line.data(), Line.data() + End, Step);
      if (Error == std::errc() && *Stop == ',' && Step <= Resumed)
        Text += Line;
    }
  }
  writeFileAtomically(Path, Text);
  File = std::fopen(Path.c_str(), "a");
  if (!File)
    fail("cannot open '", Path, "': ", std::strerror(errno));
}

void DeviceRecord::beginStep() {
  if (Group)
    Before = Group->getTimes();
}

void DeviceRecord::endStep(double Taken) {
  Seconds += Taken;
  if (!Group)
    return;
  Collectives::Times Now = Group->getTimes();
  Sums.Waiting += Now.Waiting - Before.Waiting;
  Sums.Communicating += Now.Communicating - Before.Communicating;
}

void DeviceRecord::write(int64_t Step) {
  std::fill(Values.begin(), Values.end(), 0.0);
  double *Own = Values.data() +
                static_cast<size_t>(Group ? Group->rank() : 0) * NumValues;
  Own[0] = Seconds;
  Own[1] = Sums.Waiting;
  Own[2] = Sums.Communicating;
  Seconds = 0;
  Sums = {};
  if (Group)
    Group->sum(Values.data(), static_cast<int64_t>(Values.size()));
  if (!File)
    return;
  bool Failed = false;
  for (size_t I = 0; I < Ranks.size(); ++I) {
    const double *V = Values.data() + I * NumValues;
    Failed |=
        std::fprintf(File, "%lld,%zu,%s,%s,%.6f,%.6f,%.6f,%lld\n",
                     static_cast<long long>(Step), I, Ranks[I].Device.c_str(),
                     Ranks[I].Host.c_str(), V[0], V[1], V[2],
                     static_cast<long long>(Ranks[I].Bytes)) < 0;
  }
  if (Failed || std::fflush(File) != 0)
    fail("cannot write '", Path, "': ", std::strerror(errno));
}
