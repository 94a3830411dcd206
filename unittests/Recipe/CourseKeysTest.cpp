//===- CourseKeysTest.cpp - How long and how fast a run trains ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecipeFixture.h"

using namespace poplar;

namespace {

TEST_F(RecipeTest, TheCourseIsThatOfAxolotl) {
  // Steps of a warm-up are rounded down, and 1 becomes 2.
  EXPECT_TRUE(
      has(translate("max_steps: 50\nwarmup_ratio: 0.15\n"), "--warmup 7"));
  EXPECT_TRUE(
      has(translate("max_steps: 10\nwarmup_ratio: 0.1\n"), "--warmup 2"));
  EXPECT_TRUE(has(translate("max_steps: 10000\n"), "--warmup 100"));
  std::string words = translate("max_steps: 50\nnum_epochs: 3\n");
  EXPECT_TRUE(has(words, "--steps 50"));
  EXPECT_FALSE(has(words, "--epochs 3"));
  EXPECT_TRUE(has(translate("cosine_min_lr_ratio: 0.1\n"), "--min-lr 2e-05"));
  EXPECT_TRUE(has(translate("lr_scheduler: constant_with_warmup\n"),
                  "--schedule constant"));
  words = translate("lr_scheduler: constant\nwarmup_steps: 10\n");
  EXPECT_TRUE(has(words, "--warmup 0"));
  EXPECT_FALSE(has(words, "--warmup-start zero"));
  words = translate("lr_scheduler: polynomial\n"
                    "lr_scheduler_kwargs: {power: 2}\n");
  EXPECT_TRUE(has(words, "--power 2"));
  EXPECT_FALSE(has(words, "--power 1"));
  EXPECT_TRUE(has(words, "--min-lr 1e-7"));
  EXPECT_TRUE(has(translate("lr_scheduler: warmup_stable_decay\n"
                            "lr_scheduler_kwargs: {num_decay_steps: 5, "
                            "min_lr_ratio: 0.5}\n"),
                  "--decay-steps 5 --min-lr 1e-04"));
  EXPECT_EQ(listRefused(complete("lr_scheduler: warmup_stable_decay\n")),
            "lr_scheduler");
  EXPECT_EQ(listRefused(complete("lr_scheduler: rex\n")), "lr_scheduler");
}

TEST_F(RecipeTest, ValidationAndCheckpointsAreByTheWholeRun) {
  std::string words = translate("num_epochs: 2\nval_set_size: 0.05\n"
                                "evals_per_epoch: 4\nsaves_per_epoch: 1\n");
  for (const char *option :
       {"--val-fraction 0.05", "--val-split random", "--eval-batches 0",
        "--eval-ratio 0.125", "--save-ratio 0.5"})
    EXPECT_TRUE(has(words, option)) << option << " in" << words;
  words = translate("val_set_size: 0.05\nsave_strategy: 'no'\n");
  EXPECT_TRUE(has(words, "--eval-every 0"));
  EXPECT_TRUE(has(words, "--save-every 0 --save-minutes 0"));
  words = translate("val_set_size: 0.05\neval_steps: 10\nsave_steps: 10\n"
                    "early_stopping_patience: 3\n");
  EXPECT_TRUE(has(words, "--patience 3 --keep-best"));
  EXPECT_TRUE(has(translate("val_set_size: 0.05\nsave_strategy: best\n"
                            "eval_steps: 10\n"),
                  "--keep-best --save-every 0 --save-minutes 0"));
  EXPECT_EQ(fail(complete("load_best_model_at_end: true\n")),
            "recipe.yaml:8:1: load_best_model_at_end: needs val_set_size or "
            "test_datasets");
  words = translate("test_datasets:\n  - path: " + directory +
                    "/test.jsonl\n    type: chat_template\neval_steps: 20\n");
  EXPECT_TRUE(has(words, "--val-data " + directory + "/test.jsonl"));
  EXPECT_TRUE(has(words, "--eval-every 20"));
  EXPECT_FALSE(has(words, "--val-fraction 0"));
}

TEST_F(RecipeTest, DevicesThatShareSamplesHaveOneBatch) {
  // 2 x 4 samples.
  EXPECT_TRUE(has(translate("tensor_parallel_size: 2\n"), "--device-batch 4"));
  EXPECT_TRUE(has(translate("tensor_parallel_size: 2\n"
                            "context_parallel_size: 8\n"),
                  "--device-batch 1/2"));
  EXPECT_TRUE(
      has(translate("sequence_parallel_degree: 3\n"), "--device-batch 8/3"));
  EXPECT_EQ(fail(complete("tensor_parallel_size: -1\n")),
            "recipe.yaml:8:1: tensor_parallel_size: expected a count of "
            "devices, found -1");
}

} // namespace
