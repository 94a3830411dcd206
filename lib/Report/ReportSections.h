//===- ReportSections.h - The parts of a report -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_REPORT_REPORTSECTIONS_H
#define POPLAR_LIB_REPORT_REPORTSECTIONS_H

#include "Charts.h"

namespace poplar {

/// A table as it grows, in a box that scrolls where the screen is narrow.
class Table {
public:
  explicit Table(const std::vector<std::string> &heads);
  /// Begins a row, whose first cell is escaped; `color` is that of a patch in
  /// front of it, if it is not empty.
  void row(const std::string &first, const std::string &color = "");
  void cell(const std::string &value) { html(escapeHTML(value)); }
  void number(int64_t value) { html(std::to_string(value)); }
  /// "1.23 s (+4.5 %)" against a reference.
  void seconds(const std::optional<double> &value, double reference);
  /// Words, which may take several lines.
  void words(const std::string &value);
  void html(const std::string &value) { text += "<td>" + value + "</td>"; }
  std::string finish();

private:
  void endRow();
  std::string text;
  bool isOpen = false;
};

/// The median of one or more values.
double getMedian(std::vector<double> values);

/// What is known of the steps of a run.
struct RunFacts {
  MeasuredSeconds steps;
  /// Medians; 0 if they are not known.
  double tokensPerSecond = 0, tokensPerStep = 0;
};
RunFacts getRunFacts(const ReportInput &input);

/// The global batch of the plan, whichever kind it is; 0 if there is none.
int64_t getGlobalBatch(const ReportInput &input);
/// Seconds of an iteration of the plan, simulated, or by the closed form where
/// it was not simulated.
std::optional<double> getPlanSeconds(const ReportInput &input);
/// "4 × a100 alone", "Whale"
std::string nameBaseline(const ReportInput &input,
                         const ReportBaseline &baseline);
/// What is wrong, without what to do about it: a page repeats it by stage.
std::string getReason(const std::string &error);
/// The fastest of a kind; null if none has a plan.
const ReportBaseline *findFastest(const ReportInput &input,
                                  const std::string &policy);
/// "4 × a100 + 2 × v100": of the job, or of the cluster without a job.
std::string describeDevices(const ReportInput &input);
/// The class of a device type's colour, by its name.
std::string getTypeColor(const ReportInput &input, const std::string &type);

/// The picture, and the begin of a column beside it.
std::string formatClusterSection(const ReportInput &input);
std::string formatComparison(const ReportInput &input, const RunFacts &run);
/// What plans of parts of the cluster cost.
std::string formatCosts(const ReportInput &input);
std::string formatTimelineSection(const ReportInput &input,
                                  const RunFacts &run);
std::string formatRunSection(const ReportInput &input, const RunFacts &run);
std::string formatRanks(const ReportInput &input, const PlanReview &review);
std::string formatStagedPlan(const ReportInput &input, const StagedPlan &plan);
/// Empty if nothing is known.
std::string formatMemory(const ReportInput &input, const PlanReview &review);
std::string formatCurves(const PlanReview &review);

} // namespace poplar

#endif // POPLAR_LIB_REPORT_REPORTSECTIONS_H
