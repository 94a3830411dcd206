//===- RunSections.cpp - What a report says of times ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/Text.h"
#include "ReportSections.h"
#include <algorithm>
#include <cstdio>

using namespace poplar;

/// Points of a chart of a run; more are averaged.
static constexpr size_t mostPoints = 600;

double poplar::getMedian(std::vector<double> values) {
  auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Tokens of a step; 0 if neither the run nor the plan says it.
static double getTokensPerStep(const ReportInput &input) {
  for (size_t i = 1; i < input.run.size(); ++i) {
    const MeasuredStep &before = input.run[i - 1], &step = input.run[i];
    if (step.tokens && before.tokens && step.step == before.step + 1)
      return *step.tokens - *before.tokens;
  }
  return input.model ? static_cast<double>(getGlobalBatch(input)) *
                           static_cast<double>(input.model->context)
                     : 0;
}

RunFacts poplar::getRunFacts(const ReportInput &input) {
  RunFacts facts;
  facts.tokensPerStep = getTokensPerStep(input);
  std::vector<double> rates;
  for (const MeasuredStep &step : input.run) {
    if (step.tokensPerSecond <= 0)
      continue;
    rates.push_back(step.tokensPerSecond);
    if (facts.tokensPerStep > 0)
      facts.steps.seconds.push_back(facts.tokensPerStep / step.tokensPerSecond);
  }
  if (rates.empty())
    return facts;
  facts.tokensPerSecond = getMedian(rates);
  if (!facts.steps.seconds.empty())
    facts.steps.median = facts.tokensPerStep / facts.tokensPerSecond;
  return facts;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

static std::string formatRatio(double ratio) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", ratio);
  return text;
}

std::string poplar::formatComparison(const ReportInput &input,
                                     const RunFacts &run) {
  struct Bar {
    std::string name, color;
    double seconds;
  };
  std::vector<Bar> bars;
  std::optional<double> plan = getPlanSeconds(input);
  if (run.steps.median > 0)
    bars.push_back({"this plan, measured", "measured", run.steps.median});
  if (plan)
    bars.push_back({"this plan, simulated", "simulated", *plan});
  std::vector<const ReportBaseline *> others;
  std::string missing;
  for (const ReportBaseline &baseline : input.baselines)
    if (baseline.seconds)
      others.push_back(&baseline);
    else
      missing += "<li>" + escapeHTML(nameBaseline(input, baseline)) + " " +
                 escapeHTML(getReason(baseline.error)) + "</li>\n";
  std::stable_sort(
      others.begin(), others.end(),
      [](const auto *a, const auto *b) { return *a->seconds < *b->seconds; });
  for (const ReportBaseline *baseline : others)
    bars.push_back(
        {nameBaseline(input, *baseline), "other", *baseline->seconds});
  auto batch = static_cast<double>(getGlobalBatch(input));
  if (bars.size() < 2 || batch == 0)
    return "";
  int64_t context = input.model ? input.model->context : 0;
  double perIteration = batch * (context ? static_cast<double>(context) : 1);
  const char *unit = context ? "tokens/s" : "samples/s";
  double most = 0;
  for (const Bar &bar : bars)
    most = std::max(most, perIteration / bar.seconds);
  std::string html = "<div class=\"bars\">\n";
  for (const Bar &bar : bars) {
    double rate = perIteration / bar.seconds;
    html += "<div class=\"who\">" + escapeHTML(bar.name) +
            "</div><div class=\"track\"><i class=\"" + bar.color +
            "\" style=\"width:" + formatNumber(100 * rate / most) +
            "%\"></i></div><div class=\"value\">" + formatQuantity(rate) + " " +
            unit + "<small>" + formatTime(bar.seconds) +
            (plan && bar.color == "other"
                 ? ", " + formatRatio(*plan / bar.seconds) + " × this plan"
                 : "") +
            "</small></div>\n";
  }
  html += "</div>\n<p class=\"legend\">";
  if (run.steps.median > 0)
    html += "<span><i class=\"measured\"></i>measured: median of " +
            formatCount(int64_t(run.steps.seconds.size()), "step") + "</span> ";
  html += "<span><i class=\"simulated\"></i>simulated: this plan</span> "
          "<span><i class=\"other\"></i>simulated: other plans, each the best "
          "of its kind</span></p>\n";
  if (!missing.empty())
    html += "<ul>" + missing + "</ul>\n";
  if (input.isEstimate)
    html +=
        "<p class=\"note\">Some device types were not measured: simulations "
        "rest on estimates of them.</p>\n";
  return html;
}

//===----------------------------------------------------------------------===//
// Timeline
//===----------------------------------------------------------------------===//

std::string poplar::formatTimelineSection(const ReportInput &input,
                                          const RunFacts &run) {
  const SimulatedIteration &simulated = *input.simulated;
  const Timeline &timeline = simulated.timeline;
  std::vector<TimelineName> names;
  for (const SimulatedIteration::RankClass &it : simulated.classes)
    names.push_back(
        {it.deviceType + ", " + it.name, getTypeColor(input, it.deviceType)});
  bool isMeasured = run.steps.median > 0;
  std::string body = drawTimeline(
      "An iteration: " + formatTime(timeline.seconds) + " simulated" +
          (isMeasured ? ", " + formatTime(run.steps.median) + " measured" : ""),
      timeline, names, 0, timeline.seconds, isMeasured ? &run.steps : nullptr,
      input.trace ? &*input.trace : nullptr);
  if (simulated.steps > 2)
    body += drawTimeline("Its last step, and the update", timeline, names,
                         timeline.seconds * (1 - 1.2 / double(simulated.steps)),
                         timeline.seconds);
  body += drawTimelineLegend(isMeasured);
  body +=
      "<p class=\"note\">The upper lane shows what ranks compute, the lower "
      "one what they communicate. Ranks that do the same are shown once.";
  if (input.trace)
    body += " Measured lanes are of step " + std::to_string(input.trace->step) +
            ", the median of the trace, which does not say for what a rank "
            "waits.";
  return body + "</p>\n";
}

//===----------------------------------------------------------------------===//
// Run
//===----------------------------------------------------------------------===//

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

/// What was measured against what was expected.
static std::string formatAgreement(const ReportInput &input,
                                   const RunFacts &run) {
  if (run.steps.median == 0 || (!input.review && !input.simulated))
    return "";
  Table table({"an iteration", "seconds"});
  table.row("measured, median of " +
            formatCount(int64_t(run.steps.seconds.size()), "step"));
  table.html(formatTime(run.steps.median));
  if (input.review) {
    table.row("predicted by the closed form, against it");
    table.seconds(input.review->plan.allocation.seconds, run.steps.median);
  }
  if (input.simulated) {
    table.row("simulated, against it");
    table.seconds(input.simulated->timeline.seconds, run.steps.median);
  }
  return table.finish();
}

std::string poplar::formatRunSection(const ReportInput &input,
                                     const RunFacts &run) {
  ChartSeries loss = {"training", {}, "measured"},
              eval = {"validation", {}, "validation", ChartSeries::Dots},
              rate = {"tokens a second", {}, "measured"};
  for (const MeasuredStep &step : input.run) {
    auto number = static_cast<double>(step.step);
    loss.points.push_back({number, step.loss});
    if (step.evalLoss)
      eval.points.push_back({number, *step.evalLoss});
    rate.points.push_back({number, step.tokensPerSecond});
  }
  loss.points = thin(std::move(loss.points));
  eval.points = thin(std::move(eval.points));
  rate.points = thin(std::move(rate.points));
  std::vector<ChartSeries> losses = {loss};
  if (!eval.points.empty())
    losses.push_back(eval);
  return "<div class=\"pair\">\n" +
         drawChart("Loss", "step", "loss", losses, false) +
         drawChart("Throughput", "step", "tokens/s", {rate}, true) +
         "</div>\n" + formatAgreement(input, run);
}
