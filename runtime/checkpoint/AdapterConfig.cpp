//===- AdapterConfig.cpp - adapter_config.json of PEFT --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Adapter.h"
#include "checkpoint/Safetensors.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

using namespace poplar::runtime;
namespace fs = std::filesystem;

/// As short as can be read back.
static std::string formatNumber(double Value) {
  char Buffer[32];
  for (int Digits = 6; Digits <= 17; ++Digits) {
    std::snprintf(Buffer, sizeof(Buffer), "%.*g", Digits, Value);
    if (std::stod(Buffer) == Value)
      break;
  }
  return Buffer;
}

static std::string formatList(const std::vector<std::string> &Names) {
  std::string Text;
  for (const std::string &Name : Names)
    Text += (Text.empty() ? "" : ", ") + json::quote(Name);
  return "[" + Text + "]";
}

/// The names; of a part of a larger model an expression, because other parts
/// have modules of the same names.
static std::string formatTargets(const AdapterInfo &Info) {
  if (!Info.IsMultimodal)
    return formatList(Info.Targets);
  std::string List;
  for (const std::string &Target : Info.Targets) {
    List += List.empty() ? "" : "|";
    for (char C : Target)
      List += C == '.' ? "\\." : std::string(1, C);
  }
  return json::quote(".*\\.language_model\\..*\\.(" + List + ")");
}

