//===- WatchServer.h - Pages over HTTP --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_WATCHSERVER_H
#define POPLAR_TOOLS_WATCHSERVER_H

#include <functional>
#include <map>
#include <string>

/// The text of a page of HTML, or what is wrong.
struct ServedPage {
  std::string html, error;
};

/// Serves pages by their paths, read only, on `host` and `port` (0: a free
/// one), until the process is ended. Calls `ready` with the port. Returns what
/// is wrong if it cannot.
std::string
servePages(const std::string &host, int port,
           const std::map<std::string, std::function<ServedPage()>> &pages,
           const std::function<void(int)> &ready);

#endif // POPLAR_TOOLS_WATCHSERVER_H
