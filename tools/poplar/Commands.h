//===- Commands.h - Subcommands of poplar -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_COMMANDS_H
#define POPLAR_TOOLS_COMMANDS_H

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

/// Each adds one subcommand, whose callback runs it and sets `status`, the exit
/// status of the process.
void addImportCommand(CLI::App &app, int &status);
void addClusterCommand(CLI::App &app, int &status);
void addPlanCommand(CLI::App &app, int &status);
void addReportCommand(CLI::App &app, int &status);
void addPlaceCommand(CLI::App &app, int &status);
void addProfileCommand(CLI::App &app, int &status);
void addSimulateCommand(CLI::App &app, int &status);
void addBuildCommand(CLI::App &app, int &status);
void addDoctorCommand(CLI::App &app, int &status);
void addTrainCommand(CLI::App &app, int &status);
void addEvaluateCommand(CLI::App &app, int &status);
void addSampleCommand(CLI::App &app, int &status);
void addWatchCommand(CLI::App &app, int &status);
void addMergeCommand(CLI::App &app, int &status);
void addExportCommand(CLI::App &app, int &status);
void addFinetuneCommand(CLI::App &app, int &status);
void addPretrainCommand(CLI::App &app, int &status);

/// Replaces the recipe of `finetune RECIPE.yaml OPTION...` by the words that
/// it stands for, unless an option says otherwise. An exit status if that is
/// the end of the command: the recipe was only to be checked, or is refused.
std::optional<int> expandRecipe(std::vector<std::string> &words);

/// Prints `poplar: error: <message>`; returns the exit status of a failure.
int reportError(const std::string &message);

/// Becomes the job in a directory that poplar build wrote, with these
/// arguments; returns, the exit status of a failure, only where there is none.
int startJob(const std::string &directory, std::vector<std::string> arguments);

/// Writes a whole file or leaves the old one; "-" is standard output. Returns
/// false, with the error reported, if it cannot.
bool writeFile(const std::string &path, const std::string &contents);

#endif // POPLAR_TOOLS_COMMANDS_H
