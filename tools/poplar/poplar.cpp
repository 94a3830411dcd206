//===- poplar.cpp - The command line --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Commit.h"
#include "HelpFormatter.h"
#include "Poplar/Runtime/ABI.h"
#include "Poplar/Support/HostCPU.h"
#include "SlowNote.h"
#include "UnknownOption.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/InitLLVM.h"
#include <algorithm>
#include <csignal>
#include <optional>
#include <stdexcept>

/// Whether it is --FLAG=NUMBER with a number of more than 64 bits.
static bool isFlagOutOfRange(llvm::StringRef word) {
  llvm::StringRef value = word.split('=').second;
  int64_t number;
  return word.starts_with("--") && value.getAsInteger(10, number) &&
         !value.empty() &&
         value.drop_while([](char c) {
                return c == '-' || c == '+';
              }).find_first_not_of("0123456789") == llvm::StringRef::npos;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // A write beyond a limit on file sizes is then an error as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  if (std::string error = poplar::checkMaxISA(); !error.empty())
    return reportError(error);
  CLI::App app("Compiles and trains transformers on mixed accelerators.",
               "poplar");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  poplar import examples/models/tiny-llama.json -o "
      "model.mlir\n  poplar build model.mlir -o program\n  poplar train "
      "program --data examples/data/corpus.txt --steps 20 --out run\n  "
      "poplar sample run --prompt \"KING HENRY:\"\n\npoplar finetune takes "
      "all steps for a model of your own: poplar finetune HF_DIR --data\n"
      "chat.jsonl --out run. poplar COMMAND --help lists the options of a "
      "command. For several\ndevices, poplar cluster detect and poplar plan "
      "come before poplar build.");
  // Commands take these over.
  app.formatter(std::make_shared<HelpFormatter>());
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version",
                       "poplar " POPLAR_VERSION " (LLVM " LLVM_VERSION_STRING
                       ", programs of ABI " +
                           std::to_string(POPLAR_ABI_VERSION) +
                           ")\ncommit " POPLAR_COMMIT
                           "\ntargets x86-64, NVIDIA GPUs",
                       "Print the version and exit");
  app.failure_message([](const CLI::App *, const CLI::Error &error) {
    return std::string("poplar: error: ") + error.what() +
           "\nRun with --help for more.\n";
  });
  int status = 0;
  addFinetuneCommand(app, status);
  addPretrainCommand(app, status);
  addImportCommand(app, status);
  addClusterCommand(app, status);
  addProfileCommand(app, status);
  addPlanCommand(app, status);
  addSimulateCommand(app, status);
  addReportCommand(app, status);
  addPlaceCommand(app, status);
  addBuildCommand(app, status);
  addDoctorCommand(app, status);
  addTrainCommand(app, status);
  addEvaluateCommand(app, status);
  addSampleCommand(app, status);
  addWatchCommand(app, status);
  addMergeCommand(app, status);
  addExportCommand(app, status);
  // The program's own --help lists its options. What they are is not known
  // here, so that a value of one could not be told from the directory.
  llvm::StringRef command = argc > 2 ? argv[1] : "";
  if (command == "train" || command == "evaluate" || command == "sample") {
    llvm::StringRef first = argv[2];
    if (!first.starts_with("-"))
      app.get_subcommand(command.str())->set_help_flag();
    else if (first != "--help" && first != "-h")
      return reportError(
          "poplar " + command.str() + ": " +
          (command == "train" ? "DIR, which poplar build wrote"
                              : "RUN, which poplar train wrote") +
          ", comes before the options: poplar " + command.str() +
          (command == "train" ? " DIR " : " RUN ") + first.str() + " ...");
  }
  // A profile says itself how far it has come, and the others become programs.
  std::optional<SlowNote> note;
  for (const char *slow :
       {"import", "plan", "simulate", "report", "place", "build"})
    if (argc > 1 && llvm::StringRef(argv[1]) == slow)
      note.emplace(std::string("poplar ") + slow);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (std::optional<int> end = expandRecipe(words))
    return *end;
  // The library takes the last word first.
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::RequiredError &error) {
    if (std::string extras = describeExtras(app); !extras.empty())
      return reportError(extras);
    // The library would say that a command is missing, of a misspelt one, too.
    // What it says of an option or an argument, it says well.
    const CLI::App *group = &app;
    while (!group->get_subcommands().empty())
      group = group->get_subcommands().front();
    std::vector<const CLI::App *> commands = group->get_subcommands(nullptr);
    if (commands.empty()) {
      app.exit(error);
      return 1;
    }
    std::string known;
    for (const CLI::App *command : commands)
      known += (known.empty() ? "" : ", ") + command->get_name();
    bool isUnknown = group == &app && argc > 1 && argv[1][0] != '-';
    return reportError(
        (isUnknown ? "unknown command '" + std::string(argv[1]) + "'"
         : group == &app
             ? "no command is given"
             : "poplar " + group->get_name() + " needs one more word") +
        "; there are " + known);
  } catch (const CLI::ExtrasError &error) {
    std::string extras = describeExtras(app);
    return reportError(extras.empty() ? error.what() : extras);
  } catch (const std::out_of_range &) {
    // An error of the library about the value of a flag, which it does not
    // name.
    auto *word = std::find_if(argv + 1, argv + argc, isFlagOutOfRange);
    return reportError((word == argv + argc ? "a flag" : std::string(*word)) +
                       " is out of range: a flag is true or false");
  } catch (const CLI::ParseError &error) {
    // Help is an "error" whose status is 0; all others have one of their own.
    return app.exit(error) == 0 ? 0 : 1;
  }
  return status;
}
