//===- Profile.cpp - How fast a device type is ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The online profiling of Poplar (section "Online Profiling"): the program of a
// rank runs by itself over growing micro-batches. Its collectives do nothing,
// so that what is measured is computation alone.
//
//===----------------------------------------------------------------------===//

#include "commands/ProfileJournal.h"
#include "data/Batch.h"
#include "program/Collectives.h"
#include "program/Initialization.h"
#include "program/Pipeline.h"
#include "program/Quantized.h"
#include "support/CommandName.h"
#include "support/Cores.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/ISA.h"
#include "support/Random.h"
#include "support/Versions.h"
#include "training/Optimizer.h"
#include "training/Trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace poplar::runtime;

using Clock = std::chrono::steady_clock;

/// Passes over all micro-batches. Several, so that a slow moment of the machine
/// does not fall on one micro-batch alone.
static constexpr int Rounds = 3;
/// More of them for micro-batches whose measurements spread by more than this,
/// which poplar plan calls noisy, too.
static constexpr int MoreRounds = 3;
static constexpr double NoisySpread = 0.1;

/// Curves go at least this far, memory permitting: a split of few samples is
/// a coarse one.
static constexpr int64_t LeastLevel = 8;

namespace {

/// Random tokens.
class RandomSource : public SampleSource {
public:
  explicit RandomSource(const ModelInfo &Model) : Model(Model) {}
  int64_t size() const override { return INT64_MAX; }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override {
    uint64_t Vocabulary = static_cast<uint64_t>(Model.vocab_size);
    for (int64_t I = 0; I < Model.seq_len; ++I) {
      Ids[I] = static_cast<int32_t>(hashCounters(0, Index, I) % Vocabulary);
      Targets[I] = static_cast<int32_t>(hashCounters(1, Index, I) % Vocabulary);
    }
  }

private:
  const ModelInfo &Model;
};

/// Nobody else is there. What a collective would have brought matters in one
/// place: computing with what happens to lie in a gathered bucket's memory
/// could be slower (denormals) than with parameters. The time that takes is
/// kept.
class NoCollectives : public Collectives {
public:
  explicit NoCollectives(Executor &Exec) : Exec(Exec) {
    fillNormals(Normals.data(), 0, static_cast<int64_t>(Normals.size()), 0, 1);
  }
  /// Spent here so far.
  double getSeconds() const { return Seconds; }

  int rank() const override { return 0; }
  void agree(const std::vector<comm::Claim> &) override {}
  void attach(const State &, Device &) override {}
  void start(const PoplarCollective &What, void *Buffer) override {
    if (What.kind != POPLAR_ALL_GATHER || !What.transient)
      return;
    auto Begin = Clock::now();
    fill(What.bucket, static_cast<char *>(Buffer));
    Seconds += std::chrono::duration<double>(Clock::now() - Begin).count();
  }
  int send(int, int, const void *, int64_t) override { return 0; }
  int receive(int, int, void *, int64_t) override { return 0; }
  void waitMessage(int) override {}
  bool hasExchanges() const override { return false; }
  int64_t
  startExchange(const std::vector<comm::IslandLibrary::Transfer> &) override {
    return 0;
  }
  void waitExchange(int64_t) override {}
  void wait(const PoplarCollective &) override {}
  void sum(int64_t *, int64_t) override {}
  void sum(double *, int64_t) override {}
  void max(int64_t *, int64_t) override {}
  void gather(const float *, float *, const int64_t *) override {}
  void setPhase(const char *, double) override {}
  void progress() override {}
  void recordTurn(bool, int64_t,
                  std::chrono::steady_clock::time_point) override {}
  void recordStep(int64_t, std::chrono::steady_clock::time_point) override {}
  [[noreturn]] void fail(const std::string &Message) override {
    std::fprintf(stderr, "%s: error: %s\n", CommandName, Message.c_str());
    std::_Exit(1);
  }
  std::string broadcast(const std::string &Text) override { return Text; }
  void barrier() override {}

private:
  /// Initial values of a bucket's parameters, or about that.
  void fill(int64_t Bucket, char *Out) {
    const PoplarProgram &Program = Exec.program();
    int64_t Width = getTypeBytes(getWorkingType(Program, Bucket));
    int64_t Block = static_cast<int64_t>(Values.size());
    for (int64_t I = 0; I < Program.num_parameters; ++I) {
      const PoplarParameter &P = Program.parameters[I];
      if (P.bucket != Bucket)
        continue;
      for (size_t V = 0; V < Values.size(); ++V)
        Values[V] = P.init == POPLAR_NORMAL || P.init == POPLAR_UNIFORM
                        ? static_cast<float>(Normals[V] * P.std_dev)
                        : (P.init == POPLAR_ONES ? 1.0f : 0.0f);
      if (P.quantized) {
        fillQuantized(P, Out + P.offset);
        continue;
      }
      for (int64_t Begin = 0; Begin < P.elements; Begin += Block) {
        int64_t Count = std::min(Block, P.elements - Begin);
        char *To = Out + (P.offset + Begin) * Width;
        if (Program.working_type == POPLAR_F32)
          Exec.device().copyIn(To, Values.data(), Count * Width);
        else
          writeWorking(Exec, To, Values.data(), Count);
      }
    }
  }

