//===- HybridPlan.h - poplar plan --policy hybrid ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// poplar plan --policy hybrid, and what --policy geo shares with it.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_HYBRIDPLAN_H
#define POPLAR_TOOLS_HYBRIDPLAN_H

#include "Commands.h"
#include "Compilation.h"
#include "Poplar/Planner/Pipeline/HybridSelection.h"
#include "Poplar/Report/HybridReport.h"

struct HybridArguments {
  /// "hybrid" or "geo".
  std::string policy;
  int64_t globalBatch = 0, bucketBytes = 0;
  /// "auto", or that of all groups.
  std::string stage;
  /// Of devices that share a unit, of chunks of a stage; 0 for any.
  int mostTensorDegree = 0, mostChunks = 0;
  /// Plan stages that cannot be built, too.
  bool hypothetical = false;
  /// Devices that are left out already.
  std::vector<poplar::UnbuildableDevices> leftOut;
  /// Files to write; empty for none. `output` is for poplar build.
  std::string output, json, trace;
};

/// Plans the model of a compilation, which holds a cluster, and prints the
/// plan. Returns false on failure, with an error said or in `compilation`.
/// All fail with a diagnostic or an error in `compilation`.
bool planHybrid(Compilation &compilation, const HybridArguments &args);
bool planGeo(Compilation &compilation, const HybridArguments &args);

/// The best plan of all choices of devices, of which `poplar build` makes
/// stages unless hypothetical ones are wanted.
poplar::HybridSelection
selectDevices(const poplar::ClusterView &cluster,
              const poplar::HybridModel &model, const HybridArguments &args,
              int64_t mostChoices,
              std::vector<poplar::UnbuildableDevices> &leftOut);

/// The cluster of the module, and its model as hybrid plans cut it.
bool readHybridModel(Compilation &compilation, const HybridArguments &args,
                     poplar::ClusterView &cluster, poplar::HybridModel &model);

/// The best plan without pipelines, made and simulated on a copy of the module.
/// That there is none is no error.
bool planZeroAlone(Compilation &compilation, const HybridArguments &args,
                   poplar::ZeroAlone &pure);

/// Of the types whose times are estimates; relative.
double
getUncertainty(const poplar::ClusterView &cluster,
               const std::vector<poplar::HybridCluster::Devices> &devices,
               const std::string &fingerprint);

/// Writes those files that are asked for.
bool writePlanFiles(const HybridArguments &args, const std::string &json,
                    const poplar::Timeline &timeline, std::string &error);

#endif // POPLAR_TOOLS_HYBRIDPLAN_H
