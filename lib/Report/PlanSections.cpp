//===- PlanSections.cpp - What a report says of a plan --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/Text.h"
#include "ReportSections.h"
#include <algorithm>
#include <cmath>

using namespace poplar;

std::string poplar::formatCosts(const ReportInput &input) {
  Table table({"devices", "policy", "an iteration", "cost of it", ""});
  std::optional<double> own = getPlanSeconds(input);
  for (const Plan::Priced &plan : input.frontier) {
    table.row(plan.devices);
    table.cell(plan.policy);
    table.cell(formatTime(plan.seconds));
    table.cell(formatNumber(plan.cost));
    table.cell(own && std::abs(plan.seconds / *own - 1) < 1e-6 ? "this plan"
                                                               : "");
  }
  return table.finish() +
         "<p class=\"note\">Simulated plans of parts of the cluster. None of "
         "those that were made is both faster and cheaper than one of "
         "these.</p>\n";
}

namespace {

/// Ranks that do and hold the same, wherever they are.
struct AlikeRanks {
  std::vector<size_t> ranks;
  std::vector<int> nodes;
};

} // namespace

static bool areAlike(const PlanReview::Rank &a, const PlanReview::Rank &b) {
  auto peak = [](const PlanReview::Rank &rank) {
    return rank.memory ? rank.memory->peak : 0;
  };
  return a.type == b.type && a.share == b.share && a.limit == b.limit &&
         std::abs(a.state - b.state) <= 1e-9 * a.state && peak(a) == peak(b);
}

static std::vector<AlikeRanks>
foldRanks(const std::vector<PlanReview::Rank> &ranks) {
  std::vector<AlikeRanks> folded;
  for (size_t i = 0; i < ranks.size(); ++i) {
    auto alike =
        std::find_if(folded.begin(), folded.end(), [&](const AlikeRanks &it) {
          return areAlike(ranks[it.ranks.front()], ranks[i]);
        });
    if (alike == folded.end())
      alike = folded.insert(folded.end(), AlikeRanks());
    alike->ranks.push_back(i);
    if (alike->nodes.empty() || alike->nodes.back() != ranks[i].node)
      alike->nodes.push_back(ranks[i].node);
  }
  return folded;
}

/// "0", "0-7", "0, 2, 4": of many gaps, the first and the last.
static std::string nameRanks(const std::vector<size_t> &ranks) {
  std::vector<std::pair<size_t, size_t>> runs;
  for (size_t rank : ranks)
    if (!runs.empty() && runs.back().second + 1 == rank)
      runs.back().second = rank;
    else
      runs.push_back({rank, rank});
  std::string text;
  if (runs.size() > 4)
    return std::to_string(ranks.front()) + " … " + std::to_string(ranks.back());
  for (auto [first, last] : runs)
    text += (text.empty() ? "" : ", ") + std::to_string(first) +
            (last > first ? "-" + std::to_string(last) : "");
  return text;
}

static std::string nameNodes(const ClusterView &cluster,
                             const std::vector<int> &nodes) {
  const std::string &first = cluster.nodes[nodes.front()].name;
  if (nodes.size() == 1)
    return first;
  return first + (nodes.size() == 2 ? ", " : " … ") +
         cluster.nodes[nodes.back()].name;
}

std::string poplar::formatRanks(const ReportInput &input,
                                const PlanReview &review) {
  Table table({"type", "ranks", "which", "nodes", "micro-batch", "steps",
               "last", "samples each", "state each", "busy", "waits",
               "limited by"});
  for (const AlikeRanks &alike : foldRanks(review.ranks)) {
    const PlanReview::Rank &rank = review.ranks[alike.ranks.front()];
    table.row(input.cluster.types[rank.type].name, getTypeColor(rank.type));
    table.number(int64_t(alike.ranks.size()));
    table.cell(nameRanks(alike.ranks));
    table.cell(nameNodes(input.cluster, alike.nodes));
    table.number(rank.share.microBatch);
    table.number(rank.share.steps);
    table.number(rank.share.last);
    table.number(rank.share.samples());
    table.html(formatQuantity(100 * rank.state) + " %");
    table.html(formatTime(rank.busy));
    table.html(formatTime(std::max(rank.waiting, 0.0)));
    table.cell(toString(rank.limit));
  }
  const BatchProblem &problem = review.plan.problem;
  std::string body =
      table.finish() +
      "<p class=\"note\">Busy and waits are of an iteration, " +
      "predicted. Communication and update that nothing hides: " +
      formatTime(problem.iterationSync) + " an iteration and " +
      formatTime(problem.stepSync) + " a step.</p>\n";
  std::string how = describeCandidate(input.cluster, review.plan);
  if (!how.empty())
    body += "<p>Planned " + escapeHTML(how) + ".</p>\n";
  return body;
}

