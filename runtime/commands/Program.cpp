//===- Program.cpp - Commands of a generated executable -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/Quantized.h"
#include "checkpoint/Adapter.h"
#include "checkpoint/Checkpoint.h"
#include "comm/Launcher.h"
#include "comm/PluginTransport.h"
#include "comm/Watchdog.h"
#include "commands/Doctor.h"
#include "gguf/Export.h"
#include "job/Facts.h"
#include "job/RankFile.h"
#include "program/Executor.h"
#include "support/Error.h"
#include "support/ISA.h"
#include "support/RunDirectory.h"
#include "training/Trainer.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

using namespace poplar::runtime;

/// Whether products with experts are in another format than others: their
/// kernels have no TF32.
static bool hasExpertsInF32(const PoplarProgram &Program,
                            const ModelInfo &Model) {
  if (!Program.gpu || Model.Precision != "tf32")
    return false;
  constexpr std::string_view Prefix = "poplar_gpu_expert_";
  const PoplarGPUKernel *Kernels = Program.gpu->kernels;
  return std::any_of(
      Kernels, Kernels + Program.gpu->num_kernels,
      [&](const PoplarGPUKernel &Kernel) {
        return std::string_view(Kernel.name).substr(0, Prefix.size()) == Prefix;
      });
}

void poplar::runtime::printInfo(const PoplarProgram &Program,
                                const Options &O) {
  ModelInfo Model(Program);
  int64_t Elements = 0;
  for (int64_t I = 0; I < Program.num_parameters; ++I)
    Elements += Program.parameters[I].elements;
  auto Print = [](const char *What, long long Value, const char *Unit) {
    std::printf("%-18s %15lld%s\n", What, Value, Unit);
  };
  std::printf("%-18s %15s\n%-18s %15s\n%-18s %15s\n", "architecture",
              Model.architecture, "device type", Model.DeviceType.c_str(),
              "precision", Model.Precision.c_str());
  if (hasExpertsInF32(Program, Model))
    std::printf("%-18s %15s\n", "  of experts", "f32");
  Print("sequence length", Model.seq_len, "");
  Print("vocabulary", Model.vocab_size, "");
  Print("parameters", Elements, "");
  Print("tensors", Program.num_parameters, "");
  Print("fixed", Program.fixed_bytes, " bytes");
  Print("  of it scratch", Program.scratch_bytes, " bytes");
  Print("per sample", Program.bytes_per_sample, " bytes");
  std::printf("%-18s %15.6g\n", "FLOPs per sample", Program.flops_per_sample);
  std::printf("peak_bytes(b) = %lld + b * %lld\n",
              static_cast<long long>(getPeakBytes(Program, 0)),
              static_cast<long long>(Program.bytes_per_sample));
  int64_t Largest = O.MicroBatch ? O.MicroBatch : 64;
  for (int64_t Batch = 1; Batch <= Largest; Batch *= 2)
    std::printf("  batch %-4lld %s\n", static_cast<long long>(Batch),
                formatBytes(getPeakBytes(Program, Batch)).c_str());
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    std::printf("  %-56s [", P.name);
    for (int64_t D = 0; D < P.rank; ++D)
      std::printf(D ? ",%lld" : "%lld", static_cast<long long>(P.shape[D]));
    const char *Format = P.quantized == POPLAR_NF4          ? " nf4"
                         : P.quantized == POPLAR_NF4_DOUBLE ? " nf4_double"
                         : P.quantized == POPLAR_INT8       ? " int8"
                                                            : "";
    std::printf("]%s%s%s\n", P.decay ? " decay" : "",
                Program.buckets[P.bucket].frozen ? " frozen" : "", Format);
  }
}

/// Before the first use of oneDNN: a device type is compiled for an instruction
/// set, and oneDNN must not use more of the CPU than that.
static void prepareProcess(const PoplarProgram &Program,
                           Options::Command Command) {
  checkMaxISA();
  ModelInfo Model(Program);
  std::string Missing = findMissingInstructions(Program);
  // The doctor says so of all ranks at once.
  bool Computes = Command != Options::Doctor && Command != Options::Info &&
                  Command != Options::Help;
  if (Computes && !Missing.empty())
    fail("this CPU has no ", Missing, ", which ", Model.DeviceType,
         " is compiled for",
         std::getenv("POPLAR_MAX_ISA") ? " (POPLAR_MAX_ISA hides instructions)"
                                       : "",
         "; build for a device type of this CPU (poplar cluster detect)");
  limitLibraries(Program.isa);
}

/// [256,16]
static std::string formatShape(const PoplarParameter &P) {
  std::string Text;
  for (int64_t D = 0; D < P.rank; ++D)
    Text += (D ? "," : "") + std::to_string(P.shape[D]);
  return "[" + Text + "]";
}

