//===- Metrics.cpp - The record of a run ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Metrics.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace poplar::runtime;

static constexpr char Header[] = "step,loss,val_loss,lr,grad_norm,tokens_per_s,"
                                 "seconds,tokens,epoch";

namespace {
/// A column after the step.
struct Column {
  double Metrics::*Value;
  const char *Format;
  /// Without a measurement the cell is empty, or the column is missing.
  bool MayLack;
};
} // namespace

static constexpr Column Columns[] = {{&Metrics::Loss, "%.9g", false},
                                     {&Metrics::ValLoss, "%.9g", true},
                                     {&Metrics::Rate, "%.9g", false},
                                     {&Metrics::GradientNorm, "%.9g", false},
                                     {&Metrics::TokensPerSecond, "%.1f", false},
                                     {&Metrics::Seconds, "%.3f", true},
                                     {&Metrics::Tokens, "%.0f", true},
                                     {&Metrics::Epochs, "%.6g", true},
                                     {&Metrics::Margin, "%.9g", true},
                                     {&Metrics::Accuracy, "%.6g", true}};
static constexpr size_t NumPairColumns = 2;
static constexpr char PairHeader[] = ",reward_margin,reward_accuracy";

static size_t countColumns(bool HasPairs) {
  return std::size(Columns) - (HasPairs ? 0 : NumPairColumns);
}

static std::string formatRow(const Metrics &M, bool HasPairs) {
  std::string Row = std::to_string(M.Step);
  for (size_t I = 0; I < countColumns(HasPairs); ++I) {
    const Column &C = Columns[I];
    Row += ',';
    char Cell[32] = "";
    if (!C.MayLack || !std::isnan(M.*C.Value))
      std::snprintf(Cell, sizeof Cell, C.Format, M.*C.Value);
    Row += Cell;
  }
  return Row + "\n";
}

static bool parseRow(const std::string &Line, bool HasPairs, Metrics &M) {
  std::istringstream Cells(Line);
  std::string Cell;
  auto Read = [&](auto Parse, auto &Value) {
    char *End = nullptr;
    Value = Parse(Cell.c_str(), &End);
    return !Cell.empty() && *End == '\0';
  };
  auto ParseInteger = [](const char *Text, char **End) {
    return static_cast<int64_t>(std::strtoll(Text, End, 10));
  };
  if (!std::getline(Cells, Cell, ',') || !Read(ParseInteger, M.Step))
    return false;
  for (size_t I = 0; I < countColumns(HasPairs); ++I) {
    const Column &C = Columns[I];
    if (!std::getline(Cells, Cell, ','))
      Cell.clear();
    M.*C.Value = NotMeasured;
    if (Cell.empty() ? !C.MayLack : !Read(std::strtod, M.*C.Value))
      return false;
  }
  return !std::getline(Cells, Cell);
}

MetricsFile::MetricsFile(const std::string &Run, int64_t Resumed, int64_t Last,
                         bool HasPairs)
    : Path(Run + "/metrics.csv"), Resumed(Resumed), HasPairs(HasPairs) {
  // Address space only, until there are rows; a run so long that it needs more
  // allocates now and then.
  Rows.reserve(static_cast<size_t>(std::min<int64_t>(Last, 1 << 24)));
  std::error_code Code;
  std::string Text = std::string(Header) + (HasPairs ? PairHeader : "") + "\n";
  if (Resumed > 0 && std::filesystem::exists(Path, Code)) {
    std::istringstream Lines{std::string(MappedFile(Path).text())};
    std::string Line;
    std::getline(Lines, Line); // the header
    while (std::getline(Lines, Line)) {
      Metrics M;
      // A row without its end was cut in the middle of a number, maybe.
      if (Lines.eof() || !parseRow(Line, HasPairs, M) || M.Step > Resumed)
        break;
      // No step is counted twice, even if the file was edited.
      if (!Rows.empty() && M.Step <= Rows.back().Step)
        continue;
      Rows.push_back(M);
      Text += formatRow(M, HasPairs);
    }
  }
  writeFileAtomically(Path, Text);
  syncDirectory(Run);
  File = std::fopen(Path.c_str(), "a");
  if (!File)
    fail("cannot open '", Path, "': ", std::strerror(errno));
}

MetricsFile::~MetricsFile() {
  if (File)
    std::fclose(File);
}

void MetricsFile::add(const Metrics &Row) {
  Rows.push_back(Row);
  std::string Text = formatRow(Row, HasPairs);
  if (std::fwrite(Text.data(), 1, Text.size(), File) != Text.size())
    fail("cannot write '", Path, "': ", std::strerror(errno));
}

void MetricsFile::flush() {
  if (std::fflush(File) != 0)
    fail("cannot write '", Path, "': ", std::strerror(errno));
  struct stat Open, Named;
  if (fstat(fileno(File), &Open) != 0 || stat(Path.c_str(), &Named) != 0 ||
      Open.st_ino != Named.st_ino || Open.st_dev != Named.st_dev)
    fail("'", Path, "' was removed or replaced while the run went on");
}

void MetricsFile::sync() {
  flush();
  // Pipes cannot be synced.
  if (fsync(fileno(File)) != 0 && errno != EINVAL)
    fail("cannot write '", Path, "': ", std::strerror(errno));
}

std::string MetricsFile::describeGap() const {
  std::string Text;
  int64_t Next = 1;
  auto Add = [&](int64_t Step) { // the next one that has a row
    if (Step > Next)
      Text += (Text.empty() ? "" : ", ") + std::to_string(Next) +
              (Step > Next + 1 ? " to " + std::to_string(Step - 1) : "");
    Next = Step + 1;
  };
  for (const Metrics &Row : Rows)
    if (Row.Step <= Resumed)
      Add(Row.Step);
  Add(Resumed + 1);
  return Text;
}
