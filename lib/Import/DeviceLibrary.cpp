//===- DeviceLibrary.cpp - What vendors publish of devices ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/DeviceLibrary.h"
#include "JSONFields.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <tuple>

using namespace poplar;
using namespace poplar::import;

/// The file as a string literal, made by CMake.
static const char libraryText[] =
#include "DeviceLibrary.inc"
    ;

const char *poplar::getDeviceLibraryText() { return libraryText; }

namespace {
/// What the file says of all devices together.
struct Reserve {
  int64_t bytes;
  /// Share of a memory with inline ECC that holds the codes.
  double inlineECC;
};
} // namespace

static double getPositive(json::Value value) {
  double number = value.getNumber();
  if (!(number > 0))
    value.error("expected a number above 0, found " + value.describe());
  return number;
}

static void readFlops(json::Value flops, DeviceSpecification &device) {
  expectKeys(flops, {"f32", "bf16", "f16"});
  for (const std::string &name : flops.keys())
    if (std::optional<NumberFormat> format = parseWord<NumberFormat>(name))
      device.flops[*format] = getPositive(flops[name]);
  // A format that the target lacks would be planned for in vain, one that is
  // missing could not be.
  const TargetInfo *target = findTargetInfo(device.target);
  if (!target)
    return;
  for (NumberFormat format :
       {NumberFormat::F32, NumberFormat::BF16, NumberFormat::F16}) {
    bool has = llvm::is_contained(target->formats, format);
    if (has != (device.flops.count(format) == 1))
      flops.error(std::string(has ? "lacks " : "gives ") + toString(format) +
                  ", which " + device.target +
                  (has ? " has" : " does not have"));
  }
}

/// `link` is the name of a bus, or says itself what it is.
static void readLink(json::Value link, json::Value buses,
                     DeviceSpecification &device) {
  if (link.isObject()) {
    expectKeys(link, {"kind", "bandwidth"});
    device.linkKind = link["kind"].getString();
    device.linkBandwidth = getPositive(link["bandwidth"]);
    return;
  }
  device.linkKind = link.getString();
  json::Value bus = buses[device.linkKind];
  if (!bus.isPresent())
    return link.error("unknown bus '" + device.linkKind + "'");
  device.linkBandwidth = getPositive(bus["bandwidth"]);
  device.linkSource = bus["source"].getString();
}

/// The document of each figure; "all" is that of figures without one.
static void readSources(json::Value sources, DeviceSpecification &device) {
  expectKeys(sources, {"all", "memory", "bandwidth", "power", "flops", "link"});
  auto read = [&](const char *figure) {
    json::Value own = sources[figure];
    return (own.isPresent() ? own : sources["all"]).getString();
  };
  device.memorySource = read("memory");
  device.bandwidthSource = read("bandwidth");
  device.powerSource = read("power");
  device.flopsSource = read("flops");
  if (device.linkSource.empty() || sources["link"].isPresent())
    device.linkSource = read("link");
}

static DeviceSpecification readDevice(const std::string &key, json::Value value,
                                      json::Value buses,
                                      const Reserve &reserve) {
  expectKeys(value, {"name", "target", "memory", "inline_ecc", "bandwidth",
                     "power", "flops", "link", "sources"});
  DeviceSpecification device;
  device.key = key;
  device.name = value["name"].getString();
  device.target = value["target"].getString();
  if (!findTargetInfo(device.target))
    value["target"].error("unknown target '" + device.target +
                          "' (known are those of docs/cluster-file.md)");
  device.memory = getBytes(value["memory"]);
  device.reserved = reserve.bytes;
  if (value["inline_ecc"].getBool(false))
    device.reserved +=
        static_cast<int64_t>(double(device.memory) * reserve.inlineECC);
  if (device.getUsableMemory() < 1)
    value["memory"].error(
        "expected more than the " + std::to_string(device.reserved) +
        " bytes that are reserved, found " + value["memory"].describe());
  device.bandwidth = getPositive(value["bandwidth"]);
  device.power = getPositive(value["power"]);
  readFlops(value["flops"], device);
  readLink(value["link"], buses, device);
  readSources(value["sources"], device);
  return device;
}

std::optional<DeviceLibrary> DeviceLibrary::parse(const std::string &text,
                                                  const std::string &name,
                                                  std::string &error) {
  std::unique_ptr<json::Document> document = json::Document::parse(text, name);
  json::Value root = document->getRoot();
  expectKeys(root, {"reserved", "buses", "devices"});
  json::Value reserved = root["reserved"], buses = root["buses"],
              devices = root["devices"];
  expectKeys(reserved, {"bytes", "inline_ecc", "source"});
  Reserve reserve{getBytes(reserved["bytes"]),
                  reserved["inline_ecc"].getNumber()};
  DeviceLibrary library;
  library.reservedSource = reserved["source"].getString();
  if (!devices.isObject())
    devices.error("expected an object, found " + devices.describe());
  for (const std::string &bus : buses.keys())
    expectKeys(buses[bus], {"bandwidth", "source"});
  for (const std::string &key : devices.keys())
    library.devices.push_back(readDevice(key, devices[key], buses, reserve));
  if (document->hasError()) {
    error = document->getError();
    return std::nullopt;
  }
  return library;
}

const DeviceSpecification *DeviceLibrary::find(const std::string &key) const {
  auto device = llvm::find_if(devices, [&](const DeviceSpecification &device) {
    return device.key == key;
  });
  return device == devices.end() ? nullptr : &*device;
}

std::vector<std::string>
DeviceLibrary::findNearest(const std::string &key) const {
  constexpr size_t shown = 4;
  std::string lower = llvm::StringRef(key).lower();
  std::vector<std::tuple<int, unsigned, std::string>> ranked;
  for (const DeviceSpecification &device : devices) {
    // Who says too little, or too much, has the most right.
    llvm::StringRef other = device.key;
    int rank = other.contains(lower)                    ? 0
               : llvm::StringRef(lower).contains(other) ? 1
                                                        : 2;
    ranked.emplace_back(rank, other.edit_distance(lower), device.key);
  }
  llvm::sort(ranked);
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(shown, ranked.size()); ++i)
    nearest.push_back(std::get<2>(ranked[i]));
  return nearest;
}

const DeviceLibrary *poplar::getDeviceLibrary(std::string &error) {
  static std::string problem;
  static const std::optional<DeviceLibrary> library =
      DeviceLibrary::parse(libraryText, "DeviceLibrary.json", problem);
  error = problem;
  return library ? &*library : nullptr;
}
