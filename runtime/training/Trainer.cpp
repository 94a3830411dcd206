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
#include "job/DeviceRecord.h"
#include "job/EventFile.h"
#include "job/Group.h"
#include "job/Job.h"
#include "job/Progress.h"
#include "job/RankCheck.h"
#include "program/ProductTrace.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/JSON.h"
#include "support/RunDirectory.h"
#include "training/Course.h"
#include "training/Optimizer.h"
#include "training/Preference.h"
#include "training/Resumption.h"
#include "training/RunSetup.h"
#include "training/Shares.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <malloc.h>
#include <optional>

using namespace poplar::runtime;

namespace {

/// Bytes in use on the heap.
static size_t getHeapBytes() {
  struct mallinfo2 Info = mallinfo2();
  return Info.uordblks + Info.hblkhd;
}

/// As a state records it.
static std::string getPreference(const Options &O) {
  return O.Preference.empty() ? "none" : "'" + O.Preference + "'";
}

/// Whether losses have a part that balances experts.
static bool balancesExperts(const ModelInfo &Model) {
  if (!*Model.config)
    return false;
  json::Value Config =
      json::parse(Model.config, "the program's configuration of its model");
  const json::Value *Flag = Config.find("output_router_logits");
  return Flag && Flag->kind() == json::Value::Boolean && Flag->asBool();
}

/// Fails if three steps in a row leave memory allocated, of those after step
/// `First`. A single step may: what the C library keeps for a thread counts as
/// in use, and a communication library keeps messages that come early.
class HeapCheck {
public:
  explicit HeapCheck(int64_t First) : First(First) {}
  void begin() { Before = getHeapBytes(); }
  void end(int64_t Step) {
    bool Grew = Step > First && getHeapBytes() > Before;
    StepsThatGrew = Grew ? StepsThatGrew + 1 : 0;
    if (StepsThatGrew == 3)
      fail("step ", Step, ", as the two before, left memory allocated");
  }

private:
  int64_t First;
  size_t Before = 0;
  int StepsThatGrew = 0;
};

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
  /// All up to the first step; returns the peak of all ranks, in FLOP/s.
  double prepare();
  void measureBaseline();
  void writeBaseline() const;
  double measurePeak();
  Metrics step();
  /// Forward and backward of what was loaded; returns the loss of the global
  /// batch.
  double trainLoaded(int64_t Targets, Metrics &Row);
  /// What the reference of --preference dpo says: computed, or read.
  void computeReference();
  void readReference();
  /// One step, with its speed.
  Metrics timeStep(Progress &Report);
  /// On the first rank, after a step: completes its row and records it. Prints
  /// it where that is due anyway or `Prints`.
  void note(Metrics &Row, Progress &Report, bool Prints);
  double validate();
  void save(bool IsBest = false);
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
  /// Actions that all ranks take before a step because one of them asks for it.
  struct Requests {
    bool Stop, Save;
  };
  Requests getRequests() const;
  /// Counts steps with a high loss, for --stop-above.
  void watch(const Metrics &Row);
  /// The option that asks for the end of the run; null if none does.
  const char *getStopReason() const;
  /// See Collectives::setPhase.
  void setPhase(const char *Name, double Seconds) const {
    if (Group)
      Group->setPhase(Name, Seconds);
  }
  std::string getReferencePath() const { return O.Out + "/reference.csv"; }
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
  /// The options with all defaults decided.
  const Options O;
  int64_t MicroBatch, ValSamples;
  Share TrainShare, ValShare;
  Executor Exec;
  BatchRunner Batches;
  /// With --preference.
  std::optional<PreferenceLoss> Pairs;
  ReferenceScores Reference;
  Optimizer Optim;
  Schedule Rates;
  TrainingState State;
  /// Files of the run, open on the first rank once it writes.
  std::optional<DirectoryLock> Lock;
  std::optional<MetricsFile> Record;
  std::optional<EventFile> Events;
  /// On all ranks.
  std::optional<DeviceRecord> Devices;
  double Baseline = NotMeasured;
  /// Steps in a row whose loss is above the limit, and validations in a row
  /// that are no better than the best.
  int64_t StepsAbove = 0, WorseValidations = 0;
  /// The measured seconds of a step; a guess before the first one.
  double StepSeconds = LongPhase;
  /// When the first step of this process began, and how long those before took.
  std::chrono::steady_clock::time_point Start;
  double SecondsBefore = 0;
  /// When the last checkpoint was written, or the run began, and what that
  /// took.
  std::chrono::steady_clock::time_point LastSave;
  double SaveSeconds = 0;
};

} // namespace

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
           getThreads(Program, O, Rank), Rank,
           /*Samples=*/!O.DumpLogits.empty()),
      Batches(Exec, std::max(TrainShare.Samples, ValShare.Samples),
              static_cast<uint64_t>(O.Seed),
              /*Pairs=*/!O.Preference.empty()),
      Optim(Exec, {O.Beta1, O.Beta2, O.Epsilon, O.WeightDecay, O.Clip}),
      Rates(makeSchedule(O)) {
  Exec.collectives = Group;
  if (Group)
    Group->attach(Exec.state(), Exec.device());
  if (!O.Preference.empty() && Program.is_random)
    fail("--preference scores pairs before it trains on them, and the dropout "
         "or noise of this program would change what was scored; import the "
         "model with --dropout 0",
         Model.Adapter.Rank ? " and --lora-dropout 0" : "",
         " and without --neftune-alpha"
         ", as trl trains on pairs");
  if (!O.Preference.empty() && balancesExperts(Model))
    fail("--preference scores pairs by their losses, to which this program "
         "adds the loss that balances experts; import the model with "
         "--router-aux-loss-coef 0");
  if (!O.Preference.empty())
    Pairs.emplace(O);
  Optim.setLossScale(O.LossScale);
  State.Seed = O.Seed;
  State.Threads = Exec.threads();
  State.MicroBatch = std::max<int64_t>(MicroBatch, 1);
}

