//===- NetworkReader.cpp - Networks of devices in JSON --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/Network.h"
#include "Poplar/Support/JSON.h"

using namespace poplar;

/// Entries of a square matrix, each times `factor`. Sets `rows` to their number
/// if that is 0.
static std::vector<double> readMatrix(json::Value matrix, int &rows,
                                      double factor) {
  if (!matrix.isArray()) {
    matrix.error("expected an array of rows, found " + matrix.describe());
    return {};
  }
  if (rows == 0) {
    if (matrix.size() == 0 ||
        matrix.size() > size_t(PlacementProblem::largestDevices)) {
      matrix.error(
          "expected 1 to " + std::to_string(PlacementProblem::largestDevices) +
          " rows, one for each device, found " + std::to_string(matrix.size()));
      return {};
    }
    rows = static_cast<int>(matrix.size());
  }
  auto checkSize = [&](json::Value array, const char *what) {
    if (array.size() == static_cast<size_t>(rows))
      return true;
    array.error("expected " + std::to_string(rows) + " " + what +
                ", one for each device, found " + std::to_string(array.size()));
    return false;
  };
  if (!checkSize(matrix, "rows"))
    return {};
  std::vector<double> entries;
  for (int i = 0; i < rows; ++i) {
    json::Value row = matrix[i];
    if (!row.isArray()) {
      row.error("expected an array, found " + row.describe());
      return {};
    }
    if (!checkSize(row, "numbers"))
      return {};
    for (int j = 0; j < rows; ++j) {
      // A device does not send to itself: what is there is not read.
      double entry = i == j ? 0 : row[j].getNumber();
      entries.push_back(entry * factor);
    }
  }
  return entries;
}

/// The size of a message in Gbit: `key` of the scenario, else of the file, else
/// what the file that came with the paper's networks calls it, all in GB.
static double readSize(json::Value scenario, json::Value root, const char *key,
                       const char *constant) {
  json::Value value = scenario[key];
  if (!value.isPresent() && root[key].isPresent())
    value = root[key];
  if (!value.isPresent() && root["model_constants"][constant].isPresent())
    value = root["model_constants"][constant];
  double gigabytes = value.getNumber();
  if (gigabytes < 0)
    value.error("expected a size in GB, found " + value.describe());
  return gigabytes * 8;
}

static constexpr double gigabyte = 1e9;

/// At least 0; `fallback`, if there is one, where the key is absent.
static double readAmount(json::Value value, const char *what,
                         std::optional<double> fallback = std::nullopt) {
  double amount = fallback ? value.getNumber(*fallback) : value.getNumber();
  if (amount < 0)
    value.error(std::string("expected ") + what + ", found " +
                value.describe());
  return amount;
}

/// The index of the kind of a device, which is a new one if none is like it.
static int readDevice(json::Value device, int layers, double savedBytes,
                      double stateBytes, std::vector<GeoProblem::Kind> &kinds) {
  GeoProblem::Kind kind;
  GeoProblem::Mode mode;
  double forward = readAmount(device["forward_ms"], "milliseconds") * 1e-3,
         backward = readAmount(device["backward_ms"], "milliseconds") * 1e-3;
  if (forward + backward == 0)
    device.error("a layer takes no time");
  mode.forward.assign(layers, forward);
  mode.backward.assign(layers, backward);
  mode.savedBytes.assign(layers, savedBytes);
  mode.workBytes.assign(layers, 0);
  kind.memory = readAmount(device["memory_gb"], "a size in GB", 1e9) * gigabyte;
  kind.state.replicated = stateBytes;
  for (size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i].memory == kind.memory &&
        kinds[i].modes[0].forward == mode.forward &&
        kinds[i].modes[0].backward == mode.backward)
      return static_cast<int>(i);
  kind.name = "kind " + std::to_string(kinds.size());
  kind.modes = {std::move(mode)};
  kinds.push_back(std::move(kind));
  return static_cast<int>(kinds.size()) - 1;
}

