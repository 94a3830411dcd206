//===- AutoPlanning.cpp - The fastest plan of any kind --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/AutoPlanning.h"
#include "HybridSteps.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"

using namespace poplar;

namespace {

/// Tries the kinds of plans, each on a copy of the module.
class Candidates {
public:
  Candidates(Compilation &compilation, const StagedRequest &request,
             AutoReport &report)
      : compilation(compilation), request(request), report(report) {}

  bool addZeroAlone(HeteroAllocateOptions allocation,
                    const BuildOptions &build);
  template <typename Result> void addStages(const char *policy);
  /// Puts the fastest into the compilation.
  bool take();

private:
  PlanOfKind &add(const char *policy) {
    modules.emplace_back(compilation.getModule().clone());
    report.kinds.push_back({policy, std::nullopt, ""});
    return report.kinds.back();
  }

  Compilation &compilation;
  const StagedRequest &request;
  AutoReport &report;
  /// By kind.
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

} // namespace

/// Fails only where programs of a plan cannot be made.
bool Candidates::addZeroAlone(HeteroAllocateOptions allocation,
                              const BuildOptions &build) {
  PlanOfKind &kind = add("exact");
  allocation.policy = kind.policy;
  allocation.simulate = true;
  mlir::ModuleOp module = *modules.back();
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroFormBuckets({request.bucketBytes}));
        pm.addPass(createEstimateProfiles());
        pm.addPass(createHeteroAllocate(allocation, build));
      })) {
    std::swap(kind.error, compilation.error);
    return true;
  }
  // As poplar simulate does it, and as stages are simulated.
  mlir::OwningOpRef<mlir::ModuleOp> programs = module.clone();
  kind.seconds = simulateZeroAlone(compilation, *programs);
  return kind.seconds.has_value();
}

template <typename Result> void Candidates::addStages(const char *policy) {
  PlanOfKind &kind = add(policy);
  mlir::ModuleOp module = *modules.back();
  std::string diagnosed;
  mlir::ScopedDiagnosticHandler handler(
      module.getContext(), [&](mlir::Diagnostic &diagnostic) {
        if (diagnosed.empty() &&
            diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          diagnosed = diagnostic.str();
        return mlir::success();
      });
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroFormBuckets({request.bucketBytes}));
      })) {
    std::swap(kind.error, compilation.error);
    return;
  }
  ClusterView cluster = cluster::buildClusterView(module);
  Result found;
  if (mlir::succeeded(findPlan(module, cluster, request, found, kind.error)) &&
      mlir::succeeded(addPlan(module, cluster, request, found)))
    kind.seconds = found.simulation.seconds;
  else if (kind.error.empty())
    kind.error = diagnosed;
}

bool Candidates::take() {
  std::optional<double> fastest;
  for (auto [index, kind] : llvm::enumerate(report.kinds))
    if (kind.seconds && (!fastest || *kind.seconds < *fastest)) {
      fastest = kind.seconds;
      report.chosen = index;
    }
  if (!fastest) {
    compilation.error = "there is no plan of any kind";
    for (const PlanOfKind &kind : report.kinds)
      compilation.error += "\n  " + kind.policy + ": " + kind.error;
    return false;
  }
  compilation.setModule(std::move(modules[report.chosen]));
  return true;
}

bool poplar::planAuto(Compilation &compilation, const StagedRequest &request,
                      const HeteroAllocateOptions &allocation,
                      const BuildOptions &build, AutoReport &report) {
  Candidates candidates(compilation, request, report);
  if (!candidates.addZeroAlone(allocation, build))
    return false;
  candidates.addStages<HybridResult>("hybrid");
  // The other kind that shards by stage 1 in each pipeline stage.
  if (request.stage == "auto" || request.stage == "1")
    candidates.addStages<GeoResult>("geo");
  return candidates.take();
}

//===----------------------------------------------------------------------===//
// What was found
//===----------------------------------------------------------------------===//

static const char *describe(llvm::StringRef policy) {
  return policy == "exact"    ? "ZeRO alone"
         : policy == "hybrid" ? "pipeline stages"
                              : "distant devices";
}

std::string poplar::formatKinds(const AutoReport &report) {
  std::string text =
      "kinds of plans, with the seconds of an iteration simulated from their "
      "programs:\n";
  double best = *report.kinds[report.chosen].seconds;
  for (auto [index, kind] : llvm::enumerate(report.kinds)) {
    text +=
        llvm::formatv("  {0,-16} {1,-7}", describe(kind.policy), kind.policy);
    if (!kind.seconds)
      text += " none: " + kind.error;
    else
      text += llvm::formatv(" {0,10:f4} s", *kind.seconds);
    if (index == report.chosen)
      text += ", chosen";
    else if (kind.seconds)
      text += llvm::formatv(", {0:f2} times as long", *kind.seconds / best);
    text += "\n";
  }
  return text;
}

std::string poplar::formatAutoJSON(const AutoReport &report) {
  llvm::json::Array kinds;
  for (const PlanOfKind &kind : report.kinds) {
    llvm::json::Object object{{"policy", kind.policy}};
    if (kind.seconds)
      object["simulated_seconds"] = *kind.seconds;
    else
      object["error"] = kind.error;
    kinds.push_back(std::move(object));
  }
  const PlanOfKind &chosen = report.kinds[report.chosen];
  llvm::json::Object object{{"policy", "auto"},
                            {"chosen", chosen.policy},
                            {"simulated_seconds", *chosen.seconds},
                            {"kinds", std::move(kinds)}};
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
}