/// Records what --resume compares with; the first rank writes it.
void Trainer::record() {
  State.Kind = getName(Begun.Kind);
  if (!Leads || O.isDump())
    return;
  State.Options = recordOptions(O, GlobalBatch);
  State.Data = recordData(O, Data);
  if (Pairs && Pairs->hasReference())
    State.Data["reference"] = Reference.describe();
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
  if (O.Init.empty() && (hasFrozen(Exec.program()) || *Model.weights_path))
    print("note: %s are random; --init %s starts from those of %s\n",
          hasFrozen(Exec.program()) ? "the frozen weights" : "all weights",
          *Model.weights_path ? Model.weights_path : "HF_DIR",
          *Model.weights_path ? "the model that was imported" : "a model");
  if (!O.InitAdapter.empty())
    Load("--init-adapter", O.InitAdapter, loadAdapter(Exec, O.InitAdapter));
  rememberBase(O.Init);
  if (Pairs && Pairs->hasReference())
    computeReference();
  record();
}

void Trainer::computeReference() {
  setPhase("scoring pairs by the reference", LongPhase);
  auto Begin = std::chrono::steady_clock::now();
  Reference.compute(Batches, *Data.AllPairs, TrainShare, GlobalBatch, Group);
  std::chrono::duration<double> Seconds =
      std::chrono::steady_clock::now() - Begin;
  print("reference: %lld pairs scored by the starting weights in %.1f s\n",
        static_cast<long long>(Data.AllPairs->size()), Seconds.count());
}

void Trainer::readReference() {
  std::string Text;
  if (Leads)
    Text = ReferenceScores::load(getReferencePath());
  if (Group)
    Text = Group->broadcast(Text);
  Reference.read(Text, getReferencePath(), State.Data["reference"]);
  Reference.require(Batches, *Data.AllPairs, TrainShare, GlobalBatch,
                    getReferencePath());
}

void Trainer::resume() {
  State = readState(Latest);
  loadTensors(Exec, Latest, O.Init);
  if (!O.Init.empty())
    rememberBase(O.Init);
  if (State.LossScale > 1)
    Optim.setLossScale(State.LossScale);
  print("resuming from '%s' at step %lld%s\n", Latest.c_str(),
        static_cast<long long>(State.Step),
        O.Init.empty() || hasFrozen(Exec.program())
            ? ""
            : "; its weights are those of the run, not of --init");
  if (State.Seed != O.Seed)
    fail("the run was started with --seed ", State.Seed, ", not ", O.Seed);
  auto Given = State.Options.find("preference");
  std::string Before = Given == State.Options.end() ? "none" : Given->second;
  if (Before != getPreference(O))
    fail("the run was started with --preference ", Before, ", not ",
         getPreference(O));
  if (Pairs && Pairs->hasReference())
    readReference();
  TrainingState OfRun = State;
  record();
  if (Leads && State.Step > 0)
    print("%s",
          describeChanges(OfRun, State.Options, State.Data, Rates, O.Steps)
              .c_str());
  if (State.Threads && State.Threads != Exec.threads())
    print("note: rank 0 had %lld threads and has %d now: sums may be rounded "
          "differently in their last bits\n",
          static_cast<long long>(State.Threads), Exec.threads());
  if (std::any_of(Exec.program().buckets,
                  Exec.program().buckets + Exec.program().num_buckets,
                  [](const PoplarBucket &B) { return B.residuals; }))
    print("note: the error feedback of lossy gradients starts at zero, so sums "
          "are rounded differently than without the interruption\n");
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
  double Loss = 0;
  if (Pairs) {
    PairSums Sums = Pairs->score(Batches, ValShare.Samples, Reference);
    Sums.reduce(Group);
    Loss = Sums.getLoss();
  } else {
    Loss = sum(Batches.evaluate()) / static_cast<double>(Targets);
  }
  WorseValidations = Loss < State.BestLoss ? 0 : WorseValidations + 1;
  State.BestLoss = std::min(State.BestLoss, Loss);
  return Loss;
}

