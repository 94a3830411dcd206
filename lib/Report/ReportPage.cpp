//===- ReportPage.cpp - A plan and its run as one page --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/Text.h"
#include "ReportSections.h"
#include "ReportStyle.h"
#include <algorithm>
#include <cctype>
#include <cstdio>

using namespace poplar;

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

Table::Table(const std::vector<std::string> &heads) {
  for (const std::string &head : heads)
    text += "<th>" + head + "</th>";
  text = "<div class=\"wide\"><table><thead><tr>" + text +
         "</tr></thead><tbody>\n";
}

void Table::row(const std::string &first, const std::string &color) {
  endRow();
  text += "<tr><td>" +
          (color.empty() ? "" : "<i class=\"" + color + "\"></i>") +
          escapeHTML(first) + "</td>";
  isOpen = true;
}

void Table::seconds(const std::optional<double> &value, double reference) {
  if (!value)
    return html("-");
  char percent[32];
  std::snprintf(percent, sizeof(percent), " (%+.1f %%)",
                100 * (*value / reference - 1));
  html(formatTime(*value) + percent);
}

void Table::words(const std::string &value) {
  text += "<td class=\"text\">" + escapeHTML(value) + "</td>";
}

std::string Table::finish() {
  endRow();
  return text + "</tbody></table></div>\n";
}

void Table::endRow() {
  if (isOpen)
    text += "</tr>\n";
}

//===----------------------------------------------------------------------===//
// Facts that several sections need
//===----------------------------------------------------------------------===//

int64_t poplar::getGlobalBatch(const ReportInput &input) {
  return input.review   ? input.review->plan.problem.globalBatch
         : input.stages ? input.stages->globalBatch
                        : 0;
}

std::optional<double> poplar::getPlanSeconds(const ReportInput &input) {
  if (input.simulated)
    return input.simulated->timeline.seconds;
  if (input.review)
    return input.review->plan.allocation.seconds;
  return std::nullopt;
}

std::string poplar::nameBaseline(const ReportInput &input,
                                 const ReportBaseline &baseline) {
  if (baseline.policy == "uniform")
    return "uniform batches (DeepSpeed)";
  if (baseline.policy == "whale")
    return "Whale";
  if (baseline.policy == "zero")
    return "ZeRO without pipelines";
  std::optional<int> type = input.cluster.findType(baseline.deviceType);
  int count = type ? input.cluster.countRanks()[*type] : 0;
  return (count > 1 ? std::to_string(count) + " × " : "") +
         baseline.deviceType + " alone";
}

std::string poplar::getReason(const std::string &error) {
  return error.substr(0, error.find("; make one with"));
}

const ReportBaseline *poplar::findFastest(const ReportInput &input,
                                          const std::string &policy) {
  const ReportBaseline *fastest = nullptr;
  for (const ReportBaseline &baseline : input.baselines)
    if (baseline.policy == policy && baseline.seconds &&
        (!fastest || *baseline.seconds < *fastest->seconds))
      fastest = &baseline;
  return fastest;
}

std::string poplar::describeDevices(const ReportInput &input) {
  std::vector<int64_t> counts(input.cluster.types.size());
  for (const auto &[place, count] : input.used)
    counts[place.second] += count;
  std::string text;
  for (size_t type = 0; type < counts.size(); ++type)
    if (counts[type] > 0)
      text += (text.empty() ? "" : " + ") +
              (counts[type] > 1 ? std::to_string(counts[type]) + " × " : "") +
              input.cluster.types[type].name;
  return text;
}

std::string poplar::getTypeColor(const ReportInput &input,
                                 const std::string &type) {
  return getTypeColor(size_t(input.cluster.findType(type).value_or(0)));
}

