//===- ModelKeys.cpp - The model, its tokenizer and its adapters ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"
#include "ModelDirectory.h"
#include "Poplar/Recipe/ModelTokens.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <charconv>
#include <cmath>

using namespace poplar;

std::string poplar::formatNumber(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

/// Keys of which a recipe has one, if they are not 0.
static constexpr std::pair<const char *, const char *> kExclusive[] = {
    {"batch_size", "gradient_accumulation_steps"},
    {"warmup_steps", "warmup_ratio"},
    {"evals_per_epoch", "eval_steps"},
    {"saves_per_epoch", "save_steps"},
    {"val_set_size", "test_datasets"}};

/// Whether the file has the key, and neither 0 nor false.
static const RecipeEntry *findGiven(const Translator &t, const char *key) {
  const RecipeEntry *entry = t.top().find(key);
  bool isZero =
      entry && entry->node &&
      (entry->text == "false" || (entry->node->kind == yaml::Content::Scalar &&
                                  (entry->rule->kind == Kind::Integer ||
                                   entry->rule->kind == Kind::Number) &&
                                  t.top().getNumber(key) == 0));
  return entry && entry->node && !isZero ? entry : nullptr;
}

void poplar::checkRecipe(Translator &t) {
  for (const char *key : {"base_model", "learning_rate"})
    if (!t.top().find(key))
      t.fail({1, 1}, std::string("the recipe has no ") + key);
  if (!t.top().find("datasets") && !t.top().find("pretraining_dataset"))
    t.fail({1, 1}, "the recipe has no datasets");
  for (auto [first, second] : kExclusive)
    if (const RecipeEntry *one = findGiven(t, first),
        *other = findGiven(t, second);
        one && other)
      t.fail(std::max(one->place.line, other->place.line) == one->place.line
                 ? one->place
                 : other->place,
             std::string(first) + " and " + second +
                 " exclude each other, as in axolotl; remove one");
  if (int(findGiven(t, "micro_batch_size") != nullptr) +
          int(findGiven(t, "gradient_accumulation_steps") != nullptr) +
          int(findGiven(t, "batch_size") != nullptr) <
      2)
    t.fail({1, 1}, "the recipe has to say micro_batch_size and one of "
                   "gradient_accumulation_steps and batch_size");
}

void poplar::decideModel(Translator &t, const RecipeEntry &entry) {
  std::string directory = t.getModelDirectory();
  if (directory.empty())
    t.refuse(entry, "there is no such directory, and the Hugging Face cache "
                    "has no such model; `hf download " +
                        entry.text +
                        " --local-dir DIR` gets it: give DIR here");
  else
    t.accept(entry, directory);
}

void poplar::decideRevision(Translator &t, const RecipeEntry &entry) {
  std::string model = t.top().getText("base_model").str(),
              directory = t.getModelDirectory();
  if (directory == model)
    t.ignore(entry, "a directory holds one revision");
  else if (directory.empty())
    t.refuse(entry, "`hf download " + model + " --revision " + entry.text +
                        " --local-dir DIR` gets it: give DIR as base_model");
  else
    t.accept(entry, "the snapshot of this revision");
}

void poplar::decideModelType(Translator &t, const RecipeEntry &entry) {
  if (llvm::StringRef(entry.text).ends_with("ForCausalLM"))
    t.ignore(entry, "config.json of the model says what it is");
  else
    t.refuse(entry, "only causal language models are trained; leave it out if "
                    "the model is one");
}

void poplar::decideTokenizerType(Translator &t, const RecipeEntry &entry) {
  llvm::StringRef name = entry.text;
  if (name.ends_with("Tokenizer") || name.ends_with("TokenizerFast"))
    t.ignore(entry, "the tokenizer beside the model is read");
  else
    t.refuse(entry, "the tokenizer beside the model is read; leave it out");
}

void poplar::decideSameModel(Translator &t, const RecipeEntry &entry) {
  if (entry.text == t.top().getText("base_model"))
    t.ignore(entry, "the same as base_model");
  else
    t.refuse(entry, "the configuration and the tokenizer are read from "
                    "base_model; put the files there");
}

/// Whether a value of YAML is one of JSON.
static bool isSame(const yaml::Content &value, llvm::StringRef json) {
  if (value.kind != yaml::Content::Scalar || json.empty())
    return false;
  if (json.starts_with("\""))
    return json == "\"" + value.text + "\"";
  double ours = 0, theirs = 0;
  bool areNumbers = !llvm::StringRef(value.text).getAsDouble(ours) &&
                    !json.getAsDouble(theirs);
  return areNumbers ? ours == theirs : json.equals_insensitive(value.text);
}

static bool isBalance(llvm::StringRef key) {
  return key == "router_aux_loss_coef" || key == "output_router_logits";
}

static bool hasExperts(const std::string &directory) {
  if (directory.empty())
    return false;
  std::string type = readModelType(directory);
  bool found = type == "mixtral" || llvm::StringRef(type).contains("moe");
  for (const char *key :
       {"num_experts", "num_local_experts", "n_routed_experts"})
    found |= !readConfigValue(directory, key).empty();
  return found;
}

/// The coefficient of the loss that balances experts by the values given, else
/// by config.json, else by transformers; 0 for none.
static double getBalance(Translator &t, const RecipeEntry &entry,
                         const yaml::Content *flag,
                         const yaml::Content *number) {
  auto choose = [&](const yaml::Content *given, const char *key,
                    const char *implied) {
    std::string text = given ? llvm::StringRef(given->text).lower()
                             : readConfigValue(t.getModelDirectory(), key);
    return text.empty() ? implied : text;
  };
  std::string isOn = choose(flag, "output_router_logits", "false");
  std::string coefficient = choose(number, "router_aux_loss_coef", "0.001");
  double value = 0;
  if (isOn != "true" && isOn != "false")
    t.fail(entry,
           "output_router_logits: expected true or false, found " + isOn);
  else if (llvm::StringRef(coefficient).getAsDouble(value) ||
           !(value >= 0 && std::isfinite(value)))
    t.fail(entry, "router_aux_loss_coef: expected a number of 0 or more, "
                  "found " +
                      coefficient);
  return isOn == "true" ? value : 0;
}

/// Why a member of model_config asks for nothing; empty if it asks for
/// something.
static std::string explainHarmless(const Translator &t,
                                   const yaml::Member &member) {
  std::string directory = t.getModelDirectory();
  if (directory.empty())
    return "";
  if (isSame(member.value, readConfigValue(directory, member.key)))
    return "config.json says the same";
  if (!isBalance(member.key))
    return "";
  // What a recipe changes is an option.
  return hasExperts(directory) ? "the loss that balances experts is as before"
                               : "the model has no experts to balance";
}

void poplar::decideModelConfig(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  double before = 0, balance = 0;
  if (hasExperts(t.getModelDirectory())) {
    before = getBalance(t, entry, nullptr, nullptr);
    balance = getBalance(t, entry, entry.node->find("output_router_logits"),
                         entry.node->find("router_aux_loss_coef"));
  }
  std::string reasons;
  for (const yaml::Member &member : entry.node->members) {
    if (std::string reason = explainHarmless(t, member); !reason.empty()) {
      reasons += (reasons.empty() ? "" : "; ") + member.key + ": " + reason;
      continue;
    }
    t.refuse(entry, isBalance(member.key)
                        ? "what changes depends on config.json of the model"
                        : member.key + ": change config.json of the model, and "
                                       "remove it");
    return;
  }
  if (balance != 0 && !getPreference(t).empty())
    t.refuse(entry, "pairs are scored without the loss that balances experts; "
                    "remove output_router_logits");
  else if (balance != before)
    t.honour(entry, "--router-aux-loss-coef", formatNumber(balance));
  else
    t.ignore(entry, reasons.empty() ? "nothing is changed" : reasons);
}

/// Experts in MXFP4 are read, as transformers does with `dequantize: true`.
void poplar::decidePackedExperts(Translator &t, const RecipeEntry &entry) {
  const RecipeEntry *more = t.top().find("model_quantization_config_kwargs");
  const yaml::Content *flag = more ? more->node->find("dequantize") : nullptr;
  bool isRead = readModelType(t.getModelDirectory()) == "gpt_oss" &&
                t.top().getText("model_quantization_config") == "Mxfp4Config" &&
                flag && llvm::StringRef(flag->text).lower() == "true" &&
                more->node->members.size() == 1;
  if (isRead)
    t.ignore(entry, "experts in MXFP4 are read, and trained in the format of "
                    "the job");
  else
    t.refuse(entry, kQuantized);
}

std::vector<std::string> poplar::listTexts(const RecipeEntry &entry) {
  if (entry.node->kind != yaml::Content::List)
    return {entry.text};
  std::vector<std::string> texts;
  for (const yaml::Content &element : entry.node->elements)
    texts.push_back(element.text);
  return texts;
}

static bool hasAdapter(const Translator &t) {
  return t.top().find("adapter")->node != nullptr;
}

static constexpr const char *kRoundedTo32 = "resize_token_embeddings_to_32x";

/// The tokens that a recipe changes.
static TokenChanges collectTokens(const Translator &t) {
  TokenChanges changes;
  if (const RecipeEntry *special = t.top().find("special_tokens"))
    if (llvm::StringRef end = getText(*special->node, "eos_token");
        end != readSpecialToken(t.getModelDirectory(), "eos_token"))
      changes.endToken = end.str();
  if (const RecipeEntry *tokens = t.top().find("tokens"))
    changes.added = listTexts(*tokens);
  if (t.top().isTrue(kRoundedTo32))
    changes.rowMultiple = 32;
  return changes;
}

/// Whether the embedding gets rows.
static bool addsRows(const Translator &t) {
  std::string directory = t.getModelDirectory();
  TokenChanges changes = collectTokens(t);
  return !directory.empty() && !changes.isEmpty() &&
         checkTokens(directory, changes).empty() &&
         countNewRows(directory, changes) > 0;
}

/// Whether both the embedding and the head are trained, by the names that
/// axolotl wants. It fails otherwise where tokens change beside an adapter:
/// rows of new tokens would stay as they are.
static bool trainsRows(const Translator &t) {
  const RecipeEntry *saved = t.top().find("lora_modules_to_save");
  std::vector<std::string> names =
      saved ? listTexts(*saved) : std::vector<std::string>();
  bool isNeoX = readModelType(t.getModelDirectory()) == "gpt_neox";
  return llvm::is_contained(names, isNeoX ? "embed_in" : "embed_tokens") &&
         llvm::is_contained(names, isNeoX ? "embed_out" : "lm_head");
}

/// Why tokens cannot be changed as the recipe wants it; empty if they can.
static std::string checkChanges(const Translator &t,
                                const TokenChanges &changes) {
  std::string directory = t.getModelDirectory();
  if (directory.empty())
    return "the model is not there to compare the tokens with its tokenizer";
  if (std::string why = checkTokens(directory, changes); !why.empty())
    return why;
  bool hasNewEnd =
      !changes.endToken.empty() && !hasToken(directory, changes.endToken);
  if (hasAdapter(t) && !trainsRows(t) && (hasNewEnd || !changes.added.empty()))
    return "rows of new tokens are trained beside an adapter only with "
           "lora_modules_to_save: [embed_tokens, lm_head], which axolotl "
           "demands, too (of gpt_neox: [embed_in, embed_out])";
  return "";
}

void poplar::decideTokens(Translator &t, const RecipeEntry &entry) {
  std::vector<std::pair<std::string, std::string>> options;
  for (const std::string &token : listTexts(entry)) {
    if (token.empty()) {
      t.fail(entry, "expected tokens, found " + entry.node->describe());
      return;
    }
    options.emplace_back("--add-token", token);
  }
  if (options.empty())
    t.ignore(entry, "no token is added");
  else if (std::string why = checkChanges(t, collectTokens(t)); !why.empty())
    t.refuse(entry, why);
  else
    t.honour(entry, options);
}

void poplar::decideSpecialTokens(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  std::string directory = t.getModelDirectory();
  bool changesEnd = false;
  for (const yaml::Member &member : entry.node->members) {
    // Padding never counts, and is not looked at.
    if (member.key == "pad_token" || member.value.kind == yaml::Content::Null)
      continue;
    if (directory.empty()) {
      t.refuse(entry, "the model is not there to compare " + member.key +
                          " with that of its tokenizer");
      return;
    }
    std::string known = readSpecialToken(directory, member.key);
    if (member.key == "eos_token" && known != member.value.text &&
        member.value.kind == yaml::Content::Scalar &&
        !member.value.text.empty()) {
      changesEnd = true;
      continue;
    }
    if (known.empty() || known != member.value.text) {
      t.refuse(entry,
               member.key + " of the tokenizer is " +
                   (known.empty() ? "not set" : known) +
                   ", and tokens are not changed here; leave it out, or save a "
                   "tokenizer that has it beside the model, by save_pretrained "
                   "of transformers");
      return;
    }
  }
  TokenChanges changes = collectTokens(t);
  if (!changesEnd)
    t.ignore(entry, "as the tokenizer has them; padding does not count");
  else if (std::string why = checkChanges(t, changes); !why.empty())
    t.refuse(entry, why);
  else
    t.honour(entry, "--eos-token", changes.endToken);
}

void poplar::decideRounding(Translator &t, const RecipeEntry &entry) {
  std::string directory = t.getModelDirectory();
  TokenChanges changes = collectTokens(t);
  int64_t multiple = changes.rowMultiple, rows = readVocabularySize(directory);
  std::string why = directory.empty() ? "the model is not there"
                                      : checkTokens(directory, changes);
  if (multiple == 0)
    t.ignore(entry, "rows are added as tokens need them");
  else if (why.empty() && countNewRows(directory, changes) > 0)
    t.honour(entry, "--embedding-multiple", std::to_string(multiple));
  else if (why.empty() || (changes.added.empty() && changes.endToken.empty() &&
                           rows > 0 && rows % multiple == 0))
    // axolotl only adds rows, where there are fewer than tokens.
    t.ignore(entry, "the embedding has " + std::to_string(rows) +
                        " rows, which are enough");
  else
    t.refuse(entry, why);
}

void poplar::decideNewRows(Translator &t, const RecipeEntry &entry) {
  if (addsRows(t))
    t.honour(entry, "--new-rows", entry.text == "true" ? "mean" : "random");
  else if (entry.node)
    t.ignore(entry, "the embedding gets no rows");
}

/// Handles a key that is for adapters; false if there are none.
static bool needsAdapter(Translator &t, const RecipeEntry &entry) {
  if (hasAdapter(t))
    return true;
  t.ignore(entry, "without an adapter, all weights are trained");
  return false;
}

void poplar::decideAdapter(Translator &t, const RecipeEntry &entry) {
  if (!entry.node) {
    const RecipeEntry *unfrozen = t.top().find("unfrozen_parameters");
    if (!unfrozen || listTexts(*unfrozen).empty())
      t.honour(entry, "--full");
    return;
  }
  bool isQuantized = entry.text == "qlora";
  if (entry.text != "lora" && !isQuantized) {
    t.refuse(entry, "the adapters are lora and qlora");
    return;
  }
  for (const char *key : {"lora_r", "lora_alpha"})
    if (!t.top().find(key)) {
      t.fail(entry, std::string(key) + " is missing");
      return;
    }
  if (!t.top().find("lora_target_modules") &&
      !t.top().isTrue("lora_target_linear") &&
      !t.top().find("lora_target_parameters"))
    t.fail(entry, "lora_target_modules is missing, or lora_target_linear: true "
                  "for all linear layers");
  else if (isQuantized && !t.top().isTrue("load_in_4bit"))
    t.fail(entry, "qlora needs load_in_4bit: true");
  else if (isQuantized && t.top().isTrue("load_in_8bit"))
    t.fail(entry, "qlora and load_in_8bit exclude each other");
  else if (!isQuantized && t.top().isTrue("load_in_4bit"))
    t.refuse(entry, "axolotl quantises to 4 bits for qlora alone; write "
                    "adapter: qlora, or load_in_4bit: false");
  else
    t.honour(entry, "--lora-rank", t.top().getText("lora_r"));
}

void poplar::decideRank(Translator &t, const RecipeEntry &entry) {
  if (needsAdapter(t, entry))
    t.honour(entry, "--lora-rank", entry.text);
}

/// Poplar divides alpha by the rank. Rank-stabilised LoRA divides it by the
/// root of the rank.
static std::string getAlpha(const Translator &t) {
  if (!t.top().isTrue("peft_use_rslora"))
    return t.top().getText("lora_alpha").str();
  return formatNumber(t.top().getNumber("lora_alpha") *
                      std::sqrt(t.top().getNumber("lora_r")));
}

void poplar::decideAlpha(Translator &t, const RecipeEntry &entry) {
  if (needsAdapter(t, entry))
    t.honour(entry, "--lora-alpha", getAlpha(t));
}

void poplar::decideStabilised(Translator &t, const RecipeEntry &entry) {
  if (!needsAdapter(t, entry))
    return;
  if (entry.text == "true")
    t.accept(entry, "--lora-alpha " + getAlpha(t) +
                        ", which is lora_alpha times the root of the rank");
  else
    t.ignore(entry, "alpha is divided by the rank");
}

void poplar::decideAdapterDropout(Translator &t, const RecipeEntry &entry) {
  if (!needsAdapter(t, entry))
    return;
  if (getPreference(t).empty())
    t.honour(entry, "--lora-dropout", entry.text);
  else
    t.ignore(entry, "trl turns dropout off when it trains on pairs");
}

/// Names of modules that a list adapts beside linear layers.
static bool isEmbedding(llvm::StringRef name) {
  return name.contains("embed") || name.contains("head") ||
         name.contains("wte");
}

/// The first of some names of modules by which PEFT adapts experts; empty if
/// there is none. In these families it takes the names of linear layers for
/// those of experts, wherever they are (_MODEL_TO_CONVERSION_PATTERN).
static std::string findExpertName(const Translator &t,
                                  llvm::ArrayRef<std::string> names) {
  if (t.getModelDirectory().empty())
    return "";
  std::string type = readModelType(t.getModelDirectory());
  std::vector<llvm::StringRef> taken;
  if (type == "mixtral")
    taken = {"w1", "w2", "w3"};
  else if (type == "qwen3_moe" || type == "qwen3_next" || type == "deepseek_v2")
    taken = {"gate_proj", "up_proj", "down_proj"};
  auto found = llvm::find_if(names, [&](const std::string &name) {
    return llvm::is_contained(taken,
                              llvm::StringRef(name).rsplit('.').second) ||
           llvm::is_contained(taken, name);
  });
  return found == names.end() ? "" : *found;
}

void poplar::decideTargets(Translator &t, const RecipeEntry &entry) {
  if (!needsAdapter(t, entry))
    return;
  if (entry.text == "false" && entry.rule->kind == Kind::Flag) {
    t.ignore(entry, "lora_target_modules names the modules");
    return;
  }
  const RecipeEntry *modules = t.top().find("lora_target_modules");
  std::vector<std::string> names;
  if (modules && modules->node->kind == yaml::Content::List)
    for (const yaml::Content &element : modules->node->elements)
      names.push_back(element.text);
  bool isLinear = t.top().isTrue("lora_target_linear") ||
                  (modules && modules->text == "all-linear");
  // A text is a regular expression; beside all linear layers, it is a name.
  if (modules && names.empty() && !isLinear) {
    t.honour(entry, "--lora-target-pattern", modules->text);
    return;
  }
  if (isLinear && llvm::any_of(names, isEmbedding)) {
    t.refuse(entry, "embeddings and heads have no adapters; leave them out of "
                    "lora_target_modules");
    return;
  }
  if (std::string name = findExpertName(t, names); !isLinear && !name.empty()) {
    t.refuse(entry, "PEFT adapts the experts of this model by the name " +
                        name + ", and experts have no adapters; leave it out");
    return;
  }
  t.honour(entry, "--lora-targets",
           isLinear ? "all-linear" : llvm::join(names, ","));
}

void poplar::decideSavedModules(Translator &t, const RecipeEntry &entry) {
  std::vector<std::string> names = listTexts(entry);
  if (names.empty())
    t.ignore(entry, "no module is trained beside the adapters");
  else if (!needsAdapter(t, entry))
    return;
  else if (llvm::any_of(names, [](const std::string &name) {
             return name.empty() || name.find(',') != name.npos;
           }))
    t.fail(entry, "expected names of modules, found " + entry.node->describe());
  else
    t.honour(entry, "--lora-modules-to-save", llvm::join(names, ","));
}

/// Whether bitsandbytes quantises the scales of 4-bit weights, too.
static bool isDoublyQuantized(const Translator &t) {
  const RecipeEntry *options = t.top().find("bnb_config_kwargs");
  const yaml::Content *flag =
      options ? options->node->find("bnb_4bit_use_double_quant") : nullptr;
  return !flag || !llvm::StringRef(flag->text).equals_insensitive("false");
}

void poplar::decideFourBits(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "false")
    t.ignore(entry, "weights are not held in 4 bits");
  else if (!hasAdapter(t))
    t.fail(entry, "needs an adapter, as in axolotl");
  else
    t.honour(entry, "--frozen-format",
             isDoublyQuantized(t) ? "nf4_double" : "nf4");
}

