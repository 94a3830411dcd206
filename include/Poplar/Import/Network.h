//===- Network.h - Networks of devices in JSON ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_NETWORK_H
#define POPLAR_IMPORT_NETWORK_H

#include "Poplar/Planner/Geo/GeoProblem.h"
#include "Poplar/Planner/Placement/Placement.h"
#include <optional>
#include <variant>

namespace poplar {

/// A network of equal devices; or, if it says how fast its `devices` compute,
/// of unlike ones.
using NetworkProblem = std::variant<PlacementProblem, GeoProblem>;

/// Reads a placement problem (docs/placement.md): the object at the root of
/// `file`, or, unless `scenario` is empty, the one of that name among its
/// `scenarios`. Where `stages` is not given, they may be chosen, which only
/// networks of unlike devices allow. On failure returns none, with one line for
/// the user, which names the file and the place, in `error`.
std::optional<NetworkProblem> readNetwork(const std::string &file,
                                          const std::string &scenario,
                                          std::optional<int> stages,
                                          std::string &error);

} // namespace poplar

#endif // POPLAR_IMPORT_NETWORK_H
