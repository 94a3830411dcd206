//===- HybridReport.cpp - A hybrid plan, to be read -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/HybridReport.h"
#include "Poplar/Support/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

using namespace poplar;

using llvm::formatv;

std::string poplar::formatUnits(const HybridModel &model, int first, int end) {
  return end == first + 1 ? model.names[first]
                          : model.names[first] + " .. " + model.names[end - 1];
}

/// "block.0 .. block.3 + block.8 .. block.11"
static std::string formatNames(const HybridModel &model,
                               const std::vector<HybridPlan::Range> &chunks) {
  std::string text;
  for (HybridPlan::Range units : chunks)
    text += (text.empty() ? "" : " + ") +
            formatUnits(model, units.first, units.end);
  return text;
}

/// A short form of it: numbers, where there are several chunks.
static std::string formatUnits(const HybridModel &model,
                               const std::vector<HybridPlan::Range> &chunks) {
  if (chunks.size() == 1)
    return formatNames(model, chunks);
  std::vector<std::string> numbers;
  for (HybridPlan::Range units : chunks) {
    numbers.push_back(std::to_string(units.first));
    if (units.end > units.first + 1)
      numbers.back() += "-" + std::to_string(units.end - 1);
  }
  return "units " + llvm::join(numbers, ", ");
}

/// "3 stages", "3 stages of 2 chunks".
static std::string formatStageCount(const HybridPlan &plan) {
  std::string text = formatCount(plan.groups.size(), "stage");
  if (plan.chunks > 1)
    text += " of " + formatCount(plan.chunks, "chunk");
  return text;
}

static int64_t sum(const std::vector<int64_t> &values) {
  return std::accumulate(values.begin(), values.end(), int64_t(0));
}

/// "3 stages, 1f1b", of each column.
static std::string formatShapes(const HybridReport &report) {
  std::vector<std::string> shapes;
  for (const HybridResult::Column &column : report.columns)
    shapes.push_back(formatStageCount(column.plan) + ", " +
                     toString(column.plan.schedule));
  return llvm::join(shapes, "; ");
}

std::string poplar::formatWires(const LossyWires &wires) {
  if (!wires.any())
    return "";
  return "          " + describeWires(wires) +
         " between nodes, with error feedback\n";
}

static std::string formatHead(const HybridReport &report) {
  int64_t devices = 0;
  for (const HybridResult::Column &column : report.columns)
    devices += sum(column.plan.countDevices(column.problem));
  std::string text = formatv(
      "plan      hybrid, {0} samples an iteration on {1} of {2} devices: {3}\n",
      report.whole.globalBatch, devices, report.numDevices,
      formatShapes(report));
  text += formatWires(report.wires);
  text += formatv(
      "          {0:f4} s simulated{1}, {2:f4} s by the closed form",
      report.simulation.seconds,
      report.isPlayed ? "" : " from the costs of units", report.predicted);
  if (report.uncertainty > 0)
    text += formatv(" (estimate, +-{0:f0} %)", 100 * report.uncertainty);
  // Names the devices at hand, where not every choice of them was posed.
  llvm::StringRef where =
      report.triedAllDevices ? "" : " on the devices that were chosen";
  if (report.isProven())
    text +=
        formatv("; no plan of its kinds{0} takes less by the latter\n", where);
  else
    text += formatv("; by the latter, no plan of its kinds{0} takes less than "
                    "{1:f4} s\n",
                    where, report.lowerBound);
  return text;
}

/// "2", or "2 by 3:1" of a team.
static std::string formatDegree(const HybridProblem::DeviceType &type,
                                const HybridProblem::Mode &mode) {
  std::string text = std::to_string(mode.tensorDegree), parts;
  for (int64_t part : type.parts)
    parts += (parts.empty() ? " by " : ":") + std::to_string(part);
  return text + parts;
}

/// `lanes` are those of the column.
static std::string
formatStages(const HybridReport &report, const HybridResult::Column &column,
             llvm::ArrayRef<std::vector<PipelineSimulation::Stage>> lanes) {
  const HybridProblem &problem = column.problem;
  const HybridPlan &plan = column.plan;
  std::string text;
  std::vector<std::vector<HybridPlan::Range>> units = plan.cutUnits(problem);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const HybridPlan::Lane &it = plan.lanes[lane];
    text += formatv(
        "  {0}, {1}: {2} of {3} in each\n",
        formatCount(it.pipelines, "pipeline"),
        formatCount(it.samples, "sample"),
        formatCount(plan.countMicroBatches(problem, lane), "micro-batch"),
        plan.getMicroBatch(problem, lane));
    // What a stage is, but for its units.
    auto describe = [&](size_t j) -> std::string {
      const auto &type = problem.types[it.stages[j].type];
      const HybridProblem::Mode &mode = type.modes[it.stages[j].mode];
      const PipelineSimulation::Stage &stage = lanes[lane][j];
      double percent = 100 / report.simulation.seconds;
      return formatv(
          "{0,3} units  {1,-16} {2,4} ranks, tensor {3}, ZeRO {4}, {5,-19} "
          "computes {6,5:f1} %, waits {7,5:f1} %, exchanges {8,5:f1} %\n",
          plan.groups[j].end - plan.groups[j].first, type.name,
          it.pipelines * mode.tensorDegree, formatDegree(type, mode),
          plan.groups[j].zeroStage, toString(mode.recompute),
          percent * stage.computing, percent * stage.waiting,
          percent * stage.syncing);
    };
    for (size_t j = 0, next = 0; j < plan.groups.size(); j = next) {
      std::string row = describe(j);
      for (next = j + 1; next < plan.groups.size() && describe(next) == row;)
        ++next;
      std::vector<HybridPlan::Range> all = units[j];
      for (size_t chunk = 0; chunk < all.size(); ++chunk)
        all[chunk].end = units[next - 1][chunk].end;
      text += next == j + 1 ? formatv("    stage {0,2}  {1,-24} {2}", j,
                                      formatUnits(report.model, all), row)
                                  .str()
                            : formatv("    stages {0} to {1}  {2}; each {3}", j,
                                      next - 1, formatUnits(report.model, all),
                                      llvm::StringRef(row).ltrim())
                                  .str();
    }
  }
  return text;
}

