//===- Islands.cpp - Who collects by which library ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Islands.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

LibraryChoice comm::getLibraryChoice() {
  const char *Given = std::getenv("POPLAR_COMM");
  std::string Text = Given ? Given : "auto";
  if (Text == "auto")
    return LibraryChoice::Auto;
  if (Text == "host")
    return LibraryChoice::Host;
  if (Text == "nccl")
    return LibraryChoice::Library;
  fail("POPLAR_COMM is '", Text, "'; use auto, nccl or host");
}

bool Islands::any() const {
  return std::find(WithLibrary.begin(), WithLibrary.end(), true) !=
         WithLibrary.end();
}

/// "rank 3" or "ranks 0, 1, 4".
static std::string nameRanks(const std::vector<int> &Ranks) {
  std::string Text = Ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t I = 0; I < Ranks.size(); ++I)
    Text += (I ? ", " : "") + std::to_string(Ranks[I]);
  return Text;
}

/// The ranks that could share a library, by its name, and why others cannot:
/// none has it, or another rank has their device, or they would be alone.
static std::map<std::string, std::vector<int>>
findGroups(const std::vector<IslandOffer> &Offers,
           std::vector<std::string> &Reasons) {
  std::map<std::string, std::vector<int>> Groups;
  std::map<std::string, int> FirstOf;
  for (size_t R = 0; R < Offers.size(); ++R) {
    const IslandOffer &O = Offers[R];
    Reasons[R] = O.Reason;
    if (O.Library.empty())
      continue;
    auto [First, IsNew] = FirstOf.try_emplace(O.Device, static_cast<int>(R));
    if (IsNew)
      Groups[O.Library].push_back(static_cast<int>(R));
    else
      Reasons[R] = "it shares its GPU, " + O.Device + ", with rank " +
                   std::to_string(First->second) + ", which NCCL refuses";
  }
  for (auto It = Groups.begin(); It != Groups.end();) {
    if (It->second.size() == 1) {
      Reasons[static_cast<size_t>(It->second[0])] =
          "no other rank has " + It->first + " and a GPU of its own";
      It = Groups.erase(It);
    } else {
      ++It;
    }
  }
  return Groups;
}

[[noreturn]] static void refuseChoice(size_t Rank, const std::string &Reason) {
  fail("POPLAR_COMM is nccl, but rank ", Rank, " cannot use it: ", Reason,
       "; fix that, or set POPLAR_COMM=auto to go through the host's memory");
}

Islands comm::planIslands(const std::vector<IslandOffer> &Offers,
                          const Topology &Nodes) {
  std::vector<std::string> Reasons(Offers.size());
  std::map<std::string, std::vector<int>> Groups = findGroups(Offers, Reasons);

  Islands Result;
  // By nodes, which come first in number.
  for (int R = 0; R < Nodes.size(); ++R)
    Result.IslandOf.push_back(Nodes.getNode(R));
  Result.WithLibrary.resize(Offers.size());
  Result.Uniform.resize(Offers.size());
  int Next = Nodes.numNodes();
  for (const auto &[Library, Ranks] : Groups) {
    std::set<int> Types;
    for (int R : Ranks)
      Types.insert(Offers[static_cast<size_t>(R)].MemoryType);
    for (int R : Ranks) {
      Result.IslandOf[static_cast<size_t>(R)] = Next;
      Result.WithLibrary[static_cast<size_t>(R)] = true;
      Result.Uniform[static_cast<size_t>(R)] = Types.size() == 1;
    }
    ++Next;
    Result.Description +=
        "collectives of " + nameRanks(Ranks) + ": " + Library + "\n";
  }
  // Ranks with the same reason share a line.
  std::map<std::string, std::vector<int>> Others;
  for (size_t R = 0; R < Offers.size(); ++R)
    if (!Result.WithLibrary[R] && !Reasons[R].empty())
      Others[Reasons[R]].push_back(static_cast<int>(R));
  for (const auto &[Reason, Ranks] : Others) {
    for (int R : Ranks)
      if (Offers[static_cast<size_t>(R)].Choice == LibraryChoice::Library)
        refuseChoice(static_cast<size_t>(R), Reason);
    Result.Description += "collectives of " + nameRanks(Ranks) +
                          ": through the host's memory, as " + Reason + "\n";
  }
  return Result;
}

/// Why the ranks of a team go through the host's memory; empty if they do
/// not.
static std::string explainTeam(const std::vector<IslandOffer> &Offers,
                               const std::vector<int> &Team) {
  std::map<std::string, int> Devices;
  const IslandOffer &First = Offers[static_cast<size_t>(Team[0])];
  for (int R : Team) {
    const IslandOffer &O = Offers[static_cast<size_t>(R)];
    if (!O.TeamReason.empty())
      return O.TeamReason;
    if (O.TeamLibrary != First.TeamLibrary)
      return "they have no library in common";
    auto [Other, IsNew] = Devices.try_emplace(O.Device, R);
    if (!IsNew)
      return "rank " + std::to_string(R) + " shares its GPU, " + O.Device +
             ", with rank " + std::to_string(Other->second) +
             ", which NCCL refuses";
  }
  return "";
}

