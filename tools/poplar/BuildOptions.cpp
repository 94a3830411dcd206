//===- BuildOptions.cpp - Options of build and plan -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BuildOptions.h"
#include "llvm/Support/Threading.h"

using namespace poplar;

void addBuildOptions(CLI::App *command, BuildOptions &options) {
  addWordOption(command, "--precision", options.precision,
                std::array{NumberFormat::F32, NumberFormat::BF16},
                "Format of activations and working weights");
  command
      ->add_option_function<std::string>(
          "--recompute",
          [&options](const std::string &text) {
            options.recompute = *parseRecomputation(text);
          },
          "What the backward pass recomputes to save memory; with :N, in the "
          "first N layers alone; in a plan, on all devices")
      ->default_str(toString(options.recompute))
      ->type_name("{" + joinWords<RecomputePolicy>(",") + "}[:N]")
      ->check([](const std::string &text) {
        return parseRecomputation(text)
                   ? ""
                   : "expected " + describeRecomputations() + ", not '" + text +
                         "'";
      });
  command
      ->add_option("--cpu", options.cpu,
                   "CPU to generate code for, by its LLVM name")
      ->type_name("NAME");
  options.threads =
      llvm::heavyweight_hardware_concurrency().compute_thread_count();
  command
      ->add_option(
          "--threads", options.threads,
          "Threads of a rank, for which the libraries' scratch is planned")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option(
          "--max-batch", options.maxBatch,
          "Largest micro-batch, for which the libraries' scratch is planned")
      ->check(CLI::Range(1, 1 << 20));
}

std::string explainMachineOption(const CLI::App &command,
                                 const std::string &machine) {
  constexpr std::pair<const char *, const char *> options[] = {
      {"--precision", "the cluster file gives `precision` of each device type"},
      {"--cpu", "the cluster file gives `target` of each device type"},
      {"--threads", "the cluster file gives `threads` of each device type"},
      {"--max-batch", "a plan has micro-batches of its own"}};
  for (auto [name, instead] : options)
    if (command.get_option(name)->count() > 0)
      return std::string(name) + " is for " + machine + "; " + instead;
  return "";
}

void addScheduleOptions(CLI::App *command, OverlapOptions &options) {
  command->add_flag(
      "!--synchronous", options.overlap,
      "Do not overlap communication and computation, for comparison");
  command
      ->add_option(
          "--overlap-depth", options.overlapDepth,
          "Collectives of each kind that overlap the computation of a unit")
      ->check(CLI::Range(1, 64));
}

std::string explainIdleScheduleOption(const CLI::App &command) {
  return command.get_option("--synchronous")->count() > 0 &&
                 command.get_option("--overlap-depth")->count() > 0
             ? "--synchronous overlaps nothing; leave out --overlap-depth"
             : "";
}
