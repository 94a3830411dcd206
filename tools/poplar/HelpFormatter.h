//===- HelpFormatter.h - The texts of --help --------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_HELPFORMATTER_H
#define POPLAR_TOOLS_HELPFORMATTER_H

#include <CLI/CLI.hpp>
#include <string>

/// An option is printed as its name, what it takes, and a sentence with the
/// default. Which options need which others is said when one is missing.
class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter() { column_width(30); }

  std::string make_option_name(const CLI::Option *option,
                               bool isPositional) const override;
  std::string make_option_opts(const CLI::Option *option) const override;
  std::string make_option_desc(const CLI::Option *option) const override;
};

#endif // POPLAR_TOOLS_HELPFORMATTER_H
