//===- TrainerTest.cpp - Training from end to end -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestProgram.h"
#include "TestSupport.h"
#include "checkpoint/Safetensors.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <sys/resource.h>
#include <thread>

using poplar::runtime::TensorFiles;
using poplar::runtime::writeSafetensors;
using testprogram::Program;

namespace {

class TrainerTest : public testing::Test {
protected:
  TrainerTest() : Data(Dir / "text.txt") { writeFile(Data, makeText(20000)); }

  Result train(const std::string &Run, int Steps,
               const std::vector<std::string> &More = {},
               const PoplarProgram &P = Program) {
    std::vector<std::string> Args = {"--data",         Data,
                                     "--out",          Dir / Run,
                                     "--steps",        std::to_string(Steps),
                                     "--lr",           "0.02",
                                     "--schedule",     "constant",
                                     "--warmup",       "0",
                                     "--global-batch", "5",
                                     "--batch",        "2",
                                     "--peak-gflops",  "100",
                                     "--threads",      "1"};
    Args.insert(Args.end(), More.begin(), More.end());
    return runProgram(P, Args);
  }
  std::string weights(const std::string &Run, int Step) {
    return readFile(Dir / (Run + "/checkpoint-" + std::to_string(Step) +
                           "/model.safetensors"));
  }
  std::string moments(const std::string &Run, int Step) {
    return readFile(Dir / (Run + "/checkpoint-" + std::to_string(Step) +
                           "/optimizer.safetensors"));
  }

