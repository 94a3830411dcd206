//===- RemoteCommand.h - Commands of poplar on other hosts ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_REMOTECOMMAND_H
#define POPLAR_DRIVER_REMOTECOMMAND_H

#include <string>
#include <vector>

namespace poplar {

/// What this machine calls itself.
std::string getHostName();

/// Whether a name stands for this machine: localhost, or what it calls itself.
bool isThisHost(const std::string &host);

/// Runs a command of `program`, an executable of poplar, by ssh in the current
/// directory, both of which the host has to have at the same place. What it
/// prints goes to the file `output`, to the terminal if that is empty. Fails,
/// with `error` set, unless the command ends well.
bool runRemotely(const std::string &host, const std::string &program,
                 const std::vector<std::string> &words,
                 const std::string &output, std::string &error);

} // namespace poplar

#endif // POPLAR_DRIVER_REMOTECOMMAND_H
