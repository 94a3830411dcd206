//===- FuzzRunTest.cpp - Programs survive bad options and checkpoints -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever a program is told, and whatever is in the directories it is told of,
// it does its work or ends with one error line and leaves nothing half-written.
//
//===----------------------------------------------------------------------===//

#include "../Support/Mutator.h"
#include "TestProgram.h"
#include "TestSupport.h"
#include "checkpoint/Adapter.h"
#include "checkpoint/Safetensors.h"
#include "job/Options.h"
#include "support/Error.h"

#include <filesystem>
#include <set>
#include <sstream>

using namespace poplar::runtime;
using namespace testprogram;
namespace fs = std::filesystem;

namespace {

/// The files below a directory, but for the lock of a run, and the events of
/// one that ends in its first step.
std::set<std::string> listFiles(const std::string &Directory) {
  std::set<std::string> Files;
  if (fs::exists(Directory))
    for (const auto &Entry : fs::recursive_directory_iterator(Directory))
      if (std::string Name = Entry.path().filename();
          Name != "lock" && Name.rfind("events.", 0) != 0)
        Files.insert(Entry.path().string());
  return Files;
}

/// Whether the program did its work; if not, it said why.
bool ends(const Result &R, const std::string &What) {
  if (R.Status == 0)
    return true;
  EXPECT_EQ(R.Status, 1) << What;
  std::istringstream Lines(R.Err);
  int Errors = 0;
  for (std::string Line; std::getline(Lines, Line);)
    Errors += Line.find(": error: ") != std::string::npos;
  EXPECT_EQ(Errors, 1) << What << "\n" << R.Err;
  return false;
}

class FuzzRun : public testing::Test {
protected:
  FuzzRun() {
    writeFile(Dir / "text.txt", makeText(2000));
    Result R = train("run", 1);
    EXPECT_EQ(R.Status, 0) << R.Err;
  }

  std::vector<std::string> getTraining(const std::string &Run, int Steps) {
    return {"--data",         Dir / "text.txt",
            "--out",          Dir / Run,
            "--steps",        std::to_string(Steps),
            "--global-batch", "2",
            "--batch",        "2",
            "--peak-gflops",  "100",
            "--threads",      "1",
            "--eval-every",   "0"};
  }
  Result train(const std::string &Run, int Steps,
               const std::vector<std::string> &More = {}) {
    std::vector<std::string> Args = getTraining(Run, Steps);
    Args.insert(Args.end(), More.begin(), More.end());
    return runProgram(Program, Args);
  }

