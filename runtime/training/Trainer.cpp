//===- Trainer.cpp - The training loop ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Trainer.h"
#include "checkpoint/Checkpoint.h"
#include "checkpoint/Safetensors.h"
#include "checkpoint/StateReport.h"
#include "comm/Launcher.h"
#include "data/Baseline.h"
#include "data/Batch.h"
#include "data/Sources.h"
#include "job/EventFile.h"
#include "job/Fingerprint.h"
#include "job/Group.h"
#include "job/Job.h"
#include "job/Progress.h"
#include "job/RankCheck.h"
#include "program/ProductTrace.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/RunDirectory.h"
#include "training/Course.h"
#include "training/Optimizer.h"
#include "training/Resumption.h"
#include "training/Shares.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <malloc.h>
#include <numeric>
#include <optional>
#include <unistd.h>

using namespace poplar::runtime;

namespace {

/// One run: everything it needs, made before the first step.
class Trainer {
public:
  Trainer(const PoplarProgram &Program, const Options &Given,
          Collectives *Group, int Rank);
  void run();
  /// One batch without an update, for comparisons.
  void dump();

private:
  void dumpLogits();
  void start();
  void resume();
  void record();
  /// Checkpoints lack what is frozen: notes where it is from.
  void rememberBase(const std::string &Path);
  Metrics step();
  double validate();
  void save();
  void begin();
  void finish();
  bool isDue(int64_t Every) const {
    return Every > 0 && State.Step % Every == 0;
  }
  /// Sum over the ranks.
  template <typename T> T sum(T Value) const {
    if (Group)
      Group->sum(&Value, 1);
    return Value;
  }
  /// What ranks do together before a step, since one of them has a reason to.
  struct Requests {
    bool Stop, Save;
  };
  Requests getRequests() const;
  /// See Collectives::setPhase.
  void setPhase(const char *Name, double Seconds) const {
    if (Group)
      Group->setPhase(Name, Seconds);
  }
  /// Prints on the first rank only.
  [[gnu::format(printf, 2, 3)]] void print(const char *Format, ...) const;

  const Options &Given;
  Collectives *Group; // null where the rank is alone
  bool Leads;
  ModelInfo Model;
  /// The checkpoint to resume from; empty when there is none.
  std::string Latest;
  Beginning Begun;
  Sources Data;
  int64_t GlobalBatch;
  /// With all defaults decided.
  const Options O;
  int64_t MicroBatch, ValSamples;
  Share TrainShare, ValShare;
  Executor Exec;
  BatchRunner Batches;
  Optimizer Optim;
  Schedule Rates;
  TrainingState State;
  /// On the first rank, once something is to be written.
  std::optional<DirectoryLock> Lock;
  std::optional<MetricsFile> Record;
  std::optional<EventFile> Events;
  double Baseline = NotMeasured;
  /// What a step takes, measured; before the first one a guess.
  double StepSeconds = LongPhase;
  /// When the last checkpoint was written, or the run began, and what that
  /// took.
  std::chrono::steady_clock::time_point LastSave;
  double SaveSeconds = 0;
};

} // namespace

/// What the plan says or was asked for; else what a resumed run had, for the
/// same bits; else what fits.
static int64_t getMicroBatch(const PoplarProgram &Program, int Rank,
                             const ModelInfo &Model, const Options &O,
                             int64_t GlobalBatch, const std::string &Latest) {
  if (Program.ranks)
    return Program.ranks[Rank].micro_batch;
  if (O.MicroBatch)
    return std::min(O.MicroBatch, GlobalBatch);
  if (!Latest.empty())
    return std::min(readState(Latest).MicroBatch, GlobalBatch);
  return chooseMicroBatch(Program, Model, GlobalBatch);
}

/// The newest checkpoint of the run that the options continue, if any: the one
/// that the first rank sees.
static std::string getLatest(const Options &O, Collectives *Group) {
  std::string Latest = O.Out.empty() ? "" : findLatestCheckpoint(O.Out);
  if (Group)
    Latest = Group->broadcast(Latest);
  if (!Latest.empty() && !O.Resume)
    fail("'", O.Out,
         "' holds a run already; continue it with --resume or choose another "
         "--out");
  return Latest;
}

