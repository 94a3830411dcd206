//===- IslandsTest.cpp - Who collects by which library --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Islands.h"
#include "support/Error.h"

#include <gtest/gtest.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

namespace {

IslandOffer gpu(const std::string &Library, const std::string &Device,
                int Type = 0) {
  IslandOffer O;
  O.Library = Library;
  O.Device = Device;
  O.MemoryType = Type;
  return O;
}

using Numbers = std::vector<int>;
using Flags = std::vector<bool>;

TEST(Islands, RanksWithTheSameLibraryShareOne) {
  Islands I = planIslands(
      {gpu("NCCL 1", "a 0"), gpu("NCCL 1", "a 1"), gpu("NCCL 1", "b 0", 1)},
      Topology({0, 0, 1}));
  EXPECT_EQ(I.WithLibrary, Flags({true, true, true}));
  EXPECT_EQ(I.IslandOf[0], I.IslandOf[1]);
  EXPECT_EQ(I.IslandOf[0], I.IslandOf[2]);
  EXPECT_EQ(I.Uniform, Flags({false, false, false}));
  EXPECT_EQ(I.Description, "collectives of ranks 0, 1, 2: NCCL 1\n");
}

TEST(Islands, VersionsAndHostsAreApart) {
  IslandOffer Host;
  Islands I = planIslands({gpu("NCCL 1", "a 0"), Host, gpu("NCCL 2", "a 1"),
                           gpu("NCCL 1", "b 0"), gpu("NCCL 2", "b 1"), Host},
                          Topology({0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(I.WithLibrary, Flags({true, false, true, true, true, false}));
  Topology T(I.IslandOf, I.WithLibrary);
  EXPECT_EQ(T.numNodes(), 4);
  EXPECT_EQ(T.getMembers(0), Numbers({0, 3}));
  EXPECT_EQ(T.getMembers(2), Numbers({2, 4}));
  EXPECT_TRUE(I.Uniform[0]);
  // Hosts have nothing to explain.
  EXPECT_EQ(I.Description, "collectives of ranks 0, 3: NCCL 1\n"
                           "collectives of ranks 2, 4: NCCL 2\n");
}

TEST(Islands, TwoRanksOnAGPUAreToldApart) {
  Islands I = planIslands(
      {gpu("NCCL 1", "a 0"), gpu("NCCL 1", "a 0"), gpu("NCCL 1", "a 1")},
      Topology({0, 0, 0}));
  EXPECT_EQ(I.WithLibrary, Flags({true, false, true}));
  EXPECT_EQ(I.Description,
            "collectives of ranks 0, 2: NCCL 1\n"
            "collectives of rank 1: through the host's memory, as it shares "
            "its GPU, a 0, with rank 0, which NCCL refuses\n");
}

TEST(Islands, NobodyIsAloneWithALibrary) {
  IslandOffer Without;
  Without.Reason = "cannot load libnccl.so.2";
  Islands I = planIslands({gpu("NCCL 1", "a 0"), Without}, Topology({0, 0}));
  EXPECT_FALSE(I.any());
  EXPECT_NE(I.Description.find("no other rank has NCCL 1"), std::string::npos);
  EXPECT_NE(I.Description.find("cannot load libnccl.so.2"), std::string::npos);
}

TEST(Islands, WhatIsDemandedAndCannotBeHadIsRefused) {
  std::vector<IslandOffer> Offers = {gpu("NCCL 1", "a 0"),
                                     gpu("NCCL 1", "a 0")};
  for (IslandOffer &O : Offers)
    O.Choice = LibraryChoice::Library;
  try {
    planIslands(Offers, Topology({0, 0}));
    FAIL() << "two ranks on a GPU were accepted";
  } catch (const Error &E) {
    EXPECT_NE(std::string(E.what()).find("POPLAR_COMM is nccl, but rank"),
              std::string::npos);
  }
}

TEST(Islands, RanksHaveChoicesOfTheirOwn) {
  std::vector<IslandOffer> Offers = {gpu("NCCL 1", "a 0"), gpu("NCCL 1", "a 1"),
                                     gpu("", "a 2")};
  Offers[0].Choice = Offers[1].Choice = LibraryChoice::Library;
  Offers[2].Choice = LibraryChoice::Host;
  Offers[2].Reason = "POPLAR_COMM is host";
  Islands I = planIslands(Offers, Topology({0, 0, 0}));
  EXPECT_EQ(I.WithLibrary, Flags({true, true, false}));
}

TEST(Islands, OnlyLeadersTakePartInMessages) {
  Topology T({0, 0, 1, 1}, {true, true, false, false});
  EXPECT_TRUE(T.takesPart(0, 0));
  EXPECT_FALSE(T.takesPart(1, 0));
  // The host's ranks do; of the island, the leader for the slice.
  EXPECT_TRUE(T.takesPart(2, 0));
  EXPECT_TRUE(T.takesPart(3, 0));
  EXPECT_NE(T.takesPart(0, 2), T.takesPart(1, 2));
}

IslandOffer sharer(const std::string &Library, const std::string &Device) {
  IslandOffer O;
  O.TeamLibrary = Library;
  O.Device = Device;
  return O;
}

TEST(Islands, RanksThatShareUnitsExchangeByALibraryOfTheirOwn) {
  std::vector<IslandOffer> Offers = {
      sharer("NCCL 1", "a 0"), sharer("NCCL 1", "a 1"),
      sharer("NCCL 1", "b 0"), sharer("NCCL 2", "b 1"),
      sharer("NCCL 1", "c 0"), sharer("NCCL 1", "c 0"),
      sharer("NCCL 1", "d 0"), IslandOffer(),
      IslandOffer(),           IslandOffer()};
  Offers.push_back(sharer("", "e 0"));
  Offers.back().TeamReason = "there is none";
  Offers.push_back(sharer("NCCL 1", "e 1"));
  std::string Text;
  std::vector<std::vector<int>> Teams = {{0, 1}, {2, 3}, {4, 5},
                                         {6, 7}, {8, 9}, {10, 11}};
  EXPECT_EQ(findTeams(Offers, Teams, "exchanges", "", Text),
            (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_EQ(
      Text,
      "exchanges of ranks 0, 1: NCCL 1\n"
      "exchanges of ranks 2, 3: through the host's memory, as they have no "
      "library in common\n"
      "exchanges of ranks 4, 5: through the host's memory, as rank 5 shares "
      "its "
      "GPU, c 0, with rank 4, which NCCL refuses\n"
      "exchanges of ranks 6, 7: through the host's memory, as they have no "
      "library in common\n"
      "exchanges of ranks 10, 11: through the host's memory, as there is "
      "none\n");
  Text.clear();
  EXPECT_TRUE(
      findTeams(Offers, {{0, 1}}, "collectives", "it is lossy", Text).empty());
  EXPECT_EQ(Text, "collectives of ranks 0, 1: through the host's memory, as it "
                  "is lossy\n");
  Offers[1].Choice = LibraryChoice::Library;
  EXPECT_THROW(findTeams(Offers, {{0, 1}}, "collectives", "it is lossy", Text),
               Error);
}

} // namespace
