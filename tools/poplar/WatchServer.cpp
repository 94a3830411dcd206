//===- WatchServer.cpp - Pages over HTTP ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WatchServer.h"
#include <httplib.h>

std::string
servePages(const std::string &host, int port,
           const std::map<std::string, std::function<ServedPage()>> &pages,
           const std::function<void(int)> &ready) {
  httplib::Server server;
  // Nothing is taken in, and no page of another origin may use this one.
  server.set_payload_max_length(0);
  server.set_default_headers(
      {{"Cache-Control", "no-store"},
       {"Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src "
        "'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"}});
  for (const auto &[path, make] : pages)
    server.Get(path, [&make = make](const httplib::Request &,
                                    httplib::Response &response) {
      ServedPage page = make();
      if (page.error.empty())
        return response.set_content(page.html, "text/html; charset=utf-8");
      response.status = 500;
      response.set_content(page.error + "\n", "text/plain; charset=utf-8");
    });
  // Another process may not take the port as well.
  server.set_socket_options([](int socket) {
    int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  if (port == 0)
    port = server.bind_to_any_port(host);
  else if (!server.bind_to_port(host, port))
    port = -1;
  if (port < 0)
    return "cannot listen there: the port is taken, or the address is not of "
           "this machine; choose another --port";
  ready(port);
  server.listen_after_bind();
  return "";
}
