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

std::optional<PlacementProblem> poplar::readNetwork(const std::string &file,
                                                    const std::string &scenario,
                                                    int stages,
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
  PlacementProblem problem;
  problem.stages = stages;
  problem.delay = readMatrix(network["delay_ms"], problem.devices, 1e-3);
  problem.bandwidth = readMatrix(network["bandwidth_gbps"], problem.devices, 1);
  problem.cDP = readSize(network, root, "c_dp", "c_dp_GB");
  problem.cPP = readSize(network, root, "c_pp", "c_pp_GiB");
  if (document->hasError()) {
    error = document->getError();
    return std::nullopt;
  }
  if (std::string wrong = problem.check(); !wrong.empty()) {
    error = place + wrong;
    return std::nullopt;
  }
  return problem;
}
