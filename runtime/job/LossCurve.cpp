//===- LossCurve.cpp - The loss curve as SVG ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Metrics.h"

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace poplar::runtime;

namespace {

constexpr double Width = 800, Height = 450, Left = 60, Right = 20, Top = 30,
                 Bottom = 45;

/// From (step, loss) to the picture.
struct Axes {
  double FirstStep, LastStep, Lowest, Highest;

  double x(double Step) const {
    double Range = std::max(LastStep - FirstStep, 1.0);
    return Left + (Step - FirstStep) / Range * (Width - Left - Right);
  }
  double y(double Loss) const {
    double Range = std::max(Highest - Lowest, 1e-9);
    return Height - Bottom - (Loss - Lowest) / Range * (Height - Top - Bottom);
  }
};

} // namespace

/// A step of 1, 2 or 5 times a power of ten that gives at most eight ticks.
static double chooseTick(double Range) {
  double Power = std::pow(10, std::floor(std::log10(Range / 5)));
  for (double Factor : {1.0, 2.0, 5.0})
    if (Range / (Factor * Power) <= 8)
      return Factor * Power;
  return 10 * Power;
}

static void drawText(std::ostringstream &OS, double X, double Y,
                     const char *Anchor, const std::string &Text,
                     const char *Color = "#444") {
  OS << "<text x=\"" << X << "\" y=\"" << Y << "\" text-anchor=\"" << Anchor
     << "\" fill=\"" << Color << "\">" << Text << "</text>\n";
}

static std::string formatNumber(double Value) {
  std::ostringstream OS;
  OS << std::round(Value * 1e6) / 1e6;
  return OS.str();
}

static void drawGrid(std::ostringstream &OS, const Axes &A) {
  double Tick = chooseTick(std::max(A.Highest - A.Lowest, 1e-6));
  for (double V = std::ceil(A.Lowest / Tick) * Tick; V <= A.Highest;
       V += Tick) {
    OS << "<line x1=\"" << Left << "\" x2=\"" << Width - Right << "\" y1=\""
       << A.y(V) << "\" y2=\"" << A.y(V) << "\" stroke=\"#ddd\"/>\n";
    drawText(OS, Left - 6, A.y(V) + 4, "end", formatNumber(V));
  }
  Tick = std::max(chooseTick(std::max(A.LastStep - A.FirstStep, 1.0)), 1.0);
  for (double V = std::ceil(A.FirstStep / Tick) * Tick; V <= A.LastStep;
       V += Tick)
    drawText(OS, A.x(V), Height - Bottom + 18, "middle", formatNumber(V));
  drawText(OS, (Left + Width - Right) / 2, Height - 8, "middle", "step");
}

/// Long runs are averaged over stretches, so that the file stays small.
static void drawCurve(std::ostringstream &OS, const Axes &A,
                      const std::vector<Metrics> &Rows, double Metrics::*Field,
                      const char *Color, size_t MaxPoints) {
  std::vector<const Metrics *> Points;
  for (const Metrics &M : Rows)
    if (std::isfinite(M.*Field))
      Points.push_back(&M);
  size_t Stretch = Points.size() / MaxPoints + 1;
  OS << "<polyline fill=\"none\" stroke=\"" << Color
     << "\" stroke-width=\"1.5\" points=\"";
  for (size_t I = 0; I < Points.size(); I += Stretch) {
    double Step = 0, Loss = 0;
    size_t Count = std::min(Stretch, Points.size() - I);
    for (size_t J = I; J < I + Count; ++J) {
      Step += static_cast<double>(Points[J]->Step);
      Loss += Points[J]->*Field;
    }
    double N = static_cast<double>(Count);
    OS << A.x(Step / N) << ',' << A.y(Loss / N) << ' ';
  }
  OS << "\"/>\n";
}

std::string poplar::runtime::drawLossCurve(const std::vector<Metrics> &Rows,
                                           double Baseline,
                                           const std::string &BaselineName) {
  Axes A{0, 1, std::isnan(Baseline) ? INFINITY : Baseline,
         std::isnan(Baseline) ? -INFINITY : Baseline};
  for (const Metrics &M : Rows)
    for (double Loss : {M.Loss, M.ValLoss})
      if (std::isfinite(Loss)) {
        A.Lowest = std::min(A.Lowest, Loss);
        A.Highest = std::max(A.Highest, Loss);
      }
  if (!std::isfinite(A.Lowest))
    A.Lowest = 0, A.Highest = 1;
  if (!Rows.empty()) {
    A.FirstStep = static_cast<double>(Rows.front().Step);
    A.LastStep = static_cast<double>(Rows.back().Step);
  }
  // Ticks of a huge loss, too, are so far apart that adding one makes a
  // difference.
  double Margin =
      0.05 * std::max({A.Highest - A.Lowest, 1e-3, 1e-3 * A.Highest});
  A.Lowest = std::max(0.0, A.Lowest - Margin);
  A.Highest += Margin;

  std::ostringstream OS;
  OS.precision(6);
  OS << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << Width
     << "\" height=\"" << Height << "\" font-family=\"sans-serif\" "
     << "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
     << "fill=\"white\"/>\n";
  drawGrid(OS, A);
  drawCurve(OS, A, Rows, &Metrics::Loss, "#8ab4d8", 1000);
  drawCurve(OS, A, Rows, &Metrics::ValLoss, "#c0392b", 1000);
  drawText(OS, Width - Right, 18, "end", "training loss", "#5a8fbd");
  drawText(OS, Width - Right - 100, 18, "end", "validation loss", "#c0392b");
  if (!std::isnan(Baseline)) {
    OS << "<line x1=\"" << Left << "\" x2=\"" << Width - Right << "\" y1=\""
       << A.y(Baseline) << "\" y2=\"" << A.y(Baseline)
       << "\" stroke=\"#555\" stroke-dasharray=\"6 4\"/>\n";
    drawText(OS, Width - Right, A.y(Baseline) - 5, "end",
             BaselineName + " " +
                 formatNumber(std::round(Baseline * 1e4) / 1e4));
  }
  OS << "</svg>\n";
  return OS.str();
}
