//===- Topology.cpp - Which ranks share a node ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Topology.h"
#include "support/Error.h"

#include <map>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

Topology::Topology(const std::vector<int> &Nodes,
                   const std::vector<bool> &WithLibrary) {
  std::map<int, int> Numbers;
  for (int Node : Nodes) {
    int Number = Numbers.try_emplace(Node, static_cast<int>(Members.size()))
                     .first->second;
    if (Number == numNodes()) {
      Members.emplace_back();
      Library.push_back(!WithLibrary.empty() && WithLibrary[NodeOf.size()]);
    }
    LocalRank.push_back(static_cast<int>(Members[Number].size()));
    Members[Number].push_back(static_cast<int>(NodeOf.size()));
    NodeOf.push_back(Number);
  }
}

int Topology::getLeader(int Node, int Slice) const {
  if (NodeOf[Slice] == Node)
    return Slice;
  const std::vector<int> &Ranks = Members[Node];
  return Ranks[static_cast<size_t>(Slice) % Ranks.size()];
}

std::vector<int> comm::parseNodes(const std::string &Text, int Size,
                                  const std::string &Variable) {
  std::vector<int> Nodes;
  size_t Begin = 0;
  while (Begin <= Text.size()) {
    size_t End = std::min(Text.find(',', Begin), Text.size());
    std::string Number = Text.substr(Begin, End - Begin);
    if (Number.empty() || Number.size() > 6 ||
        Number.find_first_not_of("0123456789") != std::string::npos)
      fail(Variable, "=", Text, ": '", Number, "' is not a node number");
    Nodes.push_back(std::stoi(Number));
    Begin = End + 1;
  }
  if (Nodes.size() != static_cast<size_t>(Size))
    fail(Variable, "=", Text, " names the nodes of ", Nodes.size(),
         " ranks; there are ", Size);
  return Nodes;
}
