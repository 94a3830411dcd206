//===- CheckKernels.cpp - Kernels on the GPU at hand, against the host's --===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: check-kernels [--all] [--cubin] [--chip CHIP] [--from CASE]
//                      DIRECTORY...
//        check-kernels --gpus
//
// Runs the cases, with the image of a chip (the first there is), that
// kernel-cases has written (KernelCases.h) through the runtime's own Device,
// twice each (with POPLAR_EMULATED_ORDER, in two orders of blocks and threads;
// the bits have to be the same), and prints those that fail, or all, from one
// on, counted from 0, as they come: a line of `ok` or `FAILED`, the name, and
// what was found. The image is CHIP.ptx; with --cubin, CHIP.cubin. An error of
// the GPU, which nothing in its process survives, ends this: another goes on
// with the next case. Links no LLVM.
//
//===----------------------------------------------------------------------===//

#include "CheckStates.h"
#include "comm/Wire.h"
#include "cuda/Driver.h"
#include "program/Device.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace poplar::runtime;

namespace {

/// A buffer of a case, as the file says.
struct Buffer {
  std::string Type;
  int64_t Bytes, Before, After;
  double Tolerance;
  char *OnDevice;
};

std::vector<double> toNumbers(const std::string &Type, const char *Data,
                              int64_t Bytes) {
  std::vector<double> Numbers;
  if (Type == "f64") {
    Numbers.resize(static_cast<size_t>(Bytes / 8));
    std::memcpy(Numbers.data(), Data, static_cast<size_t>(Bytes));
    return Numbers;
  }
  comm::Type From = Type == "bf16"  ? comm::Type::BF16
                    : Type == "f16" ? comm::Type::F16
                                    : comm::Type::F32;
  int64_t Count = Bytes / comm::getBytes(From);
  std::vector<float> Values(static_cast<size_t>(Count));
  comm::convert(Data, From, Values.data(), comm::Type::F32, Count);
  Numbers.assign(Values.begin(), Values.end());
  return Numbers;
}

/// The relative distance in 2-norms; what should be NaN has not been written.
double measureDistance(const Buffer &B, const char *Expected, const char *Got) {
  if (B.Tolerance == 0)
    return std::memcmp(Expected, Got, static_cast<size_t>(B.Bytes)) ? INFINITY
                                                                    : 0;
  std::vector<double> Wanted = toNumbers(B.Type, Expected, B.Bytes),
                      Found = toNumbers(B.Type, Got, B.Bytes);
  double Difference = 0, Size = 0;
  for (size_t I = 0; I < Wanted.size(); ++I) {
    if (std::isnan(Wanted[I]) && std::isnan(Found[I]))
      continue;
    Difference += (Wanted[I] - Found[I]) * (Wanted[I] - Found[I]);
    Size += Wanted[I] * Wanted[I];
  }
  return std::sqrt(Difference) / std::max(std::sqrt(Size), 1e-30);
}

/// The cases of one directory on a device of their own.
class Checks {
public:
  Checks(const std::string &Directory, const std::string &WantedChip,
         bool Cubin);
  void run(bool PrintAll, size_t First);

  int64_t Count = 0, Failures = 0;
  double Worst = 0;

private:
  void readImage(bool Cubin);
  void check(const json::Value &Case, bool PrintAll);
  /// Runs a case on fresh buffers; returns what is in them then.
  std::vector<std::string> launch(const json::Value &Case,
                                  std::vector<Buffer> &Buffers);

