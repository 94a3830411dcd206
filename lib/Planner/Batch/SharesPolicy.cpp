//===- SharesPolicy.cpp - A user's own shares -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch/Splits.h"
#include "Poplar/Planner/Batch/BatchPolicy.h"
#include "Poplar/Support/Text.h"
#include <cstdio>
#include <utility>

using namespace poplar;

namespace {

class SharesPolicy : public BatchPolicy {
public:
  using Share = std::pair<std::string, int64_t>;

  SharesPolicy(const std::string &text, std::vector<Share> shares)
      : BatchPolicy("batch:" + text), shares(std::move(shares)) {}

private:
  std::optional<Allocation> allocate(const BatchProblem &problem,
                                     std::string &error) const override;

  std::vector<Share> shares;
};

} // namespace

/// Why `share` samples do not fit on the devices of `type`; empty if they do.
static std::string describeMisfit(const BatchProblem::DeviceType &type,
                                  int64_t share) {
  if (type.count == 0)
    return share == 0 ? "" : "there are no such devices";
  int64_t each = (share - 1) / type.count + 1;
  if (share == 0 || each <= type.largestBatch)
    return "";
  std::string message = std::to_string(share) + " samples on " +
                        std::to_string(type.count) +
                        (type.count == 1 ? " device make " : " devices make ") +
                        std::to_string(each) + " on one, where " +
                        std::to_string(type.largestBatch) +
                        (type.largestBatch == 1 ? " fits" : " fit");
  if (type.memoryBytes > 0)
    message += ": they need " +
               formatBytes(type.fixedBytes + each * type.bytesPerSample) +
               " (" + formatBytes(type.fixedBytes) + " and " +
               formatBytes(type.bytesPerSample) + " a sample), it has " +
               formatBytes(type.memoryBytes);
  return message;
}

std::optional<Allocation> SharesPolicy::allocate(const BatchProblem &problem,
                                                 std::string &error) const {
  auto fail = [&](const std::string &message) {
    error = getName() + ": " + message;
    return std::nullopt;
  };
  int64_t total = 0, batch = problem.globalBatch;
  Split step(problem.types.size(), -1);
  for (const auto &[name, share] : shares) {
    int index = problem.findType(name);
    if (index < 0)
      return fail("there is no device type '" + name + "'");
    std::string misfit = describeMisfit(problem.types[index], share);
    if (!misfit.empty())
      return fail(name + ": " + misfit);
    step[index] = share;
    total += share;
  }
  std::vector<double> weights;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] < 0 && problem.types[i].count > 0)
      return fail("no share for type '" + problem.types[i].name + "'; give " +
                  problem.types[i].name + "=0 if it is to have no samples");
    step[i] = std::max<int64_t>(step[i], 0);
    weights.push_back(static_cast<double>(step[i]));
  }
  if (total == 0)
    return fail("all shares are 0");
  if (total > batch)
    return fail("the shares make steps of " + std::to_string(total) +
                " samples, but the global batch has only " +
                std::to_string(batch));
  int64_t steps = (batch - 1) / total + 1;
  Split last = splitInProportion(batch - (steps - 1) * total, weights,
                                 Split(step.size(), 1), step);
  return makeStepwise(problem, steps, step, last);
}

std::unique_ptr<BatchPolicy> poplar::makeSharesPolicy(const std::string &text,
                                                      std::string &error) {
  std::vector<SharesPolicy::Share> shares;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    size_t equals = item.rfind('=');
    std::string number =
        equals == std::string::npos ? "" : item.substr(equals + 1);
    // Nine digits are more samples than any device holds.
    if (equals == 0 || number.empty() || number.size() > 9 ||
        number.find_first_not_of("0123456789") != std::string::npos) {
      error = "batch shares '" + text + "': expected TYPE=SAMPLES, found '" +
              item + "'";
      return nullptr;
    }
    std::string name = item.substr(0, equals);
    for (const auto &share : shares)
      if (share.first == name) {
        error =
            "batch shares '" + text + "': type '" + name + "' appears twice";
        return nullptr;
      }
    shares.push_back({name, std::stoll(number)});
  }
  return std::make_unique<SharesPolicy>(text, std::move(shares));
}
