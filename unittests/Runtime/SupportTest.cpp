//===- SupportTest.cpp - Random numbers, schedules, JSON, tensor files ----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "checkpoint/Checkpoint.h"
#include "checkpoint/Safetensors.h"
#include "job/Metrics.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/JSON.h"
#include "support/Random.h"
#include "training/Schedule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

using namespace poplar::runtime;

namespace {

TEST(Random, PermutationIsOne) {
  for (uint64_t Size : {1, 2, 3, 7, 64, 1000, 4097}) {
    Permutation P(Size, 99);
    std::vector<bool> Seen(Size);
    for (uint64_t I = 0; I < Size; ++I) {
      uint64_t To = P(I);
      ASSERT_LT(To, Size);
      ASSERT_FALSE(Seen[To]);
      Seen[To] = true;
    }
  }
}

/// Elements [First, First + Count).
static std::vector<float> getNormals(uint64_t Key, int64_t First,
                                     int64_t Count) {
  std::vector<float> Values(static_cast<size_t>(Count));
  fillNormals(Values.data(), First, Count, Key, 1);
  return Values;
}

TEST(Random, Normal) {
  constexpr int64_t Count = 1 << 22;
  std::vector<float> Values = getNormals(5, 0, Count);
  double Moments[5] = {}, Neighbours = 0;
  int64_t Beyond[5] = {};
  for (size_t I = 0; I < Values.size(); ++I) {
    double Power = 1;
    for (int M = 1; M <= 4; ++M)
      Moments[M] += (Power *= Values[I]) / Count;
    for (int Sigmas = 1; Sigmas <= 4; ++Sigmas)
      Beyond[Sigmas] += std::abs(Values[I]) > Sigmas;
    Neighbours += Values[I] * Values[I ^ 1] / Count;
  }
  EXPECT_NEAR(Moments[1], 0, 0.002);
  EXPECT_NEAR(Moments[2], 1, 0.003);
  EXPECT_NEAR(Moments[3], 0, 0.01);
  EXPECT_NEAR(Moments[4], 3, 0.03);
  EXPECT_NEAR(Neighbours, 0, 0.002);
  const double Tail[] = {1, 0.317310508, 0.045500264, 0.002699796, 6.3342e-5};
  for (int Sigmas = 1; Sigmas <= 4; ++Sigmas)
    EXPECT_NEAR(Beyond[Sigmas], Tail[Sigmas] * Count,
                5 * std::sqrt(Tail[Sigmas] * Count));
  EXPECT_NE(Values[0], getNormals(6, 0, 1)[0]);
}

/// On any CPU, by any compiler that keeps to IEEE 754.
TEST(Random, NormalBits) {
  constexpr int64_t Count = 1 << 20;
  std::vector<float> Values = getNormals(1, 0, Count);
  uint64_t Hash = 0;
  for (float Value : Values) {
    uint32_t Bits;
    std::memcpy(&Bits, &Value, sizeof(Bits));
    Hash = splitmix64(Hash ^ Bits);
  }
  EXPECT_EQ(Hash, 0x8682ea8124d3d394u);
  // However it is divided.
  for (int64_t First : {0, 2, 510, 512, 514, 4096})
    for (int64_t Length : {1, 2, 3, 511, 512, 513, 5000})
      EXPECT_EQ(getNormals(1, First, Length),
                std::vector<float>(Values.begin() + First,
                                   Values.begin() + First + Length));
}

TEST(Schedule, Shapes) {
  Schedule S;
  S.Peak = 1;
  S.Minimum = 0.1;
  S.Warmup = 10;
  S.Steps = 110;
  S.Decay = 20;
  for (auto Kind : {Schedule::Constant, Schedule::Linear, Schedule::Cosine,
                    Schedule::WarmupStableDecay}) {
    S.Kind = Kind;
    EXPECT_DOUBLE_EQ(S.at(0), 0.1);
    EXPECT_DOUBLE_EQ(S.at(9), 1.0);
    EXPECT_DOUBLE_EQ(S.at(10), 1.0);
    EXPECT_DOUBLE_EQ(S.at(1000), Kind == Schedule::Constant ? 1.0 : 0.1);
  }
  S.Kind = Schedule::Linear;
  EXPECT_DOUBLE_EQ(S.at(60), 0.55);
  S.Kind = Schedule::Cosine;
  EXPECT_DOUBLE_EQ(S.at(60), 0.55);
  EXPECT_NEAR(S.at(35), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  S.Kind = Schedule::WarmupStableDecay;
  EXPECT_DOUBLE_EQ(S.at(89), 1.0);
  EXPECT_DOUBLE_EQ(S.at(100), 0.55);
  Schedule::Shape Kind;
  EXPECT_TRUE(Schedule::parse("wsd", Kind));
  EXPECT_FALSE(Schedule::parse("step", Kind));
}

/// The rates of a scheduler of transformers, and what gives the same.
struct ScheduleGolden {
  const char *Kind;
  double Minimum;
  const char *From;
  int64_t Decay;
  const char *Falling;
  int64_t Cycles;
  double Power;
  int64_t Warmup;
  std::vector<double> Rates;
};

const ScheduleGolden ScheduleGoldens[] = {
#include "ScheduleGoldens.inc"
};

TEST(Schedule, RatesAreThoseOfTransformers) {
  for (const ScheduleGolden &Golden : ScheduleGoldens) {
    Schedule S;
    S.Peak = 2e-4;
    S.Minimum = Golden.Minimum;
    S.Warmup = Golden.Warmup;
    S.Steps = static_cast<int64_t>(Golden.Rates.size());
    S.Decay = Golden.Decay;
    S.Cycles = Golden.Cycles;
    S.Power = Golden.Power;
    ASSERT_TRUE(Schedule::parse(Golden.Kind, S.Kind));
    ASSERT_TRUE(Schedule::parse(Golden.From, S.From));
    ASSERT_TRUE(Schedule::parse(Golden.Falling, S.Falling));
    for (int64_t Step = 0; Step < S.Steps; ++Step)
      EXPECT_NEAR(S.at(Step), Golden.Rates[static_cast<size_t>(Step)], 1e-17)
          << Golden.Kind << ", warm-up " << Golden.Warmup << ", step " << Step;
  }
}

TEST(JSON, Parses) {
  json::Value V = json::parse(
      R"( {"a": [1, -2.5e1, true, null], "b": {"c": "x\n\u00e9\ud83d\ude00"}} )",
      "test");
  int64_t One = 0;
  const json::Value *A = V.find("a");
  ASSERT_TRUE(A && A->elements().size() == 4);
  EXPECT_TRUE(A->elements()[0].asInteger(One));
  EXPECT_EQ(One, 1);
  EXPECT_EQ(A->elements()[1].asDouble(), -25);
  EXPECT_FALSE(A->elements()[1].asInteger(One));
  EXPECT_TRUE(A->elements()[2].asBool());
  EXPECT_EQ(V.find("b")->string("c", ""), "x\n\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(json::parse(json::quote("\"\\\n\x01z"), "test").asString(),
            "\"\\\n\x01z");
}