  /// The same values over and over.
  void fillQuantized(const PoplarParameter &P, char *Out) {
    std::vector<float> Matrix(static_cast<size_t>(P.elements));
    for (size_t I = 0; I < Matrix.size(); ++I)
      Matrix[I] = Values[I % Values.size()];
    std::vector<char> Bytes(static_cast<size_t>(countStored(P)));
    quantize(P.quantized, P.shape[0], P.shape[1], Matrix.data(), Bytes.data());
    Exec.device().copyIn(Out, Bytes.data(), static_cast<int64_t>(Bytes.size()));
  }

  Executor &Exec;
  std::vector<float> Normals = std::vector<float>(4096);
  std::vector<float> Values = std::vector<float>(Normals.size());
  double Seconds = 0;
};

/// A process per core that multiplies matrices as long as this one lives. Has
/// to be made before this process has threads.
class Load {
public:
  Load(const std::vector<int> &Cores, size_t First) {
    for (size_t I = First; I < Cores.size(); ++I) {
      pid_t Child = fork();
      if (Child == 0)
        spin(Cores, I);
      if (Child > 0)
        Children.push_back(Child);
    }
  }
  ~Load() {
    for (pid_t Child : Children) {
      kill(Child, SIGKILL);
      waitpid(Child, nullptr, 0);
    }
  }

private:
  [[noreturn]] static void spin(const std::vector<int> &Cores, size_t Core) {
    try {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pinToCores(Cores, Core, Core + 1);
      // The neighbour may be of a faster type than this one.
      unsetenv("ONEDNN_MAX_CPU_ISA");
      limitLibraries("");
      Device::occupyCore([] { return true; });
    } catch (const std::exception &) {
    }
    _exit(1);
  }

  std::vector<pid_t> Children;
};

/// Repeated measurements of one thing, by the round that made them.
struct Times {
  std::vector<std::vector<double>> Rounds;

  /// Keeps so many rounds, those of the least medians: other work on the
  /// machine makes nothing faster.
  void keepFastest(size_t Count) {
    std::stable_sort(Rounds.begin(), Rounds.end(),
                     [](const auto &A, const auto &B) {
                       return Times{{A}}.median() < Times{{B}}.median();
                     });
    Rounds.resize(std::min(Count, Rounds.size()));
  }
  /// Linear between the order statistics.
  double quantile(double Part) const {
    std::vector<double> Sorted;
    for (const std::vector<double> &Round : Rounds)
      Sorted.insert(Sorted.end(), Round.begin(), Round.end());
    std::sort(Sorted.begin(), Sorted.end());
    double Place = Part * static_cast<double>(Sorted.size() - 1);
    size_t Low = static_cast<size_t>(Place);
    size_t High = std::min(Low + 1, Sorted.size() - 1);
    double Weight = Place - static_cast<double>(Low);
    return Sorted[Low] * (1 - Weight) + Sorted[High] * Weight;
  }
  double median() const { return quantile(0.5); }
  /// Interquartile range over median.
  double spread() const { return (quantile(0.75) - quantile(0.25)) / median(); }
  bool isNoisy() const { return spread() > NoisySpread; }
};

struct Point {
  int64_t Batch;
  Times Measured;
  /// How many rounds have measured it, of which Measured keeps the fastest.
  int NumRounds = 0;
};

class Profiler {
public:
  Profiler(const PoplarProgram &Program, const Options &O,
           std::vector<int64_t> Sizes, ProfileJournal &Journal);
  void run();
  std::string format() const;

private:
  /// Seconds of `Body` without its collectives.
  template <typename Function> double time(Function &&Body) {
    double Elsewhere = Others.getSeconds();
    auto Begin = Clock::now();
    Body();
    Exec.device().synchronize();
    std::chrono::duration<double> Seconds = Clock::now() - Begin;
    return Seconds.count() - (Others.getSeconds() - Elsewhere);
  }
  void measure(int Round, Point &P);
  void measureUpdate(int Round);
  void measureNoisyAgain();
  template <typename Function>
  std::vector<double> repeat(const std::string &Name, Function &&Step);
  bool isLevel(const Point &P) const;
  double getSecondsLeft() const;
  double predictSeconds(const Point &P) const;
  double getOwnPart() const;