  TempDir Dir;
  std::string Data;
};

TEST_F(TrainerTest, ReducesLossBelowBigramStart) {
  Result R = train("run", 200, {"--bigram-baseline", "--eval-every", "50"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  std::vector<double> Loss = readColumn(Dir / "run/metrics.csv", 1);
  ASSERT_EQ(Loss.size(), 200u);
  EXPECT_NEAR(Loss.front(), 5.545, 0.05); // log 256
  EXPECT_LT(Loss.back(), 1.0);
  std::vector<double> Val = readColumn(Dir / "run/metrics.csv", 2);
  ASSERT_EQ(Val.size(), 4u);
  EXPECT_LT(Val.back(), 1.0);
  EXPECT_NE(readFile(Dir / "run/loss.svg").find("bigram model"),
            std::string::npos);
  EXPECT_NE(R.Out.find("bigram baseline"), std::string::npos);
}

TEST_F(TrainerTest, ResumesBitIdentically) {
  ASSERT_EQ(train("whole", 30, {"--eval-every", "10"}).Status, 0);
  ASSERT_EQ(train("parts", 13, {"--eval-every", "10"}).Status, 0);
  Result R = train("parts", 30, {"--eval-every", "10", "--resume"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_EQ(weights("whole", 30), weights("parts", 30));
  EXPECT_EQ(moments("whole", 30), moments("parts", 30));
  EXPECT_FALSE(weights("whole", 30).empty());
  EXPECT_EQ(readColumn(Dir / "whole/metrics.csv", 1),
            readColumn(Dir / "parts/metrics.csv", 1));
}

TEST_F(TrainerTest, ResumesMaskedBitIdentically) {
  const PoplarProgram &P = testprogram::MaskedProgram;
  ASSERT_EQ(train("whole", 12, {}, P).Status, 0);
  ASSERT_EQ(train("parts", 5, {}, P).Status, 0);
  ASSERT_EQ(train("parts", 12, {"--resume"}, P).Status, 0);
  EXPECT_EQ(weights("whole", 12), weights("parts", 12));
}

TEST_F(TrainerTest, TruncatesMetricsToResumePoint) {
  ASSERT_EQ(train("run", 10, {"--save-every", "5"}).Status, 0);
  std::filesystem::remove_all(Dir / "run/checkpoint-10");
  ASSERT_EQ(train("run", 8, {"--resume"}).Status, 0);
  std::vector<double> Steps = readColumn(Dir / "run/metrics.csv", 0);
  ASSERT_EQ(Steps.size(), 8u);
  for (size_t I = 0; I < Steps.size(); ++I)
    EXPECT_EQ(Steps[I], static_cast<double>(I + 1));
}

TEST_F(TrainerTest, ThreadsDoNotChangeResults) {
  ASSERT_EQ(train("two", 20, {"--threads", "2"}).Status, 0);
  ASSERT_EQ(train("one", 20, {"--threads", "1"}).Status, 0);
  // Up to rounding: oneDNN may split a sum over threads.
  std::vector<double> One = readColumn(Dir / "one/metrics.csv", 1);
  std::vector<double> Two = readColumn(Dir / "two/metrics.csv", 1);
  ASSERT_EQ(One.size(), Two.size());
  for (size_t I = 0; I < One.size(); ++I)
    EXPECT_NEAR(One[I], Two[I], 1e-5);
}

TEST_F(TrainerTest, MicroBatchDoesNotChangeResults) {
  ASSERT_EQ(train("small", 20, {"--batch", "1"}).Status, 0);
  ASSERT_EQ(train("whole", 20, {"--batch", "5"}).Status, 0);
  std::vector<double> Small = readColumn(Dir / "small/metrics.csv", 1);
  std::vector<double> Whole = readColumn(Dir / "whole/metrics.csv", 1);
  for (size_t I = 0; I < Small.size(); ++I)
    EXPECT_NEAR(Small[I], Whole[I], 1e-5);
}

TEST_F(TrainerTest, KeepsTheLastCheckpoints) {
  ASSERT_EQ(train("run", 8, {"--save-every", "2"}).Status, 0);
  EXPECT_FALSE(std::filesystem::exists(Dir / "run/checkpoint-4"));
  EXPECT_TRUE(std::filesystem::exists(Dir / "run/checkpoint-6"));
  EXPECT_TRUE(std::filesystem::exists(Dir / "run/checkpoint-8"));
  EXPECT_EQ(std::filesystem::read_symlink(Dir / "run/latest"), "checkpoint-8");
  EXPECT_EQ(readFile(Dir / "run/latest/config.json"),
            "{\"model_type\": \"bigram\"}");
}

TEST_F(TrainerTest, RefusesToOverwriteARun) {
  ASSERT_EQ(train("run", 2).Status, 0);
  Result R = train("run", 2);
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("--resume"), std::string::npos) << R.Err;
}

TEST_F(TrainerTest, StopsOnSignalAndResumes) {
  // The process's handlers exist only while the loop runs; with a default
  // action in their place an early signal would end the test program.
  struct sigaction Ignore = {}, Old;
  Ignore.sa_handler = SIG_IGN;
  sigaction(SIGTERM, &Ignore, &Old);
  std::thread Killer([this] {
    while (readFile(Dir / "run/metrics.csv").find("\n1,") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(getpid(), SIGTERM);
  });
  Result R = train("run", 1000000, {"--log-every", "1", "--eval-every", "0"});
  Killer.join();
  sigaction(SIGTERM, &Old, nullptr);
  EXPECT_EQ(R.Status, 0) << R.Err;
  EXPECT_NE(R.Out.find("stopped by a signal"), std::string::npos) << R.Out;
  size_t Steps = readColumn(Dir / "run/metrics.csv", 0).size();
  EXPECT_FALSE(weights("run", static_cast<int>(Steps)).empty());
  EXPECT_EQ(train("run", static_cast<int>(Steps) + 3, {"--resume"}).Status, 0);
}

TEST_F(TrainerTest, StopsAtAHighLossAndResumes) {
  // No loss is above the limit of the second run.
  for (const char *Limit : {"0", "1e9"}) {
    std::string Run = std::string("above-") + Limit;
    Result R = train(Run, 6, {"--stop-above", Limit, "--stop-after", "2"});
    ASSERT_EQ(R.Status, 0) << R.Err;
    bool Stops = *Limit == '0';
    EXPECT_EQ(R.Out.find("stopped by --stop-above after step 2") != R.Out.npos,
              Stops)
        << R.Out;
    EXPECT_EQ(readColumn(Dir / (Run + "/metrics.csv"), 0).size(),
              Stops ? 2u : 6u);
  }
  EXPECT_EQ(train("above-0", 6, {"--resume"}).Status, 0);
}

TEST_F(TrainerTest, KeepsTheBestCheckpointAndStopsWithoutProgress) {
  // A rate at which the loss rises after it has fallen.
  Result R = train("run", 60,
                   {"--keep-best", "--patience", "3", "--eval-every", "2",
                    "--keep", "1", "--lr", "0.3", "--warmup", "6",
                    "--warmup-start", "zero", "--schedule", "constant"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_NE(R.Out.find("stopped by --patience"), R.Out.npos) << R.Out;
  // A loss for every second step.
  std::vector<double> Losses = readColumn(Dir / "run/metrics.csv", 2);
  auto Best = std::min_element(Losses.begin(), Losses.end());
  EXPECT_EQ(Losses.end() - Best, 4);
  auto BestStep = static_cast<int>(2 * (Best - Losses.begin() + 1));
  EXPECT_EQ(std::filesystem::read_symlink(Dir / "run/best").string(),
            "checkpoint-" + std::to_string(BestStep));
  // The last one is there, too.
  EXPECT_FALSE(weights("run", BestStep).empty());
  EXPECT_FALSE(weights("run", BestStep + 6).empty());
  EXPECT_EQ(train("none", 2, {"--keep-best", "--val-fraction", "0"}).Status, 1);
}

TEST_F(TrainerTest, WarmsUpFromZeroAndRemembersIt) {
  auto Train = [&](int Steps, const std::vector<std::string> &More) {
    std::vector<std::string> Options = {
        "--warmup",      "4",          "--warmup-start", "zero",
        "--schedule",    "polynomial", "--power",        "2",
        "--min-lr",      "0",          "--lr",           "1e-3",
        "--decay-steps", "12"};
    Options.insert(Options.end(), More.begin(), More.end());
    return train("run", Steps, Options);
  };
  ASSERT_EQ(Train(3, {}).Status, 0);
  Result R = Train(6, {"--resume"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_EQ(R.Out.find("note: the learning rate"), R.Out.npos) << R.Out;
  R = train("run", 8, {"--resume", "--warmup", "4", "--lr", "1e-3"});
  EXPECT_NE(R.Out.find("--power was 2"), R.Out.npos) << R.Out;
}

TEST_F(TrainerTest, InitialisesFromCheckpoint) {
  ASSERT_EQ(train("first", 10).Status, 0);
  Result R =
      train("second", 1, {"--init", Dir / "first/latest", "--eval-every", "1"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_LT(readColumn(Dir / "second/metrics.csv", 1).front(), 5.4);
}

TEST_F(TrainerTest, RefusesCheckpointOfAnotherModel) {
  ASSERT_EQ(train("run", 1).Status, 0);
  Result R = train("other", 1, {"--init", Dir / "run/latest"},
                   testprogram::OtherProgram);
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("'head.weight' is [256,16] and this model's is "
                       "[128,32]"),
            std::string::npos)
      << R.Err;
  EXPECT_FALSE(std::filesystem::exists(Dir / "other"));
}

// The first checkpoints of BERT call the weight and bias of a norm gamma and
// beta.
TEST_F(TrainerTest, ReadsTheFirstNamesOfNorms) {
  PoplarParameter Parameters[2] = {Program.parameters[0],
                                   Program.parameters[1]};
  Parameters[0].name = "bert.embeddings.LayerNorm.weight";
  Parameters[1].name = "bert.embeddings.LayerNorm.bias";
  PoplarProgram Renamed = Program;
  Renamed.parameters = Parameters;
  std::vector<float> First(256 * 16, 0.25f), Second(256 * 16, 0.5f);
  // As they are now, as they were, and without the model's prefix.
  for (auto [Weight, Bias] :
       {std::pair("bert.embeddings.LayerNorm.weight",
                  "bert.embeddings.LayerNorm.bias"),
        std::pair("bert.embeddings.LayerNorm.gamma",
                  "bert.embeddings.LayerNorm.beta"),
        std::pair("embeddings.LayerNorm.gamma", "embeddings.LayerNorm.beta")}) {
    writeSafetensors(Dir / "t", {{Weight, {256, 16}, First.data()},
                                 {Bias, {256, 16}, Second.data()}});
    std::filesystem::remove_all(Dir / "run");
    Result R = train("run", 1,
                     {"--init", Dir / "t", "--lr", "0", "--weight-decay", "0"},
                     Renamed);
    ASSERT_EQ(R.Status, 0) << R.Err;
    // Each went where it belongs, and is written by its present name.
    TensorFiles Saved = TensorFiles::open(Dir / "run/latest");
    for (auto [Name, Value] :
         {std::pair("bert.embeddings.LayerNorm.weight", 0.25f),
          std::pair("bert.embeddings.LayerNorm.bias", 0.5f)}) {
      const auto *Tensor = Saved.find(Name);
      ASSERT_NE(Tensor, nullptr) << Name;
      float Read;
      std::memcpy(&Read, Tensor->Data, sizeof(Read));
      EXPECT_EQ(Read, Value) << Name << " from " << Weight;
    }
  }
  // Neither is a name of anything else.
  writeSafetensors(Dir / "t",
                   {{"bert.embeddings.LayerNorm.gamma", {256, 16}, &First[0]},
                    {"bert.embeddings.LayerNorm.delta", {256, 16}, &First[0]}});
  Result R = train("bad", 1, {"--init", Dir / "t"}, Renamed);
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("LayerNorm.bias"), std::string::npos) << R.Err;
}

// Those of Pythia, which are computed here.
TEST_F(TrainerTest, IgnoresBuffersOfAttention) {
  std::vector<float> Values(256 * 16, 0.25f);
  std::string Layer = "gpt_neox.layers.0.attention.";
  writeSafetensors(Dir / "t",
                   {{Program.parameters[0].name, {256, 16}, Values.data()},
                    {Program.parameters[1].name, {256, 16}, Values.data()},
                    {Layer + "bias", {1, 1, 2, 2}, Values.data()},
                    {Layer + "masked_bias", {1}, Values.data()},
                    {Layer + "rotary_emb.inv_freq", {2}, Values.data()}});
  Result R = train("run", 1, {"--init", Dir / "t"});
  EXPECT_EQ(R.Status, 0) << R.Err;
}

TEST_F(TrainerTest, RefusesWeightsOfPyTorch) {
  for (const char *Name :
       {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    std::string Directory = Dir / (std::string("of-") + Name);
    std::filesystem::create_directories(Directory);
    writeFile(Directory + "/" + Name, "PK");
    Result R = train("run", 1, {"--init", Directory});
    EXPECT_EQ(R.Status, 1);
    EXPECT_NE(
        R.Err.find(std::string("has its weights in ") + Name +
                   " and no model.safetensors, the only file that can be read; "
                   "from_pretrained followed by save_pretrained of "
                   "transformers 4.35 or later writes it"),
        std::string::npos)
        << R.Err;
    EXPECT_FALSE(std::filesystem::exists(Dir / "run"));
  }
  // The file itself is refused by what it holds.
  writeFile(Dir / "pytorch_model.bin", "PK");
  Result R = train("run", 1, {"--init", Dir / "pytorch_model.bin"});
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("pytorch_model.bin"), std::string::npos) << R.Err;
}

// The norms around every product, by the parameter that it is of.
TEST_F(TrainerTest, DumpsProducts) {
  Result R = train("run", 1, {"--dump-products", Dir / "products.csv"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_FALSE(std::filesystem::exists(Dir / "run"));
  std::istringstream Lines(readFile(Dir / "products.csv"));
  std::vector<std::string> Names;
  std::vector<double> Operands, Results;
  std::string Line;
  std::getline(Lines, Line);
  EXPECT_EQ(Line, "product,operand,result");
  while (std::getline(Lines, Line)) {
    size_t First = Line.find(','), Second = Line.find(',', First + 1);
    Names.push_back(Line.substr(0, First));
    Operands.push_back(std::stod(Line.substr(First + 1)));
    Results.push_back(std::stod(Line.substr(Second + 1)));
  }
  // The gradient of the first of three micro-steps alone.
  EXPECT_EQ(Names, (std::vector<std::string>{"head.weight #1",
                                             "gradient of head.weight",
                                             "head.weight #2"}));
  for (double Norm : Results)
    EXPECT_GT(Norm, 0);
  // Both are given the gradient of the logits.
  EXPECT_EQ(Operands[1], Operands[2]);
}

// Tied weights may be stored twice, but only if they are tied.
TEST_F(TrainerTest, ChecksSuperfluousTensors) {
  std::vector<float> Embedding(256 * 16, 1), Head(256 * 16, 2);
  std::vector<float> Other(256 * 16, 3);
  auto Init = [&](const char *Name, const std::vector<float> &Data) {
    writeSafetensors(Dir / "t",
                     {{"model.embed.weight", {256, 16}, &Embedding[0]},
                      {"head.weight", {256, 16}, &Head[0]},
                      {Name, {256, 16}, &Data[0]}});
    std::filesystem::remove_all(Dir / "run");
    return train("run", 1, {"--init", Dir / "t"}).Err;
  };
  EXPECT_EQ(Init("h.0.attn.bias", Other), "");
  EXPECT_EQ(Init("lm_head.weight", Embedding), "");
  EXPECT_NE(Init("lm_head.weight", Other)
                .find("has a head of its own, 'lm_head.weight'"),
            std::string::npos);
  EXPECT_NE(Init("layer.weight", Embedding).find("no tensor 'layer.weight'"),
            std::string::npos);
}

TEST_F(TrainerTest, RefusesTruncatedCheckpoint) {
  ASSERT_EQ(train("run", 1).Status, 0);
  std::string Path = Dir / "run/checkpoint-1/model.safetensors";
  std::string Whole = readFile(Path);
  writeFile(Path, Whole.substr(0, Whole.size() - 100));
  Result R = train("run", 2, {"--resume"});
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("truncated"), std::string::npos) << R.Err;
  EXPECT_NE(R.Err.find(std::to_string(Whole.size() - 100)), std::string::npos);
}

// A limit on the size of files stands in for a full disk.
TEST_F(TrainerTest, FailedSaveKeepsTheLastCheckpoint) {
  ASSERT_EQ(train("run", 3).Status, 0);
  struct rlimit Old, Small;
  getrlimit(RLIMIT_FSIZE, &Old);
  Small = Old;
  Small.rlim_cur = 20000;
  auto *OldHandler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &Small);
  Result R = train("run", 6, {"--resume"});
  setrlimit(RLIMIT_FSIZE, &Old);
  std::signal(SIGXFSZ, OldHandler);
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("the last good one is"), std::string::npos) << R.Err;
  EXPECT_FALSE(std::filesystem::exists(Dir / "run/checkpoint-6"));
  EXPECT_FALSE(std::filesystem::exists(Dir / "run/.checkpoint-6.tmp"));
  EXPECT_EQ(train("run", 6, {"--resume"}).Status, 0);
}

TEST_F(TrainerTest, RemovesWhatAKilledProcessLeft) {
  std::filesystem::create_directories(Dir / "run/.checkpoint-1.tmp");
  ASSERT_EQ(train("run", 2).Status, 0);
  EXPECT_FALSE(std::filesystem::exists(Dir / "run/.checkpoint-1.tmp"));
}

// Without --batch a resumed run takes the micro-batch it had.
TEST_F(TrainerTest, ResumesTheMicroBatch) {
  ASSERT_EQ(train("run", 3).Status, 0);
  ASSERT_EQ(train("run", 6, {"--resume", "--batch", "0"}).Status, 0);
  EXPECT_NE(readFile(Dir / "run/latest/state.json").find("\"micro_batch\": 2"),
            std::string::npos);
}

TEST_F(TrainerTest, RefusesADamagedState) {
  ASSERT_EQ(train("run", 3).Status, 0);
  std::string Path = Dir / "run/latest/state.json", Good = readFile(Path);
  for (auto [Key, Bad] : {std::pair("\"step\": ", "9000000000000000000"),
                          std::pair("\"samples\": ", "9000000000000000000"),
                          std::pair("\"loss_scale\": ", "1e300")}) {
    std::string Text = Good;
    size_t Begin = Text.find(Key) + std::strlen(Key);
    Text.replace(Begin, Text.find(',', Begin) - Begin, Bad);
    writeFile(Path, Text);
    Result R = train("run", 6, {"--resume"});
    EXPECT_EQ(R.Status, 1);
    EXPECT_NE(R.Err.find("is damaged: its step, samples or loss_scale"),
              std::string::npos)
        << R.Err;
  }
}

// Every member is under the digest, those of objects, too, and spaces are not.
TEST_F(TrainerTest, RefusesAnEditedState) {
  ASSERT_EQ(train("run", 3).Status, 0);
  std::string Path = Dir / "run/latest/state.json", Good = readFile(Path);
  size_t Members = 0;
  for (size_t Begin = Good.find('"'), End; Begin < Good.size(); Begin = End) {
    Begin = Good.find(": ", Begin) + 2;
    End = std::min(Good.find("\n", Begin), Good.size());
    std::string Value = Good.substr(Begin, End - Begin), Text = Good;
    if (Value.back() == ',')
      Value.pop_back();
    if (Value == "{") {
      End = Good.find('"', End);
      continue;
    }
    bool IsText = Value[0] == '"';
    Text.replace(Begin, Value.size(),
                 IsText         ? "\"x\""
                 : Value == "4" ? "5"
                                : "4");
    writeFile(Path, Text);
    Result R = train("run", 6, {"--resume"});
    EXPECT_EQ(R.Status, 1) << Text;
    EXPECT_NE(R.Err.find(Members ? "digest" : "is of version 4"),
              std::string::npos)
        << R.Err;
    ++Members;
    End = Good.find('"', End);
  }
  EXPECT_GT(Members, 20u);
  size_t Digest = Good.find(",\n  \"digest\"");
  writeFile(Path, Good.substr(0, Digest) + "}");
  EXPECT_NE(train("run", 6, {"--resume"}).Err.find("no digest"),
            std::string::npos);
  writeFile(Path, "  " + Good + "\n");
  EXPECT_EQ(train("run", 6, {"--resume"}).Status, 0);
}

TEST_F(TrainerTest, LeavesNoMemoryAllocated) {
  Result R = train("run", 20, {"--check-allocations", "--log-every", "5"});
  EXPECT_EQ(R.Status, 0) << R.Err;
}

TEST_F(TrainerTest, DumpsGradientsAndLoss) {
  Result R =
      runProgram(Program, {"--data", Data, "--dump-loss", "--dump-gradients",
                           Dir / "gradients.safetensors"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_EQ(R.Out.substr(0, 8), "loss 5.5");
  EXPECT_GT(readFile(Dir / "gradients.safetensors").size(), 2u * 256 * 16 * 4);
}

TEST_F(TrainerTest, SamplesWhatWasLearnt) {
  ASSERT_EQ(train("run", 200).Status, 0);
  Result R =
      runProgram(Program, {"sample", "--checkpoint", Dir / "run", "--prompt",
                           "a", "--tokens", "5", "--temperature", "0"});
  ASSERT_EQ(R.Status, 0) << R.Err;
  EXPECT_EQ(R.Out, "adspad\n"); // x -> 5x + 3 modulo 26
}

TEST_F(TrainerTest, SamplesNothingFromNaNs) {
  ASSERT_EQ(train("run", 1).Status, 0);
  std::string Path = Dir / "run/latest/model.safetensors",
              Bytes = readFile(Path);
  std::fill(Bytes.end() - 64, Bytes.end(), '\xFF');
  writeFile(Path, Bytes);
  Result R = runProgram(Program, {"sample", "--checkpoint", Dir / "run"});
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("the output of the model is not finite (the logit of "
                       "token "),
            std::string::npos)
      << R.Err;
}

TEST_F(TrainerTest, ReadsConfig) {
  writeFile(Dir / "run.cfg", "# a comment\nsteps = 100\nkeep = 1\n");
  Result R = train("run", 3, {"--config", Dir / "run.cfg"});
  EXPECT_EQ(R.Status, 0) << R.Err;
  EXPECT_EQ(readColumn(Dir / "run/metrics.csv", 0).size(), 3u);
  writeFile(Dir / "bad.cfg", "steps = 3\nstep = 4\n");
  R = train("bad", 3, {"--config", Dir / "bad.cfg"});
  EXPECT_EQ(R.Status, 1);
  EXPECT_NE(R.Err.find("bad.cfg:2: unknown option --step"), std::string::npos);
}

TEST_F(TrainerTest, ReportsBadUse) {
  auto Error = [&](std::vector<std::string> Args) {
    Result R = runProgram(Program, Args);
    EXPECT_EQ(R.Status, 1);
    // Errors begin with the command.
    bool IsNamed = Args.size() > 1 && Args[0].rfind("--", 0) != 0;
    std::string Command = IsNamed ? Args[0] : "train";
    EXPECT_EQ(R.Err.rfind(Command + ": error: ", 0), 0u) << R.Err;
    return R.Err;
  };
  EXPECT_NE(Error({}).find("--data"), std::string::npos);
  EXPECT_NE(Error({"fly"}).find("'fly'"), std::string::npos);
  EXPECT_NE(Error({"--steps", "many"}).find("integer"), std::string::npos);
  EXPECT_NE(Error({"--lr", "-1"}).find("at least"), std::string::npos);
  EXPECT_NE(Error({"--lr", "nan"}).find("number"), std::string::npos);
  EXPECT_NE(Error({"--steps"}).find("expects a value"), std::string::npos);
  EXPECT_NE(
      Error({"--data", Dir / "absent", "--steps", "1", "--out", Dir / "run"})
          .find("No such file"),
      std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Dir / "run"));
  EXPECT_EQ(runProgram(Program, {"--help"}).Status, 0);
  EXPECT_NE(runProgram(Program, {"info"}).Out.find("peak_bytes"),
            std::string::npos);
  EXPECT_NE(Error({"info", "--batch", "9223372036854775807"}).find("at most"),
            std::string::npos);
  EXPECT_NE(Error({"evaluate", "--data", Dir / "absent"}).find("--checkpoint"),
            std::string::npos);
}

} // namespace
