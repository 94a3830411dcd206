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
  CLI::App *command =
      app.add_subcommand("doctor", "Check on all ranks that a job can run");
  command->footer(
      "Starts the ranks where they would train. They compare drivers, "
      "libraries, chips, memory,\nnetworks, NCCL's variables and clocks with "
      "each other and with what the plan needs, and\nadd up a short array. A "
      "check that fails is printed with the rank, its host and the\nremedy; "
      "the exit status is then 1.\n\nExample:\n  poplar doctor job");
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Directory written by poplar build")
      ->type_name("DIR")
      ->required();
  command->callback([=, &status] { status = startJob(*job, {"doctor"}); });
}