/// Parameters are of their shape, and have memory of their own in their
/// buckets.
static void checkParameters(const PoplarProgram &Program) {
  constexpr const char *Again = "; build it again";
  std::map<std::pair<int64_t, int64_t>, const PoplarParameter *> Places;
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    if (P.rank < 0 || P.rank > 4)
      fail("the program is damaged: '", P.name, "' has ", P.rank, " dimensions",
           Again);
    int64_t Elements = 1;
    bool Fits = true;
    for (int64_t D = 0; D < P.rank; ++D)
      Fits &= P.shape[D] > 0 &&
              !__builtin_mul_overflow(Elements, P.shape[D], &Elements);
    if (!Fits || Elements != P.elements)
      fail("the program is damaged: '", P.name, "' is ", formatShape(P),
           " and has ", P.elements, " elements", Again);
    if (P.bucket < 0 || P.bucket >= Program.num_buckets)
      fail("the program is damaged: '", P.name, "' is in bucket ", P.bucket,
           " of ", Program.num_buckets, Again);
    const PoplarBucket &Bucket = Program.buckets[P.bucket];
    if ((P.quantized != 0) != (Bucket.quantized != 0) ||
        (P.quantized && (P.rank != 2 || !poplar_is_quantized(P.quantized))))
      fail("the program is damaged: '", P.name, "' of ", P.rank,
           " dimensions is in format ", P.quantized, " in bucket '",
           Bucket.name, "'", Again);
    int64_t Stored = countStored(P);
    if (P.offset < 0 || Stored > Bucket.elements ||
        P.offset > Bucket.elements - Stored)
      fail("the program is damaged: '", P.name, "' lies outside its bucket '",
           Bucket.name, "'", Again);
    auto [Other, IsFree] = Places.try_emplace({P.bucket, P.offset}, &P);
    if (!IsFree)
      fail("the program is damaged: '", P.name, "' shares memory with '",
           Other->second->name, "'", Again);
  }
  const PoplarParameter *Last = nullptr;
  for (const auto &[Place, P] : Places) {
    if (Last && Last->bucket == P->bucket &&
        Last->offset + countStored(*Last) > P->offset)
      fail("the program is damaged: '", P->name, "' shares memory with '",
           Last->name, "'", Again);
    Last = P;
  }
}

/// The description and the tables are of one program: ids of tokens are held
/// against the vocabulary that the one names, and index what the others hold.
static void checkTables(const PoplarProgram &Program) {
  checkParameters(Program);
  ModelInfo Model(Program);
  int64_t Elements = 0;
  bool HasEmbedding = false;
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    Elements += P.elements;
    const int64_t *Shape = P.slice ? P.slice->shape : P.shape;
    HasEmbedding |= P.rank == 2 && Shape[0] == Model.vocab_size;
  }
  int64_t Described = Program.model->num_elements;
  if (Described != Elements)
    fail("the program is damaged: its description says ", Described,
         " parameters, but it has ", Elements, "; build it again");
  if (!HasEmbedding)
    fail("the program is damaged: its description says a vocabulary of ",
         Model.vocab_size,
         " tokens, but no embedding has as many rows; "
         "build it again");
}

/// What reads and writes files only is the work of one process.
static void requireOne(const char *Command) {
  if (int Started = comm::getNumStarted(); Started > 1)
    fail(Command, " is the work of one process, but ", Started,
         " were started; use poplar ", Command);
}

static void runMerge(const PoplarProgram &Program, const Options &O) {
  requireOne("merge");
  std::string Directory = resolveCheckpoint(O.Checkpoint);
  if (!hasFrozen(Program))
    fail("'", Directory,
         "' has nothing to merge: its program was imported with neither "
         "--lora-rank nor --train-parameters, and the run has the whole model");
  std::string Base =
      findBase(Directory, O.Init.empty() ? "" : resolveCheckpoint(O.Init));
  if (Base.empty())
    fail("'", Directory,
         "' does not say which model it began with; name it with --init");
  mergeRun(Program, Base, Directory, O.Out);
}

/// Prints an error of this rank, and tells the others if they have not met it
/// yet.
static void report(const std::string &Message) {
  std::fflush(stdout);
  comm::reportFailure(Message);
  comm::declineJob(Message);
}

int poplar::runtime::runMain(const std::function<const PoplarProgram &()> &Load,
                             int Argc, const char *const *Argv) {
  // A write beyond a limit on file sizes is then an error as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    comm::endWithLauncher();
    Options O = parseOptions(Argc, Argv);
    const PoplarProgram &Compiled = Load();
    prepareProcess(Compiled, O.TheCommand);
    checkTables(Compiled);
    std::optional<RankFile> Ranks;
    if (!O.Ranks.empty())
      Ranks.emplace(Compiled, O.Ranks);
    const PoplarProgram &Program = Ranks ? Ranks->program() : Compiled;
    switch (O.TheCommand) {
    case Options::Train:
      runTraining(Program, O);
      break;
    case Options::Evaluate:
      runEvaluation(Program, O);
      break;
    case Options::Sample:
      runSampling(Program, O);
      break;
    case Options::Profile:
      runProfile(Program, O);
      break;
    case Options::Links:
      runLinks(Program, O);
      break;
    case Options::Doctor:
      runDoctor(Program, O);
      break;
    case Options::Info:
      printInfo(Program, O);
      break;
    case Options::Merge:
      runMerge(Program, O);
      break;
    case Options::Export:
      requireOne("export");
      exportModel(Program, O);
      break;
    case Options::ListOptions:
      std::fputs(listOptions().c_str(), stdout);
      break;
    case Options::Help:
      std::fputs(getHelp(O.HelpOf).c_str(), stdout);
      break;
    }
    if (std::fflush(stdout) != 0)
      fail("cannot write to the standard output");
    return 0;
  } catch (const std::bad_alloc &) {
    report("out of memory; use a smaller --batch or --global-batch");
  } catch (const Disagreement &) {
    std::fflush(stdout);
  } catch (const std::exception &E) {
    report(E.what());
  }
  return 1;
}