/// Calls `use` with each column and its lanes.
template <typename Use>
static void forEachColumn(const HybridReport &report, Use use) {
  llvm::ArrayRef<std::vector<PipelineSimulation::Stage>> lanes =
      report.simulation.lanes;
  for (const HybridResult::Column &column : report.columns) {
    use(column, lanes.take_front(column.plan.lanes.size()));
    lanes = lanes.drop_front(column.plan.lanes.size());
  }
}

static std::string formatStages(const HybridReport &report) {
  std::string text;
  forEachColumn(report, [&](const HybridResult::Column &column, auto lanes) {
    text += formatStages(report, column, lanes);
  });
  return text;
}

static std::string formatThroughput(const HybridReport &report) {
  const HybridReview &review = report.review;
  double bound = review.getSumOfTypes();
  std::string text =
      formatv("throughput {0:f3} samples/s (simulated)", review.throughput);
  if (bound <= 0)
    return text + "; the model fits on no type alone\n";
  text += formatv(", {0:f2} % of U = {1:f3}, the sum of each type alone:\n",
                  100 * review.throughput / bound, bound);
  for (size_t i = 0; i < review.alone.size(); ++i) {
    const HybridReview::Alone &alone = review.alone[i];
    text += formatv("    {0,-16} ", report.aloneNames[i]);
    if (alone.search.plan)
      text += formatv("{0:f3} samples/s in {1}\n", alone.throughput,
                      formatStageCount(*alone.search.plan));
    else
      text += alone.search.error + "\n";
  }
  text += "gap to U, lost to (less than by the types alone where below 0):\n";
  std::array<double, HybridLosses::numCauses> gap = review.splitGap();
  for (int cause = 0; cause < HybridLosses::numCauses; ++cause)
    text += formatv("    {0,-24} {1,6:f2} % of U\n",
                    toString(static_cast<HybridLosses::Cause>(cause)),
                    100 * gap[cause] / bound);
  return text;
}

std::string poplar::formatHybridText(const HybridReport &report) {
  std::string text =
      formatHead(report) + formatStages(report) + formatThroughput(report);
  const ZeroAlone &pure = report.pure;
  if (!pure.seconds)
    return text + "without pipelines: " + pure.error + "\n" +
           format(report.buildability);
  text += formatv("without pipelines (pure ZeRO, stage {0}): {1:f4} s "
                  "simulated, {2:f4} s by its closed form\n",
                  pure.stage, pure.simulatedSeconds, *pure.seconds);
  double ratio = pure.simulatedSeconds / report.simulation.seconds;
  if (pure.isFasterThan(report.simulation.seconds))
    text += formatv("advice: --policy exact, whose plan without pipelines "
                    "takes {0:f1} % less\n",
                    100 * (1 - ratio));
  else
    text += formatv("the pipelines are {0:f2} x as fast\n", ratio);
  return text + format(report.buildability);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// What the device of the largest part has, to their mean.
static double getLargestShare(const std::vector<int64_t> &parts) {
  if (parts.empty())
    return 1;
  int64_t sum = std::accumulate(parts.begin(), parts.end(), int64_t(0)),
          most = *std::max_element(parts.begin(), parts.end());
  return static_cast<double>(parts.size()) * static_cast<double>(most) /
         static_cast<double>(sum);
}

static void
writeGroup(llvm::json::OStream &os, const HybridReport &report,
           const HybridResult::Column &column,
           llvm::ArrayRef<std::vector<PipelineSimulation::Stage>> lanes,
           const std::vector<HybridPlan::Range> &units, size_t j) {
  const HybridProblem &problem = column.problem;
  const HybridPlan &plan = column.plan;
  const HybridPlan::Group &group = plan.groups[j];
  os.attributeArray("units", [&] {
    for (HybridPlan::Range range : units) {
      os.value(range.first);
      os.value(range.end);
    }
  });
  os.attribute("names", formatNames(report.model, units));
  os.attribute("zero_stage", group.zeroStage);
  os.attributeArray("lanes", [&] {
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane)
      os.object([&] {
        const HybridPlan::Lane &it = plan.lanes[lane];
        int type = it.stages[j].type;
        const HybridProblem::Mode &mode =
            problem.types[type].modes[it.stages[j].mode];
        const auto &stage = lanes[lane][j];
        os.attribute("device_type", report.typeNames[type]);
        os.attribute("pipelines", it.pipelines);
        os.attribute("tensor_degree", mode.tensorDegree);
        os.attribute("recompute", toString(mode.recompute));
        os.attribute("micro_batch", mode.microBatch);
        os.attribute("micro_batches", plan.countMicroBatches(problem, lane));
        os.attribute("samples", it.samples);
        HybridPlan::RankBytes bytes = plan.countBytes(problem, lane)[j];
        const std::vector<int64_t> &parts = problem.types[type].parts;
        // What is counted is the mean device of a team.
        double share = getLargestShare(parts);
        os.attribute(
            "peak_bytes",
            static_cast<int64_t>(share * static_cast<double>(bytes.peak)));
        os.attribute("collective_bytes", share * bytes.collectives);
        os.attribute("message_bytes", share * bytes.messages);
        if (!parts.empty())
          os.attributeArray("parts", [&] {
            for (int64_t part : parts)
              os.value(part);
          });
        os.attribute("computing_seconds", stage.computing);
        os.attribute("waiting_seconds", stage.waiting);
        os.attribute("exchanging_seconds", stage.syncing);
        os.attributeArray("ranks", [&] {
          for (int rank : column.ranks[j][lane])
            os.value(rank);
        });
      });
  });
}