/// What a run that is continued began with, as the first rank reads it.
static Beginning getBeginning(const ModelInfo &Model, const Options &O,
                              Collectives *Group, const std::string &Latest) {
  if (Latest.empty())
    return {getRunKind(Model, O), O.ValSplit};
  std::string Kind, Split;
  if (!Group || Group->rank() == 0) {
    TrainingState State = readState(Latest);
    Kind = State.Kind;
    Split = State.Options["val-split"];
  }
  if (Group) {
    Kind = Group->broadcast(Kind);
    Split = Group->broadcast(Split);
  }
  // Runs of earlier versions had the defaults of pre-training, and held the end
  // of their data out.
  Beginning Result = {RunKind::PreTraining, "end"};
  if (!Kind.empty() && !parseRunKind(Kind, Result.Kind))
    fail("'", Latest, "/state.json' is damaged: no run has the kind '", Kind,
         "'");
  for (const char *Known : {"auto", "random"})
    if (Split == "'" + std::string(Known) + "'")
      Result.ValSplit = Known;
  return Result;
}

/// The data, of which the part that is held out may depend on the kind of run.
/// Ends the job if ranks see other files.
static Sources openData(const Options &O, const ModelInfo &Model, bool Leads,
                        Collectives *Group, const std::string &Latest) {
  Sources Data(O, Model, Leads);
  if (Group)
    agreeOnFiles(*Group, O, Data, Latest);
  return Data;
}

/// Samples of an iteration: the plan's, else the options'.
static int64_t getGlobalBatch(const PoplarProgram &Program, const Options &O) {
  if (!Program.ranks)
    return O.GlobalBatch ? O.GlobalBatch : 8;
  int64_t Samples = countPlannedSamples(Program);
  if ((O.GlobalBatch && O.GlobalBatch != Samples) || O.MicroBatch)
    fail("the plan gives every rank its batch, ", Samples,
         " samples in all; for another --global-batch or --batch make another "
         "plan");
  return Samples;
}

static int64_t getValSamples(const Options &O, const Sources &Data,
                             int64_t GlobalBatch, int64_t MicroBatch,
                             bool Planned) {
  if (!Data.Validation || O.EvalEvery == 0)
    return 0;
  return std::min(O.EvalBatches * (Planned ? GlobalBatch : MicroBatch),
                  Data.Validation->size());
}

Trainer::Trainer(const PoplarProgram &Program, const Options &Given,
                 Collectives *Group, int Rank)
    : Given(Given), Group(Group), Leads(Rank == 0), Model(Program),
      Latest(getLatest(Given, Group)),
      Begun(getBeginning(Model, Given, Group, Latest)),
      Data(openData(decideByKind(Given, Begun), Model, Leads, Group, Latest)),
      GlobalBatch(getGlobalBatch(Program, Given)),
      O(decideByData(decideByKind(Given, Begun), Begun.Kind, Data.Train->size(),
                     GlobalBatch)),
      MicroBatch(getMicroBatch(Program, Rank, Model, O, GlobalBatch, Latest)),
      ValSamples(
          getValSamples(O, Data, GlobalBatch, MicroBatch, Program.ranks)),
      TrainShare(getShare(Program, Rank, MicroBatch, GlobalBatch, true)),
      ValShare(getShare(Program, Rank, MicroBatch, ValSamples, false)),
      Exec(Program, getBatchSizes({TrainShare, ValShare}),
           getThreads(Program, O, Rank), Rank),
      Batches(Exec, std::max(TrainShare.Samples, ValShare.Samples),
              static_cast<uint64_t>(O.Seed)),
      Optim(Exec, {O.Beta1, O.Beta2, O.Epsilon, O.WeightDecay, O.Clip}),
      Rates(makeSchedule(O)) {
  Exec.collectives = Group;
  if (Group)
    Group->attach(Exec.state(), Exec.device());
  Optim.setLossScale(O.LossScale);
  State.Seed = O.Seed;
  State.Threads = Exec.threads();
  State.MicroBatch = std::max<int64_t>(MicroBatch, 1);
}