  const Options &O;
  ProfileJournal &Journal;
  /// Micro-batches of a repetition. A stage of a pipeline takes its turns with
  /// all of an iteration: the order of its passes is that of the plan.
  const int64_t Steps;
  std::vector<Point> Points;
  Executor Exec;
  NoCollectives Others;
  RandomSource Source;
  BatchRunner Batches;
  Optimizer Optim;
  Times Update;
  const Clock::time_point Begin = Clock::now();
  /// In a workflow, the first round is enough to read.
  const bool IsBrief = std::getenv("POPLAR_WORKFLOW") != nullptr;
};

} // namespace

/// 1, 2, 3, 4, 6, 8, 12, 16, ... and `Largest` itself.
static std::vector<int64_t> getSizes(int64_t Largest) {
  std::vector<int64_t> Sizes;
  for (int64_t Power = 1; Power < Largest; Power *= 2) {
    Sizes.push_back(Power);
    if (Power > 1 && Power / 2 * 3 < Largest)
      Sizes.push_back(Power / 2 * 3);
  }
  Sizes.push_back(Largest);
  return Sizes;
}

Profiler::Profiler(const PoplarProgram &Program, const Options &O,
                   std::vector<int64_t> Sizes, ProfileJournal &Journal)
    : O(O), Journal(Journal),
      Steps(Program.pipeline ? Program.ranks[O.Rank].steps : 1),
      Exec(Program, Sizes, static_cast<int>(Program.ranks[O.Rank].threads),
           static_cast<int>(O.Rank)),
      Others(Exec), Source(Exec.model()),
      Batches(Exec, Steps * Sizes.back(), 0),
      Optim(Exec, {0.9, 0.95, 1e-8, 0.1, 1.0}) {
  Exec.collectives = &Others;
  Optim.setLossScale(O.LossScale);
  for (int64_t Size : Sizes)
    Points.push_back({Size, {}, 0});
}

/// How often something is measured at a time, by the seconds that it takes.
static double countRepetitions(double Seconds) {
  return std::clamp(0.3 / Seconds, 3.0, 30.0);
}

/// Seconds of `Step`, some times; those of an interrupted run if it has them.
template <typename Function>
std::vector<double> Profiler::repeat(const std::string &Name, Function &&Step) {
  if (const std::vector<double> *Known = Journal.find(Name))
    return *Known;
  // Not kept: caches and memory warm up. Only where the time is up is a slow
  // first one better than none.
  double First = time(Step);
  double Repetitions =
      std::min(countRepetitions(First), std::floor(getSecondsLeft() / First));
  std::vector<double> Seconds;
  if (Repetitions < 1)
    Seconds.push_back(First);
  for (double I = 0; I < Repetitions; ++I)
    Seconds.push_back(time(Step));
  Journal.add(Name, Seconds);
  return Seconds;
}

void Profiler::measure(int Round, Point &P) {
  int64_t Targets = std::max<int64_t>(
      Batches.load(Source, 0, {0, Steps * P.Batch, P.Batch, Steps}, 0), 1);
  Optim.zeroGradients();
  std::string Name =
      std::to_string(Round) + " micro-batch " + std::to_string(P.Batch);
  std::vector<double> Times =
      repeat(Name, [&] { Batches.train(Targets, Optim.lossScale()); });
  for (double &Time : Times)
    Time /= static_cast<double>(Steps);
  P.Measured.Rounds.push_back(std::move(Times));
  ++P.NumRounds;
  P.Measured.keepFastest(Rounds);
  double Seconds = P.Measured.median();
  if (Round > 1 && IsBrief)
    return;
  std::printf(
      "  %s  micro-batch %5lld  %10.3f ms  spread %5.2f %%  %10.1f "
      "tokens/s\n",
      Round > Rounds
          ? "again"
          : (std::to_string(Round) + "/" + std::to_string(Rounds)).c_str(),
      static_cast<long long>(P.Batch), Seconds * 1e3, 100 * P.Measured.spread(),
      static_cast<double>(P.Batch * Exec.model().seq_len) / Seconds);
  std::fflush(stdout);
}

void Profiler::measureUpdate(int Round) {
  std::vector<double> Times = repeat(std::to_string(Round) + " optimizer", [&] {
    Optim.zeroGradients();
    Optim.update(0, /*Rate=*/0);
  });
  Update.Rounds.push_back(std::move(Times));
}

