//===- EventFile.cpp - The record of a run for TensorBoard ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/EventFile.h"
#include "comm/Host.h"
#include "support/Error.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <unistd.h>

using namespace poplar::runtime;

namespace {

/// The values of a row, by the names that transformers' trainer gives them.
struct Scalar {
  double Metrics::*Member;
  const char *Tag;
};

/// A message of Protocol Buffers as it grows.
class Message {
public:
  void addInteger(int Field, int64_t Value) {
    addVarint(uint64_t(Field) << 3 | 0);
    addVarint(static_cast<uint64_t>(Value));
  }
  void addDouble(int Field, double Value) {
    addVarint(uint64_t(Field) << 3 | 1);
    addBytes(&Value, sizeof(Value));
  }
  void addFloat(int Field, float Value) {
    addVarint(uint64_t(Field) << 3 | 5);
    addBytes(&Value, sizeof(Value));
  }
  /// Text, or a message inside this one.
  void add(int Field, const std::string &Value) {
    addVarint(uint64_t(Field) << 3 | 2);
    addVarint(Value.size());
    Data += Value;
  }
  const std::string &str() const { return Data; }

private:
  void addVarint(uint64_t Value) {
    for (; Value >= 0x80; Value >>= 7)
      Data += static_cast<char>(Value | 0x80);
    Data += static_cast<char>(Value);
  }
  /// Both formats are little-endian, as all processors are that this runs on.
  void addBytes(const void *Value, size_t Size) {
    Data.append(static_cast<const char *>(Value), Size);
  }

  std::string Data;
};

/// Fields of tensorflow/core/util/event.proto and summary.proto.
enum EventField {
  WallTime = 1,
  Step = 2,
  FileVersion = 3,
  Summary = 5,
  SessionLog = 7
};
enum SummaryField { SummaryValue = 1 };
enum ValueField { Tag = 1, SimpleValue = 2 };
enum SessionField { Status = 1 };
constexpr int64_t SessionStart = 1;

} // namespace

static constexpr Scalar Values[] = {
    {&Metrics::Loss, "train/loss"},
    {&Metrics::ValLoss, "eval/loss"},
    {&Metrics::Rate, "train/learning_rate"},
    {&Metrics::GradientNorm, "train/grad_norm"},
    {&Metrics::TokensPerSecond, "train/tokens_per_second"},
    {&Metrics::Epochs, "train/epoch"},
    {&Metrics::Margin, "train/rewards/margins"},
    {&Metrics::Accuracy, "train/rewards/accuracies"}};

static double getWallTime() {
  std::chrono::duration<double> Since =
      std::chrono::system_clock::now().time_since_epoch();
  return Since.count();
}

uint32_t poplar::runtime::getCRC32C(const std::string &Data) {
  static const std::array<uint32_t, 256> Table = [] {
    std::array<uint32_t, 256> Made;
    for (uint32_t Byte = 0; Byte < 256; ++Byte) {
      Made[Byte] = Byte;
      for (int Bit = 0; Bit < 8; ++Bit)
        Made[Byte] = Made[Byte] >> 1 ^ (Made[Byte] & 1 ? 0x82f63b78u : 0);
    }
    return Made;
  }();
  uint32_t Sum = ~0u;
  for (char Byte : Data)
    Sum = Sum >> 8 ^ Table[(Sum ^ static_cast<unsigned char>(Byte)) & 0xff];
  return ~Sum;
}

/// The sum of data that holds checksums itself is of no use unless it is
/// changed.
static std::string maskedSum(const std::string &Data) {
  uint32_t Sum = getCRC32C(Data);
  Sum = (Sum >> 15 | Sum << 17) + 0xa282ead8u;
  return std::string(reinterpret_cast<const char *>(&Sum), sizeof(Sum));
}

EventFile::EventFile(const std::string &Run, int64_t Resumed) {
  std::string Host = comm::getHostName();
  if (Host.empty())
    Host = "host";
  char Name[320];
  double Now = getWallTime();
  // By their names, files are in the order of time.
  std::snprintf(Name, sizeof(Name), "/events.out.tfevents.%010lld.%s.%lld",
                static_cast<long long>(Now), Host.c_str(),
                static_cast<long long>(getpid()));
  // Neither a file that is there nor a link is written. A process that resumes
  // within a second has written one.
  for (int Number = 0;
       !File && (Number == 0 || errno == EEXIST) && Number < 100; ++Number) {
    Path = Run + Name + (Number ? "." + std::to_string(Number) : "");
    File = std::fopen(Path.c_str(), "wx");
  }
  if (!File)
    fail("cannot open '", Path, "': ", std::strerror(errno));
  Message Version, Start, Session;
  Version.addDouble(WallTime, Now);
  Version.add(FileVersion, "brain.Event:2");
  write(Version.str());
  Session.addInteger(Status, SessionStart);
  Start.addDouble(WallTime, Now);
  Start.addInteger(Step, Resumed + 1);
  Start.add(SessionLog, Session.str());
  write(Start.str());
}

EventFile::~EventFile() {
  if (File)
    std::fclose(File);
}

void EventFile::write(const std::string &Event) {
  uint64_t Length = Event.size();
  std::string Head(reinterpret_cast<const char *>(&Length), sizeof(Length));
  std::string Record = Head + maskedSum(Head) + Event + maskedSum(Event);
  if (std::fwrite(Record.data(), 1, Record.size(), File) != Record.size())
    fail("cannot write '", Path, "': ", std::strerror(errno));
}

void EventFile::add(const Metrics &Row) {
  Message All, Event;
  for (const Scalar &V : Values) {
    if (std::isnan(Row.*V.Member))
      continue;
    Message One;
    One.add(Tag, V.Tag);
    One.addFloat(SimpleValue, static_cast<float>(Row.*V.Member));
    All.add(SummaryValue, One.str());
  }
  Event.addDouble(WallTime, getWallTime());
  Event.addInteger(Step, Row.Step);
  Event.add(Summary, All.str());
  write(Event.str());
}

void EventFile::flush() {
  if (std::fflush(File) != 0)
    fail("cannot write '", Path, "': ", std::strerror(errno));
}
