//===- CourseTest.cpp - Epochs, defaults, and what a resumption changes ---===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Course.h"
#include "TestProgram.h"
#include "TestSupport.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace poplar::runtime;
using testprogram::Program;

namespace {

Options decide(Options O, RunKind Kind, int64_t Samples, int64_t Batch) {
  return decideByData(decideByKind(O, {Kind, "auto"}), Kind, Samples, Batch);
}

TEST(Course, EpochsAreThoseOfTransformersUpToTheirSmallerSteps) {
  for (int64_t Samples : {1, 7, 8, 52, 64, 65, 1000})
    for (int64_t Batch : {1, 8, 64})
      for (double Epochs : {0.0, 0.5, 1.0, 2.5, 3.0, 10.0}) {
        int64_t Steps = countSteps(Epochs, Samples, Batch);
        // transformers' Trainer: an epoch ends with what is left, in a step of
        // its own.
        double PerEpoch = std::ceil(double(Samples) / double(Batch)),
               Theirs = std::ceil(Epochs * PerEpoch);
        if (Samples % Batch == 0) {
          EXPECT_EQ(Steps, Theirs) << Samples << " " << Batch << " " << Epochs;
        }
        EXPECT_LE(Steps, Theirs);
        // All epochs are there, and not one step more.
        EXPECT_GE(double(Steps * Batch), Epochs * double(Samples));
        EXPECT_LT(double((Steps - 1) * Batch), Epochs * double(Samples));
      }
  EXPECT_ANY_THROW(countSteps(1e300, 10, 1));
}

TEST(Course, WarmupRatioIsRoundedUp) {
  Options O;
  O.Epochs = 3;
  O.WarmupRatio = 0.1;
  Options Decided = decide(O, RunKind::PreTraining, 52, 8);
  EXPECT_EQ(Decided.Steps, 20);
  EXPECT_EQ(Decided.Warmup, 2);
  O.WarmupRatio = 0.01;
  EXPECT_EQ(decide(O, RunKind::PreTraining, 52, 8).Warmup, 1);
  O.WarmupRatio = 0;
  EXPECT_EQ(decide(O, RunKind::PreTraining, 52, 8).Warmup, 0);
}

TEST(Course, PartsOfARunAreThoseOfTransformers) {
  Options O;
  O.Epochs = 2;
  O.EvalRatio = 0.125;
  O.SaveRatio = 0.5;
  O.WarmupRatio = 0.5;
  O.MostWarmup = 3;
  Options Decided = decide(O, RunKind::FineTuning, 52, 8);
  EXPECT_EQ(Decided.Steps, 13);
  EXPECT_EQ(Decided.EvalEvery, 2);
  EXPECT_EQ(Decided.SaveEvery, 7);
  EXPECT_EQ(Decided.SaveMinutes, 0);
  EXPECT_EQ(Decided.Warmup, 3);
  std::string Text =
      describeCourse(O, Decided, RunKind::FineTuning, 52, 8, 6, 6);
  EXPECT_EQ(Text.find("--eval-every"), Text.npos) << Text;
  EXPECT_EQ(Text.find("--save-every"), Text.npos) << Text;
}

TEST(Course, DefaultsAreThoseOfTheKind) {
  Options O;
  O.Steps = 600;
  Options Pre = decide(O, RunKind::PreTraining, 52, 8),
          Fine = decide(O, RunKind::FineTuning, 52, 8),
          Adapters = decide(O, RunKind::Adapters, 52, 8);
  EXPECT_EQ(Pre.Rate, 6e-4);
  EXPECT_EQ(Pre.WeightDecay, 0.1);
  EXPECT_EQ(Pre.ValFraction, 0.1);
  EXPECT_EQ(Pre.SaveEvery, 0);
  EXPECT_EQ(Pre.SaveMinutes, 30);
  EXPECT_EQ(Pre.EvalEvery, 100);
  EXPECT_EQ(Fine.Rate, 2e-5);
  EXPECT_EQ(Adapters.Rate, 2e-4);
  for (const Options &Each : {Fine, Adapters}) {
    EXPECT_EQ(Each.WeightDecay, 0);
    EXPECT_EQ(Each.ValFraction, 0);
    // Epochs of 7 steps would be 86 checkpoints.
    EXPECT_EQ(Each.SaveEvery, 60);
    EXPECT_EQ(Each.EvalEvery, 60);
    EXPECT_EQ(Each.SaveMinutes, 30);
  }
  // What is given counts, whatever the kind.
  O.Rate = 1;
  O.WeightDecay = 0.5;
  O.SaveEvery = 9;
  O.ValFraction = 0.25;
  Options Given = decide(O, RunKind::Adapters, 52, 8);
  EXPECT_EQ(Given.Rate, 1);
  EXPECT_EQ(Given.MinRate, 0.1);
  EXPECT_EQ(Given.WeightDecay, 0.5);
  EXPECT_EQ(Given.SaveEvery, 9);
  EXPECT_EQ(Given.SaveMinutes, 0);
  EXPECT_EQ(Given.ValFraction, 0.25);
  // A run of three epochs saves at the end of each.
  Options Epochs;
  Epochs.Epochs = 3;
  EXPECT_EQ(decide(Epochs, RunKind::Adapters, 100, 5).SaveEvery, 20);
  Epochs.SkipSave = true;
  EXPECT_EQ(decide(Epochs, RunKind::Adapters, 100, 5).SaveEvery, 0);
  EXPECT_EQ(decide(Epochs, RunKind::Adapters, 100, 5).SaveMinutes, 0);
}

class CourseRun : public testing::Test {
protected:
  CourseRun() : Data(Dir / "text.txt") { writeFile(Data, makeText(2000)); }

