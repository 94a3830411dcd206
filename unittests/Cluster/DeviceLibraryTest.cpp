//===- DeviceLibraryTest.cpp - Published figures of devices ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/DeviceLibrary.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

using namespace poplar;

namespace {

const DeviceLibrary &getLibrary() {
  std::string error;
  const DeviceLibrary *library = getDeviceLibrary(error);
  EXPECT_TRUE(library) << error;
  static const DeviceLibrary empty;
  return library ? *library : empty;
}

TEST(DeviceLibraryTest, KnowsWhatItIsAskedFor) {
  const DeviceLibrary &library = getLibrary();
  EXPECT_GE(library.getDevices().size(), 24u);
  for (const char *key :
       {"a100-40", "a100-80", "a100-pcie-40", "a100-pcie-80", "a800",
        "h100",    "h200",    "h800",         "v100-16",      "v100-32",
        "v100s",   "p100",    "t4",           "l4",           "l40s",
        "a10",     "a40",     "a6000",        "rtx2080ti",    "rtx3060",
        "rtx3080", "rtx3090", "rtx4090",      "rtx5090",      "b200",
        "mi210",   "mi250x",  "mi300x",       "a10g",         "t4g",
        "a2",      "a30",     "a4000",        "gh200-96",     "rtx4070ti",
        "rtx2060", "rtx5070", "rtxpro6000",   "l20",          "h20"})
    EXPECT_TRUE(library.find(key)) << key;
  EXPECT_FALSE(library.find("a100"));
}

// What is wrong by a power of ten, or in the wrong column, is outside of what
// such devices have.
TEST(DeviceLibraryTest, FiguresAreOfTheirKind) {
  for (const DeviceSpecification &device : getLibrary().getDevices()) {
    SCOPED_TRACE(device.key);
    EXPECT_TRUE(findTargetInfo(device.target));
    EXPECT_GE(device.memory, int64_t(6) << 30);
    EXPECT_LE(device.memory, int64_t(288) << 30);
    EXPECT_GE(device.reserved, int64_t(1) << 30);
    EXPECT_LE(device.reserved, device.memory / 4);
    EXPECT_GE(device.power, 50);
    EXPECT_LE(device.power, 1200);
    // No board has more FLOP/s a watt than those of its time.
    EXPECT_LE(device.flops.at(NumberFormat::F16) / device.power, 2.5e12);
    EXPECT_GE(device.bandwidth, 200e9);
    EXPECT_LE(device.bandwidth, 10e12);
    EXPECT_GE(device.linkBandwidth, 15e9);
    EXPECT_LE(device.linkBandwidth, 1e12);
    EXPECT_GE(device.flops.at(NumberFormat::F32), 4e12);
    EXPECT_LE(device.flops.at(NumberFormat::F32), 200e12);
    EXPECT_GE(device.flops.at(NumberFormat::F16),
              device.flops.at(NumberFormat::F32));
    EXPECT_LE(device.flops.at(NumberFormat::F16), 2500e12);
    // Rates with sparsity would be twice these in one format only.
    if (device.flops.count(NumberFormat::BF16)) {
      EXPECT_EQ(device.flops.at(NumberFormat::BF16),
                device.flops.at(NumberFormat::F16));
    }
    for (const std::string &source :
         {device.memorySource, device.bandwidthSource, device.powerSource,
          device.flopsSource, device.linkSource})
      EXPECT_GE(source.size(), 5u);
  }
}

TEST(DeviceLibraryTest, DevicesBeforeAmpereHaveNoBF16) {
  for (const char *key : {"p100", "v100-16", "v100s", "t4", "rtx2080ti"})
    EXPECT_EQ(getLibrary().find(key)->flops.count(NumberFormat::BF16), 0u)
        << key;
}

TEST(DeviceLibraryTest, InlineECCTakesASixteenth) {
  const DeviceSpecification &t4 = *getLibrary().find("t4");
  EXPECT_EQ(t4.reserved - getLibrary().find("v100-16")->reserved,
            t4.memory / 16);
  EXPECT_EQ(t4.getUsableMemory(), t4.memory - t4.reserved);
}

TEST(DeviceLibraryTest, NearestNames) {
  auto nearest = [](const char *key) {
    return getLibrary().findNearest(key).front();
  };
  EXPECT_EQ(nearest("a100-8"), "a100-80");
  EXPECT_EQ(nearest("A100-40"), "a100-40");
  EXPECT_EQ(nearest("4090"), "rtx4090");
  EXPECT_EQ(nearest("mi300"), "mi300x");
  EXPECT_EQ(nearest("v100s-32"), "v100s");
  EXPECT_EQ(getLibrary().findNearest("v100").size(), 4u);
}

/// A file with one device, of whose text `from` is replaced by `to`.
std::string parse(const std::string &from, const std::string &to) {
  std::string text = R"json({
    "reserved": {"bytes": "1GiB", "inline_ecc": 0.0625, "source": "assumed"},
    "buses": {"B": {"bandwidth": 3e10, "source": "PCI-SIG"}},
    "devices": {"d": {
      "name": "D", "target": "cuda:sm_80", "memory": "40GiB",
      "bandwidth": 1e12, "power": 400, "flops": {"f32": 1e13, "bf16": 1e14, "f16": 1e14},
      "link": {"kind": "NVLink", "bandwidth": 3e11},
      "sources": {"memory": "m", "bandwidth": "b", "power": "p",
                  "flops": "f", "link": "l"}
    }}})json";
  if (!from.empty())
    text.replace(text.find(from), from.size(), to);
  std::string error;
  bool parsed = DeviceLibrary::parse(text, "lib", error).has_value();
  EXPECT_EQ(parsed, error.empty());
  return error;
}

