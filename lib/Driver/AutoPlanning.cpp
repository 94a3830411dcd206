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
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Driver/Review.h"
#include "Poplar/Driver/Simulated.h"
#include "Poplar/Report/PlanReport.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Transforms/Plan/Buildable.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"

using namespace poplar;

static const char *describe(llvm::StringRef policy) {
  return policy == "exact"    ? "ZeRO alone"
         : policy == "hybrid" ? "pipeline stages"
                              : "distant devices";
}

namespace {

/// Tries the kinds of plans, each on a copy of the module.
class Candidates {
public:
  Candidates(Compilation &compilation, const AutoRequest &request,
             AutoReport &report)
      : compilation(compilation), request(request), report(report) {}

  bool run();

private:
  struct Candidate {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    Timeline timeline;
  };

  PlanOfKind &add(const char *policy) {
    request.enter(describe(policy));
    candidates.push_back({compilation.getModule().clone(), {}});
    report.kinds.emplace_back();
    report.kinds.back().policy = policy;
    return report.kinds.back();
  }

  /// The fastest plan that was made takes so long; infinite if there is none.
  double getLeastSeconds() const {
    double least = std::numeric_limits<double>::infinity();
    for (const PlanOfKind &kind : report.kinds)
      least = std::min(least, kind.seconds.value_or(least));
    return least;
  }
  bool planZeroAlone(bool remedies);
  bool addZeroAlone();
  bool readUnits(mlir::ModuleOp module);
  template <typename Report> bool addStages(const char *policy, Report &found);
  bool simulateLast();
  bool choose();
  bool refuse();
  ZeroAlone describeZeroAlone();
  bool review();
  bool reviewZeroAlone();

  Compilation &compilation;
  const AutoRequest &request;
  AutoReport &report;
  ClusterView cluster;
  /// Units of the model; made when stages are planned.
  std::optional<HybridModel> model;
  /// Parallel to the kinds of the report.
  std::vector<Candidate> candidates;
  HybridReport hybrid;
  GeoReport geo;
};

} // namespace

/// The kind that was added last, from its programs, as poplar simulate does it.
bool Candidates::simulateLast() {
  PlanOfKind &kind = report.kinds.back();
  mlir::OwningOpRef<mlir::ModuleOp> programs =
      candidates.back().module->clone();
  std::optional<PlanSimulation> plan = readSimulation(
      compilation, *programs, OverlapOptions(), model ? &*model : nullptr,
      /*isCandidate=*/true);
  if (!plan)
    return false;
  SimulationOptions options;
  options.recordsTimeline = request.recordsTimeline;
  std::optional<Simulation> result =
      simulate(plan->problem, options, compilation.error);
  if (!result)
    return false;
  kind.seconds = result->seconds;
  Plan written =
      zero::readPlan(*candidates.back().module->getOps<zero::PlanOp>().begin());
  kind.predicted = written.predicted;
  kind.lowerBound = written.lowerBound;
  candidates.back().timeline = std::move(result->timeline);
  PlanOfKind::Use use;
  for (auto [ranks, seconds] :
       llvm::zip_equal(plan->classes, result->classes)) {
    auto count = static_cast<double>(ranks.ranks.size());
    use.devices += static_cast<int64_t>(ranks.ranks.size());
    use.computing += count * seconds.computing;
    // Below 0 by rounding.
    use.waiting += count * std::max(seconds.waiting, 0.0);
    use.communicating += count * seconds.exposed;
  }
  for (double *seconds : {&use.computing, &use.waiting, &use.communicating})
    *seconds /= static_cast<double>(use.devices);
  kind.use = use;
  return true;
}

/// Plans ZeRO alone on its copy of the module. With `remedies`, which take long
/// to find, the error says what would help.
bool Candidates::planZeroAlone(bool remedies) {
  HeteroAllocateOptions allocation = request.allocation;
  allocation.policy = report.kinds.front().policy;
  allocation.simulate = true;
  allocation.remedies = remedies;
  return compilation.run(
      *candidates.front().module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createEstimateProfiles());
        pm.addPass(createHeteroAllocate(allocation, request.build));
      });
}

/// Fails only where programs of a plan cannot be made.
bool Candidates::addZeroAlone() {
  PlanOfKind &kind = add("exact");
  // Another kind may fit.
  if (planZeroAlone(/*remedies=*/false))
    return simulateLast();
  std::swap(kind.error, compilation.error);
  return true;
}

/// Reads the units of the model once. Fails with a diagnostic where it has
/// none.
bool Candidates::readUnits(mlir::ModuleOp module) {
  if (model)
    return true;
  mlir::FailureOr<HybridModel> units = getHybridModel(module, cluster);
  if (mlir::succeeded(units))
    model = std::move(*units);
  return model.has_value();
}

