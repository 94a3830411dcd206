//===- Diagnosis.cpp - What the ranks of a job will fail of ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Diagnosis.h"
#include "program/Executor.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

using namespace poplar::runtime;

/// Clocks this far apart make logs and checkpoints hard to put in order.
static constexpr double MostSkew = 1; // seconds

namespace {

class Diagnosis {
public:
  explicit Diagnosis(const std::vector<Facts> &All) : All(All) {}

  std::vector<Finding> Found;

  void check() {
    checkEachRank();
    checkMemory();
    checkCores();
    checkAlike("driver", "module");
    checkLibraries();
    checkEnvironment();
    checkNetwork();
    std::stable_partition(Found.begin(), Found.end(),
                          [](const Finding &F) { return F.Fatal; });
  }

private:
  std::string get(size_t Rank, const std::string &Key) const {
    return getFact(All[Rank], Key);
  }
  void add(bool Fatal, std::vector<int> Ranks, std::string Text,
           std::string Remedy) {
    Found.push_back(
        {Fatal, std::move(Ranks), std::move(Text), std::move(Remedy)});
  }

  /// Ranks by the value of a fact; those without it are left out.
  std::map<std::string, std::vector<int>> group(const std::string &Key) const {
    std::map<std::string, std::vector<int>> Groups;
    for (size_t R = 0; R < All.size(); ++R)
      if (std::string Value = get(R, Key); !Value.empty())
        Groups[Value].push_back(static_cast<int>(R));
    return Groups;
  }
  /// The most frequent value; of equally frequent ones, the lowest rank's.
  static std::string
  getUsual(const std::map<std::string, std::vector<int>> &Groups) {
    return std::max_element(Groups.begin(), Groups.end(),
                            [](const auto &A, const auto &B) {
                              return A.second.size() != B.second.size()
                                         ? A.second.size() < B.second.size()
                                         : A.second[0] > B.second[0];
                            })
        ->first;
  }

  void checkEachRank() {
    for (size_t R = 0; R < All.size(); ++R) {
      std::vector<int> Self = {static_cast<int>(R)};
      if (std::string Why = get(R, "error"); !Why.empty())
        add(true, Self, Why, "");
      if (std::string Missing = get(R, "missing"); !Missing.empty())
        add(true, Self,
            "its CPU has no " + Missing + ", which " + get(R, "type") +
                " is compiled for",
            "plan with a device type of this CPU (poplar cluster detect)");
      if (std::string Chip = get(R, "gpu_chip");
          !Chip.empty() && Chip != get(R, "chip"))
        add(false, Self,
            "its GPU is " + get(R, "gpu_chip") + ", and the program is for " +
                get(R, "chip") + ": the driver compiles the PTX at every start",
            "give the device type the target cuda:" + get(R, "gpu_chip"));
      if (std::string Peers = get(R, "no_peer"); !Peers.empty())
        add(false, Self,
            "its GPU cannot read the memory of those of ranks " + Peers +
                ": messages go through the host",
            "in a virtual machine, switch ACS off; nvidia-smi topo -p2p r "
            "shows details");
      if (double Skew = getNumber(All[R], "clock"); std::fabs(Skew) > MostSkew)
        add(false, Self,
            "its clock is " + formatSeconds(std::fabs(Skew)) +
                (Skew > 0 ? " ahead of" : " behind") + " that of rank 0",
            "synchronise it (chronyd or ntpd)");
    }
  }

  static std::string formatSeconds(double Seconds) {
    std::ostringstream Text;
    Text.precision(3);
    Text << Seconds << " s";
    return Text.str();
  }

  /// The memory that ranks need in total, where they share it.
  void checkMemory() {
    for (const auto &[Memory, Ranks] : group("memory")) {
      double Needed = 0, Free = 0;
      for (int R : Ranks) {
        Needed += getNumber(All[static_cast<size_t>(R)], "needed");
        Free = getNumber(All[static_cast<size_t>(R)], "free");
      }
      if (Free > 0 && Needed > Free)
        add(true, Ranks,
            "the plan needs " + formatBytes(static_cast<int64_t>(Needed)) +
                " of the " + Memory + ", of which " +
                formatBytes(static_cast<int64_t>(Free)) + " are free",
            "end what else uses it, or plan with less `memory`");
    }
  }

