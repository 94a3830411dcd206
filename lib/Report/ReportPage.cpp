//===- ReportPage.cpp - A plan and its run as one page --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Charts.h"
#include "Poplar/Report/PlanReport.h"
#include "ReportStyle.h"
#include <algorithm>
#include <cstdio>

using namespace poplar;

/// Points of a chart of a run; more are averaged.
static constexpr size_t mostPoints = 600;

namespace {

/// A table as it grows, in a box that scrolls where the screen is narrow.
class Table {
public:
  explicit Table(const std::vector<std::string> &heads) {
    for (const std::string &head : heads)
      text += "<th>" + head + "</th>";
    text = "<div class=\"wide\"><table><thead><tr>" + text +
           "</tr></thead><tbody>\n";
  }
  /// Begins a row, whose first cell is escaped.
  void row(const std::string &first) {
    endRow();
    text += "<tr><td>" + escapeHTML(first) + "</td>";
    isOpen = true;
  }
  void cell(const std::string &value) { html(escapeHTML(value)); }
  void number(int64_t value) { html(std::to_string(value)); }
  void number(double value) { html(formatNumber(value)); }
  void seconds(const std::optional<double> &value, double reference) {
    if (!value)
      return html("-");
    char percent[32];
    std::snprintf(percent, sizeof(percent), " s (%+.2f%%)",
                  100 * (*value / reference - 1));
    html(formatNumber(*value) + percent);
  }
  /// Words, which may take several lines.
  void words(const std::string &value) {
    text += "<td class=\"text\">" + escapeHTML(value) + "</td>";
  }
  void html(const std::string &value) { text += "<td>" + value + "</td>"; }
  std::string finish() {
    endRow();
    return text + "</tbody></table></div>\n";
  }

private:
  void endRow() {
    if (isOpen)
      text += "</tr>\n";
  }
  std::string text;
  bool isOpen = false;
};

class Page {
public:
  explicit Page(const ReportInput &input) : input(input) {}
  std::string format();

private:
  void addSection(const std::string &title, const std::string &body) {
    text += "<section><h2>" + title + "</h2>\n" + body + "</section>\n";
  }
  void addFact(const std::string &value, const std::string &name) {
    facts += "<div><b>" + escapeHTML(value) + "</b><span>" + name +
             "</span></div>\n";
  }
  void addPlan(const PlanReview &review);
  void addStages(const StagedPlan &plan);
  void addMemory(const PlanReview &review);
  void addCurves(const PlanReview &review);
  void addWhatIf(const PlanReview &review);
  void addAlternatives(const PlanReview &review);
  void addTimeline(const SimulatedIteration &simulated);
  void addRun();

  const std::string &typeOf(const PlanReview::Rank &rank) const {
    return input.cluster.types[rank.type].name;
  }

  const ReportInput &input;
  std::string facts, text;
};

/// Calls `visit(first, end)` for runs of ranks that do and hold the same.
template <typename Visitor>
void forEachRun(const std::vector<PlanReview::Rank> &ranks, Visitor visit) {
  auto isAlike = [](const PlanReview::Rank &a, const PlanReview::Rank &b) {
    return a.type == b.type && a.node == b.node && a.share == b.share &&
           a.state == b.state && a.limit == b.limit;
  };
  for (size_t first = 0, end; first < ranks.size(); first = end) {
    for (end = first + 1; end < ranks.size(); ++end)
      if (!isAlike(ranks[first], ranks[end]))
        break;
    visit(first, end);
  }
}

std::string nameRun(size_t first, size_t end) {
  std::string name = std::to_string(first);
  return end > first + 1 ? name + " to " + std::to_string(end - 1) : name;
}

} // namespace