static void writeReview(llvm::json::OStream &os, const HybridReport &report) {
  const HybridReview &review = report.review;
  os.attribute("samples_per_second", review.throughput);
  os.attribute("upper_bound_samples_per_second", review.upperBound);
  os.attribute("sum_of_types_samples_per_second", review.getSumOfTypes());
  os.attributeObject("alone_samples_per_second", [&] {
    for (size_t i = 0; i < review.alone.size(); ++i)
      os.attribute(report.aloneNames[i], review.alone[i].throughput);
  });
  os.attributeObject("gap_samples_per_second", [&] {
    std::array<double, HybridLosses::numCauses> gap = review.splitGap();
    for (int cause = 0; cause < HybridLosses::numCauses; ++cause)
      os.attribute(toString(static_cast<HybridLosses::Cause>(cause)),
                   gap[cause]);
  });
}

void poplar::writeZeroAlone(llvm::json::OStream &os, const ZeroAlone &pure) {
  if (!pure.seconds) {
    os.attribute("error", pure.error);
    return;
  }
  os.attribute("zero_stage", pure.stage);
  os.attribute("predicted_seconds", *pure.seconds);
  os.attribute("simulated_seconds", pure.simulatedSeconds);
}

static void writeFinalists(llvm::json::OStream &os,
                           const HybridReport &report) {
  os.attributeArray("finalists", [&] {
    for (const PlayedFinalist &each : report.finalists)
      os.object([&] {
        os.attribute("schedule", toString(each.schedule));
        os.attribute("chunks", each.chunks);
        os.attribute("stages", static_cast<int64_t>(each.stages));
        os.attribute("simulated_from_costs_seconds", each.fromCosts);
        os.attribute("simulated_seconds", each.fromPrograms);
      });
  });
}

static void
writeColumn(llvm::json::OStream &os, const HybridReport &report,
            const HybridResult::Column &column,
            llvm::ArrayRef<std::vector<PipelineSimulation::Stage>> lanes) {
  const HybridPlan &plan = column.plan;
  os.attribute("schedule", toString(plan.schedule));
  os.attribute("chunks", plan.chunks);
  std::vector<std::vector<HybridPlan::Range>> units =
      plan.cutUnits(column.problem);
  os.attributeArray("groups", [&] {
    for (size_t j = 0; j < plan.groups.size(); ++j)
      os.object([&] { writeGroup(os, report, column, lanes, units[j], j); });
  });
}

std::string poplar::formatHybridJSON(const HybridReport &report) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream os(stream, /*IndentSize=*/2);
  os.object([&] {
    writeOutcome(os, "hybrid", report.whole.globalBatch, report);
    os.attribute("lower_bound_of_kinds_seconds", report.lowerBoundOfKinds);
    os.attribute("tried_all_devices", report.triedAllDevices);
    if (report.isPlayed)
      writeFinalists(os, report);
    auto write = [&](const HybridResult::Column &column, auto lanes) {
      writeColumn(os, report, column, lanes);
    };
    if (report.columns.size() == 1)
      forEachColumn(report, write);
    else
      os.attributeArray("columns", [&] {
        forEachColumn(report,
                      [&](const HybridResult::Column &column, auto lanes) {
                        os.object([&] { write(column, lanes); });
                      });
      });
    writeReview(os, report);
    os.attribute("choice", report.pure.isFasterThan(report.simulation.seconds)
                               ? "zero"
                               : "hybrid");
    os.attributeObject("without_pipelines",
                       [&] { writeZeroAlone(os, report.pure); });
  });
  stream << "\n";
  return text;
}