TEST(DeviceLibraryTest, ErrorsAreLocated) {
  EXPECT_EQ(parse("", ""), "");
  EXPECT_EQ(parse("\"link\": {", "\"link\": 3, \"x\": {"),
            "lib: devices.d: unknown key 'x' (known: name, target, memory, "
            "inline_ecc, bandwidth, power, flops, link, sources)");
  EXPECT_EQ(parse("sm_80", "sm_81"),
            "lib: devices.d.target: unknown target 'cuda:sm_81' (known are "
            "those of docs/cluster-file.md)");
  EXPECT_EQ(parse("40GiB", "1GiB"),
            "lib: devices.d.memory: expected more than the 1073741824 bytes "
            "that are reserved, found a string");
  EXPECT_EQ(parse("1e12", "-1e12"),
            "lib: devices.d.bandwidth: expected a number above 0, found "
            "-1000000000000.0");
  EXPECT_EQ(parse("\"bf16\": 1e14, ", ""),
            "lib: devices.d.flops: lacks bf16, which cuda:sm_80 has");
  EXPECT_EQ(parse("cuda:sm_80", "cuda:sm_70"),
            "lib: devices.d.flops: gives bf16, which cuda:sm_70 does not have");
  EXPECT_EQ(parse("\"memory\": \"m\", ", ""),
            "lib: devices.d.sources.all: expected a string, found nothing");
  EXPECT_EQ(parse("\"memory\": \"m\", ", "\"all\": \"a\", "), "");
  EXPECT_EQ(parse("{\"kind\": \"NVLink\", \"bandwidth\": 3e11}", "\"B\""), "");
  EXPECT_EQ(parse("{\"kind\": \"NVLink\", \"bandwidth\": 3e11}", "\"C\""),
            "lib: devices.d.link: unknown bus 'C'");
  EXPECT_EQ(parse("\"power\": 400, ", ""),
            "lib: devices.d.power: expected a number, found nothing");
  EXPECT_EQ(parse("}}}", "}}").substr(0, 4), "lib:");
}

} // namespace