void Page::addPlan(const PlanReview &review) {
  const PlanCandidate &plan = review.plan;
  bool isEstimate = false;
  for (const PlanReview::TypeCurve &curve : review.curves)
    isEstimate |= curve.isEstimate;
  addFact(formatNumber(plan.allocation.seconds) + " s",
          isEstimate ? "an iteration, estimate" : "an iteration, predicted");
  addFact(formatNumber(review.explanation.throughput), "samples a second");
  addFact(std::to_string(plan.stage), "ZeRO stage");
  addFact(std::to_string(plan.problem.globalBatch), "samples an iteration");
  addFact(std::to_string(review.ranks.size()), "ranks");
  addFact(plan.allocation.policy, "policy");
  addFact(formatNumber(100 * review.explanation.throughput /
                           review.explanation.sumOfParts,
                       3) +
              " %",
          "of what all devices do on their own");

  Table table({"rank", "type", "node", "micro-batch", "steps", "last",
               "samples", "state", "busy [s]", "wait [s]", "limited by"});
  forEachRun(review.ranks, [&](size_t first, size_t end) {
    const PlanReview::Rank &rank = review.ranks[first];
    table.row(nameRun(first, end));
    table.cell(typeOf(rank));
    table.cell(input.cluster.nodes[rank.node].name);
    table.number(rank.share.microBatch);
    table.number(rank.share.steps);
    table.number(rank.share.last);
    table.number(rank.share.samples());
    table.html(formatNumber(100 * rank.state, 3) + " %");
    table.number(rank.busy);
    table.number(rank.waiting);
    table.cell(toString(rank.limit));
  });
  std::string body = table.finish();
  body += "<p class=\"note\">Communication and update: " +
          formatNumber(plan.problem.iterationSync) + " s an iteration and " +
          formatNumber(plan.problem.stepSync) + " s a step.</p>\n";
  std::string how = describeCandidate(input.cluster, plan);
  if (!how.empty())
    body += "<p>Planned " + escapeHTML(how) + ".</p>\n";
  addSection("Plan", body);
}

void Page::addStages(const StagedPlan &plan) {
  addFact(plan.schedule, "schedule");
  addFact(std::to_string(plan.parts.back().group + 1), "pipeline stages");
  addFact(std::to_string(plan.globalBatch), "samples an iteration");
  addFact(plan.policy, "policy");
  Table table({"stage", "units", "ZeRO stage", "ranks", "type", "micro-batch",
               "steps", "last", "computes [s]", "waits for ranks [s]",
               "waits for links [s]"});
  for (const StagedPlan::Part &part : plan.parts) {
    table.row(std::to_string(part.group));
    table.cell(part.units);
    table.number(part.zeroStage);
    table.cell(part.ranks);
    table.cell(part.deviceType);
    table.number(part.share.microBatch);
    table.number(part.share.steps);
    table.number(part.share.last);
    table.number(part.seconds.computing);
    table.number(std::max(part.seconds.waiting, 0.0)); // rounding
    table.number(part.seconds.exposed);
  }
  addSection("Plan", table.finish() + "<p class=\"note\">Seconds are of an "
                                      "iteration, simulated.</p>\n");
}

/// The whole iteration and, where that is of many steps, the last one.
void Page::addTimeline(const SimulatedIteration &simulated) {
  const Timeline &timeline = simulated.timeline;
  addFact(formatNumber(timeline.seconds) + " s", "an iteration, simulated");
  std::string body =
      drawTimeline("An iteration", timeline, 0, timeline.seconds);
  if (simulated.steps > 2)
    body += drawTimeline("Its last step, and the update", timeline,
                         timeline.seconds * (1 - 1.2 / double(simulated.steps)),
                         timeline.seconds);
  addSection("Timeline, simulated",
             body + "<p class=\"note\">Above what ranks compute, below what "
                    "they communicate. Ranks that do the same are shown "
                    "once.</p>\n");
}