void poplar::decideEightBits(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "false")
    t.ignore(entry, "weights are not held in 8 bits");
  else if (!hasAdapter(t))
    t.fail(entry, "needs an adapter, as in axolotl");
  else
    t.honour(entry, "--frozen-format", "int8");
}

void poplar::decideQuantization(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  for (const yaml::Member &member : entry.node->members) {
    llvm::StringRef text = member.value.text;
    bool isFlag =
        text.equals_insensitive("true") || text.equals_insensitive("false");
    if (!(member.key == "bnb_4bit_use_double_quant" && isFlag) &&
        !(member.key == "bnb_4bit_quant_type" && text == "nf4")) {
      t.refuse(entry, member.key + " is not supported; the formats are nf4, "
                                   "with and without double quantisation");
      return;
    }
  }
  if (t.top().isTrue("load_in_4bit"))
    t.accept(entry, std::string("--frozen-format ") +
                        (isDoublyQuantized(t) ? "nf4_double" : "nf4"));
  else
    t.ignore(entry, "weights are not held in 4 bits");
}

/// Whether neither the model nor the model of text in it has experts.
static bool isWithoutExperts(const std::string &directory) {
  if (directory.empty() || hasExperts(directory))
    return false;
  return readConfigValue(directory, "text_config").find("experts") ==
         std::string::npos;
}