TEST(JSON, RefusesWhatIsNotJSON) {
  std::string Deep(100000, '[');
  for (const std::string &Text :
       {std::string(""), std::string("{"), std::string("[1,]"),
        std::string("{\"a\":1,\"a\":2}"), std::string("01"), std::string("1."),
        std::string("\"\\x\""), std::string("\"\\u12\""),
        std::string("\"\\ud800\""), std::string("\"\n\""), std::string("1 2"),
        std::string("nul"), std::string("-"), Deep})
    EXPECT_THROW(json::parse(Text, "test"), Error) << Text.substr(0, 20);
}

std::string makeTensorFile(const std::string &Header, const std::string &Data) {
  uint64_t Size = Header.size();
  std::string Bytes(8, '\0');
  std::memcpy(Bytes.data(), &Size, 8);
  return Bytes + Header + Data;
}

TEST(Safetensors, RoundTrip) {
  TempDir Dir;
  std::vector<float> A = {1, 2, 3, 4, 5, 6}, B = {7}, Out(6);
  writeSafetensors(Dir / "t", {{"a", {2, 3}, A.data()}, {"b", {1}, B.data()}});
  TensorFiles Files = TensorFiles::open(Dir / "t");
  const TensorView *View = Files.find("a");
  ASSERT_TRUE(View);
  EXPECT_EQ(View->Shape, (std::vector<int64_t>{2, 3}));
  View->copyTo(Out.data());
  EXPECT_EQ(Out, A);
  EXPECT_FALSE(Files.find("c"));
}

