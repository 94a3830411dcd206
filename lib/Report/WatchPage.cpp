//===- WatchPage.cpp - A run while it goes on, as a page ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/WatchPage.h"
#include "Poplar/Support/Text.h"
#include "ReportSections.h"
#include "ReportStyle.h"
#include "WatchFacts.h"

using namespace poplar;

/// Asks for what has changed. A page that loses its server says so.
static constexpr const char *script = R"js(
const main = document.querySelector("main");
const turn = async () => {
  try {
    const answer = await fetch("view", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    main.innerHTML = await answer.text();
    document.body.className = "";
  } catch {
    document.body.className = "lost";
  }
  setTimeout(turn, 2000);
};
setTimeout(turn, 2000);
)js";

static constexpr const char *watchStyle = R"css(
.lostnote { display: none; background: var(--validation); color: #fff;
  border-radius: .6rem; padding: .5rem .9rem; margin: 0 0 1rem; }
.lost .lostnote { display: block; }
.lost main { opacity: .6; }
.facts { grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
progress { width: 100%; height: .6rem; accent-color: var(--measured); }
)css";

static std::string formatPercent(double share) {
  return formatNumber(100 * share, 3) + " %";
}

/// The class of a device type's colour, by the order of the types.
static std::string findColor(const std::map<int64_t, RankActivity> &ranks,
                             const std::string &device) {
  std::vector<std::string> types;
  for (const auto &[number, rank] : ranks)
    if (std::find(types.begin(), types.end(), rank.last().device) ==
        types.end())
      types.push_back(rank.last().device);
  return getTypeColor(
      size_t(std::find(types.begin(), types.end(), device) - types.begin()));
}

/// The last rows of all ranks side by side: in each, what a rank computed, then
/// what it waited. Which came first is not recorded.
static std::string drawDevices(const WatchFacts &facts) {
  Timeline timeline;
  std::vector<TimelineName> names;
  using Activity = Timeline::Activity;
  for (const auto &[number, rank] : facts.ranks) {
    Timeline::RankClass lane;
    double at = 0;
    for (const DeviceTimes &row : rank.rows) {
      double end = at + row.seconds;
      double waits = end - std::min(row.waiting, row.seconds),
             sends = end - std::min(row.communicating, row.seconds);
      lane.computation.push_back({at, waits, Activity::Compute, 0});
      lane.computation.push_back({waits, end, Activity::WaitForRanks, 0});
      lane.communication.push_back({sends, end, Activity::Collective, 0});
      at = end;
    }
    timeline.seconds = std::max(timeline.seconds, at);
    names.push_back(
        {"rank " + std::to_string(number) + ", " + rank.last().device,
         findColor(facts.ranks, rank.last().device)});
    timeline.classes.push_back(std::move(lane));
  }
  if (timeline.seconds <= 0)
    return "";
  const std::vector<DeviceTimes> &rows = facts.ranks.begin()->second.rows;
  int64_t each = rows.size() > 1 ? rows[1].step - rows[0].step : rows[0].step;
  return drawTimeline("The last " +
                          formatCount(each * int64_t(rows.size()), "step") +
                          " of each device",
                      timeline, names, 0, timeline.seconds,
                      /*measured=*/nullptr, /*trace=*/nullptr,
                      "the first of these steps") +
         drawTimelineLegend(/*isMeasured=*/false) +
         "<p class=\"note\">Each block is " + formatCount(each, "step") +
         ": what the device computed, then what it waited for others. The "
         "lower lane is the time in which it communicated, also while it "
         "computed.</p>\n";
}

static std::string formatDevices(const WatchFacts &facts) {
  Table table({"device", "host", "computes", "waits", "communicates",
               "memory of the program"});
  for (const auto &[number, rank] : facts.ranks) {
    table.row("rank " + std::to_string(number) + ", " + rank.last().device,
              findColor(facts.ranks, rank.last().device));
    table.cell(rank.last().host);
    table.cell(formatPercent(rank.getShare(rank.seconds - rank.waiting)));
    table.cell(formatPercent(rank.getShare(rank.waiting)));
    table.cell(formatPercent(rank.getShare(rank.communicating)));
    table.cell(formatBytes(rank.last().memory));
  }
  return table.finish();
}

static std::string formatGPUs(const std::vector<GPUSensors> &gpus) {
  Table table({"GPU of this machine", "temperature", "power", "memory in use"});
  for (size_t i = 0; i < gpus.size(); ++i) {
    const GPUSensors &gpu = gpus[i];
    table.row(std::to_string(i) + ": " + gpu.name);
    table.cell(gpu.temperature ? std::to_string(*gpu.temperature) + " °C"
                               : "-");
    table.cell(gpu.power ? formatNumber(*gpu.power, 3) + " W" : "-");
    table.cell(gpu.memoryUsed ? formatBytes(*gpu.memoryUsed) + " of " +
                                    formatBytes(*gpu.memory)
                              : "-");
  }
  return table.finish();
}

static std::string formatFact(const std::string &value,
                              const std::string &name) {
  return "<div><b>" + escapeHTML(value) + "</b><span>" + escapeHTML(name) +
         "</span></div>\n";
}

std::string poplar::formatWatchView(const WatchInput &input) {
  WatchFacts facts(input);
  std::string html = "<header><p class=\"soft\">" + escapeHTML(input.name) +
                     "</p><h1>" + escapeHTML(facts.progress) +
                     "</h1>\n<p class=\"verdict\">" + escapeHTML(facts.state) +
                     "</p>\n";
  if (input.steps.empty())
    return html + "</header>\n";
  const MeasuredStep &last = input.steps.back();
  if (input.lastStep && *input.lastStep > 0)
    html += "<progress max=\"" + std::to_string(*input.lastStep) +
            "\" value=\"" + std::to_string(last.step) + "\"></progress>\n";
  html += "</header>\n<div class=\"facts\">\n" +
          formatFact(formatNumber(last.loss), "loss");
  if (facts.validation)
    html += formatFact(formatNumber(*facts.validation), "validation loss");
  html += formatFact(formatQuantity(facts.tokensPerSecond),
                     "tokens/s (median of the last steps)");
  if (last.seconds)
    html += formatFact(formatDuration(*last.seconds), "trained so far");
  if (facts.secondsLeft)
    html += formatFact(formatDuration(*facts.secondsLeft), "left, as it goes");
  if (last.epochs)
    html += formatFact(formatQuantity(*last.epochs), "epochs");
  html += "</div>\n";
  ReportInput run;
  run.run = input.steps;
  html += "<section><h2>Loss and speed</h2>\n" +
          formatRunSection(run, getRunFacts(run)) + "</section>\n";
  if (!facts.ranks.empty())
    html += "<section><h2>Devices</h2>\n" + drawDevices(facts) +
            formatDevices(facts) + "</section>\n";
  if (!input.gpus.empty())
    html += "<section><h2>GPUs now</h2>\n" + formatGPUs(input.gpus) +
            "</section>\n";
  return html;
}

std::string poplar::formatWatchPage(const WatchInput &input) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, "
         "initial-scale=1\">\n<title>" +
         escapeHTML(input.name) + " - poplar watch</title>\n<style>" +
         reportStyle + watchStyle +
         "</style>\n<noscript><meta http-equiv=\"refresh\" "
         "content=\"5\"></noscript></head>\n<body>\n<p "
         "class=\"lostnote\">poplar "
         "watch does not answer: what is shown here is old.</p>\n<main>\n" +
         formatWatchView(input) + "</main>\n<script>" + script +
         "</script>\n</body></html>\n";
}