/// axolotl quantises the stacked weights of experts, if there are any.
void poplar::decideQuantizedExperts(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "false")
    t.ignore(entry, "weights of experts are not quantised");
  else if (!hasAdapter(t))
    t.fail(entry, "needs an adapter, as in axolotl");
  else if (!t.top().isTrue("load_in_4bit") && !t.top().isTrue("load_in_8bit"))
    t.fail(entry, "needs load_in_4bit or load_in_8bit, as in axolotl");
  else if (t.top().isTrue("lora_target_linear"))
    t.fail(entry, "and lora_target_linear exclude each other, as in axolotl; "
                  "name the modules in lora_target_modules");
  else if (isWithoutExperts(t.getModelDirectory()))
    t.ignore(entry, "the model has no experts");
  else if (readModelType(t.getModelDirectory()) == "gpt_oss")
    t.refuse(entry,
             "experts of gpt-oss, which are one tensor in the model, are "
             "not quantised; remove it");
  else
    t.honour(entry, "--quantize-experts");
}

void poplar::decidePrecision(Translator &t, const RecipeEntry &entry) {
  bool isBrain = entry.text == "true" || entry.text == "full";
  if (isBrain)
    t.honour(entry, "--precision", "bf16");
  else if (entry.text == "auto")
    t.ignore(entry, "each device computes in the format that the cluster file "
                    "gives it");
  else if (entry.text != "false")
    t.fail(entry, "expected true, false, full or auto, found " + entry.text);
  else if (t.top().isTrue("fp16") || t.top().isTrue("float16") ||
           t.top().isTrue("bfloat16"))
    t.ignore(entry, "another key says the format");
  else
    t.honour(entry, "--precision", "f32");
}

