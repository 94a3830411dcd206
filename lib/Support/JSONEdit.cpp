//===- JSONEdit.cpp - Changing files of JSON ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Compiled with exceptions, as JSON.cpp; it includes nothing of LLVM.

#include "Poplar/Support/JSONEdit.h"

#include <nlohmann/json.hpp>

using namespace poplar::json;
using OrderedNode = nlohmann::ordered_json;

std::string poplar::json::edit(const std::string &text, const std::string &name,
                               const std::vector<Edit> &edits,
                               std::string &error) {
  try {
    OrderedNode root = OrderedNode::parse(text);
    for (const Edit &each : edits) {
      OrderedNode &place = root[OrderedNode::json_pointer(each.place)];
      OrderedNode value = OrderedNode::parse(each.value);
      if (each.kind == Edit::Set)
        place = std::move(value);
      else
        place.push_back(std::move(value));
    }
    return root.dump(2) + "\n";
  } catch (const std::exception &failure) {
    error = name + ": " + failure.what();
    return "";
  }
}

std::string poplar::json::quote(const std::string &text) {
  return OrderedNode(text).dump(-1, ' ', false,
                                OrderedNode::error_handler_t::replace);
}
