//===- RenderTemplates.cpp - Chat templates by the command line -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads {"template": TEXT, "variables": {...}, "time": SECONDS} from each line
// of the input and writes {"text": TEXT, "generated": [[BEGIN, END], ...]} or
// {"error": TEXT}. scripts/goldens/check_templates.py compares that with Jinja.
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/Jinja.h"

#include <iostream>

using namespace poplar::runtime;

static std::string render(const std::string &Line) {
  try {
    json::Value Request = json::parse(Line, "the request");
    const json::Value *Given = Request.find("variables");
    jinja::JinjaValue Variables = Given ? jinja::JinjaValue::fromJSON(*Given)
                                        : jinja::JinjaValue(jinja::Entries());
    jinja::Template Template(Request.string("template", ""));
    auto Result =
        Template.render(Variables.members(), Request.integer("time", 0));
    std::string Ranges;
    for (auto [Begin, End] : Result.Generated)
      Ranges += (Ranges.empty() ? "[" : ", [") + std::to_string(Begin) + ", " +
                std::to_string(End) + "]";
    return "{\"text\": " + json::quote(Result.Text) + ", \"generated\": [" +
           Ranges + "]}";
  } catch (const Error &E) {
    return "{\"error\": " + json::quote(E.what()) + "}";
  }
}

int main() {
  for (std::string Line; std::getline(std::cin, Line);)
    std::cout << render(Line) << std::endl;
}