void poplar::decideBrain(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "true")
    t.honour(entry, "--precision", "bf16");
  else
    t.ignore(entry, "bf16 says the format");
}

void poplar::decideHalf(Translator &t, const RecipeEntry &entry) {
  llvm::StringRef brain = t.top().getText("bf16");
  if (entry.text == "false" || brain == "true" || brain == "full")
    t.ignore(entry, "bf16 says the format");
  else if (brain == "auto")
    // axolotl takes bf16 where there is a GPU that has it.
    t.refuse(entry, "bf16: auto takes bf16 on GPUs that have it; give bf16: "
                    "false for f16, or remove it");
  else
    t.honour(entry, "--precision", "f16");
}

void poplar::decidePacking(Translator &t, const RecipeEntry &entry) {
  if (!getPreference(t).empty())
    // Both answers of a pair are in one sample.
    t.honour(entry, "--packing");
  else
    t.honour(entry, entry.text == "true" ? "--packing" : "--no-packing");
}

/// Whether axolotl packs the samples of a micro-batch into one row.
static bool joinsSamples(const Translator &t) {
  if (!t.top().isTrue("sample_packing"))
    return false;
  if (t.top().find("multipack_real_batches"))
    return !t.top().isTrue("multipack_real_batches");
  llvm::StringRef attention = t.top().getText("attn_implementation");
  bool joins =
      !attention.empty() && attention != "sdpa" && attention != "eager";
  for (const char *key : {"flash_attention", "flex_attention",
                          "xformers_attention", "sage_attention"})
    joins |= t.top().isTrue(key);
  return joins;
}