void Page::addMemory(const PlanReview &review) {
  Table table({"rank", "type", "", "fixed [MiB]", "batch [MiB]", "peak [MiB]",
               "of [MiB]"});
  bool isKnown = false;
  forEachRun(review.ranks, [&](size_t first, size_t end) {
    const PlanReview::Rank &rank = review.ranks[first];
    if (!rank.memory)
      return;
    isKnown = true;
    auto bytes = [&](int64_t count) {
      table.html(formatNumber(static_cast<double>(count) / (1 << 20), 5));
    };
    int64_t whole = input.cluster.types[rank.type].memory;
    int64_t batch = rank.memory->peak - rank.memory->fixed;
    table.row(nameRun(first, end));
    table.cell(typeOf(rank));
    table.html(drawBar(
        {static_cast<double>(rank.memory->fixed), static_cast<double>(batch)},
        static_cast<double>(whole)));
    bytes(rank.memory->fixed);
    bytes(batch);
    bytes(rank.memory->peak);
    bytes(whole);
  });
  if (isKnown)
    addSection("Memory",
               table.finish() +
                   "<p class=\"legend\"><span><i class=\"c0\"></i>state and "
                   "all that is fixed</span> <span><i class=\"c1\"></i>the "
                   "largest micro-batch</span></p><p class=\"note\">As "
                   "predicted from the profiles; poplar build computes it "
                   "exactly.</p>\n");
}

void Page::addCurves(const PlanReview &review) {
  std::string body;
  for (size_t i = 0; i < review.curves.size(); ++i) {
    const PlanReview::TypeCurve &curve = review.curves[i];
    const auto &type = review.plan.problem.types[i];
    if (curve.points.empty())
      continue;
    ChartSeries points = {curve.isEstimate ? "estimated" : "measured", {}};
    ChartSeries line = {"as used", {}}, chosen = {"chosen", {}, true};
    points.isMarks = true;
    int64_t last = type.curve.largest();
    for (int64_t b = 1; b <= last; b += std::max<int64_t>(last / 200, 1))
      line.points.push_back({double(b), type.curve.seconds(b)});
    for (const Curve::Point &point : curve.points)
      points.points.push_back({double(point.batch), point.seconds});
    for (const auto &group : review.plan.allocation.types[i].groups)
      for (int64_t b : {group.share.microBatch, group.share.last})
        if (b > 0)
          chosen.points.push_back({double(b), type.curve.seconds(b)});
    body += drawChart(
        "'" + type.name + "': up to " + std::to_string(type.largestBatch) +
            " samples fit in a step",
        "micro-batch", "seconds a step", {line, chosen, points}, true);
  }
  addSection("Speed of the device types", body);
}

void Page::addWhatIf(const PlanReview &review) {
  double now = review.plan.allocation.seconds;
  Table table(
      {"type", "one device more", "one less", "memory for one more sample"});
  for (size_t i = 0; i < review.explanation.whatIf.size(); ++i) {
    const PlanExplanation::WhatIf &whatIf = review.explanation.whatIf[i];
    table.row(input.cluster.types[i].name);
    table.seconds(whatIf.oneMore, now);
    table.seconds(whatIf.oneLess, now);
    table.seconds(whatIf.moreMemory, now);
  }
  std::string body = table.finish();
  if (!review.advice.empty()) {
    body += "<p>Faster would be:</p><ul>";
    for (const std::string &advice : review.advice)
      body += "<li>" + escapeHTML(advice) + "</li>";
    body += "</ul>\n";
  }
  addSection("What if", body);
}

void Page::addAlternatives(const PlanReview &review) {
  Table table({"stage", "state", "an iteration", "steps", "how"});
  for (const PlanOutcome &outcome : review.alternatives.outcomes) {
    table.row(std::to_string(outcome.stage));
    table.cell(toString(outcome.sharding));
    if (!outcome.best) {
      table.cell("-");
      table.cell("-");
      table.words("no plan: " + outcome.error);
      continue;
    }
    table.seconds(outcome.best->allocation.seconds,
                  review.plan.allocation.seconds);
    table.number(outcome.best->allocation.steps());
    table.words(describeCandidate(input.cluster, *outcome.best));
  }
  for (const Allocation &other : review.explanation.bestPlans) {
    table.row(std::to_string(review.plan.stage));
    table.cell(toString(review.plan.sharding));
    table.seconds(other.seconds, review.plan.allocation.seconds);
    table.number(other.steps());
    table.words("the same devices, best for another number of steps");
  }
  addSection("Other plans", table.finish());
}