/// What --resume compares with; the first rank writes it.
void Trainer::record() {
  State.Kind = getName(Begun.Kind);
  if (!Leads || O.isDump())
    return;
  State.Options = recordOptions(O, GlobalBatch);
  State.Data = recordData(O, Data);
  if (!State.Base.empty())
    State.Data["--init"] = describeCheckpoint(State.Base);
}

void Trainer::rememberBase(const std::string &Path) {
  if (!Path.empty() && hasFrozen(Exec.program()))
    State.Base = std::filesystem::absolute(resolveCheckpoint(Path))
                     .lexically_normal()
                     .string();
}

void Trainer::start() {
  auto Load = [&](const char *Option, const std::string &Path, int64_t Count) {
    if (!Path.empty())
      print("loaded %lld tensors from '%s' (%s)\n",
            static_cast<long long>(Count), Path.c_str(), Option);
  };
  Load("--init", O.Init, initializeModel(Exec, O.Init, O.Seed));
  if (O.Init.empty() &&
      (hasFrozen(Exec.program()) || !Model.WeightsPath.empty()))
    print("note: %s are random; --init %s starts from those of %s\n",
          hasFrozen(Exec.program()) ? "the frozen weights" : "all weights",
          Model.WeightsPath.empty() ? "HF_DIR" : Model.WeightsPath.c_str(),
          Model.WeightsPath.empty() ? "a model"
                                    : "the model that was imported");
  if (!O.InitAdapter.empty())
    Load("--init-adapter", O.InitAdapter, loadAdapter(Exec, O.InitAdapter));
  rememberBase(O.Init);
  record();
}

void Trainer::resume() {
  State = readState(Latest);
  loadTensors(Exec, Latest, O.Init);
  if (!O.Init.empty())
    rememberBase(O.Init);
  if (State.LossScale > 1)
    Optim.setLossScale(State.LossScale);
  print("resuming from '%s' at step %lld\n", Latest.c_str(),
        static_cast<long long>(State.Step));
  if (State.Seed != O.Seed)
    fail("the run was started with --seed ", State.Seed, ", not ", O.Seed);
  TrainingState Before = State;
  record();
  if (Leads && State.Step > 0)
    print("%s",
          describeChanges(Before, State.Options, State.Data, Rates, O.Steps)
              .c_str());
  if (State.Threads && State.Threads != Exec.threads())
    print("note: rank 0 had %lld threads and has %d now: sums may be rounded "
          "otherwise in their last bits\n",
          static_cast<long long>(State.Threads), Exec.threads());
  if (std::any_of(Exec.program().buckets,
                  Exec.program().buckets + Exec.program().num_buckets,
                  [](const PoplarBucket &B) { return B.residuals; }))
    print("note: the error feedback of lossy gradients starts anew, and sums "
          "are rounded otherwise than without the interruption\n");
  State.Threads = Exec.threads();
  State.MicroBatch = std::max<int64_t>(MicroBatch, 1);
  if (State.Step >= O.Steps)
    fail("the run has had its ", State.Step,
         State.Step == 1 ? " step" : " steps", " already; ask for more ",
         O.Epochs < 0 ? "--steps" : "--epochs");
}

double Trainer::validate() {
  setPhase("validating", StepSeconds);
  // Random numbers of a step that training never takes.
  int64_t Targets = Batches.loadBatch(*Data.Validation, 0, ValShare, -1);
  if (Targets == 0)
    return NotMeasured;
  double Loss = sum(Batches.evaluate()) / static_cast<double>(Targets);
  State.BestLoss = std::min(State.BestLoss, Loss);
  return Loss;
}

