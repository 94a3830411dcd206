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
#include <sys/stat.h>
#include <unistd.h>

using namespace poplar::runtime;

static constexpr char Header[] =
    "step,loss,val_loss,lr,grad_norm,tokens_per_s\n";

static std::string formatRow(const Metrics &M) {
  char Buffer[192], Val[32] = "";
  if (!std::isnan(M.ValLoss))
    std::snprintf(Val, sizeof(Val), "%.9g", M.ValLoss);
  std::snprintf(Buffer, sizeof(Buffer), "%lld,%.9g,%s,%.9g,%.9g,%.1f\n",
                static_cast<long long>(M.Step), M.Loss, Val, M.Rate,
                M.GradientNorm, M.TokensPerSecond);
  return Buffer;
}

static bool parseRow(const std::string &Line, Metrics &M) {
  long long Step;
  char Val[32] = "";
  // An empty field does not match %[: two forms of row.
  if (std::sscanf(Line.c_str(), "%lld,%lf,,%lf,%lf,%lf", &Step, &M.Loss,
                  &M.Rate, &M.GradientNorm, &M.TokensPerSecond) != 5) {
    if (std::sscanf(Line.c_str(), "%lld,%lf,%31[^,],%lf,%lf,%lf", &Step,
                    &M.Loss, Val, &M.Rate, &M.GradientNorm,
                    &M.TokensPerSecond) != 6)
      return false;
    M.ValLoss = std::strtod(Val, nullptr);
  }
  M.Step = Step;
  return true;
}

MetricsFile::MetricsFile(const std::string &Run, int64_t Resumed, int64_t Last)
    : Path(Run + "/metrics.csv"), Resumed(Resumed) {
  // Address space only, until there are rows; a run so long that it needs more
  // allocates now and then.
  Rows.reserve(static_cast<size_t>(std::min<int64_t>(Last, 1 << 24)));
  std::error_code Code;
  std::string Text = Header;
  if (Resumed > 0 && std::filesystem::exists(Path, Code)) {
    std::istringstream Lines{std::string(MappedFile(Path).text())};
    std::string Line;
    std::getline(Lines, Line); // the header
    while (std::getline(Lines, Line)) {
      Metrics M;
      // A row without its end was cut in the middle of a number, maybe.
      if (Lines.eof() || !parseRow(Line, M) || M.Step > Resumed)
        break;
      // Nothing is counted twice, whoever has edited the file.
      if (!Rows.empty() && M.Step <= Rows.back().Step)
        continue;
      Rows.push_back(M);
      Text += Line + "\n";
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
  std::string Text = formatRow(Row);
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
  // Pipes and the like cannot be.
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