/// Whether the rate has gained less than 2 % since half the micro-batch. Goes
/// by the least times, which other work on the machine changes least.
bool Profiler::isLevel(const Point &P) const {
  auto GetRate = [](const Point &At) {
    return static_cast<double>(At.Batch) / At.Measured.quantile(0);
  };
  if (P.Batch < LeastLevel)
    return false;
  double Half = 0;
  for (const Point &Earlier : Points)
    if (2 * Earlier.Batch <= P.Batch)
      Half = std::max(Half, GetRate(Earlier));
  return GetRate(P) < 1.02 * Half;
}

/// Until the profile is to end.
double Profiler::getSecondsLeft() const {
  std::chrono::duration<double> Spent = Clock::now() - Begin;
  return O.Seconds > 0 ? O.Seconds - Spent.count() : HUGE_VAL;
}

/// What a measurement of the micro-batch is going to take, by the largest one
/// that is not larger and has been measured; 0 if none has.
double Profiler::predictSeconds(const Point &P) const {
  double PerSample = 0;
  for (const Point &Known : Points)
    if (Known.Batch <= P.Batch && !Known.Measured.Rounds.empty())
      PerSample = Known.Measured.median() / static_cast<double>(Known.Batch);
  double Once = PerSample * static_cast<double>(Steps * P.Batch);
  return Once > 0 ? Once * (1 + countRepetitions(Once)) : 0;
}

/// In the first round, micro-batches have half of the time: the rest is for
/// what measures them again. A curve has two points at least.
void Profiler::run() {
  initializeParameters(Exec, 1);
  for (int Round = 1; Round <= Rounds; ++Round) {
    for (size_t I = 0; I < Points.size(); ++I) {
      double Left = getSecondsLeft() - (Round == 1 ? O.Seconds / 2 : 0);
      if (predictSeconds(Points[I]) > Left && (Round > 1 || I >= 2)) {
        if (Round == 1)
          Points.resize(I);
        break;
      }
      measure(Round, Points[I]);
      if (Round == 1 && O.UntilLevel && isLevel(Points[I]))
        Points.resize(I + 1);
    }
    if (Round == 1 || getSecondsLeft() > 0)
      measureUpdate(Round);
  }
  measureNoisyAgain();
  std::printf("       optimizer          %10.3f ms  spread %5.2f %%\n",
              Update.median() * 1e3, 100 * Update.spread());
}

/// What spreads widely is measured again, some times; then it is said.
void Profiler::measureNoisyAgain() {
  auto IsNoisy = [](const Point &P) { return P.Measured.isNoisy(); };
  for (int Round = Rounds + 1; Round <= Rounds + MoreRounds; ++Round) {
    if (std::none_of(Points.begin(), Points.end(), IsNoisy))
      return;
    for (Point &P : Points)
      if (IsNoisy(P) && predictSeconds(P) <= getSecondsLeft())
        measure(Round, P);
  }
  for (const Point &P : Points)
    if (IsNoisy(P))
      std::printf(
          "note: micro-batch %lld spreads by %.0f %%, measured %d times; "
          "what else runs on this machine disturbs it\n",
          static_cast<long long>(P.Batch), 100 * P.Measured.spread(),
          P.NumRounds);
}

/// The part of the state that this rank updates.
double Profiler::getOwnPart() const {
  const PoplarProgram &Program = Exec.program();
  double Own = 0, All = 0;
  for (int64_t B = 0; B < Program.num_buckets; ++B) {
    if (Program.buckets[B].frozen)
      continue;
    Own += static_cast<double>(Exec.state().shard(B).size());
    All += static_cast<double>(Program.buckets[B].elements);
  }
  return Own / All;
}

std::string Profiler::format() const {
  std::ostringstream Batch, Seconds, Spread, Text;
  for (std::ostringstream *Stream : {&Seconds, &Spread, &Text})
    Stream->precision(6);
  for (const Point &P : Points) {
    const char *Separator = &P == &Points.front() ? "" : ", ";
    Batch << Separator << P.Batch;
    Seconds << Separator << P.Measured.median();
    Spread << Separator << P.Measured.spread();
  }
  Text << "\"micro_batches\": [" << Batch.str() << "], \"seconds\": ["
       << Seconds.str() << "], \"spread\": [" << Spread.str() << "]";
  // What a rank that held all of the state would need.
  if (double Part = getOwnPart(); Part > 0)
    Text << ", \"optimizer\": " << Update.median() / Part;
  return Text.str();
}