/// One optimizer step. A batch without targets changes nothing.
Metrics Trainer::step() {
  setPhase("training", StepSeconds);
  Metrics Row;
  Row.Rate = Rates.at(State.Step);
  int64_t Targets =
      Batches.loadBatch(*Data.Train, State.Samples, TrainShare, State.Step);
  if (Targets) {
    Optim.zeroGradients();
    Row.Loss = sum(Batches.train(Targets, Optim.lossScale())) /
               static_cast<double>(Targets);
    Row.GradientNorm = Optim.update(State.Step, Row.Rate);
    if (Optim.hasOverflowed())
      print("step %lld skipped by all ranks: gradients have overflowed in f16; "
            "the loss scale is halved\n",
            static_cast<long long>(State.Step + 1));
    else if (!std::isfinite(Row.Loss) || !std::isfinite(Row.GradientNorm))
      fail("the loss or gradient of step ", State.Step + 1,
           " is not finite; lower --lr or raise --warmup (checkpoints of "
           "earlier steps are unharmed)");
  }
  State.Samples += GlobalBatch;
  Row.Step = ++State.Step;
  return Row;
}

void Trainer::save() {
  setPhase("saving", LongPhase);
  auto Begin = std::chrono::steady_clock::now();
  // No checkpoint that can be resumed from lacks rows of its steps.
  if (Record)
    Record->sync();
  int64_t Scale = static_cast<int64_t>(Optim.lossScale());
  if (Group)
    Group->max(&Scale, 1);
  State.LossScale = static_cast<double>(Scale);
  saveCheckpoint(Exec, State, O.Out, O.Keep);
  print("saved '%s/checkpoint-%lld'\n", O.Out.c_str(),
        static_cast<long long>(State.Step));
  LastSave = std::chrono::steady_clock::now();
  SaveSeconds = std::chrono::duration<double>(LastSave - Begin).count();
}

void Trainer::dump() {
  if (!O.DumpProducts.empty() && Exec.pipeline())
    fail("--dump-products: a stage of a pipeline has a part of the products; "
         "dump those of a plan without groups");
  if (!O.DumpGradients.empty() && sharesUnits(Exec.program()))
    fail("--dump-gradients: ranks that share units add up their gradients in "
         "the update only; dump those of a plan in which none do");
  if (!O.DumpGradients.empty() && Exec.pipeline())
    fail("--dump-gradients: groups of a pipeline add up their gradients in the "
         "update only; dump those of a plan without groups");
  start();
  int64_t Targets = Batches.loadBatch(*Data.Train, 0, TrainShare, 0);
  if (Targets == 0)
    fail("the first batch has no targets");
  Optim.zeroGradients();
  ProductTrace Products(Exec);
  if (!O.DumpProducts.empty())
    Exec.products = &Products;
  double Loss = sum(Batches.train(Targets, Optim.lossScale())) /
                static_cast<double>(Targets);
  print("loss %.9g\n", Loss);
  if (!O.DumpProducts.empty() && Leads)
    Products.write(O.DumpProducts);
  if (!O.DumpGradients.empty())
    writeGradients(Exec, O.DumpGradients);
  if (!O.DumpLogits.empty())
    dumpLogits();
}

/// Rows of logits of ranks that share units, one rank's after the other's, as
/// rows of the whole vocabulary. `Columns` are those of each.
static void joinColumns(const float *Parts, int64_t Rows,
                        const std::vector<int64_t> &Columns, float *Out) {
  int64_t Width = std::accumulate(Columns.begin(), Columns.end(), int64_t(0)),
          First = 0;
  for (int64_t Count : Columns) {
    for (int64_t Row = 0; Row < Rows; ++Row, Parts += Count)
      std::copy(Parts, Parts + Count, Out + Row * Width + First);
    First += Count;
  }
}

