//===- ClusterReader.cpp - From JSON to the cluster dialect ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterReader.h"
#include "JSONFields.h"
#include "Poplar/Import/Cluster.h"
#include "Poplar/Import/DeviceLibrary.h"
#include "Poplar/Support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;
using namespace poplar::import;

ClusterReader::ClusterReader(json::Document &document, StringRef file,
                             ModuleOp module)
    : document(document), file(file),
      builder(OpBuilder::atBlockEnd(module.getBody())) {}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Location ClusterReader::getLoc(json::Value value) const {
  return NameLoc::get(
      StringAttr::get(builder.getContext(), file + ": " + value.getPath()));
}

void ClusterReader::claimName(json::Value place, const std::string &name) {
  if (!isName(name))
    place.error("the name is " + showName(name) + ": " + describeNameRule());
  else if (!names.insert(name).second)
    place.error("the name '" + name +
                "' is taken already by a device type or a node");
}

FlatSymbolRefAttr ClusterReader::getSymbol(json::Value value) {
  return FlatSymbolRefAttr::get(builder.getContext(), value.getString());
}

StringAttr ClusterReader::getString(json::Value value) {
  return value.isPresent() ? builder.getStringAttr(value.getString()) : nullptr;
}

FloatAttr ClusterReader::getReal(json::Value value) {
  return value.isPresent() ? builder.getF64FloatAttr(value.getNumber())
                           : nullptr;
}

IntegerAttr ClusterReader::getInteger(json::Value value) {
  return value.isPresent() ? builder.getI64IntegerAttr(value.getInteger())
                           : nullptr;
}

NumberFormat ClusterReader::getPrecision(json::Value value) const {
  std::string name = value.getString();
  if (std::optional<NumberFormat> format = parseWord<NumberFormat>(name))
    return *format;
  bool isFP8 = name.find('8') != std::string::npos;
  value.error(isFP8 ? "no target trains in '" + name +
                          "': use bf16, or f16 before sm_80"
                    : "unknown precision '" + name +
                          "' (known: " + joinWords<NumberFormat>() + ")");
  return NumberFormat::F32;
}

