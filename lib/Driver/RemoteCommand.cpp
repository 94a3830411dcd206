//===- RemoteCommand.cpp - Commands of poplar on other hosts --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/RemoteCommand.h"
#include "Poplar/Support/Names.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include <optional>
#include <unistd.h>

using namespace poplar;

std::string poplar::getHostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

bool poplar::isThisHost(const std::string &host) {
  return host == "localhost" || host == getHostName();
}

bool poplar::runRemotely(const std::string &host, const std::string &program,
                         const std::vector<std::string> &words,
                         const std::string &output, std::string &error) {
  llvm::ErrorOr<std::string> ssh = llvm::sys::findProgramByName("ssh");
  if (!ssh) {
    error = "ssh, which starts commands on " + host +
            ", is not in PATH; on Debian: apt-get install openssh-client";
    return false;
  }
  llvm::SmallString<256> directory;
  if (std::error_code code = llvm::sys::fs::current_path(directory)) {
    error = "the current directory: " + code.message();
    return false;
  }
  std::string command =
      "cd " + formatWord(directory) + " && exec " + formatWord(program);
  for (const std::string &word : words)
    command += " " + formatWord(word);
  // Nobody may be there to type a password, and a host that does not answer
  // would be waited for as long as TCP does, which is minutes.
  llvm::StringRef arguments[] = {
      *ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", host, command};
  std::optional<llvm::StringRef> redirects[] = {"", std::nullopt, std::nullopt};
  if (!output.empty())
    redirects[1] = output;
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*ssh, arguments, std::nullopt,
                                         redirects, 0, 0, &message);
  if (status == 0)
    return true;
  error = host + ": `" + program + " " + words.front() +
          "` failed there, or could not be started by ssh" +
          (message.empty() ? "" : " (" + message + ")") +
          "; poplar and the current directory have to be at the same place on "
          "all hosts, and ssh has to need no password";
  return false;
}