/// Fails only where programs of a plan cannot be made.
template <typename Report>
bool Candidates::addStages(const char *policy, Report &found) {
  PlanOfKind &kind = add(policy);
  mlir::ModuleOp module = *candidates.back().module;
  {
    mlir::ScopedDiagnosticHandler handler(
        module.getContext(), [&](mlir::Diagnostic &diagnostic) {
          if (kind.error.empty() &&
              diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            kind.error = diagnostic.str();
          return mlir::success();
        });
    std::string error;
    HybridRequest own = request;
    own.knownSeconds = getLeastSeconds();
    if (!readUnits(module) ||
        mlir::failed(findPlan(module, cluster, *model, own, found, error)) ||
        mlir::failed(addPlan(module, cluster, own, found))) {
      if (!error.empty())
        kind.error = std::move(error);
      if (found.isSlower && !request.allowsLossy)
        kind.lowerBound = found.getLowerBoundOfAll();
      return true;
    }
  }
  if (found.isPlayed)
    return simulateLast();
  kind.seconds = found.simulation.seconds;
  kind.predicted = found.getPredicted();
  kind.lowerBound = found.getLowerBoundOfAll();
  candidates.back().timeline = std::move(found.simulation.timeline);
  return true;
}

/// Says what the plan of ZeRO alone lacks, and what would help: no other kind
/// does.
bool Candidates::refuse() {
  planZeroAlone(/*remedies=*/true);
  return false;
}

bool Candidates::choose() {
  std::optional<double> fastest;
  for (auto [index, kind] : llvm::enumerate(report.kinds))
    // A difference by rounding is none.
    if (kind.seconds && (!fastest || *kind.seconds < *fastest * (1 - 1e-9))) {
      fastest = kind.seconds;
      report.chosen = index;
    }
  return fastest || refuse();
}

ZeroAlone Candidates::describeZeroAlone() {
  const PlanOfKind &kind = report.kinds.front();
  ZeroAlone pure;
  pure.error = kind.error;
  if (!kind.seconds)
    return pure;
  Plan plan = zero::readPlan(
      *candidates.front().module->getOps<zero::PlanOp>().begin());
  pure.stage = static_cast<int>(plan.getStage());
  pure.seconds = plan.predicted;
  pure.simulatedSeconds = *kind.seconds;
  return pure;
}

bool Candidates::reviewZeroAlone() {
  std::optional<ReviewedPlan> reviewed =
      reviewModule(*candidates.front().module, compilation.error);
  if (!reviewed)
    return false;
  report.explanation = formatReview(reviewed->cluster, reviewed->review);
  report.json =
      formatPlanJSON(reviewed->cluster, reviewed->review, report.buildability);
  return true;
}

/// The chosen plan, by what its policy has to say.
bool Candidates::review() {
  if (report.chosen == 0)
    return reviewZeroAlone();
  hybrid.pure = geo.pure = describeZeroAlone();
  if (report.kinds[report.chosen].policy == "hybrid") {
    if (!reviewHybrid(compilation, cluster, request, hybrid))
      return false;
    report.explanation = formatHybridText(hybrid);
    report.json = formatHybridJSON(hybrid);
    return true;
  }
  const PlanOfKind &other = report.kinds[1];
  geo.hybridSeconds = other.seconds;
  geo.hybridError = other.error;
  reviewGeo(cluster, request, geo);
  report.explanation = formatGeoText(geo);
  report.json = formatGeoJSON(geo);
  return true;
}

bool Candidates::run() {
  if (!readCluster(compilation, request, cluster) || !addZeroAlone())
    return false;
  bool hasOthers = cluster.ranks.size() > 1 && request.zeroOption.empty();
  if (hasOthers && !addStages("hybrid", hybrid))
    return false;
  // Geo plans have stage 1 in each pipeline stage.
  if (hasOthers && (request.stage == "auto" || request.stage == "1") &&
      !addStages("geo", geo))
    return false;
  report.isOver = request.deadline.isOver();
  if (!choose())
    return false;
  Candidate &chosen = candidates[report.chosen];
  report.buildability = {request.leftOut, explainUnbuildable(*chosen.module)};
  bool isStaged = report.kinds[report.chosen].policy == "hybrid";
  report.isInModule = !isStaged || hybrid.columns.size() == 1;
  if ((request.explains || !report.isInModule) && !review())
    return false;
  if (!report.isInModule)
    report.buildability = hybrid.buildability;
  report.timeline = std::move(chosen.timeline);
  compilation.setModule(std::move(chosen.module));
  return true;
}

bool poplar::planAuto(Compilation &compilation, const AutoRequest &request,
                      AutoReport &report) {
  return Candidates(compilation, request, report).run();
}

//===----------------------------------------------------------------------===//
// What was found
//===----------------------------------------------------------------------===//

std::optional<double> AutoReport::getLowerBound() const {
  std::optional<double> least;
  for (const PlanOfKind &kind : kinds) {
    // Nothing fits.
    if (!kind.seconds && !kind.lowerBound)
      continue;
    if (!kind.lowerBound)
      return std::nullopt;
    least = std::min(*kind.lowerBound, least.value_or(*kind.lowerBound));
  }
  return least;
}

/// How far the chosen plan can be from the best.
static std::string formatBound(const AutoReport &report) {
  const PlanOfKind &chosen = report.kinds[report.chosen];
  std::optional<double> bound = report.getLowerBound();
  if (!bound || !chosen.predicted)
    return "";
  double gap = 1 - *bound / *chosen.predicted;
  if (gap < 5e-4)
    return "by the closed form, no plan of these kinds takes less than the "
           "chosen one\n";
  return llvm::formatv(
      "by the closed form, no plan of these kinds takes less than {0:f4} s; "
      "the chosen one takes {1:f1} % more\n",
      *bound, 100 * (*chosen.predicted / *bound - 1));
}

/// What a device does longer than one of the plan that was chosen does.
static std::string explainLoss(const PlanOfKind &kind,
                               const PlanOfKind &chosen) {
  if (!kind.use || !chosen.use)
    return "";
  const PlanOfKind::Use &own = *kind.use, &other = *chosen.use;
  struct Loss {
    const char *verb;
    double own, other;
  } losses[] = {{"computes", own.computing, other.computing},
                {"waits", own.waiting, other.waiting},
                {"communicates", own.communicating, other.communicating}};
  const Loss &most =
      *llvm::max_element(losses, [](const Loss &a, const Loss &b) {
        return a.own - a.other < b.own - b.other;
      });
  // No difference can be seen in what is printed.
  if (most.own - most.other < 1e-3 * *chosen.seconds)
    return "";
  if (&most == losses && own.devices < other.devices)
    return llvm::formatv(": {0} devices take part, not {1}", own.devices,
                         other.devices);
  if (*chosen.seconds < 0.1)
    return llvm::formatv(": a device {0} {1:f3} ms of it, not {2:f3} ms",
                         most.verb, 1e3 * most.own, 1e3 * most.other);
  return llvm::formatv(": a device {0} {1:f3} s of it, not {2:f3} s", most.verb,
                       most.own, most.other);
}

std::string poplar::formatKinds(const AutoReport &report) {
  if (report.kinds.size() == 1)
    return "";
  const PlanOfKind &chosen = report.kinds[report.chosen];
  std::string text = llvm::formatv(
      "kinds of plans, with the seconds of an iteration simulated from {0}:\n",
      chosen.use ? "their programs" : "programs or costs");
  for (const PlanOfKind &kind : report.kinds) {
    text +=
        llvm::formatv("  {0,-16} {1,-7}", describe(kind.policy), kind.policy);
    if (!kind.seconds)
      text += " none: " + kind.error;
    else
      text += llvm::formatv(" {0,10:f4} s", *kind.seconds);
    if (&kind == &chosen)
      text += ", chosen";
    else if (kind.seconds)
      text += llvm::formatv(", {0:f2} times as long{1}",
                            *kind.seconds / *chosen.seconds,
                            explainLoss(kind, chosen));
    text += "\n";
  }
  if (report.isOver)
    text += "the search has ended by --seconds: there may be faster plans\n";
  return text + formatBound(report);
}

static llvm::json::Object describeKind(const PlanOfKind &kind) {
  llvm::json::Object object{{"policy", kind.policy}};
  if (kind.lowerBound)
    object["lower_bound_seconds"] = *kind.lowerBound;
  if (!kind.seconds) {
    object["error"] = kind.error;
    return object;
  }
  object["simulated_seconds"] = *kind.seconds;
  object["simulated_from"] = kind.use ? "programs" : "costs";
  if (kind.predicted)
    object["predicted_seconds"] = *kind.predicted;
  if (!kind.use)
    return object;
  object["devices"] = kind.use->devices;
  object["computing_seconds"] = kind.use->computing;
  object["waiting_seconds"] = kind.use->waiting;
  object["exposed_seconds"] = kind.use->communicating;
  return object;
}

std::string poplar::addMembers(llvm::StringRef object,
                               llvm::json::Object members) {
  std::string added =
      llvm::formatv("{0:2}\n", llvm::json::Value(std::move(members)));
  // "{\n  members\n}\n" each.
  return object.drop_back(3).str() + "," + added.substr(1);
}

std::string poplar::formatAutoJSON(const AutoReport &report) {
  llvm::json::Array kinds;
  for (const PlanOfKind &kind : report.kinds)
    kinds.push_back(describeKind(kind));
  llvm::json::Object members{{"kinds", std::move(kinds)}};
  if (std::optional<double> bound = report.getLowerBound())
    members["lower_bound_of_all_kinds_seconds"] = *bound;
  return addMembers(report.json, std::move(members));
}