std::vector<std::vector<int>>
comm::findTeams(const std::vector<IslandOffer> &Offers,
                const std::vector<std::vector<int>> &Teams,
                const std::string &What, const std::string &Against,
                std::string &Description) {
  std::vector<std::vector<int>> Result;
  for (const std::vector<int> &Team : Teams) {
    // Ranks without a device have nothing to say of one.
    auto HasDevice = [&](int R) {
      return !Offers[static_cast<size_t>(R)].Device.empty();
    };
    if (std::none_of(Team.begin(), Team.end(), HasDevice))
      continue;
    std::string Reason = explainTeam(Offers, Team);
    if (Reason.empty())
      Reason = Against;
    for (int R : Team)
      if (!Reason.empty() &&
          Offers[static_cast<size_t>(R)].Choice == LibraryChoice::Library)
        refuseChoice(static_cast<size_t>(R), Reason);
    if (Reason.empty())
      Result.push_back(Team);
    Description +=
        What + " of " + nameRanks(Team) + ": " +
        (Reason.empty() ? Offers[static_cast<size_t>(Team[0])].TeamLibrary
                        : "through the host's memory, as " + Reason) +
        "\n";
  }
  return Result;
}

std::vector<IslandOffer> comm::exchange(Communicator &C,
                                        const IslandOffer &Mine) {
  auto Line = [](std::string Text) {
    std::replace(Text.begin(), Text.end(), '\n', ' ');
    return Text + '\n';
  };
  std::string Text = std::to_string(static_cast<int>(Mine.Choice)) + '\n' +
                     std::to_string(Mine.MemoryType) + '\n' +
                     Line(Mine.Library) + Line(Mine.Reason) +
                     Line(Mine.TeamLibrary) + Line(Mine.TeamReason) +
                     Line(Mine.Device);
  std::string All;
  for (const std::string &One : C.gatherStrings(Text, 0))
    All += One;
  auto Length = static_cast<int64_t>(All.size());
  C.broadcast(&Length, sizeof(Length), 0);
  All.resize(static_cast<size_t>(Length));
  C.broadcast(All.data(), Length, 0);
  std::istringstream Lines(All);
  std::vector<IslandOffer> Offers(static_cast<size_t>(C.size()));
  for (IslandOffer &O : Offers) {
    std::string Choice, MemoryType;
    std::getline(Lines, Choice);
    std::getline(Lines, MemoryType);
    std::getline(Lines, O.Library);
    std::getline(Lines, O.Reason);
    std::getline(Lines, O.TeamLibrary);
    std::getline(Lines, O.TeamReason);
    std::getline(Lines, O.Device);
    O.Choice = static_cast<LibraryChoice>(std::atoi(Choice.c_str()));
    O.MemoryType = std::atoi(MemoryType.c_str());
  }
  return Offers;
}

/// What the ranks of an island need to find each other, which its first one
/// makes: on all ranks. Collective.
static std::string shareId(Communicator &Control, int First,
                           const IslandMaker &Maker) {
  std::string Id = Control.rank() == First ? Maker.MakeId() : "";
  auto Length = static_cast<int64_t>(Id.size());
  Control.broadcast(&Length, sizeof(Length), First);
  Id.resize(static_cast<size_t>(Length));
  Control.broadcast(Id.data(), Length, First);
  return Id;
}

std::unique_ptr<Communicator> comm::makeIslands(Communicator &Control,
                                                const Islands &Plan,
                                                const IslandMaker &Maker) {
  if (!Plan.any())
    return nullptr;
  Topology Topo(Plan.IslandOf, Plan.WithLibrary);
  int Rank = Control.rank(), Mine = Topo.getNode(Rank);
  std::string Id;
  for (int Node = 0; Node < Topo.numNodes(); ++Node) {
    if (!Topo.hasLibrary(Node))
      continue;
    std::string Made = shareId(Control, Topo.getMembers(Node)[0], Maker);
    if (Node == Mine)
      Id = Made;
  }
  Control.useIslands(Topo);
  if (!Topo.hasLibrary(Mine))
    return nullptr;
  auto Size = static_cast<int>(Topo.getMembers(Mine).size());
  return std::make_unique<IslandCommunicator>(
      Control, Topo, Maker.Join(Topo.getLocalRank(Rank), Size, Id),
      Plan.Uniform[static_cast<size_t>(Rank)]);
}

std::vector<std::unique_ptr<IslandLibrary>>
comm::joinTeams(Communicator &Control,
                const std::vector<std::vector<int>> &Teams,
                const IslandMaker &Maker) {
  std::vector<std::unique_ptr<IslandLibrary>> Libraries;
  for (const std::vector<int> &Team : Teams) {
    std::string Id = shareId(Control, Team[0], Maker);
    auto Own = std::find(Team.begin(), Team.end(), Control.rank());
    Libraries.push_back(Own == Team.end()
                            ? nullptr
                            : Maker.Join(static_cast<int>(Own - Team.begin()),
                                         static_cast<int>(Team.size()), Id));
  }
  return Libraries;
}