void poplar::decideNoise(Translator &t, const RecipeEntry &entry) {
  bool isLonger = joinsSamples(t);
  double alpha = t.top().getNumber(entry.rule->name);
  if (alpha <= 0)
    t.fail(entry,
           "expected a number above 0, as in axolotl, found " + entry.text);
  else if (entry.rule->name == "noisy_embedding_alpha" &&
           t.top().find("neftune_noise_alpha"))
    t.fail(entry, "neftune_noise_alpha says the same, and axolotl takes one of "
                  "both; remove this one");
  else if (!getPreference(t).empty())
    t.ignore(entry, "axolotl adds no noise when it trains on pairs");
  else if (!t.top().isTrue("sample_packing") &&
           !t.top().isTrue("pad_to_sequence_len"))
    t.refuse(entry, "the noise depends on how far samples are padded, which "
                    "here is sequence_len; give pad_to_sequence_len: true or "
                    "sample_packing: true");
  else
    // The noise depends on the length of a row.
    t.honour(entry, "--neftune-alpha",
             formatNumber(isLonger ? alpha / std::sqrt(t.top().getNumber(
                                                 "micro_batch_size"))
                                   : alpha));
}

/// Plugins that make the same training faster, or write logs.
static constexpr const char *kHarmlessPlugins[] = {
    "LigerPlugin", "CutCrossEntropyPlugin", "KernelsPlugin", "SwanLabPlugin",
    "ExpertParallelPlugin"};

void poplar::decidePlugins(Translator &t, const RecipeEntry &entry) {
  auto check = [&](const std::string &plugin) {
    llvm::StringRef name = plugin;
    if (size_t dot = name.rfind('.'); dot != llvm::StringRef::npos)
      name = name.drop_front(dot + 1);
    return llvm::is_contained(kHarmlessPlugins, name);
  };
  std::vector<std::string> plugins = {entry.text};
  if (entry.node->kind == yaml::Content::List) {
    plugins.clear();
    for (const yaml::Content &element : entry.node->elements)
      plugins.push_back(element.text);
  }
  auto unknown = llvm::find_if_not(plugins, check);
  if (unknown == plugins.end())
    t.ignore(entry, "kernels and logs that train the same");
  else
    t.refuse(entry, *unknown + " has no counterpart; remove it");
}
