//===- RunCommands.cpp - poplar train and poplar sample -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both start the executable that `poplar build` made, in place of this process,
// so that signals, exit status and output are its own.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace {

/// In a run's directory: link to the executable that trained it, made by that
/// executable.
constexpr const char *kExecutableLink = "executable";

} // namespace

static int execute(const std::string &program,
                   std::vector<std::string> arguments) {
  std::vector<char *> argv = {const_cast<char *>(program.c_str())};
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return reportError(program + ": " + std::strerror(errno));
}

int startJob(const std::string &directory, std::vector<std::string> arguments) {
  // A plan's job, or the machine at hand.
  llvm::SmallString<256> program(directory + "/launch.sh");
  if (!llvm::sys::fs::can_execute(program))
    program = directory + "/host/train";
  llvm::sys::fs::make_absolute(program);
  std::error_code code =
      llvm::sys::fs::access(program, llvm::sys::fs::AccessMode::Execute);
  if (code == std::errc::permission_denied)
    return reportError(program.str().str() + ": " + code.message());
  if (code)
    return reportError(directory + ": holds neither launch.sh nor an "
                                   "executable host/train; make them with "
                                   "poplar build");
  return execute(program.str().str(), std::move(arguments));
}

/// The link of a run, or of the run that a checkpoint lies in.
static std::string getLink(const std::string &runOrCheckpoint) {
  namespace fs = llvm::sys::fs;
  llvm::SmallString<256> directory(runOrCheckpoint);
  llvm::SmallString<256> checkpoint;
  if (fs::exists(directory + "/state.json") &&
      !fs::real_path(directory, checkpoint))
    directory = llvm::sys::path::parent_path(checkpoint);
  llvm::sys::path::append(directory, kExecutableLink);
  return directory.str().str();
}

/// One of the executables of a run's job; empty if there is none.
static std::string findExecutable(const std::string &run) {
  llvm::SmallString<128> target;
  if (llvm::sys::fs::real_path(getLink(run), target))
    return "";
  if (llvm::sys::path::filename(target) != "launch.sh")
    return target.str().str();
  // Beside it is a directory for each device type.
  std::string first;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator
           entry(llvm::sys::path::parent_path(target), code),
       end;
       entry != end && !code; entry.increment(code)) {
    std::string program = entry->path() + "/train";
    if (llvm::sys::fs::can_execute(program) &&
        (first.empty() || program < first))
      first = program;
  }
  return first;
}

static int reportNoRun(const std::string &run) {
  namespace fs = llvm::sys::fs;
  std::string link = getLink(run);
  if (!fs::exists(run))
    return reportError(run + ": No such file or directory; expected a run, the "
                             "directory given to poplar train --out, or one of "
                             "its checkpoints");
  if (!fs::is_symlink_file(link))
    return reportError(
        run + ": is not a run of poplar train; poplar train PROGRAM --init "
              "HF_DIR --data FILE --steps 0 --out RUN makes one of a model");
  if (fs::access(link, fs::AccessMode::Execute) == std::errc::permission_denied)
    return reportError(
        link + ": " +
        std::make_error_code(std::errc::permission_denied).message());
  return reportError(link + ": leads to a program that is gone; build it again "
                            "there, or let the link lead to where it is now");
}

/// What trained a run: an executable, or several that are launched.
static int startRun(const std::string &run,
                    std::vector<std::string> arguments) {
  std::string program = getLink(run);
  if (!llvm::sys::fs::can_execute(program))
    return reportNoRun(run);
  return execute(program, std::move(arguments));
}

void addTrainCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("train", "Train a program that poplar build wrote");
  command->prefix_command();
  command->footer("The options are those of the executable: poplar train DIR "
                  "--help lists them.\n\nExample:\n  poplar train program "
                  "--data examples/data/corpus.txt --steps 300 --out run");
  auto directory = std::make_shared<std::string>();
  command->add_option("dir", *directory, "Directory written by poplar build")
      ->type_name("DIR")
      ->required();
  command->callback([=, &status] {
    std::vector<std::string> arguments = command->remaining();
    arguments.insert(arguments.begin(), "train");
    status = startJob(*directory, std::move(arguments));
  });
}

namespace {
/// A command that writes a run's model in another form, from files alone.
struct Conversion {
  std::string run, base, output;
  /// Other options of the executable's command, with their values.
  std::vector<std::pair<std::string, std::string>> options;
};
} // namespace