TEST(Safetensors, ConvertsHalfTypes) {
  TempDir Dir;
  std::string Header =
      R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
      R"("h":{"dtype":"F16","shape":[3],"data_offsets":[4,10]}})";
  uint16_t Data[] = {0x3F80, 0xC000, 0x3C00, 0x0001, 0xFC00};
  writeFile(Dir / "t",
            makeTensorFile(Header, std::string(reinterpret_cast<char *>(Data),
                                               sizeof(Data))));
  TensorFiles Files = TensorFiles::open(Dir / "t");
  float Out[3];
  Files.find("b")->copyTo(Out);
  EXPECT_EQ(Out[0], 1.0f);
  EXPECT_EQ(Out[1], -2.0f);
  Files.find("h")->copyTo(Out);
  EXPECT_EQ(Out[0], 1.0f);
  EXPECT_EQ(Out[1], 0x1p-24f);
  EXPECT_EQ(Out[2], -INFINITY);
}

TEST(Safetensors, ReadsShardsByIndex) {
  TempDir Dir;
  float X = 1, Y = 2;
  writeSafetensors(Dir / "1.safetensors", {{"x", {1}, &X}});
  writeSafetensors(Dir / "2.safetensors", {{"y", {1}, &Y}});
  std::string Index = Dir / "model.safetensors.index.json";
  writeFile(Index, R"({"weight_map":{"x":"1.safetensors",)"
                   R"("y":"2.safetensors"}})");
  TensorFiles Files = TensorFiles::open(Dir / "");
  EXPECT_TRUE(Files.find("x") && Files.find("y"));
  writeFile(Index, R"({"weight_map":{"x":"../secret"}})");
  EXPECT_THROW(TensorFiles::open(Dir / ""), Error);
}

TEST(Safetensors, RefusesDamage) {
  TempDir Dir;
  auto Refuse = [&](const std::string &Content, const char *Part) {
    writeFile(Dir / "t", Content);
    try {
      TensorFiles::open(Dir / "t");
      ADD_FAILURE() << "accepted: " << Part;
    } catch (const Error &E) {
      EXPECT_NE(std::string(E.what()).find(Part), std::string::npos)
          << E.what();
    }
  };
  Refuse("abc", "has 3 bytes");
  Refuse(std::string(8, '\xFF') + "{}", "not a safetensors file");
  Refuse(makeTensorFile("{}", "").substr(0, 9), "header ends at byte 10");
  Refuse(makeTensorFile("[]", ""), "not an object");
  Refuse(makeTensorFile("{", ""), "byte 1");
  auto Tensor = [](const char *Entry) {
    return makeTensorFile(std::string("{\"a\":") + Entry + "}", "12345678");
  };
  Refuse(Tensor(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"),
         "truncated");
  Refuse(Tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})"),
         "do not fit");
  Refuse(Tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[8,4]})"),
         "do not fit");
  Refuse(Tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})"),
         "do not fit");
  Refuse(Tensor(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"),
         "natural number");
  Refuse(Tensor(R"({"dtype":"F32","shape":[4611686018427387904,4],)"
                R"("data_offsets":[0,4]})"),
         "overflows");
  Refuse(Tensor(R"({"dtype":"Q4","shape":[1],"data_offsets":[0,4]})"),
         "unknown dtype");
  Refuse(Tensor(R"({"dtype":"F32","shape":7,"data_offsets":[0,4]})"),
         "expected an array");
  Refuse(Tensor(R"({"dtype":"F32","shape":[1]})"), "data_offsets");
  Refuse(Tensor("7"), "unknown dtype");
  Refuse(makeTensorFile(R"({"__metadata__":{"a":1}})", ""),
         "not an object of strings");
  // Other files under the name.
  Refuse(std::string("PK\3\4") + std::string(60, '\0'), "torch.save");
  Refuse("<!DOCTYPE html><html></html>", "a page of HTML");
  Refuse("GGUF" + std::string(60, '\0'), "a GGUF file");
  Refuse("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
         "is a pointer of Git LFS and not the file itself; run 'git lfs pull'");
}