/// {"a100": 4, "v100": 2}, or a list where order matters.
SmallVector<Attribute> ClusterReader::getDevices(json::Value devices) {
  SmallVector<Attribute> types;
  if (!devices.isObject()) {
    for (json::Value device : getElements(devices))
      types.push_back(getSymbol(device));
    return types;
  }
  for (const std::string &type : devices.keys())
    types.append(devices[type].getInteger(0, kMaxDevicesPerNode),
                 FlatSymbolRefAttr::get(builder.getContext(), type));
  return types;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// What the library knows of the device that a type is said to be; nothing
/// where it says none.
const DeviceSpecification *ClusterReader::getDevice(json::Value device) {
  if (!device.isPresent())
    return nullptr;
  std::string name = device.getString(), error;
  const DeviceLibrary *library = getDeviceLibrary(error);
  if (!library) {
    device.error(error);
    return nullptr;
  }
  const DeviceSpecification *found = library->find(name);
  if (!found && !failed())
    device.error("unknown device '" + name +
                 "' (nearest: " + llvm::join(library->findNearest(name), ", ") +
                 "; all: poplar cluster devices)");
  return found;
}

DictionaryAttr ClusterReader::getFlops(json::Value rates,
                                       const DeviceSpecification *device) {
  NamedAttrList entries;
  if (rates.isPresent()) {
    expectKeys(rates, {"f32", "bf16", "f16"});
    for (const std::string &format : rates.keys())
      if (FloatAttr rate = getReal(rates[format])) // null is absent
        entries.set(format, rate);
  } else if (device) {
    for (const auto &[format, rate] : device->flops)
      entries.set(toString(format), builder.getF64FloatAttr(rate));
  } else {
    return nullptr;
  }
  return entries.getDictionary(builder.getContext());
}

/// Where the figures come from; of a known device, also what was given instead.
StringAttr ClusterReader::getSource(json::Value type,
                                    const DeviceSpecification *device) {
  if (!device || type["source"].isPresent())
    return getString(type["source"]);
  std::string given;
  for (const char *key : {"target", "memory", "flops", "bandwidth", "power"})
    if (type[key].isPresent())
      given += (given.empty() ? "" : ", ") + std::string(key);
  return builder.getStringAttr("device library: " + device->name +
                               (given.empty() ? "" : "; as given: " + given));
}

void ClusterReader::readDeviceType(const std::string &name, json::Value type) {
  expectKeys(type,
             {"device", "target", "memory", "precision", "recompute", "flops",
              "bandwidth", "power", "price", "threads", "source"});
  claimName(type, name);
  const DeviceSpecification *device = getDevice(type["device"]);
  bool takesTarget = device && !type["target"].isPresent();
  StringAttr targetName = builder.getStringAttr(
      takesTarget ? device->target : type["target"].getString());
  NumberFormat precision = NumberFormat::F32;
  if (json::Value value = type["precision"]; value.isPresent())
    precision = getPrecision(value);
  else if (const TargetInfo *target = findTargetInfo(targetName.getValue()))
    precision = target->formats.front();
  IntegerAttr memory;
  if (json::Value value = type["memory"]; value.isPresent())
    memory = builder.getI64IntegerAttr(getBytes(value));
  else if (device)
    memory = builder.getI64IntegerAttr(device->getUsableMemory());
  FloatAttr bandwidth = getReal(type["bandwidth"]);
  if (!bandwidth && device)
    bandwidth = builder.getF64FloatAttr(device->bandwidth);
  FloatAttr power = getReal(type["power"]);
  if (!power && device)
    power = builder.getF64FloatAttr(device->power);
  DictionaryAttr flops = getFlops(type["flops"], device);
  if (failed())
    return;
  DeviceTypeOp::create(
      builder, getLoc(type), builder.getStringAttr(name), targetName, memory,
      getFormatAttr(builder.getContext(), precision),
      builder.getStringAttr(type["recompute"].getString("keep")), flops,
      bandwidth, power, getReal(type["price"]), getInteger(type["threads"]),
      getSource(type, device),
      type["recompute"].isPresent() ? builder.getUnitAttr() : UnitAttr());
}

void ClusterReader::readNode(json::Value node) {
  expectKeys(node, {"name", "count", "devices"});
  std::string name = node["name"].getString();
  SmallVector<Attribute> devices = getDevices(node["devices"]);
  json::Value count = node["count"];
  int64_t numNodes =
      count.isPresent() ? count.getInteger(1, kMaxDevicesPerNode) : 1;
  if (failed())
    return;
  // Checked before they are made: both factors are small.
  if (static_cast<int64_t>(devices.size()) > kMaxRanks ||
      (numRanks += numNodes * static_cast<int64_t>(devices.size())) >
          kMaxRanks) {
    node.error("exceeds the limit of " + std::to_string(kMaxRanks) +
               " devices");
    return;
  }
  ArrayAttr types = builder.getArrayAttr(devices);
  for (int64_t i = 0; i < numNodes && !failed(); ++i) {
    std::string full = count.isPresent() ? name + std::to_string(i) : name;
    claimName(node["name"], full);
    NodeOp::create(builder, getLoc(node), builder.getStringAttr(full), types);
  }
}

void ClusterReader::readLink(json::Value link) {
  expectKeys(link, {"between", "from", "to", "inside", "latency", "bandwidth",
                    "overhead", "source"});
  json::Value between = link["between"], from = link["from"],
              inside = link["inside"];
  if (between.isPresent() + from.isPresent() + inside.isPresent() != 1)
    link.error("expected one of 'between', 'from' and 'inside'");
  if (link["to"].isPresent() && !from.isPresent())
    link.error("'to' needs 'from'");
  FloatAttr latency = builder.getF64FloatAttr(link["latency"].getNumber()),
            bandwidth = builder.getF64FloatAttr(link["bandwidth"].getNumber()),
            overhead = getReal(link["overhead"]);
  auto create = [&](LinkKind kind, FlatSymbolRefAttr first,
                    FlatSymbolRefAttr second) {
    if (!failed())
      LinkOp::create(builder, getLoc(link),
                     LinkKindAttr::get(builder.getContext(), kind), first,
                     second, latency, bandwidth, overhead,
                     getString(link["source"]));
  };
  auto isAll = [&](json::Value value, const char *expected) {
    if (!value.isString())
      return false;
    if (value.getString() != "nodes")
      value.error(std::string("expected ") + expected +
                  " or \"nodes\", found \"" + value.getString() + "\"");
    return true;
  };
  if (from.isPresent()) {
    create(LinkKind::FromTo, getSymbol(from), getSymbol(link["to"]));
  } else if (between.isPresent()) {
    if (isAll(between, "an array of two nodes"))
      return create(LinkKind::Between, {}, {});
    std::vector<json::Value> ends = getElements(between);
    if (ends.size() == 2)
      create(LinkKind::Between, getSymbol(ends[0]), getSymbol(ends[1]));
    else
      between.error("expected two nodes, found " + std::to_string(ends.size()));
  } else if (inside.isPresent()) {
    if (isAll(inside, "an array of nodes"))
      return create(LinkKind::Inside, {}, {});
    std::vector<json::Value> nodes = getElements(inside);
    if (nodes.empty())
      inside.error("expected at least one node");
    for (json::Value node : nodes)
      create(LinkKind::Inside, getSymbol(node), {});
  }
}

void ClusterReader::readProfile(json::Value profile) {
  expectKeys(profile, {"device_type", "stage", "micro_batches", "seconds",
                       "spread", "max_micro_batch", "memory", "optimizer",
                       "precision", "recompute", "estimate", "model", "machine",
                       "versions", "source"});
  auto getReals = [&](json::Value array) {
    SmallVector<double> reals;
    for (json::Value value : getElements(array))
      reals.push_back(value.getNumber());
    return builder.getDenseF64ArrayAttr(reals);
  };
  SmallVector<int64_t> microBatches;
  for (json::Value value : getElements(profile["micro_batches"]))
    microBatches.push_back(value.getInteger());
  IntegerAttr fixed, perSample;
  if (json::Value memory = profile["memory"]; memory.isPresent()) {
    expectKeys(memory, {"fixed", "per_sample"});
    fixed = builder.getI64IntegerAttr(getBytes(memory["fixed"]));
    perSample = builder.getI64IntegerAttr(getBytes(memory["per_sample"]));
  }
  FormatKeywordAttr precision;
  if (json::Value value = profile["precision"]; value.isPresent())
    precision = getFormatAttr(builder.getContext(), getPrecision(value));
  DictionaryAttr versions;
  if (json::Value value = profile["versions"]; value.isPresent()) {
    if (!value.isObject())
      value.error("expected an object, found " + value.describe());
    NamedAttrList entries;
    for (const std::string &name : value.keys())
      if (!name.empty())
        entries.set(name, builder.getStringAttr(value[name].getString()));
      else
        value.error("a name is empty");
    versions = entries.getDictionary(builder.getContext());
  }
  FlatSymbolRefAttr type = getSymbol(profile["device_type"]);
  IntegerAttr stage =
      builder.getI64IntegerAttr(profile["stage"].getInteger(0, 3));
  DenseF64ArrayAttr seconds = getReals(profile["seconds"]), spread;
  if (json::Value value = profile["spread"]; value.isPresent())
    spread = getReals(value);
  bool estimate = profile["estimate"].getBool(false);
  if (failed())
    return;
  ProfileOp::create(
      builder, getLoc(profile), type, stage,
      builder.getDenseI64ArrayAttr(microBatches), seconds, spread,
      getInteger(profile["max_micro_batch"]), fixed, perSample,
      getReal(profile["optimizer"]), precision, getString(profile["recompute"]),
      estimate ? builder.getUnitAttr() : nullptr, getString(profile["model"]),
      getString(profile["machine"]), versions, getString(profile["source"]));
}

void ClusterReader::read() {
  json::Value root = document.getRoot();
  expectKeys(root, {"device_types", "nodes", "links", "profiles"});
  json::Value types = root["device_types"];
  if (types.isPresent() && !types.isObject())
    types.error("expected an object, found " + types.describe());
  for (const std::string &name : types.keys())
    readDeviceType(name, types[name]);
  auto readEach = [&](const char *key, auto readOne) {
    json::Value array = root[key];
    if (!array.isPresent())
      return;
    for (json::Value element : getElements(array)) {
      if (failed())
        return;
      (this->*readOne)(element);
    }
  };
  readEach("nodes", &ClusterReader::readNode);
  readEach("links", &ClusterReader::readLink);
  readEach("profiles", &ClusterReader::readProfile);
}
