//===- PreferenceKeys.cpp - Training on pairs of answers ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar;

static constexpr const char *kNoPairs = "is for training on pairs (rl)";

/// What `rl` may be, as --preference names it.
static constexpr llvm::StringRef kLosses[] = {"dpo", "orpo"};

llvm::StringRef poplar::getPreference(const Translator &t) {
  llvm::StringRef loss = t.top().getText("rl");
  return llvm::is_contained(kLosses, loss) ? loss : "";
}

void poplar::decidePreference(Translator &t, const RecipeEntry &entry) {
  if (getPreference(t).empty())
    t.refuse(entry, "the losses of pairs are dpo and orpo; losses of rewards "
                    "and of single answers are not supported");
  else
    // As trl, which turns off what drops out.
    t.honour(
        entry,
        {{"--preference", entry.text}, {"--packing", ""}, {"--dropout", "0"}});
}

/// Keys that are the beta of trl, the first of which counts.
static constexpr llvm::StringRef kBetas[] = {"rl_beta", "dpo_beta",
                                             "orpo_alpha"};

void poplar::decideBeta(Translator &t, const RecipeEntry &entry) {
  llvm::StringRef name = entry.rule->name;
  for (llvm::StringRef key : kBetas)
    if (const RecipeEntry *first = t.top().find(key);
        first && first->text != entry.text) {
      t.fail(entry, key.str() + " is " + first->text +
                        ", and both are the beta of the loss; remove one");
      return;
    }
  if (getPreference(t).empty())
    t.ignore(entry, kNoPairs);
  else if (name == "orpo_alpha" && getPreference(t) != "orpo")
    t.refuse(entry, "is for rl: orpo; give rl_beta");
  else
    t.honour(entry, "--preference-beta", entry.text);
}

void poplar::decideLossType(Translator &t, const RecipeEntry &entry) {
  if (isOnly(*entry.node, "sigmoid"))
    t.ignore(entry, "dpo has this loss");
  else
    t.refuse(entry, "the loss of dpo is sigmoid; remove it");
}

/// Types of rows with pairs, whose rows are read by their members.
static constexpr llvm::StringRef kPairTypes[] = {
    "chat_template.default", "chat_template.argilla_chat",
    "chat_template.argilla", "passthrough"};

void poplar::decidePairType(Translator &t, const RecipeEntry &entry) {
  bool isOfLoss =
      entry.text != "chat_template.argilla" || getPreference(t) == "orpo";
  if (getPreference(t).empty())
    t.ignore(entry, "the loss decides what rows it needs");
  else if (entry.node && llvm::is_contained(kPairTypes, entry.text) && isOfLoss)
    t.accept(entry, "rows are read by their members");
  else
    t.refuse(entry, "the types of pairs are chat_template.default, "
                    "chat_template.argilla_chat and passthrough; convert the "
                    "rows to prompt, chosen and rejected");
}

void poplar::decideAnswerField(Translator &t, const RecipeEntry &entry) {
  llvm::StringRef member = entry.rule->name;
  member.consume_front("field_");
  if (entry.text == member || getPreference(t).empty())
    t.accept(entry, "answers are read from " + member.str());
  else
    t.honour(entry, "--read-member", member.str() + "=" + entry.text);
}