std::string poplar::runtime::formatAdapterConfig(const AdapterInfo &Info,
                                                 const std::string &Base) {
  auto GetFlag = [](bool Flag) { return Flag ? "true" : "false"; };
  return "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": " +
         std::string(Info.Masked ? "null" : "\"CAUSAL_LM\"") +
         ",\n  \"base_model_name_or_path\": " +
         (Base.empty() ? "null" : json::quote(Base)) +
         ",\n  \"r\": " + std::to_string(Info.Rank) +
         ",\n  \"lora_alpha\": " + formatNumber(Info.Alpha) +
         ",\n  \"lora_dropout\": " + formatNumber(Info.Dropout) +
         ",\n  \"target_modules\": " + formatTargets(Info) +
         ",\n  \"fan_in_fan_out\": " + GetFlag(Info.InOut) +
         ",\n  \"bias\": \"none\",\n  \"use_rslora\": false,\n  \"use_dora\": "
         "false,\n  \"modules_to_save\": " +
         (Info.Saved.empty() ? "null" : formatList(Info.Saved)) +
         ",\n  \"inference_mode\": true\n}\n";
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

/// Members that are read below.
static constexpr const char *ReadMembers[] = {"peft_type",
                                              "task_type",
                                              "base_model_name_or_path",
                                              "r",
                                              "lora_alpha",
                                              "lora_dropout",
                                              "target_modules",
                                              "exclude_modules",
                                              "modules_to_save",
                                              "fan_in_fan_out",
                                              "init_lora_weights",
                                              "bias"};

/// Members that change nothing about what an adapter of PEFT computes: facts
/// about files, and parameters of methods that other members switch on.
static constexpr const char *NeutralMembers[] = {
    "auto_mapping",   "peft_version",   "revision",      "inference_mode",
    "runtime_config", "megatron_core",  "loftq_config",  "eva_config",
    "corda_config",   "lora_ga_config", "merge_weights", "qalora_group_size"};

/// Values of init_lora_weights that are of no effect once there are weights.
/// The others change the weights of the base model when PEFT adds the adapter
/// (pissa, olora, corda, loftq, lora_ga), or what is trained of it (mica).
static constexpr const char *PlainInits[] = {"gaussian", "eva", "orthogonal"};

template <size_t N>
static bool contains(const char *const (&List)[N], std::string_view Name) {
  return std::find(List, List + N, Name) != List + N;
}

/// Whether a member asks for something.
static bool isSet(const json::Value &Value) {
  switch (Value.kind()) {
  case json::Value::Null:
    return false;
  case json::Value::Boolean:
    return Value.asBool();
  case json::Value::Array:
    return !Value.elements().empty();
  case json::Value::Object:
    return !Value.members().empty();
  default:
    return true;
  }
}

/// Values of init_lora_weights in capital letters mean the same to PEFT.
static std::string toLower(std::string_view Text) {
  std::string Result(Text);
  for (char &C : Result)
    if (C >= 'A' && C <= 'Z')
      C = static_cast<char>(C - 'A' + 'a');
  return Result;
}

namespace {
/// adapter_config.json, whose members are all known, and do not ask for more
/// than LoRA.
class ConfigReader {
public:
  explicit ConfigReader(const std::string &Directory)
      : Path(Directory + "/" + AdapterConfigName) {
    std::error_code Code;
    if (!fs::exists(Path, Code))
      fail("'", Directory, "' holds no adapter: there is no ",
           AdapterConfigName);
    MappedFile File(Path);
    Config = json::parse(File.text(), "'" + Path + "'");
    if (Config.kind() != json::Value::Object)
      fail("'", Path, "': expected an object");
  }

  const json::Value &root() const { return Config; }

  AdapterInfo read() const {
    if (std::string Type = getText("peft_type", "LORA"); Type != "LORA")
      refuse("peft_type is " + Type);
    checkMembers();
    checkInit();
    if (std::string Bias = getText("bias", "none"); Bias != "none")
      refuse("bias is " + Bias);
    if (std::string Task = getText("task_type", "CAUSAL_LM");
        Task != "CAUSAL_LM" && Task != "FEATURE_EXTRACTION")
      refuse("task_type is " + Task);
    AdapterInfo Info;
    Info.Rank = Config.integer("r", 0);
    Info.Alpha = Config.number("lora_alpha", 0);
    if (Info.Rank < 1 || !(Info.Alpha > 0))
      fail("'", Path, "' lacks r or lora_alpha, numbers above 0");
    Info.Dropout = getNumber("lora_dropout");
    if (!(Info.Dropout >= 0 && Info.Dropout <= 1))
      fail("'", Path, "': lora_dropout is no number from 0 to 1");
    Info.InOut = getFlag("fan_in_fan_out");
    readTargets(Info);
    return Info;
  }

private:
  [[noreturn]] void refuse(const std::string &What) const {
    fail("'", Path, "': ", What,
         ", which is not supported: adapters are LoRA with one rank and one "
         "alpha, and without trained biases; PEFT's merge_and_unload makes "
         "such an adapter part of its model");
  }

  /// The value of a member that is there and not null.
  const json::Value *find(std::string_view Name) const {
    const json::Value *Found = Config.find(Name);
    return Found && Found->kind() != json::Value::Null ? Found : nullptr;
  }

  void expect(std::string_view Name, const json::Value &Value,
              json::Value::Kind Kind, const char *What) const {
    if (Value.kind() != Kind)
      fail("'", Path, "': ", Name, " is no ", What);
  }

  std::string getText(std::string_view Name, const char *Default) const {
    const json::Value *Found = find(Name);
    if (!Found)
      return Default;
    expect(Name, *Found, json::Value::String, "string");
    return std::string(Found->asString());
  }

  bool getFlag(std::string_view Name) const {
    const json::Value *Found = find(Name);
    if (!Found)
      return false;
    expect(Name, *Found, json::Value::Boolean, "true or false");
    return Found->asBool();
  }

  double getNumber(std::string_view Name) const {
    const json::Value *Found = find(Name);
    if (!Found)
      return 0;
    expect(Name, *Found, json::Value::Number, "number");
    return Found->asDouble();
  }

  std::vector<std::string> getList(std::string_view Name) const {
    std::vector<std::string> Result;
    const json::Value *Found = find(Name);
    if (!Found)
      return Result;
    expect(Name, *Found, json::Value::Array, "list of names");
    for (const json::Value &Each : Found->elements()) {
      expect(Name, Each, json::Value::String, "list of names");
      Result.emplace_back(Each.asString());
    }
    return Result;
  }

  /// Members of later versions of PEFT, and those of methods that are not
  /// supported, may be there as long as they ask for nothing.
  void checkMembers() const {
    for (const auto &[Name, Value] : Config.members())
      if (!contains(ReadMembers, Name) && !contains(NeutralMembers, Name) &&
          isSet(Value))
        refuse(Name + " is set");
  }

  void checkInit() const {
    const json::Value *Init = find("init_lora_weights");
    if (!Init || Init->kind() == json::Value::Boolean)
      return;
    expect("init_lora_weights", *Init, json::Value::String,
           "true, false or string");
    std::string Name = toLower(Init->asString());
    if (contains(PlainInits, Name))
      return;
    fail("'", Path, "': init_lora_weights is ", Init->asString(),
         ", which is not supported: PEFT may change the model's own weights "
         "when it adds such an adapter (true, false, gaussian, eva and "
         "orthogonal are supported); save it with PEFT's save_pretrained(..., "
         "path_initial_model_for_weight_conversion=...), or make it part of "
         "its model by merge_and_unload");
  }

  /// Names of modules, or a string: an expression, or all-linear.
  void readTargets(AdapterInfo &Info) const {
    const json::Value *Targets = find("target_modules");
    if (!Targets)
      fail("'", Path, "' lacks target_modules, which PEFT would choose itself");
    if (Targets->kind() != json::Value::String)
      Info.Targets = getList("target_modules");
    Info.Excluded = getList("exclude_modules");
    Info.Saved = getList("modules_to_save");
    std::sort(Info.Saved.begin(), Info.Saved.end());
  }

  std::string Path;
  json::Value Config;
};
} // namespace

AdapterInfo poplar::runtime::readAdapterConfig(const std::string &Directory) {
  return ConfigReader(Directory).read();
}

std::string poplar::runtime::readAdapterBase(const std::string &Directory) {
  return ConfigReader(Directory).root().string("base_model_name_or_path", "");
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Whether one of the names is that of a module, or its last components.
static bool matchesAny(const std::vector<std::string> &Names,
                       const std::string &Module) {
  return std::any_of(Names.begin(), Names.end(), [&](const std::string &Name) {
    return Module == Name ||
           (Module.size() > Name.size() &&
            Module.substr(Module.size() - Name.size() - 1) == "." + Name);
  });
}

std::string poplar::runtime::getAdaptedModule(const std::string &Tensor) {
  for (std::string_view End : {".lora_A.weight", ".lora_B.weight"}) {
    size_t Size = std::max(Tensor.size(), End.size()) - End.size();
    if (Tensor.compare(Size, End.size(), End) == 0)
      return Tensor.substr(0, Size);
  }
  return "";
}

TensorFiles poplar::runtime::openAdapter(const AdapterInfo &Info,
                                         const std::string &Directory) {
  std::string Path = Directory + "/" + AdapterWeightsName;
  std::error_code Code;
  if (!fs::exists(Path, Code) && fs::exists(Directory + "/adapter_model.bin"))
    fail("'", Directory, "' has its weights in adapter_model.bin and no ",
         AdapterWeightsName,
         ", the only file that can be read; PeftModel.from_pretrained followed "
         "by "
         "save_pretrained of PEFT writes it");
  TensorFiles Files = TensorFiles::open(Path);
  for (const auto &Entry : Files.tensors()) {
    std::string Module = getAdaptedModule(Entry.first);
    bool IsLeftOut = (!Info.Targets.empty() && !Module.empty() &&
                      !matchesAny(Info.Targets, Module)) ||
                     matchesAny(Info.Excluded, Module);
    if (IsLeftOut)
      fail("'", Path, "': tensor '", Entry.first,
           "' is of a module that target_modules and exclude_modules of ",
           AdapterConfigName, " leave out");
  }
  return Files;
}

/// The name of a module without the numbers of layers and experts.
static std::string dropNumbers(const std::string &Module) {
  std::string Result;
  for (size_t Begin = 0; Begin <= Module.size();) {
    size_t End = std::min(Module.find('.', Begin), Module.size());
    std::string Part = Module.substr(Begin, End - Begin);
    if (Part.find_first_not_of("0123456789") != std::string::npos)
      Result += "." + Part;
    Begin = End + 1;
  }
  return Result;
}

static std::string join(const std::vector<std::string> &Names) {
  std::string Result;
  for (const std::string &Name : Names)
    Result += (Result.empty() ? "" : ",") + Name;
  return Result;
}

/// Whether modules are of one model, by the names around them.
static bool haveCommonStem(const std::set<std::string> &Kinds,
                           const std::set<std::string> &Others) {
  // ".base_model.model.model.layers" of ".base_model.model.model.layers.self".
  auto GetStem = [](const std::string &Kind) {
    size_t End = 0;
    for (int I = 0; I < 4 && End != std::string::npos; ++I)
      End = Kind.find('.', End + 1);
    return Kind.substr(0, End);
  };
  std::set<std::string> Stems;
  for (const std::string &Other : Others)
    Stems.insert(GetStem(Other));
  return std::any_of(Kinds.begin(), Kinds.end(), [&](const std::string &Kind) {
    return Stems.count(GetStem(Kind)) > 0;
  });
}

/// The names of --lora-targets for what a file adapts: the components behind
/// the last dot, or those behind the one before it where they tell modules of
/// the model apart.
static std::vector<std::string>
chooseTargets(const std::set<std::string> &Kinds,
              const std::set<std::string> &Others) {
  std::set<std::string> Names;
  for (const std::string &Kind : Kinds) {
    size_t Dot = Kind.rfind('.');
    std::string Name = Kind.substr(Dot + 1);
    for (const std::string &Other : Others)
      if (!Kinds.count(Other) && matchesAny({Name}, Other) && Dot > 0)
        Name = Kind.substr(Kind.rfind('.', Dot - 1) + 1);
    Names.insert(Name);
  }
  return {Names.begin(), Names.end()};
}

void poplar::runtime::checkAdapterConfig(
    const AdapterInfo &Info, const AdapterInfo &Given, const TensorFiles &Files,
    const std::vector<std::string> &Tensors, const std::string &Directory) {
  std::string Theirs, Ours, Options;
  auto Differ = [&](const std::string &What, const std::string &There,
                    const std::string &Here, const std::string &Option) {
    Theirs += (Theirs.empty() ? "" : " and ") + What + " " + There;
    Ours += (Ours.empty() ? "" : " and ") + What + " " + Here;
    Options += " " + Option + (There == "none" ? "" : " " + There);
  };
  if (Given.Rank != Info.Rank)
    Differ("rank", std::to_string(Given.Rank), std::to_string(Info.Rank),
           "--lora-rank");
  if (Given.Alpha != Info.Alpha)
    Differ("lora_alpha", formatNumber(Given.Alpha), formatNumber(Info.Alpha),
           "--lora-alpha");
  std::set<std::string> Kinds, Others;
  for (const auto &Entry : Files.tensors())
    if (std::string Module = getAdaptedModule(Entry.first); !Module.empty())
      Kinds.insert(dropNumbers(Module));
  for (const std::string &Tensor : Tensors)
    if (std::string Module = getAdaptedModule(Tensor); !Module.empty())
      Others.insert(dropNumbers(Module));
  std::vector<std::string> Targets = Given.Targets;
  std::sort(Targets.begin(), Targets.end());
  if (Targets.empty() || !Given.Excluded.empty())
    Targets = chooseTargets(Kinds, Others);
  // The tensors of another model are told apart one by one.
  if (Kinds != Others && haveCommonStem(Kinds, Others))
    Differ("the targets", join(Targets), join(Info.Targets), "--lora-targets");
  if (Given.Saved != Info.Saved) {
    Differ("modules_to_save", Given.Saved.empty() ? "none" : join(Given.Saved),
           Info.Saved.empty() ? "none" : join(Info.Saved),
           Given.Saved.empty() ? "no --lora-modules-to-save"
                               : "--lora-modules-to-save");
  }
  if (!Options.empty())
    fail("the adapter in '", Directory, "' has ", Theirs,
         ", but the program's have ", Ours, "; import the model with", Options);
}