void Trainer::dumpLogits() {
  const PoplarProgram &Program = Exec.program();
  std::vector<int64_t> Shape = {GlobalBatch, Model.SeqLen, Model.VocabSize};
  auto Allocate = [](int64_t Count) {
    return std::vector<float>(static_cast<size_t>(Count));
  };
  std::vector<float> Logits =
      Allocate(TrainShare.Samples * Model.SeqLen * Model.LogitsColumns);
  Batches.infer(Logits.data());
  if (Group) {
    std::vector<int64_t> Columns = countLogitColumns(Exec, *Group),
                         Bounds = {0};
    auto CountRows = [&](int64_t R) {
      return Model.SeqLen * getShare(Program, static_cast<int>(R), MicroBatch,
                                     GlobalBatch, true)
                                .Samples;
    };
    for (int64_t R = 0; R < Program.world_size; ++R)
      Bounds.push_back(Bounds.back() +
                       CountRows(R) * Columns[static_cast<size_t>(R)]);
    int64_t Count = Leads ? Bounds.back() : 0;
    std::vector<float> All = Allocate(Count);
    Group->gather(Logits.data(), All.data(), Bounds.data());
    Logits = Allocate(Count);
    for (int64_t R = 0; Leads && R < Program.world_size; ++R) {
      auto First = static_cast<size_t>(R);
      if (Program.ranks[R].position != 0)
        continue;
      int64_t Sharers = std::max<int64_t>(Program.ranks[R].num_sharers, 1);
      std::vector<int64_t> Widths(Columns.begin() + R,
                                  Columns.begin() + R + Sharers);
      joinColumns(All.data() + Bounds[First], CountRows(R), Widths,
                  Logits.data() + Bounds[First]);
    }
  }
  if (Leads)
    writeSafetensors(O.DumpLogits, {{"logits", Shape, Logits.data()}});
}

/// The target of a link in directory `Run`: a relative one, so that both can be
/// moved together, unless they have nothing in common but the root.
static std::string getLinkTarget(const std::filesystem::path &Target,
                                 const std::string &Run) {
  std::error_code Code;
  std::filesystem::path From = std::filesystem::canonical(Run, Code);
  std::filesystem::path Way = Target.lexically_relative(From);
  auto First = [](const std::filesystem::path &P) {
    return P.has_root_directory() ? *++P.begin() : std::filesystem::path();
  };
  if (Code || Way.empty() || First(From) != First(Target))
    return Target.string();
  return Way.string();
}

/// For `poplar sample` and `poplar report`, which are given the run alone: a
/// link to the executable, and the plan or the model it was built from.
/// Where no rank has the whole model, all of the job's work together.
static void rememberJob(const PoplarProgram &Program, const std::string &Run) {
  std::error_code Code;
  std::filesystem::path Job = getJobDirectory(),
                        Target = std::filesystem::read_symlink("/proc/self/exe",
                                                               Code);
  if (Code)
    return;
  if (!hasWholeModel(Program))
    Target = Job / "launch.sh";
  replaceSymlink(getLinkTarget(Target, Run), Run + "/executable");
  std::string Plan = (Job / "plan.mlir").string();
  if (std::filesystem::exists(Plan, Code))
    writeFileAtomically(Run + "/plan.mlir", MappedFile(Plan).text());
}

void Trainer::print(const char *Format, ...) const {
  if (!Leads)
    return;
  va_list Values;
  va_start(Values, Format);
  std::vprintf(Format, Values);
  va_end(Values);
}

Trainer::Requests Trainer::getRequests() const {
  std::chrono::duration<double> SinceSave =
      std::chrono::steady_clock::now() - LastSave;
  // Checkpoints that take long are further apart: saving is a small part of
  // the run.
  bool IsDue =
      O.SaveMinutes > 0 &&
      SinceSave.count() >= std::max(60 * O.SaveMinutes, 20 * SaveSeconds);
  int64_t Wanted[] = {comm::StopSignals::isRequested(), IsDue && Leads};
  if (Group)
    Group->max(Wanted, 2);
  return {Wanted[0] != 0, Wanted[1] != 0};
}

/// Bytes in use on the heap.
static size_t getHeapBytes() {
  struct mallinfo2 Info = mallinfo2();
  return Info.uordblks + Info.hblkhd;
}