/// Each device is a node, and a layer has 1e9 elements: bytes of an element are
/// GB of a layer.
static GeoProblem readUnlike(json::Value network, int stages) {
  GeoProblem problem;
  problem.stages = stages;
  int rows = 0;
  std::vector<double> delay = readMatrix(network["delay_ms"], rows, 1e-3),
                      bandwidth = readMatrix(network["bandwidth_gbps"], rows,
                                             gigabyte / 8);
  if (delay.empty() || bandwidth.empty())
    return problem;
  for (size_t i = 0; i < delay.size(); ++i)
    problem.links.push_back({delay[i], bandwidth[i]});
  int layers = static_cast<int>(network["layers"].getInteger(1, 1000));
  ParameterElements layer;
  layer.trained = static_cast<int64_t>(gigabyte);
  problem.parameters.units.assign(layers, layer);
  problem.microBatches = network["micro_batches"].getInteger(1, 1000000);
  problem.gradientBytes = problem.parameterBytes =
      readAmount(network["gradient_gb"], "a size in GB");
  problem.boundaryBytes =
      readAmount(network["boundary_gb"], "a size in GB") * gigabyte;
  double state = readAmount(network["state_gb"], "a size in GB", 0),
         saved =
             readAmount(network["activation_gb"], "a size in GB", 0) * gigabyte;
  json::Value devices = network["devices"];
  if (!devices.isArray() || devices.size() != static_cast<size_t>(rows)) {
    devices.error("expected an array of " + std::to_string(rows) +
                  " devices, as the matrices have rows, found " +
                  devices.describe());
    return problem;
  }
  for (int i = 0; i < rows; ++i) {
    json::Value device = devices[i];
    if (!device.isObject()) {
      device.error("expected an object, found " + device.describe());
      return problem;
    }
    problem.devices.push_back(
        {readDevice(device, layers, saved, state, problem.kinds), i});
    problem.nodes.push_back({"device " + std::to_string(i), {}});
  }
  return problem;
}

std::optional<NetworkProblem> poplar::readNetwork(const std::string &file,
                                                  const std::string &scenario,
                                                  std::optional<int> stages,
                                                  std::string &error) {
  std::unique_ptr<json::Document> document = json::Document::open(file, file);
  json::Value root = document->getRoot(), network = root;
  std::string place = file + ": ";
  if (!document->hasError() && !root.isObject())
    root.error("expected an object, found " + root.describe());
  if (!scenario.empty() || root["scenarios"].isPresent()) {
    json::Value scenarios = root["scenarios"];
    std::string known;
    for (const std::string &name : scenarios.keys())
      known += (known.empty() ? "" : ", ") + name;
    if (known.empty())
      scenarios.error("there are none; leave --scenario out");
    else if (scenario.empty())
      scenarios.error("choose one of them with --scenario: " + known);
    else if (!scenarios[scenario].isPresent())
      scenarios.error("there is no '" + scenario + "'; there are " + known);
    network = scenarios[scenario];
    place += network.getPath() + ": ";
  }
  NetworkProblem result;
  bool isUnlike = network["devices"].isPresent();
  if (isUnlike) {
    if (stages && *stages < 1)
      document->error("there must be at least one stage, not " +
                      std::to_string(*stages));
    result = readUnlike(network, stages.value_or(0));
  } else {
    if (!stages)
      document->error("--stages must be a number: a network without 'devices' "
                      "does not say how long stages compute");
    PlacementProblem problem;
    problem.stages = stages.value_or(0);
    problem.delay = readMatrix(network["delay_ms"], problem.devices, 1e-3);
    problem.bandwidth =
        readMatrix(network["bandwidth_gbps"], problem.devices, 1);
    problem.cDP = readSize(network, root, "c_dp", "c_dp_GB");
    problem.cPP = readSize(network, root, "c_pp", "c_pp_GiB");
    result = std::move(problem);
  }
  if (document->hasError()) {
    error = document->getError();
    return std::nullopt;
  }
  std::string wrong =
      std::visit([](const auto &problem) { return problem.check(); }, result);
  if (!wrong.empty()) {
    error = place + wrong;
    return std::nullopt;
  }
  return result;
}
