//===- JSONFields.cpp - What files of all kinds are made of --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JSONFields.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace poplar;
using llvm::StringRef;

std::vector<json::Value> import::getElements(json::Value array) {
  std::vector<json::Value> elements;
  if (!array.isArray())
    array.error("expected an array, found " + array.describe());
  else
    for (size_t i = 0; i < array.size(); ++i)
      elements.push_back(array[i]);
  return elements;
}

void import::expectKeys(json::Value object,
                        std::initializer_list<const char *> known) {
  if (!object.isObject()) {
    object.error("expected an object, found " + object.describe());
    return;
  }
  for (const std::string &key : object.keys()) {
    if (llvm::is_contained(known, key))
      continue;
    std::string list;
    for (const char *name : known)
      list += (list.empty() ? "" : ", ") + std::string(name);
    object.error("unknown key '" + key + "' (known: " + list + ")");
  }
}

int64_t import::getBytes(json::Value value) {
  if (!value.isString())
    return value.getInteger();
  std::string string = value.getString();
  StringRef text = string;
  StringRef number =
      text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  double unit =
      llvm::StringSwitch<double>(text.drop_front(number.size()).ltrim())
          .Case("KiB", 0x1p10)
          .Case("MiB", 0x1p20)
          .Case("GiB", 0x1p30)
          .Case("TiB", 0x1p40)
          .Case("kB", 1e3)
          .Case("MB", 1e6)
          .Case("GB", 1e9)
          .Case("TB", 1e12)
          .Default(0);
  double count = 0;
  // Below 2^63, where a conversion to bytes is defined.
  if (unit != 0 && !number.getAsDouble(count) && count * unit < 0x1p63)
    return static_cast<int64_t>(count * unit);
  value.error("expected bytes as an integer or as in \"80GiB\" or \"16GB\", "
              "found \"" +
              string + "\"");
  return 0;
}