/// A file of one profile; `Measured` are its members that depend on a run.
static void writeProfile(const PoplarProgram &Program, const Options &O,
                         int64_t Fits, const std::string &Measured) {
  ModelInfo Model(Program);
  std::ostringstream Text;
  Text << "{\"profiles\": [{\"device_type\": \"" << Model.DeviceType
       << "\", \"stage\": " << Program.stage << ", " << Measured;
  // Not of the whole model: nothing plans with it.
  if (Program.pipeline)
    Text << ", \"pipeline_stage\": " << Program.pipeline->group;
  if (const PoplarRank &Rank = Program.ranks[O.Rank]; Rank.num_sharers > 1)
    Text << ", \"share\": " << Rank.position
         << ", \"shares\": " << Rank.num_sharers;
  if (Fits <= O.MaxBatch)
    Text << ", \"max_micro_batch\": " << Fits;
  Text << ", \"versions\": {" << getLibraryVersions() << "}}]}\n";
  writeFileAtomically(O.Out, Text.str());
}

/// The largest micro-batch that fits the rank's memory.
static int64_t getLargestFit(const PoplarProgram &Program, const Options &O) {
  int Rank = static_cast<int>(O.Rank);
  int64_t Fixed = getPeakBytes(Program, 0, Rank);
  if (O.Memory == 0)
    return INT64_MAX;
  int64_t PerSample =
      Program.bytes_per_sample + Pipeline::getBytesPerSample(Program, Rank);
  if (O.Memory < Fixed || PerSample == 0)
    return O.Memory < Fixed ? 0 : INT64_MAX;
  return (O.Memory - Fixed) / PerSample;
}

void poplar::runtime::runProfile(const PoplarProgram &Program,
                                 const Options &O) {
  ModelInfo Model(Program);
  if (!Program.ranks)
    fail("this program was built from a model without a plan, whose device "
         "type is in no cluster file; poplar profile builds one that can be "
         "measured");
  if (O.Rank >= Program.world_size ||
      Model.DeviceType != Program.ranks[O.Rank].device_type)
    fail("--rank ", O.Rank, " is not a rank of device type ", Model.DeviceType,
         " in the plan of this program");
  int64_t Fits = getLargestFit(Program, O);
  if (Fits == 0) {
    std::printf(
        "%s, stage %lld: a micro-batch of 1 needs %s, and the device "
        "has %s\n",
        Model.DeviceType.c_str(), static_cast<long long>(Program.stage),
        formatBytes(getPeakBytes(Program, 1, static_cast<int>(O.Rank))).c_str(),
        formatBytes(O.Memory).c_str());
    return writeProfile(Program, O, Fits,
                        "\"micro_batches\": [], \"seconds\": []");
  }
  std::vector<int> Cores = getCores();
  size_t Own = static_cast<size_t>(Program.ranks[O.Rank].threads);
  bool HasOthers = Own < Cores.size();
  std::optional<Load> Neighbours;
  if (O.Loaded && HasOthers)
    Neighbours.emplace(Cores, Own);
  if (Own <= Cores.size())
    pinToCores(Cores, 0, Own);
  std::string Stage = "stage " + std::to_string(Program.stage);
  if (Program.pipeline)
    Stage = "pipeline stage " + std::to_string(Program.pipeline->group) +
            ", ZeRO " + Stage;
  if (const PoplarRank &Rank = Program.ranks[O.Rank]; Rank.num_sharers > 1)
    Stage = "share " + std::to_string(Rank.position) + " of " +
            std::to_string(Rank.num_sharers) + ", " + Stage;
  std::printf("%s, %s of %lld ranks, %s, %zu threads, other cores %s\n",
              Model.DeviceType.c_str(), Stage.c_str(),
              static_cast<long long>(Program.world_size),
              Model.Precision.c_str(), Own,
              Neighbours ? "busy" : (HasOthers ? "idle" : "none"));
  std::ostringstream Identity;
  Identity << O.Identity << ", " << Model.DeviceType << ", " << Stage << " of "
           << Program.world_size << " ranks, micro-batches up to "
           << std::min(Fits, O.MaxBatch) << (O.UntilLevel ? " until level" : "")
           << (O.Seconds > 0 ? ", in " + std::to_string(O.Seconds) + " s" : "")
           << ", other cores " << (O.Loaded ? "busy" : "idle");
  ProfileJournal Journal(O.Journal, Identity.str());
  if (Journal.size())
    std::printf("  goes on after %zu measurements in %s\n", Journal.size(),
                O.Journal.c_str());
  Profiler P(Program, O, getSizes(std::min(Fits, O.MaxBatch)), Journal);
  P.run();
  writeProfile(Program, O, Fits, P.format());
}