/// Adds a command with the options that all conversions have. `what` is what it
/// writes, such as DIR.
static CLI::App *addConversion(CLI::App &app, int &status,
                               const std::string &name,
                               const std::string &description,
                               const std::string &what,
                               const std::shared_ptr<Conversion> &arguments) {
  CLI::App *command = app.add_subcommand(name, description);
  command
      ->add_option("run", arguments->run,
                   "Directory given to poplar train --out, or one of its "
                   "checkpoints")
      ->type_name("RUN")
      ->required();
  command
      ->add_option("--init", arguments->base,
                   "The model, if it is no longer where the run had it from")
      ->type_name("HF_DIR");
  command
      ->add_option("-o,--output", arguments->output,
                   (what == "DIR" ? "Directory" : "File") +
                       std::string(" to write, which must not exist"))
      ->type_name(what)
      ->required();
  command->callback([=, &status] {
    std::vector<std::string> list = {name, "--checkpoint", arguments->run,
                                     "--out", arguments->output};
    if (!arguments->base.empty())
      list.insert(list.end(), {"--init", arguments->base});
    for (const auto &[option, value] : arguments->options)
      if (!value.empty())
        list.insert(list.end(), {"--" + option, value});
    // One process does it.
    std::string program = findExecutable(arguments->run);
    status = program.empty() ? reportNoRun(arguments->run)
                             : execute(program, std::move(list));
  });
  return command;
}

void addMergeCommand(CLI::App &app, int &status) {
  auto arguments = std::make_shared<Conversion>();
  addConversion(app, status, "merge",
                "Add the adapters of a run, or the weights that it trained, to "
                "its model",
                "DIR", arguments)
      ->footer("Writes a checkpoint that transformers can open.\n\n"
               "Example:\n  poplar merge lora-run -o merged");
}

void addExportCommand(CLI::App &app, int &status) {
  auto arguments = std::make_shared<Conversion>();
  arguments->options = {
      {"format", ""}, {"tokenizer", ""}, {"chat-template", ""}};
  CLI::App *command =
      addConversion(app, status, "export",
                    "Write the model of a run as a GGUF file, for llama.cpp",
                    "FILE", arguments);
  command->footer("Adapters are added to the weights; the tokenizer and the "
                  "chat template go along\n(docs/export.md).\n\nExample:\n  "
                  "poplar export run -o model.gguf --format q8_0");
  command
      ->add_option("--format", arguments->options[0].second,
                   "How matrices are stored (default: bf16)")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}));
  command
      ->add_option("--tokenizer", arguments->options[1].second,
                   "tokenizer.json or tokenizer.model (default: that of the "
                   "model)")
      ->type_name("FILE");
  command
      ->add_option("--chat-template", arguments->options[2].second,
                   "File of Jinja, or chatml, llama-3 and the like (default: "
                   "the model's own; if it ships none, by its tokens)")
      ->type_name("FILE|NAME");
}

/// A command of the executable that trained a run, with the executable's
/// options.
static void addRunCommand(CLI::App &app, int &status, const std::string &name,
                          const std::string &what, const std::string &example) {
  CLI::App *command = app.add_subcommand(name, what);
  command->prefix_command();
  command->footer("The options are those of the executable: poplar " + name +
                  " RUN --help lists them.\n\nExample:\n  poplar " + name +
                  " " + example);
  auto run = std::make_shared<std::string>();
  command
      ->add_option("run", *run,
                   "Directory given to poplar train --out, or one of its "
                   "checkpoints")
      ->type_name("RUN")
      ->required();
  command->callback([=, &status] {
    std::vector<std::string> arguments = command->remaining();
    arguments.insert(arguments.begin(), {name, "--checkpoint", *run});
    status = startRun(*run, std::move(arguments));
  });
}

void addSampleCommand(CLI::App &app, int &status) {
  addRunCommand(app, status, "sample", "Continue a prompt from a trained run",
                "run --prompt \"KING HENRY:\" --tokens 200 --temperature 0.8");
}

void addEvaluateCommand(CLI::App &app, int &status) {
  addRunCommand(app, status, "evaluate",
                "Print the loss and the perplexity of a trained run on data",
                "run --data examples/data/corpus.txt");
}