  std::string Directory;
  MappedFile Text, Data;
  json::Value Description;
  std::string Chip, Ptx, Cubin;
  std::vector<std::string> Names;
  std::vector<PoplarGPUKernel> Kernels;
  PoplarGPUImage Image = {};
  PoplarModel Model = {};
  PoplarProgram Program = {};
  std::unique_ptr<Device> Dev;
  /// Memory of the device is never given back: buffers take turns in it.
  char *Memory = nullptr;
  int64_t MemoryBytes = 0;
  std::vector<std::unique_ptr<PoplarGemm>> Gemms;
  /// In the order of the cases, and by case.
  std::vector<const PoplarGemm *> Listed;
  std::map<const json::Value *, const PoplarGemm *> GemmOf;
};

const json::Value &member(const json::Value &V, const char *Key) {
  if (const json::Value *Found = V.find(Key))
    return *Found;
  fail("cases.json lacks ", Key, "; write the cases again");
}

int32_t small(const json::Value &V, const char *Key) {
  return static_cast<int32_t>(V.integer(Key, 0));
}

PoplarGemm readGemm(const json::Value &G) {
  return {G.integer("m", 0),      G.integer("n", 0),     G.integer("k", 0),
          small(G, "batched"),    small(G, "trans_a"),   small(G, "trans_b"),
          small(G, "accumulate"), small(G, "has_bias"),  small(G, "a_type"),
          small(G, "b_type"),     small(G, "c_type"),    small(G, "epilogue"),
          small(G, "tf32"),       G.integer("a_row", 0), G.integer("c_row", 0),
          small(G, "fp8")};
}

} // namespace

Checks::Checks(const std::string &Directory, const std::string &WantedChip,
               bool Cubin)
    : Directory(Directory), Text(Directory + "/cases.json"),
      Data(Directory + "/cases.bin"),
      Description(json::parse(Text.text(), Text.path())) {
  const auto &Chips = member(Description, "chips").elements();
  Chip = !WantedChip.empty() || Chips.empty()
             ? WantedChip
             : std::string(Chips[0].asString());
  readImage(Cubin);
  Program.gpu = &Image;
  Program.model = &Model;
  Program.scratch_bytes = Description.integer("scratch", 0);
  for (const json::Value &Case : member(Description, "cases").elements())
    if (const json::Value *G = Case.find("gemm")) {
      // What is prepared is kept by address.
      Gemms.push_back(std::make_unique<PoplarGemm>(readGemm(*G)));
      Listed.push_back(Gemms.back().get());
      GemmOf[&Case] = Listed.back();
    }
  Program.gemms = Listed.data();
  Program.num_gemms = static_cast<int64_t>(Listed.size());
  auto Begin = std::chrono::steady_clock::now();
  Dev = std::make_unique<Device>(Program, 0, 1);
  std::chrono::duration<double> Seconds =
      std::chrono::steady_clock::now() - Begin;
  std::printf("image  %s.%s: %s in %.2f s, with the context and libraries\n",
              Chip.c_str(), Cubin ? "cubin" : "ptx",
              Cubin ? "loaded" : "compiled by the driver", Seconds.count());
  std::fflush(stdout);
  Dev->setScratch(Dev->allocate(Program.scratch_bytes), Program.scratch_bytes);
  for (const json::Value &Case : member(Description, "cases").elements()) {
    int64_t Bytes = 0;
    for (const json::Value &B : member(Case, "buffers").elements())
      Bytes += B.integer("bytes", 0) + POPLAR_ALIGNMENT;
    MemoryBytes = std::max(MemoryBytes, Bytes);
  }
  Memory = Dev->allocate(MemoryBytes);
}

void Checks::readImage(bool WithCubin) {
  if (WithCubin)
    Cubin = std::string(MappedFile(Directory + "/" + Chip + ".cubin").text());
  // With a cubin, PTX is no way out: it is not there.
  else
    Ptx = std::string(MappedFile(Directory + "/" + Chip + ".ptx").text());
  const auto &Entries = member(Description, "kernels").elements();
  Names.reserve(Entries.size());
  for (const json::Value &Entry : Entries) {
    Names.push_back(Entry.string("name", ""));
    PoplarGPUKernel Kernel = {};
    Kernel.name = Names.back().c_str();
    const auto &Block = member(Entry, "block").elements();
    for (size_t D = 0; D < 3 && D < Block.size(); ++D)
      Kernel.block[D] = static_cast<int32_t>(Block[D].asDouble());
    Kernel.pointers = small(Entry, "pointers");
    Kernel.parts_per_block = Entry.integer("parts_per_block", 1);
    Kernels.push_back(Kernel);
  }
  Image.chip = Chip.c_str();
  Image.ptx = Ptx.c_str();
  Image.cubin = WithCubin ? Cubin.data() : nullptr;
  Image.num_kernels = static_cast<int64_t>(Kernels.size());
  Image.kernels = Kernels.data();
  Image.adamw = Image.convert_working = -1;
}