/// "0-3" of "ranks 0-3".
static std::string dropWord(const std::string &ranks) {
  for (const char *word : {"ranks ", "rank "})
    if (ranks.rfind(word, 0) == 0)
      return ranks.substr(std::string(word).size());
  return ranks;
}

/// Whether a row says all of both parts, but for the places of the second.
static bool isOneRow(const StagedPlan::Part &a, const StagedPlan::Part &b) {
  // What each of them takes of an iteration differs, where it is known.
  return !a.seconds && !b.seconds && a.deviceType == b.deviceType &&
         a.zeroStage == b.zeroStage && a.numUnits == b.numUnits &&
         a.numRanks == b.numRanks && a.share == b.share;
}

/// "0 … 5" of the first and the last.
static std::string joinEnds(const std::string &first, const std::string &last) {
  return first == last ? first : first + " … " + last;
}

std::string poplar::formatStagedPlan(const ReportInput &input,
                                     const StagedPlan &plan) {
  bool isSimulated = plan.parts.front().seconds.has_value();
  std::vector<std::string> heads = {"stage",       "units", "ZeRO stage",
                                    "type",        "ranks", "which",
                                    "micro-batch", "steps", "last"};
  if (isSimulated)
    heads.insert(heads.end(),
                 {"computes", "waits for ranks", "waits for links"});
  Table table(heads);
  for (size_t i = 0, next = 0; i < plan.parts.size(); i = next) {
    const StagedPlan::Part &part = plan.parts[i];
    for (next = i + 1;
         next < plan.parts.size() && isOneRow(part, plan.parts[next]);)
      ++next;
    const StagedPlan::Part &last = plan.parts[next - 1];
    table.row(joinEnds(std::to_string(part.group), std::to_string(last.group)));
    table.cell(joinEnds(part.units, last.units));
    table.number(part.zeroStage);
    table.html("<i class=\"" + getTypeColor(input, part.deviceType) +
               "\"></i>" + escapeHTML(part.deviceType));
    table.number(part.numRanks);
    table.cell(joinEnds(dropWord(part.ranks), dropWord(last.ranks)));
    table.number(part.share.microBatch);
    table.number(part.share.steps);
    table.number(part.share.last);
    if (!part.seconds)
      continue;
    table.html(formatTime(part.seconds->computing));
    table.html(formatTime(std::max(part.seconds->waiting, 0.0))); // rounding
    table.html(formatTime(part.seconds->exposed));
  }
  if (isSimulated)
    return table.finish() +
           "<p class=\"note\">Times are of an iteration, simulated.</p>\n";
  return table.finish() +
         "<p class=\"note\">poplar build does not take this "
         "plan" +
         (input.simulated ? ": the timeline is played from the costs of units, "
                            "not from programs"
                          : "") +
         ".</p>\n";
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static std::string drawSegment(const char *color, double bytes, double whole) {
  if (bytes <= 0)
    return "";
  return "<i class=\"" + std::string(color) +
         "\" style=\"width:" + formatNumber(100 * bytes / whole) + "%\"></i>";
}

/// The bar of a device whose memory is hardly used ends before its memory.
std::string poplar::formatMemory(const ReportInput &input,
                                 const PlanReview &review) {
  std::vector<AlikeRanks> folded = foldRanks(review.ranks);
  double peak = 0, limit = 0;
  for (const PlanReview::Rank &rank : review.ranks)
    if (rank.memory) {
      peak = std::max(peak, double(rank.memory->peak));
      limit = std::max(limit, double(input.cluster.types[rank.type].memory));
    }
  if (peak == 0)
    return "";
  bool isSmall = peak < 0.2 * limit;
  // For tiny models, GiB would be all zeros.
  bool inMiB = peak < double(1 << 28);
  double unit = inMiB ? 1 << 20 : 1 << 30;
  auto format = [&](double bytes) {
    return formatQuantity(bytes / unit) + (inMiB ? " MiB" : " GiB");
  };
  Axis axis(0, (isSmall ? peak : limit) / unit);
  double whole = axis.high * unit;
  std::string bars = "<div class=\"bars memory\">\n";
  Table table({"type", "ranks", "which", "state and buffers",
               "largest micro-batch", "peak", "device", "used"});
  for (const AlikeRanks &alike : folded) {
    const PlanReview::Rank &rank = review.ranks[alike.ranks.front()];
    if (!rank.memory)
      continue;
    const DeviceType &type = input.cluster.types[rank.type];
    double fixed = static_cast<double>(rank.memory->fixed),
           most = static_cast<double>(rank.memory->peak),
           memory = static_cast<double>(type.memory);
    std::string used = formatQuantity(100 * most / memory) + " %";
    bars += "<div class=\"who\"><i class=\"" + getTypeColor(rank.type) +
            "\"></i>" + escapeHTML(type.name) +
            (alike.ranks.size() > 1
                 ? ", " + formatCount(int64_t(alike.ranks.size()), "rank")
                 : ", rank " + std::to_string(alike.ranks.front())) +
            "</div><div class=\"track\">" +
            (isSmall ? std::string()
                     : "<b class=\"capacity\" style=\"width:" +
                           formatNumber(100 * memory / whole) + "%\"></b>") +
            drawSegment("state", fixed, whole) +
            drawSegment("batch", most - fixed, whole) +
            "</div><div class=\"value\">" + format(most) + " of " +
            formatGiB(memory) + "</div>\n";
    table.row(type.name, getTypeColor(rank.type));
    table.number(int64_t(alike.ranks.size()));
    table.cell(nameRanks(alike.ranks));
    table.html(format(fixed));
    table.html(format(most - fixed));
    table.html(format(most));
    table.html(formatGiB(memory));
    table.html(used);
  }
  bars += "<div class=\"xlabels\">";
  for (double tick : axis.getTicks())
    bars += "<span style=\"left:" + formatNumber(axis.getPercent(tick)) +
            "%\">" + axis.format(tick) + "</span>";
  bars += "</div><p class=\"xtitle\">" + std::string(inMiB ? "MiB" : "GiB") +
          "</p></div>\n<p class=\"legend\"><span>"
          "<i class=\"state\"></i>state and buffers: all that is there without "
          "a sample</span> <span><i class=\"batch\"></i>activations of the "
          "largest micro-batch</span>" +
          std::string(isSmall ? ""
                              : " <span><i class=\"capacity\"></i>memory "
                                "of the device</span>") +
          "</p>\n";
  return bars + table.finish() +
         "<p class=\"note\">As predicted from the profiles; poplar build "
         "computes it exactly." +
         (isSmall ? " The bars do not reach to the memory of the devices, of "
                    "which little is used."
                  : "") +
         "</p>\n";
}

//===----------------------------------------------------------------------===//
// Curves
//===----------------------------------------------------------------------===//

std::string poplar::formatCurves(const PlanReview &review) {
  std::string body = "<div class=\"pair\">\n";
  for (size_t i = 0; i < review.curves.size(); ++i) {
    const PlanReview::TypeCurve &curve = review.curves[i];
    const auto &type = review.plan.problem.types[i];
    if (curve.points.empty())
      continue;
    int64_t last = type.curve.largest();
    TimeUnit unit = getTimeUnit(type.curve.seconds(last));
    auto place = [&](int64_t batch, double seconds) {
      return std::pair(double(batch), seconds * unit.factor);
    };
    ChartSeries points = {curve.isEstimate ? "estimated" : "measured",
                          {},
                          curve.isEstimate ? "estimate" : "measured",
                          ChartSeries::Dots},
                line = {"as used", {}, "soft"},
                chosen = {
                    "chosen by the plan", {}, "chosen", ChartSeries::Rings};
    for (int64_t b = 1; b <= last; b += std::max<int64_t>(last / 200, 1))
      line.points.push_back(place(b, type.curve.seconds(b)));
    for (const Curve::Point &point : curve.points)
      points.points.push_back(place(point.batch, point.seconds));
    for (const auto &group : review.plan.allocation.types[i].groups)
      for (int64_t b : {group.share.microBatch, group.share.last})
        if (auto point = place(b, b > 0 ? type.curve.seconds(b) : 0);
            b > 0 && std::find(chosen.points.begin(), chosen.points.end(),
                               point) == chosen.points.end())
          chosen.points.push_back(point);
    body += drawChart(
        "'" + type.name + "': up to " +
            formatCount(type.largestBatch, "sample") +
            (type.largestBatch == 1 ? " fits" : " fit") + " in a step",
        "samples in a step (micro-batch)", std::string(unit.name) + " a step",
        {line, chosen, points}, true);
  }
  return body + "</div>\n";
}