/// As its authors write it: "Llama", "GPT-2", "Qwen2".
static std::string nameFamily(std::string architecture) {
  const std::pair<const char *, const char *> names[] = {
      {"afmoe", "AFMoE"},
      {"bert", "BERT"},
      {"cohere2", "Cohere 2"},
      {"deepseek_v2", "DeepSeek-V2"},
      {"deepseek_v3", "DeepSeek-V3"},
      {"dots1", "dots.llm1"},
      {"ernie4_5_moe", "Ernie 4.5"},
      {"exaone4", "EXAONE 4"},
      {"glm", "GLM"},
      {"glm4", "GLM-4"},
      {"glm4_moe", "GLM-4.5"},
      {"glm4_moe_lite", "GLM-4.7-Flash"},
      {"gpt2", "GPT-2"},
      {"gpt_neox", "GPT-NeoX"},
      {"gpt_oss", "gpt-oss"},
      {"hunyuan_v1_dense", "Hunyuan"},
      {"mimo", "MiMo"},
      {"minimax_m2", "MiniMax-M2"},
      {"ministral3", "Ministral 3"},
      {"mistral4", "Mistral 4"},
      {"olmo2", "OLMo 2"},
      {"olmo3", "OLMo 3"},
      {"phi3", "Phi-3"},
      {"qwen2_moe", "Qwen2-MoE"},
      {"qwen3_5_moe_text", "Qwen3.5-MoE"},
      {"qwen3_5_text", "Qwen3.5"},
      {"qwen3_moe", "Qwen3-MoE"},
      {"qwen3_next", "Qwen3-Next"},
      {"seed_oss", "Seed-OSS"},
      {"smollm3", "SmolLM3"},
      {"stablelm", "StableLM"},
      {"starcoder2", "StarCoder2"}};
  for (auto [architectureOf, name] : names)
    if (architecture == architectureOf)
      return name;
  if (!architecture.empty())
    architecture[0] = static_cast<char>(
        std::toupper(static_cast<unsigned char>(architecture[0])));
  return architecture;
}

/// "1.1 B", "124 M"
static std::string formatParameters(int64_t count) {
  return formatScaled(static_cast<double>(count), "B");
}

//===----------------------------------------------------------------------===//
// Page
//===----------------------------------------------------------------------===//

namespace {

class Page {
public:
  explicit Page(const ReportInput &input)
      : input(input), run(getRunFacts(input)) {}
  std::string format();

private:
  void addSection(const std::string &title, const std::string &body) {
    if (!body.empty())
      text += "<section><h2>" + title + "</h2>\n" + body + "</section>\n";
  }
  void addFact(const std::string &value, const std::string &name) {
    ++numFacts;
    facts += "<div><b>" + escapeHTML(value) + "</b><span>" + name +
             "</span></div>\n";
  }
  std::string formatTitle() const;
  std::string formatVerdict() const;
  std::string formatModel() const;
  void addFacts();
  void addWhatIf(const PlanReview &review);
  void addAlternatives(const PlanReview &review);

  const ReportInput &input;
  RunFacts run;
  std::string facts, text;
  int numFacts = 0;
};

} // namespace

std::string Page::formatTitle() const {
  std::string devices = describeDevices(input);
  if (!input.model)
    return input.isRun ? "Run " + input.name : input.name;
  std::string title = nameFamily(input.model->architecture);
  if (input.model->parameters)
    title += ", " + formatParameters(input.model->parameters) + " parameters";
  return title + (devices.empty() ? "" : " on " + devices);
}

/// A measured time that is further than this from the simulated one says that
/// comparisons of simulated times do not hold for the run.
static constexpr double kMostDeviation = 1.25;

/// One or two sentences: how fast it is, and what that is worth.
std::string Page::formatVerdict() const {
  std::optional<double> plan = getPlanSeconds(input);
  if (!plan)
    return "";
  std::string text = "An iteration of " +
                     formatCount(getGlobalBatch(input), "sample") + " takes ";
  if (run.steps.median > 0)
    text += formatTime(run.steps.median) + " as measured (median of " +
            formatCount(int64_t(run.steps.seconds.size()), "step") + "), ";
  text += formatTime(*plan) +
          (input.simulated ? " as simulated" : " as predicted") +
          (input.isEstimate ? " from estimates." : ".");
  double deviation = run.steps.median / *plan;
  if (run.steps.median > 0 &&
      std::max(deviation, 1 / deviation) > kMostDeviation)
    return "<p class=\"verdict\">" +
           escapeHTML(text + " The measured time is " +
                      formatQuantity(deviation) +
                      " times the other, so nothing is claimed from that: "
                      "other programs were at work, or the profiles are of "
                      "other devices; measure with poplar profile, and plan "
                      "again.") +
           "</p>\n";
  auto compare = [&](const ReportBaseline *other, const char *what) {
    double ratio = *other->seconds / *plan;
    if (ratio > 0.995 && ratio < 1.005)
      return std::string("as fast as ") + what;
    return formatQuantity(ratio) + " times as fast as " + what;
  };
  std::string worth;
  if (const ReportBaseline *alone = findFastest(input, "alone"))
    worth = compare(
        alone,
        ("the best type alone (" + nameBaseline(input, *alone) + ")").c_str());
  if (const ReportBaseline *uniform = findFastest(input, "uniform"))
    worth +=
        (worth.empty() ? "" : ", and ") + compare(uniform, "uniform batches");
  if (!worth.empty())
    text +=
        " That is " + worth + (run.steps.median > 0 ? ", all simulated." : ".");
  return "<p class=\"verdict\">" + escapeHTML(text) + "</p>\n";
}

