//===- ObjectivePlanning.cpp - Plans by time and by cost ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/ObjectivePlanning.h"
#include "HybridSteps.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Pipeline/HybridReview.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Transforms/Plan/Buildable.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <limits>

using namespace poplar;

/// Parts that are planned at most; each takes as long as a plan by time.
static constexpr size_t mostParts = 24;
static constexpr double secondsPerHour = 3600;

namespace {

/// Devices of each type that may take part.
struct Part {
  std::vector<int64_t> counts;
  /// No plan of the part takes less.
  double seconds = 0, cost = 0;
};

class ObjectivePlanner {
public:
  ObjectivePlanner(Compilation &compilation, const AutoRequest &request,
                   const Objective &objective, ObjectiveReport &report)
      : compilation(compilation), request(request), objective(objective),
        report(report) {}

  bool run();

private:
  bool checkPrices();
  std::vector<Part> listParts();
  void bound(std::vector<Part> &parts);
  bool isWithinLimits(double seconds, double cost) const {
    return seconds <= objective.deadline.value_or(never) &&
           cost <= objective.budget.value_or(never);
  }
  /// What is minimised.
  double weigh(double seconds, double cost) const {
    return objective.minimizesCost ? cost : seconds;
  }
  double getPrice(const std::vector<int64_t> &counts) const;
  mlir::OwningOpRef<mlir::ModuleOp> take(const Part &part);
  bool consider(const Part &part);
  bool refuse();
  void findFrontier();

  static constexpr double never = std::numeric_limits<double>::infinity();
  Compilation &compilation;
  const AutoRequest &request;
  const Objective &objective;
  ObjectiveReport &report;
  ClusterView cluster;
  /// The module of all devices, and that of the best plan.
  mlir::OwningOpRef<mlir::ModuleOp> whole, best;
  std::vector<PricedPlan> plans;
  std::string firstError;
};

} // namespace

bool ObjectivePlanner::checkPrices() {
  std::vector<int> counts = cluster.countRanks();
  for (auto [type, count] : llvm::zip_equal(cluster.types, counts))
    if (count > 0 && !type.price) {
      compilation.error = "device type @" + type.name +
                          " has no price: give `price`, of a device and hour, "
                          "in the cluster file (docs/cost.md)";
      return false;
    }
  return true;
}

double ObjectivePlanner::getPrice(const std::vector<int64_t> &counts) const {
  double price = 0;
  for (auto [type, count] : llvm::zip_equal(cluster.types, counts))
    if (count > 0)
      price += static_cast<double>(count) * *type.price;
  return price / secondsPerHour;
}

/// All products of all devices of a type, half of them, ..., one, none.
std::vector<Part> ObjectivePlanner::listParts() {
  std::vector<Part> parts = {{{}, 0, 0}};
  for (int count : cluster.countRanks()) {
    std::vector<Part> longer;
    for (const Part &part : parts)
      for (int64_t own = count;; own /= 2) {
        longer.push_back(part);
        longer.back().counts.push_back(own);
        if (own == 0)
          break;
      }
    parts = std::move(longer);
  }
  llvm::erase_if(parts, [](const Part &part) {
    return llvm::all_of(part.counts, [](int64_t count) { return count == 0; });
  });
  return parts;
}