double Trainer::trainLoaded(int64_t Targets, Metrics &Row) {
  if (!Pairs) {
    Optim.zeroGradients();
    return sum(Batches.train(Targets, Optim.lossScale())) /
           static_cast<double>(Targets);
  }
  PairSums Sums = Pairs->score(Batches, TrainShare.Samples, Reference);
  Sums.reduce(Group);
  Optim.zeroGradients();
  Pairs->train(Batches, Sums, Optim.lossScale());
  Row.Margin = Sums.getMargin();
  Row.Accuracy = Sums.getAccuracy();
  return Sums.getLoss();
}

/// One optimizer step. A batch without targets changes nothing.
Metrics Trainer::step() {
  setPhase("training", StepSeconds);
  Metrics Row;
  Row.Rate = Rates.at(State.Step);
  int64_t Targets =
      Batches.loadBatch(*Data.Train, State.Samples, TrainShare, State.Step);
  if (Targets) {
    Row.Loss = trainLoaded(Targets, Row);
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

void Trainer::save(bool IsBest) {
  setPhase("saving", LongPhase);
  auto Begin = std::chrono::steady_clock::now();
  // No checkpoint that can be resumed from lacks rows of its steps.
  if (Record)
    Record->sync();
  int64_t Scale = static_cast<int64_t>(Optim.lossScale());
  if (Group)
    Group->max(&Scale, 1);
  State.LossScale = static_cast<double>(Scale);
  saveCheckpoint(Exec, State, O.Out, O.Keep, IsBest);
  print("saved '%s/checkpoint-%lld'%s\n", O.Out.c_str(),
        static_cast<long long>(State.Step), IsBest ? ", the best so far" : "");
  LastSave = std::chrono::steady_clock::now();
  SaveSeconds = std::chrono::duration<double>(LastSave - Begin).count();
}

void Trainer::dump() {
  if (!O.DumpProducts.empty() && Exec.pipeline())
    fail("--dump-products: a pipeline stage has only a part of the products; "
         "use a plan without groups");
  if (!O.DumpGradients.empty() && sharesUnits(Exec.program()))
    fail("--dump-gradients: ranks that share units add up their gradients in "
         "the update only; use a plan in which none do");
  if (!O.DumpGradients.empty() && Exec.pipeline())
    fail("--dump-gradients: groups of a pipeline add up their gradients in the "
         "update only; use a plan without groups");
  start();
  int64_t Targets = Batches.loadBatch(*Data.Train, 0, TrainShare, 0);
  if (Targets == 0)
    fail("the first batch has no targets");
  ProductTrace Products(Exec);
  if (!O.DumpProducts.empty())
    Exec.products = &Products;
  Metrics Row;
  double Loss = trainLoaded(Targets, Row);
  print("loss %.9g\n", Loss);
  if (!O.DumpProducts.empty() && Leads)
    Products.write(O.DumpProducts);
  if (!O.DumpGradients.empty())
    writeGradients(Exec, O.DumpGradients);
  if (!O.DumpLogits.empty())
    dumpLogits();
}

void Trainer::dumpLogits() {
  std::vector<int64_t> Shape = {GlobalBatch, Model.seq_len, Model.vocab_size};
  std::vector<float> Logits(static_cast<size_t>(
      TrainShare.Samples * Model.seq_len * Model.logits_columns));
  Batches.infer(Logits.data());
  if (Group)
    Logits = gatherLogits(Exec, *Group, Logits, GlobalBatch, MicroBatch);
  if (Leads)
    writeSafetensors(O.DumpLogits, {{"logits", Shape, Logits.data()}});
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
  int64_t Wanted[] = {comm::StopSignals::isRequested() || getStopReason(),
                      IsDue && Leads};
  if (Group)
    Group->max(Wanted, 2);
  return {Wanted[0] != 0, Wanted[1] != 0};
}

void Trainer::watch(const Metrics &Row) {
  bool IsAbove = O.StopAbove >= 0 && Row.Loss > O.StopAbove;
  StepsAbove = IsAbove ? StepsAbove + 1 : 0;
}

const char *Trainer::getStopReason() const {
  return StepsAbove >= O.StopAfter                          ? "--stop-above"
         : O.Patience > 0 && WorseValidations >= O.Patience ? "--patience"
                                                            : nullptr;
}

/// On the first rank, which writes.
void Trainer::begin() {
  createDirectories(O.Out);
  Lock.emplace(O.Out);
  if (findLatestCheckpoint(O.Out) != Latest)
    fail("another process has trained in '", O.Out,
         "' since this one has begun; start this one again");
  rememberJob(Exec.program(), O.Out);
  if (Pairs && Pairs->hasReference() && Latest.empty())
    Reference.write(getReferencePath());
  Record.emplace(O.Out, State.Step, O.Steps, /*HasPairs=*/Pairs.has_value());
  Events.emplace(O.Out, State.Step);
  Devices->open(O.Out, State.Step);
  if (std::string Gap = Record->describeGap(); !Gap.empty())
    print("note: '%s/metrics.csv' has no rows of steps %s\n", O.Out.c_str(),
          Gap.c_str());
}

void Trainer::measureBaseline() {
  if ((O.Patience > 0 || O.KeepBest) && !ValSamples)
    fail("--patience and --keep-best are for the loss of a validation; give "
         "--val-data or --val-fraction, and an --eval-every above 0");
  if (O.BigramBaseline && !ValSamples)
    fail("--bigram-baseline is the loss of a validation; give --val-data or "
         "--val-fraction, and an --eval-every above 0");
  if (!Leads || !O.BigramBaseline)
    return;
  const DataFile &File = Data.Data.front();
  if (!File.Tokens || Data.Data.size() > 1)
    fail("--bigram-baseline needs a single --data of text or tokens, not "
         "examples in JSON");
  Baseline = getBigramLoss(*File.Tokens, File.TrainEnd, *Data.Validation,
                           ValSamples, Model);
}

void Trainer::writeBaseline() const {
  if (std::isnan(Baseline))
    return;
  std::printf("bigram baseline: validation loss %.4f\n", Baseline);
  char Text[32];
  std::snprintf(Text, sizeof(Text), "%.9g\n", Baseline);
  writeFileAtomically(O.Out + "/bigram-val-loss.txt", Text);
}

double Trainer::measurePeak() {
  auto Type = static_cast<PoplarType>(Exec.program().working_type);
  // That of a group is the sum of its ranks'.
  return sum(O.PeakGFlops > 0 ? O.PeakGFlops * 1e9
                              : Exec.device().measurePeakFlops(Type));
}

double Trainer::prepare() {
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
  measureBaseline();
  if (O.CheckReplicas)
    requireReplicas(Exec.program());
  if (!O.ReportMemory.empty())
    writeMemoryReport(Exec, O.ReportMemory);
  double Peak = measurePeak();
  if (!O.isDump())
    Devices.emplace(Group, Exec.program(), Exec.peakBytes());
  // Up to here nothing is written: bad input leaves no trace.
  if (Leads)
    begin();
  print("%s, %s, %d threads, %.1f GFLOP/s %s peak; %lld samples a step "
        "in micro-batches of %lld; %s of memory\n",
        Model.architecture, Model.Precision.c_str(), Exec.threads(), Peak / 1e9,
        O.PeakGFlops > 0 ? "given" : "measured",
        static_cast<long long>(GlobalBatch), static_cast<long long>(MicroBatch),
        formatBytes(Exec.peakBytes()).c_str());
  writeBaseline();
  std::fflush(stdout);
  return Peak;
}

void Trainer::run() {
  double Peak = prepare();
  comm::StopSignals Signals;
  int64_t FirstStep = State.Step;
  Progress Report(FirstStep, O.Steps,
                  Exec.program().flops_per_sample /
                      static_cast<double>(Model.seq_len),
                  Peak);
  LastSave = Start = std::chrono::steady_clock::now();
  SecondsBefore =
      Record && !Record->rows().empty() ? Record->rows().back().Seconds : 0;
  // The first steps may leave something behind: caches of OpenMP, graphs of a
  // GPU.
  std::optional<HeapCheck> Heap;
  if (O.CheckAllocations)
    Heap.emplace(FirstStep + 2);
  bool Saved = false;
  while (State.Step < O.Steps) {
    Requests Wanted = getRequests();
    if (Wanted.Stop)
      break;
    if (Wanted.Save && !Saved && State.Step > FirstStep) {
      save();
      Saved = true;
    }
    if (Heap)
      Heap->begin();
    Metrics Row = timeStep(Report);
    watch(Row);
    if (Heap)
      Heap->end(State.Step);
    bool Last = State.Step == O.Steps, IsBest = false;
    if (ValSamples && (Last || isDue(O.EvalEvery))) {
      double Before = State.BestLoss;
      Row.ValLoss = validate();
      IsBest = O.KeepBest && State.BestLoss < Before;
    }
    if (Record)
      note(Row, Report, Last || State.Step == FirstStep + 1);
    if (Last || isDue(O.LogEvery))
      Devices->write(State.Step);
    Saved = IsBest || isDue(O.SaveEvery);
    if (Saved)
      save(IsBest);
  }
  if (!Saved && !O.SkipSave)
    save();
  if (O.CheckReplicas)
    checkReplicas(Exec, "after step " + std::to_string(State.Step));
  if (Record)
    finish();
}

Metrics Trainer::timeStep(Progress &Report) {
  Devices->beginStep();
  auto Begin = std::chrono::steady_clock::now();
  Metrics Row = step();
  std::chrono::duration<double> Seconds =
      std::chrono::steady_clock::now() - Begin;
  if (Group)
    Group->recordStep(State.Step, Begin);
  int64_t Tokens = GlobalBatch * Model.seq_len;
  StepSeconds = Seconds.count();
  Row.TokensPerSecond = static_cast<double>(Tokens) / StepSeconds;
  Report.addStep(StepSeconds, Tokens);
  Devices->endStep(StepSeconds);
  return Row;
}

void Trainer::note(Metrics &Row, Progress &Report, bool Prints) {
  std::chrono::duration<double> SinceStart =
      std::chrono::steady_clock::now() - Start;
  Row.Seconds = SecondsBefore + SinceStart.count();
  Row.Tokens = static_cast<double>(State.Samples * Model.seq_len);
  Row.Epochs = static_cast<double>(State.Samples) /
               static_cast<double>(Data.Train->size());
  Record->add(Row);
  Events->add(Row);
  if (!Prints && !isDue(O.LogEvery) && std::isnan(Row.ValLoss))
    return;
  Report.print(Row);
  Record->flush();
  Events->flush();
}

void Trainer::finish() {
  Record->flush();
  Events->flush();
  writeFileAtomically(O.Out + "/loss.svg",
                      drawLossCurve(Record->rows(), Baseline, "bigram model"));
  if (State.Step < O.Steps)
    std::printf("stopped by %s after step %lld; continue with --resume\n",
                getStopReason() ? getStopReason() : "a signal",
                static_cast<long long>(State.Step));
  std::fflush(stdout);
}

/// The traffic of the first rank, and how much of its communication time was
/// hidden.
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

/// Reads data as a run that begins would, and checks what follows from their
/// number.
static void checkData(const PoplarProgram &Program, const Options &O,
                      Collectives *Group, bool Leads) {
  ModelInfo Model(Program);
  Beginning Begun = getBeginning(Model, O, Group, /*Latest=*/"");
  Options Decided = decideByKind(O, Begun);
  Sources Data = openData(Decided, Model, Leads, Group, /*Latest=*/"");
  decideByData(Decided, Begun.Kind, Data.Train->size(),
               getGlobalBatch(Program, O));
  if (!Leads)
    return;
  std::printf("%lld samples to train on",
              static_cast<long long>(Data.Train->size()));
  if (Data.Validation)
    std::printf(", %lld held out",
                static_cast<long long>(Data.Validation->size()));
  std::printf("\n");
}

void poplar::runtime::runTraining(const PoplarProgram &Program,
                                  const Options &O) {
  runJob(Program, O, [&](Group *Ranks) {
    checkRanks(Program, Ranks);
    if (O.CheckData)
      return checkData(Program, O, Ranks, !Ranks || Ranks->rank() == 0);
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
