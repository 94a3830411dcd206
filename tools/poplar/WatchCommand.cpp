//===- WatchCommand.cpp - poplar watch ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Poplar/Driver/RunState.h"
#include "Poplar/Report/WatchPage.h"
#include "WatchServer.h"
#include "llvm/Support/Chrono.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <memory>
#include <thread>

using namespace poplar;
namespace fs = llvm::sys::fs;

namespace {
struct Arguments {
  std::string run, host = "127.0.0.1";
  int port = 7878;
  bool isTerminal = false;
};
} // namespace

/// The content of a file that another process writes; empty if there is none.
static std::string readFile(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false,
                                          /*IsVolatile=*/true);
  return file ? (*file)->getBuffer().str() : "";
}

/// What the run has written so far; `error` if it is none.
static WatchInput readRun(const std::string &run, std::string &error) {
  WatchInput input;
  input.name = run;
  std::string metrics = run + "/metrics.csv", devices = run + "/devices.csv";
  fs::file_status status;
  if (fs::status(metrics, status)) {
    error = run + ": is not a run of poplar train, or has not begun: no "
                  "metrics.csv; give the directory of --out";
    return input;
  }
  auto age =
      std::chrono::system_clock::now() - status.getLastModificationTime();
  input.age = std::max(0.0, std::chrono::duration<double>(age).count());
  std::string text = readFile(metrics);
  // A row that is being written has no end yet.
  text.resize(text.rfind('\n') + 1);
  if (auto steps = readMetrics(text, error))
    input.steps = std::move(*steps);
  else
    error = metrics + ":" + error;
  if (!error.empty() || !fs::exists(devices))
    return input;
  if (auto rows = readDeviceTimes(readFile(devices), error))
    input.devices = std::move(*rows);
  else
    error = devices + ":" + error;
  if (std::optional<RunState> state = readRunState(run))
    input.lastStep = state->lastStep;
  input.gpus = readGPUSensors();
  return input;
}

/// Draws again every two seconds, or once where nobody looks.
static int watchInTerminal(const Arguments &args) {
  bool isWatched = llvm::sys::Process::StandardOutIsDisplayed();
  while (true) {
    std::string error;
    WatchInput input = readRun(args.run, error);
    if (!error.empty())
      return reportError(error);
    unsigned columns = llvm::sys::Process::StandardOutColumns();
    std::string text = formatWatchText(input, columns ? columns : 80);
    llvm::outs() << (isWatched ? "\033[H\033[2J" : "") << text;
    llvm::outs().flush();
    if (!isWatched)
      return 0;
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
}

static int watchInBrowser(const Arguments &args) {
  std::string error;
  readRun(args.run, error);
  if (!error.empty())
    return reportError(error);
  auto serve = [run = args.run](std::string (*format)(const WatchInput &)) {
    return [run, format] {
      ServedPage page;
      WatchInput input = readRun(run, page.error);
      if (page.error.empty())
        page.html = format(input);
      return page;
    };
  };
  error = servePages(
      args.host, args.port,
      {{"/", serve(formatWatchPage)}, {"/view", serve(formatWatchView)}},
      [&](int port) {
        llvm::outs() << "http://" << args.host << ":" << port
                     << "  shows the run; Ctrl-C ends\n";
        if (args.host == "127.0.0.1")
          llvm::outs() << "from another machine: ssh -L " << port
                       << ":127.0.0.1:" << port << " HOST\n";
        llvm::outs().flush();
      });
  return error.empty() ? 0
                       : reportError(args.host + ":" +
                                     std::to_string(args.port) + ": " + error);
}

void addWatchCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "watch", "Show a run in a browser or a terminal while it goes on");
  command->footer("The page shows loss, speed, and what each device computes "
                  "and waits. It is read only,\nand for this machine alone "
                  "unless --host says otherwise (docs/watch.md).\n\nExample:\n"
                  "  poplar watch run --terminal");
  auto args = std::make_shared<Arguments>();
  command->add_option("run", args->run, "Directory given to poplar train --out")
      ->type_name("RUN")
      ->required();
  CLI::Option *port =
      command->add_option("--port", args->port, "Port of the page; 0 for any")
          ->type_name("N")
          ->check(CLI::Range(0, 65535))
          ->capture_default_str();
  command
      ->add_option("--host", args->host,
                   "Address to listen on; 0.0.0.0 lets everybody see the run "
                   "who reaches this machine")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command
      ->add_flag(
          "--terminal", args->isTerminal,
          "Draw in this terminal, or print once if the output is no terminal")
      ->excludes(port);
  command->callback([=, &status] {
    status = args->isTerminal ? watchInTerminal(*args) : watchInBrowser(*args);
  });
}
