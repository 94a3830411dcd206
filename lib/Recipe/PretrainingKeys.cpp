//===- PretrainingKeys.cpp - Training on texts ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"

using namespace poplar;

static constexpr const char *kPretraining = "pretraining_dataset";

bool poplar::isPretraining(const Translator &t) {
  return t.top().find(kPretraining) != nullptr;
}

void poplar::decidePretraining(Translator &t, const RecipeEntry &entry) {
  if (t.top().getInteger("max_steps") <= 0)
    t.fail(entry, "needs max_steps, as in axolotl");
  else if (t.top().getNumber("val_set_size") != 0)
    t.fail(entry, "axolotl holds no rows out; remove val_set_size");
  else if (!t.top().isTrue("sample_packing"))
    t.refuse(entry, "without packing, axolotl truncates each text and leaves "
                    "its end token out; give sample_packing: true");
  else if (entry.node->elements.size() > 1)
    t.refuse(entry, "axolotl reads the first of them alone; remove the others");
  else
    t.translateDatasets(entry);
}

void poplar::decideIsolation(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "true" || !isPretraining(t))
    t.ignore(entry, "attention does not look across the borders of texts");
  else
    t.refuse(entry, "attention does not look across the borders of texts; "
                    "remove it");
}

void poplar::decideTextColumn(Translator &t, const RecipeEntry &entry) {
  std::vector<std::pair<std::string, std::string>> options;
  addMember(options, "text", entry.text);
  if (!isPretraining(t))
    t.ignore(entry, "is for pre-training");
  else if (options.empty())
    t.accept(entry, "is read from text");
  else
    t.honour(entry, options);
}