/// On the first rank, which writes.
void Trainer::begin() {
  createDirectories(O.Out);
  Lock.emplace(O.Out);
  if (findLatestCheckpoint(O.Out) != Latest)
    fail("another process has trained in '", O.Out,
         "' since this one has begun; start this one again");
  rememberJob(Exec.program(), O.Out);
  Record.emplace(O.Out, State.Step, O.Steps);
  Events.emplace(O.Out, State.Step);
  if (std::string Gap = Record->describeGap(); !Gap.empty())
    print("note: '%s/metrics.csv' has no rows of steps %s\n", O.Out.c_str(),
          Gap.c_str());
}

void Trainer::run() {
  if (O.Resume && !O.Init.empty() && !hasFrozen(Exec.program()))
    fail("give --resume or --init, not both");
  print("%s%s", Data.describe().c_str(),
        describeCourse(Given, O, Begun.Kind, Data.Train->size(), GlobalBatch,
                       ValSamples,
                       Data.Validation ? Data.Validation->size() : 0)
            .c_str());
  if (O.Resume && Latest.empty())
    print("'%s' has no checkpoint yet: starting\n", O.Out.c_str());
  if (Latest.empty())
    start();
  else
    resume();
  if (O.BigramBaseline && !ValSamples)
    fail("--bigram-baseline is the loss of a validation; give --val-data or "
         "--val-fraction, and an --eval-every above 0");
  if (Leads && O.BigramBaseline) {
    const DataFile &File = Data.Data.front();
    if (!File.Tokens || Data.Data.size() > 1)
      fail("--bigram-baseline counts the tokens of one --data, which is no "
           "examples in JSON");
    Baseline = getBigramLoss(*File.Tokens, File.TrainEnd, *Data.Validation,
                             ValSamples, Model);
  }
  if (O.CheckReplicas)
    requireReplicas(Exec.program());
  if (!O.ReportMemory.empty())
    writeMemoryReport(Exec, O.ReportMemory);

  auto Type = static_cast<PoplarType>(Exec.program().working_type);
  double Peak = O.PeakGFlops > 0 ? O.PeakGFlops * 1e9
                                 : Exec.device().measurePeakFlops(Type);
  // That of a group is the sum of its ranks'.
  Peak = sum(Peak);
  // Up to here nothing is written: bad input leaves no trace.
  if (Leads)
    begin();
  print("%s, %s, %d threads, %.1f GFLOP/s %s peak; %lld samples a step "
        "in micro-batches of %lld; %s of memory\n",
        Model.Architecture.c_str(), Model.Precision.c_str(), Exec.threads(),
        Peak / 1e9, O.PeakGFlops > 0 ? "given" : "measured",
        static_cast<long long>(GlobalBatch), static_cast<long long>(MicroBatch),
        formatBytes(Exec.peakBytes()).c_str());
  if (!std::isnan(Baseline)) {
    std::printf("bigram baseline: validation loss %.4f\n", Baseline);
    char Text[32];
    std::snprintf(Text, sizeof(Text), "%.9g\n", Baseline);
    writeFileAtomically(O.Out + "/bigram-val-loss.txt", Text);
  }
  std::fflush(stdout);

  comm::StopSignals Signals;
  int64_t FirstStep = State.Step, TokensPerStep = GlobalBatch * Model.SeqLen;
  Progress Report(FirstStep, O.Steps,
                  Exec.program().flops_per_sample /
                      static_cast<double>(Model.SeqLen),
                  Peak);
  auto Start = std::chrono::steady_clock::now();
  LastSave = Start;
  double SecondsBefore =
      Record && !Record->rows().empty() ? Record->rows().back().Seconds : 0;
  bool Saved = false;
  int StepsThatGrew = 0;
  while (State.Step < O.Steps) {
    Requests Wanted = getRequests();
    if (Wanted.Stop)
      break;
    if (Wanted.Save && !Saved && State.Step > FirstStep) {
      save();
      Saved = true;
    }
    size_t HeapBytes = O.CheckAllocations ? getHeapBytes() : 0;
    auto Begin = std::chrono::steady_clock::now();
    Metrics Row = step();
    std::chrono::duration<double> Seconds =
        std::chrono::steady_clock::now() - Begin;
    if (Group)
      Group->recordStep(State.Step, Begin);
    // The first steps may leave something behind: caches of OpenMP, graphs of a
    // GPU. A single step may, too: what the C library keeps for a thread counts
    // as in use, and a communication library keeps messages that come early.
    bool Grew = O.CheckAllocations && State.Step > FirstStep + 2 &&
                getHeapBytes() > HeapBytes;
    StepsThatGrew = Grew ? StepsThatGrew + 1 : 0;
    if (StepsThatGrew == 3)
      fail("step ", State.Step, ", as the two before, left memory allocated");
    StepSeconds = Seconds.count();
    Row.TokensPerSecond = static_cast<double>(TokensPerStep) / Seconds.count();
    Report.addStep(Seconds.count(), TokensPerStep);
    bool Last = State.Step == O.Steps;
    if (ValSamples && (Last || isDue(O.EvalEvery)))
      Row.ValLoss = validate();
    if (Record) {
      std::chrono::duration<double> SinceStart =
          std::chrono::steady_clock::now() - Start;
      Row.Seconds = SecondsBefore + SinceStart.count();
      Row.Tokens = static_cast<double>(State.Samples * Model.SeqLen);
      Row.Epochs = static_cast<double>(State.Samples) /
                   static_cast<double>(Data.Train->size());
      Record->add(Row);
      Events->add(Row);
    }
    if (Record && (Last || isDue(O.LogEvery) || !std::isnan(Row.ValLoss) ||
                   State.Step == FirstStep + 1)) {
      Report.print(Row);
      Record->flush();
      Events->flush();
    }
    Saved = isDue(O.SaveEvery);
    if (Saved)
      save();
  }
  if (!Saved && !O.SkipSave)
    save();
  if (O.CheckReplicas)
    checkReplicas(Exec, "after step " + std::to_string(State.Step));
  if (Record)
    finish();
}

