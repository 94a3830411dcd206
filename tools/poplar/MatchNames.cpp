//===- MatchNames.cpp - Names that a regular expression matches -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatchNames.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/// Steps of a search, at most: an expression must not take forever.
static constexpr uint32_t kMostSteps = 1000000;

static std::string describe(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char *>(text);
}

std::vector<std::string> matchNames(const std::string &pattern,
                                    const std::vector<std::string> &names,
                                    std::string &error) {
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_code *compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF, &code, &at, nullptr);
  if (!compiled) {
    error = "'" + pattern + "' is no regular expression: " + describe(code) +
            " at character " + std::to_string(at + 1);
    return {};
  }
  pcre2_match_data *data =
      pcre2_match_data_create_from_pattern(compiled, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(context, kMostSteps);
  std::vector<std::string> matched;
  for (const std::string &name : names) {
    int result =
        pcre2_match(compiled, reinterpret_cast<PCRE2_SPTR>(name.data()),
                    name.size(), 0, 0, data, context);
    if (result >= 0)
      matched.push_back(name);
    else if (result != PCRE2_ERROR_NOMATCH && error.empty())
      error = "'" + pattern + "' cannot be compared with '" + name +
              "': " + describe(result);
  }
  pcre2_match_context_free(context);
  pcre2_match_data_free(data);
  pcre2_code_free(compiled);
  return error.empty() ? matched : std::vector<std::string>();
}
