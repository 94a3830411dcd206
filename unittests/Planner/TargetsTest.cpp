//===- TargetsTest.cpp - The table of targets ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/Targets.h"
#include "Poplar/Planner/Cluster/Buildable.h"
#include "Poplar/Planner/Cluster/Roofline.h"
#include "gtest/gtest.h"
#include <set>

using namespace poplar;

namespace {

TEST(Targets, EntriesAreComplete) {
  std::set<std::string_view> names;
  for (const TargetInfo &info : getTargetInfos()) {
    std::string name(info.name);
    EXPECT_TRUE(names.insert(info.name).second) << name;
    EXPECT_EQ(findTargetInfo(info.name), &info);
    ASSERT_TRUE(findTargetKind(info.name)) << name;
    EXPECT_FALSE(info.processor.empty()) << name;
    ASSERT_FALSE(info.formats.empty()) << name;
    // A host's entry says what its programs need, "host" asks the machine.
    bool isNamedHost = info.getKind().isHost() && !info.getChip().empty();
    EXPECT_EQ(isNamedHost, !info.isa.empty()) << name;
    EXPECT_EQ(isNamedHost, !info.instructions.empty()) << name;
    EXPECT_EQ(info.getKind().isHost(), info.speed == SpeedModel::Host) << name;
    EXPECT_EQ(info.getKind().name == "cuda",
              info.features.rfind("+ptx", 0) == 0)
        << name;
  }
}

TEST(Targets, KindsWithoutRuntimeCannotBeBuilt) {
  for (const TargetInfo &info : getTargetInfos()) {
    std::string name(info.name);
    EXPECT_EQ(explainUnbuildable("t", name).empty(),
              !info.getKind().runtime.empty())
        << name;
  }
  EXPECT_EQ(explainUnbuildable("t", "hip:gfx90a"),
            "device type 't' is a hip:gfx90a: there is no runtime for it yet; "
            "build for host... and cuda... targets (docs/cluster-file.md)");
  EXPECT_FALSE(findTargetInfo("cuda:sm_81"));
  EXPECT_FALSE(findTargetKind("tpu:v4"));
}

TEST(Targets, SpeedIsThatOfTheEntry) {
  const RooflineConstants &host = getRooflineConstants("host:avx2-f32"),
                          &ampere = getRooflineConstants("cuda:sm_80"),
                          &hopper = getRooflineConstants("cuda:sm_90");
  EXPECT_NE(&ampere, &hopper);
  EXPECT_EQ(&host, &getRooflineConstants("host"));
  EXPECT_TRUE(host.attentionOnVectors);
  // Less is known of relatives that nobody measured in training.
  for (const char *target : {"cuda:sm_60", "cuda:sm_70", "cuda:sm_75",
                             "cuda:sm_100", "cuda:sm_120", "hip:gfx942"})
    EXPECT_GT(getRooflineConstants(target).uncertainty, ampere.uncertainty)
        << target;
  EXPECT_EQ(&getRooflineConstants("hip:gfx90a"),
            &getRooflineConstants("hip:gfx942"));
}

} // namespace