/// Averages of neighbours where there are too many to draw.
static std::vector<std::pair<double, double>>
thin(std::vector<std::pair<double, double>> points) {
  size_t each = (points.size() + mostPoints - 1) / mostPoints;
  if (each <= 1)
    return points;
  std::vector<std::pair<double, double>> fewer;
  for (size_t first = 0; first < points.size(); first += each) {
    size_t end = std::min(first + each, points.size());
    double sum = 0;
    for (size_t i = first; i < end; ++i)
      sum += points[i].second;
    fewer.push_back({points[end - 1].first, sum / double(end - first)});
  }
  return fewer;
}

void Page::addRun() {
  ChartSeries loss = {"training", {}}, eval = {"validation", {}, true};
  ChartSeries rate = {"tokens a second", {}};
  std::vector<double> rates;
  for (const MeasuredStep &step : input.run) {
    auto number = static_cast<double>(step.step);
    loss.points.push_back({number, step.loss});
    if (step.evalLoss)
      eval.points.push_back({number, *step.evalLoss});
    rate.points.push_back({number, step.tokensPerSecond});
    if (step.tokensPerSecond > 0)
      rates.push_back(step.tokensPerSecond);
  }
  std::vector<ChartSeries> losses = {loss};
  losses[0].points = thin(loss.points);
  if (!eval.points.empty())
    losses.push_back(eval);
  rate.points = thin(rate.points);
  std::string body =
      drawChart("Loss", "step", "loss", losses, false) +
      drawChart("Throughput", "step", "tokens a second", {rate}, true);
  if (rates.empty())
    return addSection("Run", body);
  std::nth_element(rates.begin(), rates.begin() + rates.size() / 2,
                   rates.end());
  double median = rates[rates.size() / 2];
  addFact(formatNumber(median), "tokens a second, measured (median)");
  int64_t globalBatch = input.review   ? input.review->plan.problem.globalBatch
                        : input.stages ? input.stages->globalBatch
                                       : 0;
  if (globalBatch > 0 && input.tokensPerSample > 0) {
    double measured =
        double(globalBatch) * double(input.tokensPerSample) / median;
    addFact(formatNumber(measured) + " s", "an iteration, measured (median)");
    Table table({"an iteration", "seconds"});
    table.row("measured, median of " + std::to_string(rates.size()) + " steps");
    table.number(measured);
    if (input.review) {
      table.row("predicted, against it");
      table.seconds(input.review->plan.allocation.seconds, measured);
    }
    if (input.simulated) {
      table.row("simulated, against it");
      table.seconds(input.simulated->timeline.seconds, measured);
    }
    body = table.finish() + body;
  }
  addSection("Run", body);
}

std::string Page::format() {
  if (!input.note.empty())
    text += "<p class=\"note\">" + escapeHTML(input.note) + "</p>\n";
  if (input.review)
    addPlan(*input.review);
  if (input.stages)
    addStages(*input.stages);
  if (!input.run.empty())
    addRun();
  if (input.simulated)
    addTimeline(*input.simulated);
  if (input.review) {
    addMemory(*input.review);
    addCurves(*input.review);
    addWhatIf(*input.review);
    addAlternatives(*input.review);
  }
  std::string name = escapeHTML(input.name);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
         "charset=\"utf-8\" />\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\" />\n<title>" +
         name + "</title>\n<style>" + reportStyle +
         "</style>\n</head>\n<body>\n<h1>" + name +
         "</h1>\n<div class=\"facts\">\n" + facts + "</div>\n" + text +
         "</body>\n</html>\n";
}

std::string poplar::formatReportPage(const ReportInput &input) {
  return Page(input).format();
}