/// By what devices can do together. Nothing is known of a model that cannot be
/// cut into units.
void ObjectivePlanner::bound(std::vector<Part> &parts) {
  mlir::ModuleOp module = compilation.getModule();
  mlir::ScopedDiagnosticHandler quiet(
      module.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
  mlir::FailureOr<HybridModel> model = getHybridModel(module, cluster);
  std::string error;
  std::vector<HybridCluster> problems;
  if (mlir::succeeded(model))
    problems = makeHybridProblems(cluster, *model, request.globalBatch, error);
  if (problems.empty())
    return;
  HybridCluster &all = problems.front();
  getFilter(request)(all.problem);
  for (Part &part : parts) {
    HybridProblem own = all.problem;
    for (auto [type, devices] : llvm::zip_equal(own.types, all.devices)) {
      type.count = 0;
      // Types that are alike are one.
      for (size_t i = 0; i < part.counts.size(); ++i)
        if (static_cast<int>(i) == devices.type ||
            areAlike(cluster, devices.type, static_cast<int>(i)))
          type.count += part.counts[i];
    }
    // The closed form may be above what is simulated.
    part.seconds = static_cast<double>(request.globalBatch) /
                   findUpperBound(own) / simulationMargin;
    part.cost = part.seconds * getPrice(part.counts);
  }
}

/// The module with the devices of a part.
mlir::OwningOpRef<mlir::ModuleOp> ObjectivePlanner::take(const Part &part) {
  std::vector<int> kept;
  // Whatever is asked for is there.
  (void)resizeCluster(cluster, part.counts, &kept);
  mlir::OwningOpRef<mlir::ModuleOp> module = whole->clone();
  keepRanks(*module, kept);
  return module;
}

/// Plans a part, and keeps its plan if it is the best so far. That there is
/// none is no error.
bool ObjectivePlanner::consider(const Part &part) {
  compilation.setModule(take(part));
  AutoReport found;
  ++report.planned;
  AutoRequest own = request;
  own.enter = [&](const std::string &step) {
    request.enter("part " + std::to_string(report.planned) + " of " +
                  std::to_string(report.parts) + " of the cluster: " + step);
  };
  if (!planAuto(compilation, own, found)) {
    // An error that was said.
    if (compilation.error.empty())
      return false;
    if (firstError.empty())
      firstError = compilation.error;
    compilation.error.clear();
    return true;
  }
  const PlanOfKind &kind = found.kinds[found.chosen];
  Plan plan =
      zero::readPlan(*compilation.getModule().getOps<zero::PlanOp>().begin());
  PricedPlan priced{*kind.seconds, 0,
                    std::vector<int64_t>(cluster.types.size()), kind.policy};
  for (const Plan::Rank &rank : plan.ranks)
    ++priced.devices[*cluster.findType(rank.type)];
  priced.cost = priced.seconds * getPrice(priced.devices);
  plans.push_back(priced);
  if (!isWithinLimits(priced.seconds, priced.cost) ||
      (best && weigh(priced.seconds, priced.cost) >=
                   weigh(report.plan.seconds, report.plan.cost)))
    return true;
  report.chosen = std::move(found);
  report.plan = priced;
  best = compilation.getModule().clone();
  return true;
}

/// Says how close the plans that were made come to the limits.
bool ObjectivePlanner::refuse() {
  const char *option = objective.deadline ? "deadline" : "budget";
  if (plans.empty()) {
    compilation.error = firstError;
    if (report.planned == 0)
      compilation.error =
          llvm::formatv("no plan is within the limits, by what the devices can "
                        "do at most; raise --{0}",
                        option);
    return false;
  }
  auto fastest = llvm::min_element(plans, [](const auto &a, const auto &b) {
    return a.seconds < b.seconds;
  });
  auto cheapest = llvm::min_element(
      plans, [](const auto &a, const auto &b) { return a.cost < b.cost; });
  compilation.error = llvm::formatv(
      "no plan is within the limits: the fastest takes {0:f4} s an iteration "
      "at "
      "a cost of {1:f6}, the cheapest {2:f4} s at {3:f6}; raise --{4}",
      fastest->seconds, fastest->cost, cheapest->seconds, cheapest->cost,
      option);
  return false;
}

void ObjectivePlanner::findFrontier() {
  llvm::sort(plans, [](const PricedPlan &a, const PricedPlan &b) {
    return std::tie(a.seconds, a.cost) < std::tie(b.seconds, b.cost);
  });
  for (PricedPlan &plan : plans)
    if (report.frontier.empty() || plan.cost < report.frontier.back().cost)
      report.frontier.push_back(std::move(plan));
}

/// "4 a100, 2 v100"
static std::string formatDevices(const ClusterView &cluster,
                                 const PricedPlan &plan) {
  std::string text;
  for (auto [type, count] : llvm::zip_equal(cluster.types, plan.devices))
    if (count > 0)
      text +=
          (text.empty() ? "" : ", ") + std::to_string(count) + " " + type.name;
  return text;
}

bool ObjectivePlanner::run() {
  whole = compilation.getModule().clone();
  // Forms buckets, as each plan does anew.
  if (!readCluster(compilation, request, cluster) || !checkPrices())
    return false;
  std::vector<Part> parts = listParts();
  report.parts = static_cast<int64_t>(parts.size());
  bound(parts);
  llvm::stable_sort(parts, [&](const Part &a, const Part &b) {
    return weigh(a.seconds, a.cost) < weigh(b.seconds, b.cost);
  });
  llvm::erase_if(parts, [&](const Part &part) {
    return !isWithinLimits(part.seconds, part.cost);
  });
  for (const Part &part :
       llvm::ArrayRef(parts).take_front(std::min(parts.size(), mostParts))) {
    // With a frontier, what is not the best counts, too.
    if (best && !request.explains &&
        weigh(part.seconds, part.cost) >=
            weigh(report.plan.seconds, report.plan.cost))
      break;
    if (!consider(part))
      return false;
  }
  if (!best)
    return refuse();
  compilation.setModule(std::move(best));
  findFrontier();
  std::vector<Plan::Priced> written;
  for (const PricedPlan &plan : report.frontier)
    written.push_back(
        {formatDevices(cluster, plan), plan.policy, plan.seconds, plan.cost});
  zero::setFrontier(*compilation.getModule().getOps<zero::PlanOp>().begin(),
                    written);
  return true;
}

bool poplar::planByObjective(Compilation &compilation,
                             const AutoRequest &request,
                             const Objective &objective,
                             ObjectiveReport &report) {
  return ObjectivePlanner(compilation, request, objective, report).run();
}

//===----------------------------------------------------------------------===//
// What was found
//===----------------------------------------------------------------------===//

std::string poplar::formatCosts(const ClusterView &cluster,
                                const ObjectiveReport &report) {
  std::string text = llvm::formatv(
      "cost      {0:f6} an iteration of {1:f4} s; {2} of {3} parts of the "
      "cluster were planned\n"
      "plans than which none of these is both faster and cheaper:\n",
      report.plan.cost, report.plan.seconds, report.planned, report.parts);
  for (const PricedPlan &plan : report.frontier)
    text +=
        llvm::formatv("  {0,10:f4} s, {1,10:f6}  {2,-7} {3}\n", plan.seconds,
                      plan.cost, plan.policy, formatDevices(cluster, plan));
  return text;
}

std::string poplar::formatObjectiveJSON(const ClusterView &cluster,
                                        const ObjectiveReport &report) {
  llvm::json::Array frontier;
  for (const PricedPlan &plan : report.frontier) {
    llvm::json::Object devices;
    for (auto [type, count] : llvm::zip_equal(cluster.types, plan.devices))
      if (count > 0)
        devices[type.name] = count;
    frontier.push_back(llvm::json::Object{{"simulated_seconds", plan.seconds},
                                          {"cost", plan.cost},
                                          {"policy", plan.policy},
                                          {"devices", std::move(devices)}});
  }
  return addMembers(formatAutoJSON(report.chosen),
                    llvm::json::Object{{"cost", report.plan.cost},
                                       {"frontier", std::move(frontier)},
                                       {"parts", report.parts},
                                       {"planned_parts", report.planned}});
}