/// An order in which each part begins where the one before it ends, from the
/// first byte to the last?
static bool coversData(std::vector<std::pair<int, int>> Parts, int Size) {
  std::sort(Parts.begin(), Parts.end());
  do {
    int At = 0;
    for (auto [Begin, End] : Parts)
      At = Begin == At ? End : Size + 1;
    if (At == Size)
      return true;
  } while (std::next_permutation(Parts.begin(), Parts.end()));
  return false;
}

// Tensors at random places: those that cover the data are read, and nothing
// else.
TEST(Safetensors, RefusesHolesAndOverlaps) {
  MemoryFile File;
  std::mt19937 Random(1);
  int Read = 0, Refused = 0;
  for (int I = 0; I < 2000; ++I) {
    int Size = static_cast<int>(Random() % 5), Count = 1 + Random() % 4;
    std::vector<std::pair<int, int>> Parts;
    std::string Header;
    for (int T = 0; T < Count; ++T) {
      int A = static_cast<int>(Random() % (Size + 1)),
          B = static_cast<int>(Random() % (Size + 1));
      Parts.push_back(std::minmax({A, B}));
      auto [Begin, End] = Parts.back();
      Header += (T ? ",\"" : "{\"") + std::to_string(T) +
                R"(":{"dtype":"U8","shape":[)" + std::to_string(End - Begin) +
                R"(],"data_offsets":[)" + std::to_string(Begin) + "," +
                std::to_string(End) + "]}";
    }
    File.write(makeTensorFile(Header + "}", std::string(Size, 'x')));
    bool Covers = coversData(Parts, Size);
    ++(Covers ? Read : Refused);
    try {
      TensorFiles::open(File.path());
      EXPECT_TRUE(Covers) << Header;
    } catch (const Error &E) {
      EXPECT_FALSE(Covers) << Header << E.what();
      EXPECT_NE(std::string(E.what()).find("is damaged: "), std::string::npos);
    }
  }
  EXPECT_GT(Read, 200);
  EXPECT_GT(Refused, 200);
}

// Every prefix of a good file, and every single flipped byte of its header,
// must end in success or an Error, never in a crash.
TEST(Safetensors, SurvivesMutations) {
  TempDir Dir;
  std::vector<float> A = {1, 2, 3, 4};
  writeSafetensors(Dir / "good", {{"a", {2, 2}, A.data()}});
  std::string Good = readFile(Dir / "good");
  auto Try = [&](const std::string &Content) {
    writeFile(Dir / "t", Content);
    try {
      TensorFiles Files = TensorFiles::open(Dir / "t");
      for (const auto &[Name, View] : Files.tensors()) {
        std::vector<float> Out(static_cast<size_t>(View.Elements));
        if (View.ElementType != TensorView::Other)
          View.copyTo(Out.data());
      }
    } catch (const Error &) {
    }
  };
  for (size_t Size = 0; Size < Good.size(); ++Size)
    Try(Good.substr(0, Size));
  for (size_t I = 0; I < Good.size() - 16; ++I)
    for (int Bit = 0; Bit < 8; ++Bit) {
      std::string Bad = Good;
      Bad[I] = static_cast<char>(Bad[I] ^ (1 << Bit));
      Try(Bad);
    }
}

TEST(Files, FullDiskIsAnError) {
  try {
    OutputFile File("/dev/full");
    File.write("text");
    ADD_FAILURE() << "wrote to a full device";
  } catch (const Error &E) {
    EXPECT_NE(std::string(E.what()).find("No space left"), std::string::npos);
  }
}

TEST(Files, WhatCannotBeReplacedLeavesNothing) {
  TempDir Dir;
  std::filesystem::create_directory(Dir / "x");
  EXPECT_THROW(writeFileAtomically(Dir / "x", "text"), Error);
  EXPECT_FALSE(std::filesystem::exists(Dir / "x.tmp"));
}

/// What others have put at a name that is written to stays as it is.
TEST(Files, LinksAreNotFollowed) {
  TempDir Dir;
  std::string Mine = Dir / "mine", Lock = Dir / "lock";
  auto Write = [&](const std::string &Path) {
    OutputFile File(Path);
    File.write("precious");
    File.close();
  };
  Write(Mine);
  auto TryLock = [&]() -> std::string {
    try {
      DirectoryLock Held(Dir / "");
    } catch (const Error &E) {
      return E.what();
    }
    return "";
  };
  auto Read = [&] { return std::string(MappedFile(Mine).text()); };
  for (bool IsHard : {false, true}) {
    for (std::string Name : {Lock, Dir / "x.tmp"})
      if (IsHard)
        std::filesystem::create_hard_link(Mine, Name);
      else
        std::filesystem::create_symlink(Mine, Name);
    EXPECT_NE(TryLock(), "");
    EXPECT_EQ(Read(), "precious");
    EXPECT_TRUE(std::filesystem::exists(Lock));
    writeFileAtomically(Dir / "x", "text");
    EXPECT_EQ(Read(), "precious");
    std::filesystem::remove(Lock);
    if (!IsHard) {
      std::filesystem::create_symlink(Mine, Lock);
      EXPECT_THROW(OutputFile File(Lock), Error);
      EXPECT_EQ(Read(), "precious");
      std::filesystem::remove(Lock);
    }
  }
  Write(Lock);
  EXPECT_NE(TryLock().find("is not a lock of a run"), std::string::npos);
  std::filesystem::remove(Lock);
  EXPECT_EQ(TryLock(), "");
  EXPECT_FALSE(std::filesystem::exists(Lock));
}

TEST(Files, WhetherALockIsFree) {
  TempDir Dir;
  std::string Run = Dir / "", Lock = Dir / "lock";
  auto Check = [&]() -> std::string {
    try {
      DirectoryLock::checkFree(Run);
    } catch (const Error &E) {
      return E.what();
    }
    return "";
  };
  EXPECT_EQ(Check(), "");
  EXPECT_FALSE(std::filesystem::exists(Lock));
  {
    DirectoryLock Held(Run);
    EXPECT_NE(Check().find("is in use by process " + std::to_string(getpid())),
              std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(Lock));
  }
  EXPECT_EQ(Check(), "");
  // What a killed process left is nobody's.
  writeFileAtomically(Lock, "process 1 on other\n");
  EXPECT_EQ(Check(), "");
}

TEST(Files, PipesAndDevicesStay) {
  TempDir Dir;
  std::string Path = Dir / "pipe";
  ASSERT_EQ(mkfifo(Path.c_str(), 0600), 0);
  int FD = open(Path.c_str(), O_RDWR); // so that a writer need not wait
  writeFileAtomically(Path, "text");
  EXPECT_TRUE(std::filesystem::is_fifo(Path));
  EXPECT_FALSE(std::filesystem::exists(Path + ".tmp"));
  char Text[4] = {};
  EXPECT_EQ(read(FD, Text, 4), 4);
  EXPECT_EQ(std::string(Text, 4), "text");
  close(FD);
}

TEST(Metrics, CurveIsDrawn) {
  std::vector<Metrics> Rows(3);
  for (int I = 0; I < 3; ++I) {
    Rows[static_cast<size_t>(I)].Step = I + 1;
    Rows[static_cast<size_t>(I)].Loss = 3 - I;
  }
  Rows[2].ValLoss = 1.5;
  std::string SVG = drawLossCurve(Rows, 2.0, "baseline");
  EXPECT_EQ(SVG.find("nan"), std::string::npos);
  EXPECT_NE(SVG.find("baseline 2"), std::string::npos);
  EXPECT_NE(drawLossCurve({}, NotMeasured, "").find("</svg>"),
            std::string::npos);
}

// Where 1e-7 more is no more.
TEST(Metrics, CurveOfAHugeLossEnds) {
  std::vector<Metrics> Rows(1);
  Rows[0].Step = 1;
  Rows[0].Loss = 1e30;
  std::string SVG = drawLossCurve(Rows, NotMeasured, "");
  EXPECT_LT(SVG.size(), 5000u);
  EXPECT_NE(SVG.find("</svg>"), std::string::npos);
}

} // namespace