  void checkCores() {
    for (const auto &[Host, Ranks] : group("host")) {
      double Threads = 0, Cores = 0;
      for (int R : Ranks) {
        Threads += getNumber(All[static_cast<size_t>(R)], "threads");
        Cores =
            std::max(Cores, getNumber(All[static_cast<size_t>(R)], "cores"));
      }
      if (Cores > 0 && Threads > Cores)
        add(false, Ranks,
            "the plan gives them " + std::to_string(int(Threads)) +
                " threads, and " + Host + " lets them have " +
                std::to_string(int(Cores)) + " cores",
            "plan with the cores there are; mpirun needs --bind-to none");
    }
  }

  template <typename... Keys> void checkAlike(Keys... Names) {
    for (const char *Key : {Names...}) {
      auto Groups = group(Key);
      if (Groups.size() < 2)
        continue;
      std::string Usual = getUsual(Groups);
      for (const auto &[Value, Ranks] : Groups)
        if (Value != Usual)
          add(false, Ranks,
              "NVIDIA's driver is " + Value + ", that of most ranks " + Usual,
              "install the same driver everywhere");
    }
  }

  void checkLibraries() {
    auto Groups = group("library");
    for (const auto &[Reason, Ranks] : group("no_library")) {
      bool Demanded = std::any_of(Ranks.begin(), Ranks.end(), [&](int R) {
        return get(static_cast<size_t>(R), "comm") == "nccl";
      });
      add(Demanded, Ranks,
          "collectives go through the host's memory: " + Reason, "");
    }
    if (Groups.size() < 2)
      return;
    std::string Usual = getUsual(Groups);
    for (const auto &[Library, Ranks] : Groups)
      if (Library != Usual)
        add(false, Ranks,
            Library + " cannot share a communicator with the " + Usual +
                " of others: messages between them go through hosts",
            "install " + Usual + ", or name its directory in POPLAR_CUDA_PATH");
  }

  /// Variables that decide how ranks talk must be alike, or the first
  /// collective hangs; others may have their reasons.
  void checkEnvironment() {
    static const std::set<std::string> Decisive = {
        "NCCL_ALGO",          "NCCL_PROTO",      "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE",   "NCCL_NTHREADS",
        "NCCL_NVLS_ENABLE",   "NCCL_IB_DISABLE", "NCCL_NET",
        "NCCL_P2P_DISABLE",   "NCCL_CROSS_NIC",  "NCCL_COLLNET_ENABLE"};
    std::vector<std::map<std::string, std::string>> Variables;
    std::set<std::string> Names;
    std::vector<size_t> Ranks;
    for (size_t R = 0; R < All.size(); ++R) {
      if (get(R, "library").empty())
        continue;
      Ranks.push_back(R);
      Variables.emplace_back();
      std::istringstream List(get(R, "environment"));
      for (std::string One; std::getline(List, One, ';');) {
        size_t Equals = One.find('=');
        if (Equals == std::string::npos)
          continue;
        Names.insert(One.substr(0, Equals));
        Variables.back()[One.substr(0, Equals)] = One.substr(Equals + 1);
      }
    }
    for (const std::string &Name : Names) {
      std::map<std::string, std::vector<int>> Groups;
      for (size_t I = 0; I < Ranks.size(); ++I) {
        auto Found = Variables[I].find(Name);
        Groups[Found == Variables[I].end() ? "not set" : Found->second]
            .push_back(static_cast<int>(Ranks[I]));
      }
      if (Groups.size() < 2)
        continue;
      std::string Usual = getUsual(Groups);
      for (const auto &[Value, Culprits] : Groups)
        if (Value != Usual)
          add(Decisive.count(Name) != 0, Culprits,
              Name + " is " + Value + ", that of most ranks " + Usual,
              "set it alike for all ranks (mpirun -x, srun --export)");
    }
  }

