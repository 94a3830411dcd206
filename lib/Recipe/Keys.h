//===- Keys.h - Keys whose meaning depends on others ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that decide about an entry; Rules.cpp says which key has which.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_RECIPE_KEYS_H
#define POPLAR_LIB_RECIPE_KEYS_H

#include "Translator.h"

namespace poplar {

/// Whether a value is a word, or a list of it alone.
bool isOnly(const yaml::Content &node, llvm::StringRef word);

/// Said of quantised models that are not read.
inline constexpr const char *kQuantized =
    "give the model in bf16 or f32 as base_model, and load_in_4bit for its "
    "frozen weights";

/// Fails if a key is missing, or if keys exclude each other.
void checkRecipe(Translator &t);

// ModelKeys.cpp: the model, its tokenizer and its adapters.
void decideModel(Translator &t, const RecipeEntry &entry);
void decideRevision(Translator &t, const RecipeEntry &entry);
void decideModelType(Translator &t, const RecipeEntry &entry);
void decideTokenizerType(Translator &t, const RecipeEntry &entry);
void decideSameModel(Translator &t, const RecipeEntry &entry);
void decideModelConfig(Translator &t, const RecipeEntry &entry);
void decidePackedExperts(Translator &t, const RecipeEntry &entry);
void decideSpecialTokens(Translator &t, const RecipeEntry &entry);
void decideTokens(Translator &t, const RecipeEntry &entry);
void decideRounding(Translator &t, const RecipeEntry &entry);
void decideNewRows(Translator &t, const RecipeEntry &entry);
void decideAdapter(Translator &t, const RecipeEntry &entry);
void decideRank(Translator &t, const RecipeEntry &entry);
void decideAlpha(Translator &t, const RecipeEntry &entry);
void decideStabilised(Translator &t, const RecipeEntry &entry);
void decideAdapterDropout(Translator &t, const RecipeEntry &entry);
void decideTargets(Translator &t, const RecipeEntry &entry);
void decideSavedModules(Translator &t, const RecipeEntry &entry);
void decideUnfrozen(Translator &t, const RecipeEntry &entry);
void decideRandomWeights(Translator &t, const RecipeEntry &entry);
void decideFourBits(Translator &t, const RecipeEntry &entry);
void decideEightBits(Translator &t, const RecipeEntry &entry);
void decideQuantization(Translator &t, const RecipeEntry &entry);
void decideQuantizedExperts(Translator &t, const RecipeEntry &entry);
void decidePrecision(Translator &t, const RecipeEntry &entry);
void decideBrain(Translator &t, const RecipeEntry &entry);
void decideHalf(Translator &t, const RecipeEntry &entry);
void decidePacking(Translator &t, const RecipeEntry &entry);
void decideNoise(Translator &t, const RecipeEntry &entry);
void decidePlugins(Translator &t, const RecipeEntry &entry);

// CourseKeys.cpp: how long and how fast a run trains.
void decideBatch(Translator &t, const RecipeEntry &entry);
void decideSharing(Translator &t, const RecipeEntry &entry);
void decideSteps(Translator &t, const RecipeEntry &entry);
void decideEpochs(Translator &t, const RecipeEntry &entry);
void decideSchedule(Translator &t, const RecipeEntry &entry);
void decideScheduleArguments(Translator &t, const RecipeEntry &entry);
void decideCosineRatio(Translator &t, const RecipeEntry &entry);
void decideWarmup(Translator &t, const RecipeEntry &entry);
void decideOptimizer(Translator &t, const RecipeEntry &entry);
void decideEvaluations(Translator &t, const RecipeEntry &entry);
void decideSaves(Translator &t, const RecipeEntry &entry);
void decideBest(Translator &t, const RecipeEntry &entry);
void decideKept(Translator &t, const RecipeEntry &entry);

// DatasetKeys.cpp: what is trained on.
void decideDatasets(Translator &t, const RecipeEntry &entry);
void decideStreaming(Translator &t, const RecipeEntry &entry);
void decideValSize(Translator &t, const RecipeEntry &entry);
void decideShortRows(Translator &t, const RecipeEntry &entry);
void decideEqualRows(Translator &t, const RecipeEntry &entry);
void decideLongRows(Translator &t, const RecipeEntry &entry);
void decideChatTemplate(Translator &t, const RecipeEntry &entry);
void decideMistralCommon(Translator &t, const RecipeEntry &entry);
void decideChatTemplateFile(Translator &t, const RecipeEntry &entry);
void decidePath(Translator &t, const RecipeEntry &entry);
void decideDataFiles(Translator &t, const RecipeEntry &entry);
void decideTrainedRoles(Translator &t, const RecipeEntry &entry);
void decideDatasetTemplate(Translator &t, const RecipeEntry &entry);
/// A scalar of a map; empty if the map lacks the key, or has something else.
llvm::StringRef getText(const yaml::Content &map, const char *name);
/// The data sets of training and of validation.
std::vector<const yaml::Content *> listDatasets(const Translator &t);

// PretrainingKeys.cpp: training on texts, which are cut into windows.
void decidePretraining(Translator &t, const RecipeEntry &entry);
void decideIsolation(Translator &t, const RecipeEntry &entry);
void decideTextColumn(Translator &t, const RecipeEntry &entry);
bool isPretraining(const Translator &t);

// RowKeys.cpp: how rows are read.
void decideType(Translator &t, const RecipeEntry &entry);
void decideField(Translator &t, const RecipeEntry &entry);
void decideMessages(Translator &t, const RecipeEntry &entry);
void decideMapping(Translator &t, const RecipeEntry &entry);
void decideMessageField(Translator &t, const RecipeEntry &entry);
void decideTools(Translator &t, const RecipeEntry &entry);
void decideRoles(Translator &t, const RecipeEntry &entry);
void decideSystemDropped(Translator &t, const RecipeEntry &entry);
void decideInputsCount(Translator &t, const RecipeEntry &entry);
/// Whether rows of a type have conversations: of pairs, it is the name of a
/// function behind the template's.
bool isChatType(llvm::StringRef type);
/// Whether some rows are texts, which axolotl splits into samples.
bool hasCompletions(const Translator &t);

// RowTypes.cpp: rows with instructions, whose prompts have a format.

/// What a type of rows is for `poplar finetune`.
struct RowType {
  /// Options that read its members and write its prompts, without
  /// --encode-apart.
  std::vector<std::pair<std::string, std::string>> options;
  /// What a type of its own has that is not supported; empty if nothing.
  std::string remedy;
};
/// A type of axolotl by its name, such as alpaca or gpteacher:chat.
std::optional<RowType> findRowType(llvm::StringRef name);
/// A type that the recipe describes by field_instruction, format and others.
RowType readRowType(const yaml::Content &type);

/// The elements of a list, or a text alone.
std::vector<std::string> listTexts(const RecipeEntry &entry);

/// Adds --read-member NAME=MEMBER, unless both are the same.
void addMember(std::vector<std::pair<std::string, std::string>> &options,
               const std::string &name, llvm::StringRef member);

// PreferenceKeys.cpp: training on pairs of answers.
void decidePreference(Translator &t, const RecipeEntry &entry);
void decideBeta(Translator &t, const RecipeEntry &entry);
void decideLossType(Translator &t, const RecipeEntry &entry);
void decidePairType(Translator &t, const RecipeEntry &entry);
void decideAnswerField(Translator &t, const RecipeEntry &entry);
/// "dpo", "orpo", or empty if the recipe trains on no pairs.
llvm::StringRef getPreference(const Translator &t);

/// The shortest text that gives the same number again.
std::string formatNumber(double number);

} // namespace poplar

#endif // POPLAR_LIB_RECIPE_KEYS_H