/// The element that is furthest from what it should be, with both values.
static std::string describeWorst(const Buffer &B, const char *Expected,
                                 const char *Got) {
  if (B.Type == "i32") {
    int64_t I = 0;
    while (I + 4 <= B.Bytes && std::memcmp(Expected + I, Got + I, 4) == 0)
      I += 4;
    int32_t Values[2] = {};
    if (I + 4 <= B.Bytes) {
      std::memcpy(&Values[0], Expected + I, 4);
      std::memcpy(&Values[1], Got + I, 4);
    }
    return "[" + std::to_string(I / 4) + "] should be " +
           std::to_string(Values[0]) + " and is " + std::to_string(Values[1]);
  }
  std::vector<double> Wanted = toNumbers(B.Type, Expected, B.Bytes),
                      Found = toNumbers(B.Type, Got, B.Bytes);
  double Size = 0;
  for (double W : Wanted)
    Size += std::isnan(W) ? 0 : W * W;
  // What an element may differ by: its share of the distance, or more than that
  // of the type.
  double Allowed =
      std::max(B.Tolerance *
                   std::sqrt(Size / std::max<double>(1, double(Wanted.size()))),
               1e-30);
  size_t First = Wanted.size(), Count = 0;
  for (size_t I = 0; I < Wanted.size(); ++I) {
    bool BothNaN = std::isnan(Wanted[I]) && std::isnan(Found[I]);
    bool Bad = B.Tolerance == 0
                   ? Wanted[I] != Found[I] && !BothNaN
                   : !(std::fabs(Wanted[I] - Found[I]) <=
                       Allowed + B.Tolerance * std::fabs(Wanted[I])) &&
                         !BothNaN;
    if (Bad && Count++ == 0)
      First = I;
  }
  if (First == Wanted.size())
    return "differs in bits only";
  char Text[160];
  std::snprintf(Text, sizeof(Text),
                "[%zu] should be %.9g and is %.9g, the first of %zu such of "
                "%zu",
                First, Wanted[First], Found[First], Count, Wanted.size());
  return Text;
}

std::vector<std::string> Checks::launch(const json::Value &Case,
                                        std::vector<Buffer> &Buffers) {
  Buffers.clear();
  char *Place = Memory;
  for (const json::Value &Entry : member(Case, "buffers").elements()) {
    Buffer B = {Entry.string("type", "f32"),  Entry.integer("bytes", 0),
                Entry.integer("before", 0),   Entry.integer("after", 0),
                Entry.number("tolerance", 0), Place};
    Dev->copyIn(B.OnDevice, Data.data() + B.Before, B.Bytes);
    Place +=
        (B.Bytes + POPLAR_ALIGNMENT - 1) / POPLAR_ALIGNMENT * POPLAR_ALIGNMENT;
    Buffers.push_back(B);
  }
  std::vector<void *> Pointers;
  for (const json::Value &Index : member(Case, "pointers").elements()) {
    int I = static_cast<int>(Index.asDouble());
    Pointers.push_back(I < 0 ? nullptr
                             : Buffers.at(static_cast<size_t>(I)).OnDevice);
  }
  int64_t Batch = Case.integer("batch", 0);
  if (auto Own = GemmOf.find(&Case); Own != GemmOf.end()) {
    const PoplarGemm &Gemm = *Own->second;
    Dev->prepareGemm(Gemm, Batch);
    Dev->runGemm(Gemm, Pointers.at(0), Pointers.at(1), Pointers.at(2),
                 Pointers.at(3), Pointers.at(4), Batch);
  } else {
    std::string Name = Case.string("kernel", "");
    auto Found = std::find(Names.begin(), Names.end(), Name);
    if (Found == Names.end())
      fail("the image has no kernel ", Name);
    Dev->launch(Found - Names.begin(), Pointers.data(), Batch,
                Case.integer("extent", 0));
  }
  std::vector<std::string> Results;
  for (const Buffer &B : Buffers) {
    Results.emplace_back(static_cast<size_t>(B.Bytes), '\0');
    Dev->copyOut(Results.back().data(), B.OnDevice, B.Bytes);
  }
  return Results;
}