  /// Interfaces that a variable names have to be there; and either all hosts
  /// have InfiniBand or what some have is of no use.
  void checkNetwork() {
    std::map<std::string, std::vector<int>> With;
    for (size_t R = 0; R < All.size(); ++R) {
      std::string Network = get(R, "network");
      if (!get(R, "library").empty())
        With[Network.find("infiniband:") == std::string::npos ? "no" : "yes"]
            .push_back(static_cast<int>(R));
      checkInterfaces(R, Network);
    }
    if (With.size() == 2 && group("host").size() > 1)
      add(false, With["no"],
          "there is no InfiniBand on its host, but on those of others",
          "ibstat shows whether its ports are up");
  }
  void checkInterfaces(size_t Rank, const std::string &Network) {
    std::istringstream List(get(Rank, "environment"));
    const std::string Name = "NCCL_SOCKET_IFNAME=";
    for (std::string One; std::getline(List, One, ';');) {
      if (One.compare(0, Name.size(), Name) != 0)
        continue;
      std::string Value = One.substr(Name.size());
      // ^ excludes; = is exact; several prefixes are separated by commas.
      if (Value.empty() || Value[0] == '^')
        return;
      std::istringstream Prefixes(Value[0] == '=' ? Value.substr(1) : Value);
      for (std::string Prefix; std::getline(Prefixes, Prefix, ',');)
        if ((" " + Network).find(" " + Prefix) != std::string::npos ||
            Prefix == "lo")
          return;
      add(true, {static_cast<int>(Rank)},
          One + ", but its host has only: " + Network,
          "name an interface that every host has");
    }
  }

  const std::vector<Facts> &All;
};

} // namespace

std::vector<Finding> poplar::runtime::diagnose(const std::vector<Facts> &All) {
  Diagnosis D(All);
  D.check();
  return D.Found;
}

std::string poplar::runtime::format(const Finding &F,
                                    const std::vector<Facts> &All) {
  std::string Text = F.Fatal ? "failed: " : "note: ";
  Text += F.Ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t I = 0; I < F.Ranks.size(); ++I)
    Text += (I ? ", " : "") + std::to_string(F.Ranks[I]);
  const Facts &First = All[static_cast<size_t>(F.Ranks[0])];
  if (F.Ranks.size() == 1)
    Text += " (" + getFact(First, "host") + ", " + getFact(First, "type") + ")";
  Text += ": " + F.Text;
  return F.Remedy.empty() ? Text : Text + "; " + F.Remedy;
}

std::string poplar::runtime::formatTable(const std::vector<Facts> &All) {
  std::vector<std::vector<std::string>> Rows = {
      {"rank", "host", "type", "device", "CUDA", "collectives", "needs", "free",
       "clock"}};
  for (size_t R = 0; R < All.size(); ++R) {
    const Facts &F = All[R];
    auto Bytes = [&](const char *Key) {
      double Value = getNumber(F, Key);
      return Value > 0 ? formatBytes(static_cast<int64_t>(Value)) : "?";
    };
    char Clock[32];
    std::snprintf(Clock, sizeof(Clock), "%+.1f ms",
                  getNumber(F, "clock") * 1e3);
    auto Or = [](std::string Text, const char *Otherwise) {
      return Text.empty() ? std::string(Otherwise) : Text;
    };
    Rows.push_back({std::to_string(R), getFact(F, "host"), getFact(F, "type"),
                    Or(getFact(F, "device"), "?"),
                    Or(getFact(F, "driver"), "-"),
                    Or(getFact(F, "library"), "host"), Bytes("needed"),
                    Bytes("free"), Clock});
  }
  std::vector<size_t> Widths(Rows[0].size());
  for (const auto &Row : Rows)
    for (size_t I = 0; I < Row.size(); ++I)
      Widths[I] = std::max(Widths[I], Row[I].size());
  std::string Text;
  for (const auto &Row : Rows) {
    std::string Line;
    for (size_t I = 0; I < Row.size(); ++I)
      Line += Row[I] + std::string(Widths[I] - Row[I].size() + 2, ' ');
    Text += Line.substr(0, Line.find_last_not_of(' ') + 1) + "\n";
  }
  return Text;
}