  TempDir Dir;
};

TEST_F(FuzzRun, Options) {
  const std::vector<std::string> Values = {"",
                                           "-1",
                                           "0",
                                           "nan",
                                           "inf",
                                           "1e999",
                                           "-1e999",
                                           "1e-999",
                                           "0x10",
                                           "+1",
                                           " 1",
                                           "1 ",
                                           "1,",
                                           ",",
                                           "1,2,",
                                           "\xFF\xFE",
                                           "2147483648",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "-9223372036854775808",
                                           std::string(5000, 'x'),
                                           Dir / "absent/x",
                                           Dir / "text.txt"};
  // What leads to other processes and libraries, or says how large a job is.
  const std::set<std::string> Skipped = {"comm", "threads", "tokens", "config"};
  const std::vector<std::vector<std::string>> Commands = {
      getTraining("new", 1),
      {"evaluate", "--checkpoint", Dir / "run", "--data", Dir / "text.txt"},
      {"sample", "--checkpoint", Dir / "run", "--tokens", "2"}};
  // Values may be names of files, too.
  fs::create_directory(Dir / "work");
  fs::path Before = fs::current_path();
  fs::current_path(Dir / "work");
  int Done = 0, Refused = 0, Case = 0;
  for (const std::vector<std::string> &Command : Commands)
    for (const OptionValue &Each : getOptionValues(poplar::runtime::Options()))
      for (const std::string &Value : Values) {
        // A third of all, each value with a third of the options. Nothing is
        // written over the text.
        if (++Case % 3 || Skipped.count(Each.Name) ||
            (Value == Dir / "text.txt" && Each.Name.rfind("dump", 0) == 0))
          continue;
        std::vector<std::string> Args = Command;
        Args.push_back("--" + Each.Name + "=" + Value);
        Result R = runProgram(Program, Args);
        std::string What = Command[0] + " " + Args.back().substr(0, 80);
        bool IsDone = ends(R, What);
        ++(IsDone ? Done : Refused);
        if (!IsDone) {
          EXPECT_EQ(listFiles(Dir / "new"), std::set<std::string>()) << What;
          EXPECT_EQ(listFiles(Dir / "work"), std::set<std::string>()) << What;
        }
        fs::remove_all(Dir / "new");
        for (const auto &Entry : fs::directory_iterator(Dir / "work"))
          fs::remove_all(Entry.path());
        ASSERT_TRUE(fs::is_regular_file(Dir / "text.txt")) << What;
      }
  fs::current_path(Before);
  EXPECT_GT(Done, 30);
  EXPECT_GT(Refused, 300);
}

// A damaged checkpoint is not gone on from, and nothing is written beside it.
TEST_F(FuzzRun, Checkpoints) {
  Mutator Mutate(21);
  for (const char *Name :
       {"state.json", "model.safetensors", "optimizer.safetensors"}) {
    std::string Path = Dir / ("run/checkpoint-1/" + std::string(Name)),
                Good = readFile(Path);
    ASSERT_FALSE(Good.empty()) << Path;
    size_t Head = Good.size() > 1000 ? Good.rfind('}') + 1 : Good.size();
    int Resumed = 0, Refused = 0;
    for (int I = 0; I < 40; ++I) {
      writeFile(Path, Mutate(Good.substr(0, Head)) + Good.substr(Head));
      std::set<std::string> Before = listFiles(Dir / "run");
      bool IsDone = ends(train("run", 2, {"--resume"}), Name);
      ++(IsDone ? Resumed : Refused);
      if (!IsDone) {
        EXPECT_EQ(listFiles(Dir / "run"), Before) << Name;
      }
      fs::remove_all(Dir / "run/checkpoint-2");
      fs::remove(Dir / "run/latest");
      fs::create_symlink("checkpoint-1", Dir / "run/latest");
    }
    EXPECT_GT(Refused, 10) << Name;
    writeFile(Path, Good);
  }
  EXPECT_EQ(train("run", 2, {"--resume"}).Status, 0);
}

// A damaged adapter is merged into nothing, or into a whole checkpoint.
TEST(FuzzAdapter, Directories) {
  TempDir Dir;
  std::vector<float> Weight(6, 1), Down(2, 0.5), Up(3, 2);
  fs::create_directories(Dir / "base");
  fs::create_directories(Dir / "adapter");
  const char *Module = "model.layers.0.q_proj";
  writeSafetensors(Dir / "base/model.safetensors",
                   {{std::string(Module) + ".weight", {3, 2}, Weight.data()}});
  writeFile(Dir / "base/config.json", "{}");
  std::string Prefix = std::string("base_model.model.") + Module;
  writeSafetensors(Dir / "adapter/adapter_model.safetensors",
                   {{Prefix + ".lora_A.weight", {1, 2}, Down.data()},
                    {Prefix + ".lora_B.weight", {3, 1}, Up.data()}});
  AdapterInfo Info;
  Info.Rank = 1;
  Info.Alpha = 2;
  Info.Targets = {"q_proj"};
  writeFile(Dir / "adapter/adapter_config.json",
            formatAdapterConfig(Info, Dir / "base"));
  PoplarProgram NoParameters = Program;
  NoParameters.num_parameters = 0;
  PoplarModel Adapted = *Program.model;
  Adapted.lora_rank = Info.Rank;
  NoParameters.model = &Adapted;
  auto Merge = [&] {
    testing::internal::CaptureStdout();
    std::string Message;
    try {
      mergeRun(NoParameters, Dir / "base", Dir / "adapter", Dir / "out");
    } catch (const Error &E) {
      Message = E.what();
    }
    testing::internal::GetCapturedStdout();
    EXPECT_EQ(Message.find('\n'), std::string::npos) << Message;
    EXPECT_FALSE(fs::exists(Dir / "out.tmp"));
    if (Message.empty()) {
      TensorFiles Merged = TensorFiles::open(Dir / "out");
      EXPECT_EQ(Merged.tensors().size(), 1u);
    } else {
      EXPECT_NE(Message.find(Dir / ""), std::string::npos) << Message;
      EXPECT_FALSE(fs::exists(Dir / "out")) << Message;
    }
    fs::remove_all(Dir / "out");
    return Message.empty();
  };
  ASSERT_TRUE(Merge());
  Mutator Mutate(22);
  for (const char *Name :
       {"adapter/adapter_config.json", "adapter/adapter_model.safetensors",
        "base/model.safetensors"}) {
    std::string Good = readFile(Dir / Name);
    int Refused = 0;
    for (int I = 0; I < 100; ++I) {
      writeFile(Dir / Name, Mutate(Good));
      Refused += !Merge();
    }
    EXPECT_GT(Refused, 20) << Name;
    writeFile(Dir / Name, Good);
  }
  EXPECT_TRUE(Merge());
}

} // namespace