void Page::addFacts() {
  if (!input.run.empty()) {
    const MeasuredStep &last = input.run.back();
    auto evaluated =
        std::find_if(input.run.rbegin(), input.run.rend(),
                     [](const MeasuredStep &step) { return step.evalLoss; });
    addFact(formatNumber(last.loss),
            "final loss" +
                (evaluated == input.run.rend()
                     ? ""
                     : "; validation " + formatNumber(*evaluated->evalLoss)));
    if (run.tokensPerSecond > 0)
      addFact(formatQuantity(run.tokensPerSecond),
              "tokens/s, measured (median)");
    std::string part;
    if (last.tokens)
      part = ": " + formatScaled(*last.tokens, "B") + " tokens";
    if (last.tokens && last.epochs)
      part += ", " + formatQuantity(*last.epochs) + " epochs";
    addFact(formatQuantity(double(last.step)), "steps" + part);
  }
  if (run.steps.median > 0)
    addFact(formatTime(run.steps.median), "an iteration, measured (median)");
  if (std::optional<double> plan = getPlanSeconds(input)) {
    std::string how = input.simulated ? "simulated" : "predicted";
    addFact(formatTime(*plan), "an iteration, " + how +
                                   (input.isEstimate ? " from estimates" : ""));
    double samples = static_cast<double>(getGlobalBatch(input));
    if (input.run.empty() && input.model && input.model->context)
      addFact(formatQuantity(samples * double(input.model->context) / *plan),
              "tokens/s, " + how);
    else if (input.run.empty())
      addFact(formatQuantity(samples / *plan), "samples/s, " + how);
    addFact(formatQuantity(samples), "samples an iteration");
  }
  if (input.review) {
    const PlanReview &review = *input.review;
    addFact(formatCount(int64_t(review.ranks.size()), "rank"),
            "ZeRO stage " + std::to_string(review.plan.stage) + ", policy " +
                escapeHTML(review.plan.allocation.policy));
    addFact(formatQuantity(100 * review.explanation.throughput /
                           review.explanation.sumOfParts) +
                " %",
            "of what all devices do on their own, predicted");
  }
  if (input.stages) {
    int64_t ranks = 0;
    for (const StagedPlan::Part &part : input.stages->parts)
      ranks += part.numRanks;
    addFact(formatCount(input.stages->parts.back().group + 1, "stage"),
            input.stages->schedule ? std::string("of pipelines, schedule ") +
                                         toString(*input.stages->schedule)
                                   : "of pipelines");
    addFact(formatCount(ranks, "rank"),
            "policy " + escapeHTML(input.stages->policy));
  }
}

std::string Page::formatModel() const {
  const ReportModel &model = *input.model;
  Table table({"model", escapeHTML(nameFamily(model.architecture))});
  auto add = [&](const char *name, int64_t value, const std::string &text) {
    if (value == 0)
      return;
    table.row(name);
    table.cell(text);
  };
  auto quantity = [](int64_t value) { return formatQuantity(double(value)); };
  add("parameters", model.parameters, quantity(model.parameters));
  if (model.trained != model.parameters)
    add("of which are trained", model.trained, quantity(model.trained));
  add("layers", model.layers, quantity(model.layers));
  add("hidden size", model.hidden, quantity(model.hidden));
  add("vocabulary", model.vocabulary, quantity(model.vocabulary));
  add("context", model.context, quantity(model.context) + " tokens");
  return table.finish();
}

void Page::addWhatIf(const PlanReview &review) {
  double now = review.plan.allocation.seconds;
  Table table(
      {"type", "one device more", "one less", "memory for one more sample"});
  for (size_t i = 0; i < review.explanation.whatIf.size(); ++i) {
    const PlanExplanation::WhatIf &whatIf = review.explanation.whatIf[i];
    // A type that has no device has no answers either.
    if (!whatIf.oneMore && !whatIf.oneLess && !whatIf.moreMemory)
      continue;
    table.row(input.cluster.types[i].name, getTypeColor(i));
    table.seconds(whatIf.oneMore, now);
    table.seconds(whatIf.oneLess, now);
    table.seconds(whatIf.moreMemory, now);
  }
  std::string body =
      "<p class=\"note\">An iteration by the closed form, against that of the "
      "plan: " +
      formatTime(now) + ".</p>\n" + table.finish();
  if (!review.advice.empty()) {
    body += "<p>Faster would be:</p><ul>";
    for (const std::string &advice : review.advice)
      body += "<li>" + escapeHTML(advice) + "</li>";
    body += "</ul>\n";
  }
  addSection("What if", body);
}