void Trainer::finish() {
  Record->flush();
  Events->flush();
  writeFileAtomically(O.Out + "/loss.svg",
                      drawLossCurve(Record->rows(), Baseline, "bigram model"));
  if (State.Step < O.Steps)
    std::printf("stopped by a signal after step %lld; continue with --resume\n",
                static_cast<long long>(State.Step));
  std::fflush(stdout);
}

/// What the first rank has sent, and how much of the time it took others to
/// send it the rank has waited for.
static void printCommunication(const comm::CommStatistics &S) {
  int64_t Count = 0, Bytes = 0;
  for (const comm::CommStatistics::PerKind &Kind : S.Kinds) {
    Count += Kind.Count;
    Bytes += Kind.LocalBytes + Kind.RemoteBytes;
  }
  std::printf("communication of rank 0: %lld collectives, %s sent, %.2f s on "
              "the link, %.2f s under way (%.2f s on a core), %.1f %% of it "
              "hidden behind computation\n",
              static_cast<long long>(Count), formatBytes(Bytes).c_str(),
              S.LinkSeconds, S.getThreadSeconds(), S.ProcessorSeconds,
              100 * S.getHiddenShare());
}

void poplar::runtime::runTraining(const PoplarProgram &Program,
                                  const Options &O) {
  runJob(Program, O, [&](Group *Ranks) {
    checkRanks(Program, Ranks);
    Trainer T(Program, O, Ranks, Ranks ? Ranks->rank() : 0);
    std::optional<comm::CommStream::MemoryGuard> Guard;
    if (Ranks)
      Guard.emplace(Ranks->stream());
    if (O.isDump())
      T.dump();
    else
      T.run();
    if (Ranks && Ranks->rank() == 0)
      printCommunication(Ranks->getStatistics());
  });
}