namespace {
/// On an emulated GPU whose threads come in an order by number: the next one.
class OtherOrder {
public:
  OtherOrder() {
    const char *Given = std::getenv(Variable);
    if (!Given || std::atoll(Given) == 0)
      return;
    Before = Given;
    setenv(Variable, std::to_string(std::atoll(Given) + 1).c_str(), 1);
  }
  ~OtherOrder() {
    if (!Before.empty())
      setenv(Variable, Before.c_str(), 1);
  }
  OtherOrder(const OtherOrder &) = delete;
  OtherOrder &operator=(const OtherOrder &) = delete;

private:
  static constexpr const char *Variable = "POPLAR_EMULATED_ORDER";
  std::string Before;
};
} // namespace

void Checks::check(const json::Value &Case, bool PrintAll) {
  std::string Name = Case.string("name", "?"), Worse;
  ++Count;
  // Who waits for a kernel that never ends sees its name.
  if (PrintAll) {
    std::fprintf(stderr, "runs   %s\n", Name.c_str());
    std::fflush(stderr);
  }
  if (int64_t States = Case.integer("states", 0)) {
    Dev->synchronize();
    std::string Wrong = gputest::findWrongStates(
        States, static_cast<int32_t>(Case.integer("bits", 8)));
    Failures += !Wrong.empty();
    if (!Wrong.empty() || PrintAll)
      std::printf("%-7s%s: %s\n", Wrong.empty() ? "ok" : "FAILED", Name.c_str(),
                  Wrong.empty() ? "the same bits" : Wrong.c_str());
    std::fflush(stdout);
    return;
  }
  std::vector<Buffer> Buffers;
  std::vector<std::string> Got = launch(Case, Buffers);
  std::vector<std::string> Again;
  {
    OtherOrder Changed;
    Again = launch(Case, Buffers);
  }
  double Distance = 0, Part = 0;
  for (size_t I = 0; I < Buffers.size(); ++I) {
    const Buffer &B = Buffers[I];
    const char *Expected = Data.data() + B.After;
    double D = measureDistance(B, Expected, Got[I].data());
    double OfTolerance = D == 0 ? 0 : D / B.Tolerance;
    if (!(OfTolerance <= 1) && Worse.empty())
      Worse = "; buffer " + std::to_string(I) +
              describeWorst(B, Expected, Got[I].data());
    // Written so that a NaN stays.
    Distance = Distance > D ? Distance : D;
    Part = Part > OfTolerance ? Part : OfTolerance;
    if (Got[I] != Again[I] && Worse.empty()) {
      Part = INFINITY;
      Buffer Exact = B;
      Exact.Tolerance = 0;
      Worse = "; a second run gave other bits: buffer " + std::to_string(I) +
              describeWorst(Exact, Got[I].data(), Again[I].data());
    }
  }
  bool Passed = Part <= 1;
  Failures += !Passed;
  Worst = Worst > Part ? Worst : Part;
  if (!Passed || PrintAll)
    std::printf("%-7s%s: off by %.1e, %.2f of what is allowed%s\n",
                Passed ? "ok" : "FAILED", Name.c_str(), Distance, Part,
                Worse.c_str());
  std::fflush(stdout);
}