namespace {

/// A row of the table of other plans. Plans that differ in nothing but how the
/// state is sharded are one.
struct OtherPlan {
  int stage;
  std::string sharding, how;
  std::optional<double> seconds;
  int64_t steps;
};

} // namespace

void Page::addAlternatives(const PlanReview &review) {
  std::vector<OtherPlan> plans;
  auto add = [&](OtherPlan plan) {
    for (OtherPlan &known : plans)
      if (known.stage == plan.stage && known.how == plan.how &&
          known.seconds == plan.seconds && known.steps == plan.steps) {
        if (known.sharding.find(plan.sharding) == std::string::npos)
          known.sharding += " or " + plan.sharding;
        return;
      }
    plans.push_back(std::move(plan));
  };
  for (const PlanOutcome &outcome : review.alternatives.outcomes)
    if (outcome.best)
      add({outcome.stage, describeSharding(*outcome.best),
           describeCandidate(input.cluster, *outcome.best),
           outcome.best->allocation.seconds, outcome.best->allocation.steps()});
    else
      add({outcome.stage, toString(outcome.sharding),
           "no plan: " + getReason(outcome.error), std::nullopt, 0});
  // But this one.
  for (const Allocation &other : review.explanation.bestPlans)
    if (other.steps() != review.plan.allocation.steps())
      add({review.plan.stage, describeSharding(review.plan),
           "the same devices, best for another number of steps", other.seconds,
           other.steps()});
  Table table({"ZeRO stage", "state", "an iteration", "steps", "how"});
  for (const OtherPlan &plan : plans) {
    table.row(std::to_string(plan.stage));
    table.cell(plan.sharding);
    table.seconds(plan.seconds, review.plan.allocation.seconds);
    table.html(plan.seconds ? std::to_string(plan.steps) : "-");
    table.words(plan.how);
  }
  addSection("Other plans", "<p class=\"note\">By the closed form, against "
                            "this plan.</p>\n" +
                                table.finish());
}

std::string Page::format() {
  std::string head = formatVerdict();
  addFacts();
  if (!input.note.empty())
    head += "<p class=\"note\">" + escapeHTML(input.note) + "</p>\n";
  std::string setup = input.model ? formatModel() : "";
  std::string cluster = formatClusterSection(input);
  addSection(cluster.empty() ? "Model" : "Model and cluster",
             setup.empty() && cluster.empty()
                 ? ""
                 : "<div class=\"setup\">" + cluster + setup +
                       (cluster.empty() ? "</div>\n" : "</div></div>\n"));
  addSection("Comparison", formatComparison(input, run));
  if (!input.frontier.empty())
    addSection("Cost", formatCosts(input));
  if (input.simulated)
    addSection("Timeline", formatTimelineSection(input, run));
  if (!input.run.empty())
    addSection("Run", formatRunSection(input, run));
  if (input.review)
    addSection("Plan", formatRanks(input, *input.review));
  if (input.stages)
    addSection("Plan", formatStagedPlan(input, *input.stages));
  if (input.review) {
    addSection("Memory", formatMemory(input, *input.review));
    addSection("Speed of the device types", formatCurves(*input.review));
    addWhatIf(*input.review);
    addAlternatives(*input.review);
  }
  std::string title = escapeHTML(formatTitle());
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
         "charset=\"utf-8\" />\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\" />\n<title>" +
         title + "</title>\n<style>" + reportStyle +
         "</style>\n</head>\n<body>\n<header><p class=\"soft\">Poplar · " +
         (input.isRun ? "run " : "plan ") + escapeHTML(input.name) +
         "</p>\n<h1>" + title + "</h1>\n" + head +
         "<div class=\"facts\" style=\"--columns:" +
         std::to_string(numFacts > 6 ? (numFacts + 1) / 2 : numFacts) +
         "\">\n" + facts + "</div></header>\n" + text + "</body>\n</html>\n";
}

std::string poplar::formatReportPage(const ReportInput &input) {
  return Page(input).format();
}