  Result train(const std::string &Run, const std::vector<std::string> &More) {
    std::vector<std::string> Args = {
        "--data",  Data, "--out",         Dir / Run, "--global-batch", "8",
        "--batch", "8",  "--peak-gflops", "100",     "--threads",      "1"};
    Args.insert(Args.end(), More.begin(), More.end());
    return runProgram(Program, Args);
  }
  /// The lines that begin with "note:".
  static std::string getNotes(const Result &R) {
    std::istringstream Lines(R.Out);
    std::string Notes;
    for (std::string Line; std::getline(Lines, Line);)
      if (Line.rfind("note:", 0) == 0)
        Notes += Line + "\n";
    return Notes;
  }

  TempDir Dir;
  std::string Data;
};

TEST_F(CourseRun, TellsThatAValidationReadsAPart) {
  const char *Part = ", --eval-batches 20, which reads 160 of 562 samples\n";
  // Half of 18000 tokens.
  writeFile(Data, makeText(18000));
  std::vector<std::string> Options = {"--steps", "1", "--val-fraction", "0.5"};
  Result R = train("run", Options);
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_NE(R.Out.find(Part), std::string::npos) << R.Out;
  // Whoever gives the option knows, and a whole validation reads all.
  for (const char *Batches : {"20", "1000"}) {
    Options.insert(Options.end(), {"--eval-batches", Batches});
    R = train("given" + std::string(Batches), Options);
    EXPECT_EQ(R.Out.find("which reads"), std::string::npos) << R.Out;
  }
}

TEST_F(CourseRun, TrainsForEpochs) {
  // 1800 tokens are 112 samples of 16, without the last target.
  Result R = train("run", {"--epochs", "1.5", "--warmup-ratio", "0.1"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_NE(R.Out.find("pre-training, 21 steps (1.5 epochs of 112 samples), "
                       "3 steps of warm-up; defaults: --lr 0.0006, "),
            std::string::npos)
      << R.Out;
  std::vector<double> Rates = readColumn(Dir / "run/metrics.csv", 3);
  ASSERT_EQ(Rates.size(), 21u);
  EXPECT_NEAR(Rates[1], 4e-4, 1e-9);
  EXPECT_NEAR(Rates[2], 6e-4, 1e-9);
  EXPECT_EQ(readColumn(Dir / "run/metrics.csv", 8).back(), 1.5);
  // The same again has had its steps; more epochs go on.
  R = train("run", {"--epochs", "1.5", "--resume"});
  EXPECT_NE(R.Err.find("the run has had its 21 steps already; ask for more "
                       "--epochs"),
            std::string::npos)
      << R.Err;
  R = train("run", {"--epochs", "2", "--resume"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_EQ(readColumn(Dir / "run/metrics.csv", 0).size(), 28u);
}

TEST_F(CourseRun, CommandLineReplacesStepsByEpochs) {
  writeFile(Dir / "run.cfg", "steps = 100\nwarmup = 7\n");
  Result R = train("run", {"--config", Dir / "run.cfg", "--epochs", "0.5",
                           "--warmup-ratio", "0.5"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_EQ(readColumn(Dir / "run/metrics.csv", 0).size(), 7u);
  writeFile(Dir / "both.cfg", "steps = 100\nepochs = 7\n");
  EXPECT_NE(train("no", {"--config", Dir / "both.cfg"})
                .Err.find("give --steps or --epochs, not both"),
            std::string::npos);
  EXPECT_NE(train("no", {"--steps", "1", "--epochs", "1"})
                .Err.find("give --steps or --epochs, not both"),
            std::string::npos);
  EXPECT_NE(
      train("no", {"--steps", "1", "--warmup", "1", "--warmup-ratio", "0.5"})
          .Err.find("give --warmup or --warmup-ratio, not both"),
      std::string::npos);
}

TEST_F(CourseRun, ResumesTheKindThatItBegan) {
  ASSERT_EQ(train("base", {"--steps", "2"}).Status, 0);
  Result R = train("run", {"--steps", "2", "--init", Dir / "base"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_NE(R.Out.find("fine-tuning of all weights, 2 steps (0.129 epochs of "
                       "124 samples); defaults: --lr 2e-05, --weight-decay 0"),
            std::string::npos)
      << R.Out;
  EXPECT_NE(
      R.Out.find("loaded 2 tensors from '" + (Dir / "base") + "' (--init)"),
      std::string::npos)
      << R.Out;
  R = train("run", {"--steps", "3", "--warmup", "0", "--decay-steps", "2",
                    "--resume"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_NE(R.Out.find("fine-tuning of all weights, 3 steps"),
            std::string::npos)
      << R.Out;
  EXPECT_EQ(getNotes(R), "");
}

TEST_F(CourseRun, RunsOfEarlierVersionsHaveTheirDefaults) {
  ASSERT_EQ(train("base", {"--steps", "1"}).Status, 0);
  ASSERT_EQ(train("run", {"--steps", "1", "--init", Dir / "base"}).Status, 0);
  std::string Path = Dir / "run/latest/state.json", Text = readFile(Path);
  size_t Begin = Text.find("  \"kind\""),
         End = Text.find("  \"best_val_loss\"");
  ASSERT_NE(Begin, std::string::npos);
  Text = Text.substr(0, Begin) + "  \"options_hash\": \"0\",\n" +
         Text.substr(End, Text.find(",\n  \"digest\"") - End) + "\n}\n";
  Text.replace(Text.find("\"version\": 2"), 12, "\"version\": 1");
  writeFile(Path, Text);
  Result R = train("run", {"--steps", "2", "--resume"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_NE(R.Out.find("pre-training, 2 steps (0.1429 epochs of 112 samples); "
                       "defaults: --lr 0.0006"),
            std::string::npos)
      << R.Out;
  EXPECT_NE(getNotes(R).find("begun by an earlier version"), std::string::npos);
}

TEST_F(CourseRun, ResumingSaysWhatIsOther) {
  const std::vector<std::string> Pinned = {"--warmup", "2", "--decay-steps",
                                           "10"};
  auto Resume = [&](std::vector<std::string> More) {
    std::filesystem::remove_all(Dir / "run");
    std::filesystem::copy(Dir / "start", Dir / "run",
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::copy_symlinks);
    More.push_back("--resume");
    Result R = train("run", More);
    EXPECT_EQ(R.Status, 0) << R.Err;
    return getNotes(R);
  };
  ASSERT_EQ(train("start", {"--steps", "10", "--warmup", "2"}).Status, 0);
  // Rates that are pinned do not change, and neither does anything else.
  std::vector<std::string> Same = Pinned;
  Same.insert(Same.end(), {"--steps", "12"});
  EXPECT_EQ(Resume(Same), "");
  // A longer schedule jumps.
  EXPECT_EQ(Resume({"--steps", "20"}),
            "note: the learning rate of step 11 is 0.0003523, and 6e-05 in the "
            "schedule of the run so far, whose last step had 8.055e-05: "
            "--decay-steps was 10 and is 20, --steps was 10 and is 20, "
            "--warmup was 2 and is 1; for that schedule: --decay-steps 10 "
            "--warmup 2\n");
  std::vector<std::string> Others = Same;
  Others.insert(Others.end(), {"--clip", "2", "--weight-decay", "0"});
  EXPECT_EQ(Resume(Others),
            "note: options are other than in the run so far: --clip was 1 and "
            "is 2, --weight-decay was 0.1 and is 0\n");
  std::vector<std::string> Rate = Same;
  Rate.insert(Rate.end(), {"--lr", "3e-4"});
  EXPECT_EQ(Resume(Rate),
            "note: the learning rate of step 11 is 3e-05, and 6e-05 in the "
            "schedule of the run so far, whose last step had 8.055e-05: --lr "
            "was 6e-04 and is 3e-04, --steps was 10 and is 12; for that "
            "schedule: --lr 6e-04\n");
  // Data count by what they hold, not by their names.
  writeFile(Dir / "copy.txt", readFile(Data));
  Data = Dir / "copy.txt";
  EXPECT_EQ(Resume(Same), "");
  std::string Text = readFile(Data);
  Text[1000] ^= 1;
  writeFile(Data, Text);
  std::string Notes = Resume(Same);
  EXPECT_EQ(Notes.rfind("note: data are other than in the run so far: --data "
                        "was 2000 bytes with the hash ",
                        0),
            0u)
      << Notes;
  EXPECT_EQ(std::count(Notes.begin(), Notes.end(), '\n'), 1) << Notes;
}

TEST_F(CourseRun, HoldsSequencesOfATextOutAtItsEnd) {
  Result R = train("run", {"--steps", "1", "--val-split", "random"});
  EXPECT_NE(R.Err.find("--val-split random is for examples in JSON"),
            std::string::npos)
      << R.Err;
  R = train("run", {"--steps", "1", "--val-split", "half"});
  EXPECT_NE(R.Err.find("--val-split is auto, end or random"), std::string::npos)
      << R.Err;
}

TEST_F(CourseRun, SavesByTheClock) {
  Result R = train("run", {"--steps", "4", "--save-minutes", "1e-9"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  size_t Saved = 0;
  for (size_t At = R.Out.find("saved '"); At != R.Out.npos;
       At = R.Out.find("saved '", At + 1))
    ++Saved;
  // After the first step at the latest, and at the end; then not before it has
  // trained for longer than saving took.
  EXPECT_GE(Saved, 2u) << R.Out;
  EXPECT_NE(R.Out.find("checkpoint-1'"), std::string::npos) << R.Out;
}

} // namespace
