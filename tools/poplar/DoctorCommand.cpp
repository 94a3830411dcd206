//===- DoctorCommand.cpp - poplar doctor ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include <memory>

void addDoctorCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "doctor", "Check that a job can run, on all of its ranks");
  command->footer(
      "Starts the job's ranks where they would train, and has them compare\n"
      "drivers, libraries, chips, memory, networks, NCCL's variables and "
      "clocks, with\neach other and with what the plan needs; then they add "
      "up a short array. Whatever\nfails is said with the rank, its host and "
      "the remedy; the exit status is then 1.\n\nExample:\n"
      "  poplar doctor build/job");
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Directory written by poplar build")
      ->type_name("DIR")
      ->required();
  command->callback([=, &status] { status = startJob(*job, {"doctor"}); });
}