void Checks::run(bool PrintAll, size_t First) {
  const auto &Cases = member(Description, "cases").elements();
  for (size_t C = First; C < Cases.size(); ++C) {
    try {
      check(Cases[C], PrintAll);
    } catch (const std::exception &E) {
      // A refused product leaves the GPU as it was; an error of a kernel does
      // not.
      if (!Cases[C].find("gemm"))
        fail(Cases[C].string("name", "?"), ": ", E.what());
      std::printf("FAILED %s: %s\n", Cases[C].string("name", "?").c_str(),
                  E.what());
      std::fflush(stdout);
      ++Failures;
      Worst = INFINITY;
    }
  }
}

/// What the driver says, as JSON.
static void printGPUs() {
  const cuda::Driver &D = cuda::Driver::get();
  int Count = 0;
  cuda::check(D.cuDeviceGetCount(&Count), "count GPUs");
  std::printf("{\"gpus\": [");
  for (int Ordinal = 0; Ordinal < Count; ++Ordinal) {
    int Number = 0, Major = 0, Minor = 0;
    char Name[128] = "";
    cuda::check(D.cuDeviceGet(&Number, Ordinal), "find a GPU");
    cuda::check(D.cuDeviceGetName(Name, sizeof(Name), Number), "tell its name");
    cuda::check(D.cuDeviceGetAttribute(&Major, cuda::CapabilityMajor, Number),
                "tell its capability");
    cuda::check(D.cuDeviceGetAttribute(&Minor, cuda::CapabilityMinor, Number),
                "tell its capability");
    std::printf("%s{\"name\": %s, \"capability\": %d, \"cuda\": \"%d.%d\"}",
                Ordinal ? ", " : "", json::quote(Name).c_str(),
                Major * 10 + Minor, D.Version / 1000, D.Version % 1000 / 10);
  }
  std::printf("]}\n");
}

int main(int Argc, char **Argv) {
  bool PrintAll = false, ListGPUs = false, Cubin = false;
  std::string Chip;
  size_t First = 0;
  std::vector<std::string> Directories;
  for (int I = 1; I < Argc; ++I) {
    if (std::strcmp(Argv[I], "--all") == 0)
      PrintAll = true;
    else if (std::strcmp(Argv[I], "--cubin") == 0)
      Cubin = true;
    else if (std::strcmp(Argv[I], "--gpus") == 0)
      ListGPUs = true;
    else if (std::strcmp(Argv[I], "--chip") == 0 && I + 1 < Argc)
      Chip = Argv[++I];
    else if (std::strcmp(Argv[I], "--from") == 0 && I + 1 < Argc)
      First = std::strtoull(Argv[++I], nullptr, 10);
    else
      Directories.push_back(Argv[I]);
  }
  int64_t Failures = 0;
  try {
    if (ListGPUs) {
      printGPUs();
      return 0;
    }
    if (Directories.empty())
      fail("usage: check-kernels [--all] [--cubin] [--chip CHIP] DIRECTORY...");
    for (const std::string &Directory : Directories) {
      Checks All(Directory, Chip, Cubin);
      All.run(PrintAll, First);
      std::printf("%s: %lld of %lld cases passed, the worst at %.2f of what is "
                  "allowed\n",
                  Directory.substr(Directory.rfind('/') + 1).c_str(),
                  static_cast<long long>(All.Count - All.Failures),
                  static_cast<long long>(All.Count), All.Worst);
      std::fflush(stdout);
      Failures += All.Failures + (All.Count == 0);
    }
  } catch (const std::exception &E) {
    std::fprintf(stderr, "check-kernels: error: %s\n", E.what());
    return 1;
  }
  return Failures ? 1 : 0;
}
