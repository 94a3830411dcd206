//===- OptionsTest.cpp - Options, by whatever name ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Options.h"
#include "TestSupport.h"
#include "support/Error.h"
#include "support/OptionNames.h"

#include <set>
#include <sstream>

using namespace poplar::runtime;

namespace {

Options parse(std::vector<std::string> Words) {
  Words.insert(Words.begin(), "train");
  std::vector<const char *> Argv;
  for (const std::string &Word : Words)
    Argv.push_back(Word.c_str());
  return parseOptions(static_cast<int>(Argv.size()), Argv.data());
}

/// Options and their values, as ranks compare them, but for the file's name.
std::string describe(const Options &O) {
  std::string Text;
  for (const OptionValue &Each : getOptionValues(O))
    if (Each.Name != "config")
      Text += Each.Name + " " + Each.Value + "\n";
  return Text;
}

/// Why options are refused.
std::string refuse(const std::vector<std::string> &Words) {
  try {
    parse(Words);
  } catch (const Error &E) {
    return E.what();
  }
  return "";
}

std::set<std::string> listTrainingOptions() {
  std::set<std::string> Names;
  for (const OptionValue &Each : getOptionValues(Options()))
    Names.insert(Each.Name);
  return Names;
}

std::vector<std::string> splitWords(const std::string &Text) {
  std::istringstream Words(Text);
  return {std::istream_iterator<std::string>(Words), {}};
}

TEST(OptionNames, EveryNameLeadsToItsOption) {
  std::set<std::string> Own = listTrainingOptions();
  std::set<std::pair<std::string, std::string>> Seen;
  int Checked = 0;
  for (const OtherNames &Row : getOtherNames()) {
    std::string Command = Row.Command, Option = Row.Option,
                First = Option.substr(0, Option.find(' '));
    if (Command == "train" || Command == "sample") {
      EXPECT_TRUE(First.empty() || Own.count(First)) << Option;
    }
    for (const std::string &Name : splitWords(Row.Names)) {
      EXPECT_TRUE(Seen.insert({Name, First + " of " + Command}).second) << Name;
      std::string Help = explainUnknownOption("--" + Name, {First}, "--help");
      EXPECT_NE(Help.find(First.empty() ? std::string(": ") + Row.Note
                                        : "did you mean --" + Option),
                std::string::npos)
          << Help;
      if (!Own.count(Name)) {
        // Whatever row counts for training, the name is known.
        EXPECT_EQ(refuse({"--" + Name, "1"}).find("lists the options"),
                  std::string::npos)
            << Name;
      }
      ++Checked;
    }
  }
  EXPECT_GT(Checked, 200);
}

TEST(OptionNames, SaysWhatOtherTrainersMean) {
  auto Train = [](const char *Name) { return refuse({Name, "1"}); };
  EXPECT_EQ(Train("--learning-rate"),
            "unknown option --learning-rate; did you mean --lr?");
  EXPECT_EQ(Train("--Learning_Rate"),
            "unknown option --Learning_Rate; did you mean --lr?");
  EXPECT_EQ(Train("--num_train_epochs"),
            "unknown option --num_train_epochs; did you mean --epochs?");
  EXPECT_EQ(Train("--per-device-train-batch-size"),
            "unknown option --per-device-train-batch-size; did you mean "
            "--batch (samples of a micro-batch)?");
  EXPECT_EQ(Train("--seq-length"),
            "unknown option --seq-length; it is --seq-len of poplar import");
  EXPECT_EQ(Train("--load-in-4bit"),
            "unknown option --load-in-4bit; it is --frozen-format nf4 of "
            "poplar import (with --lora-rank)");
  // A slip in another trainer's word, and the beginning of an own one.
  EXPECT_EQ(Train("--learning-rte"),
            "unknown option --learning-rte; did you mean --lr?");
  EXPECT_EQ(Train("--check-alloc"),
            "unknown option --check-alloc; did you mean --check-allocations?");
  EXPECT_EQ(Train("--wat"), "unknown option --wat; --help lists the options");
}

TEST(OptionNames, SuggestsWhatTheCommandHas) {
  auto Sample = [](const char *Name) {
    const char *Argv[] = {"train", "sample", "--checkpoint", "run", Name, "1"};
    try {
      parseOptions(6, Argv);
    } catch (const Error &E) {
      return std::string(E.what());
    }
    return std::string();
  };
  EXPECT_EQ(Sample("--max-length"),
            "unknown option --max-length; did you mean --tokens?");
  EXPECT_EQ(refuse({"--max-length", "1"}),
            "unknown option --max-length; it is --seq-len of poplar import");
  EXPECT_EQ(Sample("--learning-rate"),
            "unknown option --learning-rate; it is --lr of poplar train");
}

TEST(Options, FilesOfJSONMeanWhatTheCommandLineDoes) {
  TempDir Dir;
  writeFile(Dir / "options.json",
            R"( {"data": ["a.txt", "b.txt"], "steps": 7, "lr": 2.5e-3,
                 "out": "run", "resume": true, "bigram-baseline": false,
                 "val-data": "c.txt"})");
  writeFile(Dir / "options.cfg",
            "data = a.txt\ndata = b.txt # two\nsteps = 7\nlr = 2.5e-3\n"
            "out = run\nresume = true\nval-data = c.txt\n");
  std::string Words = describe(
      parse({"--data", "a.txt", "--data=b.txt", "--steps", "7", "--lr",
             "0.0025", "--out", "run", "--resume", "--val-data", "c.txt"}));
  EXPECT_EQ(describe(parse({"--config", Dir / "options.json"})), Words);
  EXPECT_EQ(describe(parse({"--config", Dir / "options.cfg"})), Words);
  // The command line replaces lists, too.
  Options O =
      parse({"--data", "d.txt", "--config", Dir / "options.json", "--lr", "1"});
  EXPECT_EQ(O.Data, std::vector<std::string>{"d.txt"});
  EXPECT_EQ(O.Rate, 1);
  EXPECT_EQ(O.Steps, 7);
}

} // namespace
