//===- CourseKeys.cpp - How long and how fast a run trains ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>

using namespace poplar;

using Options = std::vector<std::pair<std::string, std::string>>;

/// Samples and steps of a batch, at most.
static constexpr int64_t kMostSamples = 1 << 20;

/// How many devices share a sample in axolotl, and so count as one.
static int64_t countSharing(const Translator &t) {
  int64_t tensors = t.top().getInteger("tensor_parallel_size"),
          samples = t.top().getInteger("context_parallel_size");
  if (samples == 0)
    samples = t.top().getInteger("sequence_parallel_degree");
  return std::clamp<int64_t>(tensors, 1, kMostSamples) *
         std::clamp<int64_t>(samples, 1, kMostSamples);
}

void poplar::decideSharing(Translator &t, const RecipeEntry &entry) {
  int64_t devices = t.top().getInteger(entry.rule->name);
  if (devices < 0 || devices > kMostSamples)
    t.fail(entry, "expected a count of devices, found " + entry.text);
  else if (devices <= 1)
    t.ignore(entry, "no device shares a sample");
  else
    t.accept(entry, "the batch is divided; the plan decides which devices "
                    "share layers");
}

void poplar::decideBatch(Translator &t, const RecipeEntry &entry) {
  int64_t micro = t.top().getInteger("micro_batch_size"),
          steps = t.top().getInteger("gradient_accumulation_steps"),
          batch = t.top().getInteger("batch_size");
  if (entry.text == "0") {
    t.ignore(entry, "0 is as if the key were not there");
    return;
  }
  if (steps == 0 && (micro <= 0 || batch % micro != 0)) {
    t.fail(entry, "batch_size is no multiple of micro_batch_size");
    return;
  }
  if (micro > kMostSamples || steps > kMostSamples || batch > kMostSamples ||
      micro < 0 || steps < 0 || batch < 0) {
    t.fail(entry, "expected a count of samples or steps, found " + entry.text);
    return;
  }
  int64_t samples = steps == 0 || micro == 0 ? batch : micro * steps;
  // Devices that share samples have one batch.
  int64_t devices = countSharing(t);
  if (devices > kMostSamples) {
    t.fail(entry, "so many devices share a sample that there is no batch");
    return;
  }
  int64_t common = std::gcd(samples, devices);
  std::string share =
      devices == common ? "" : "/" + std::to_string(devices / common);
  t.honour(entry, "--device-batch", std::to_string(samples / common) + share);
}

void poplar::decideSteps(Translator &t, const RecipeEntry &entry) {
  if (t.top().getInteger("max_steps") > 0)
    t.honour(entry, "--steps", entry.text);
  else
    t.ignore(entry, "num_epochs says how long the run is");
}

void poplar::decideEpochs(Translator &t, const RecipeEntry &entry) {
  if (t.top().getInteger("max_steps") <= 0)
    t.honour(entry, "--epochs", entry.text);
  else if (entry.node)
    t.ignore(entry, "max_steps says how long the run is");
}

namespace {
/// A scheduler of transformers.
struct Scheduler {
  const char *name, *option;
  /// The last learning rate.
  const char *minimum;
  /// What else it implies: an option and its value, or none.
  const char *extra, *value;
  /// What it cannot be without.
  const char *required;
};

/// An argument of a scheduler, in lr_scheduler_kwargs.
struct SchedulerArgument {
  const char *scheduler, *name, *option;
  /// Whether the value is a part of the learning rate.
  bool isRatio;
};
} // namespace

static constexpr Scheduler kSchedulers[] = {
    {"cosine", "cosine", "0", "", "", ""},
    {"linear", "linear", "0", "", "", ""},
    {"constant", "constant", "", "--warmup", "0", ""},
    {"constant_with_warmup", "constant", "", "", "", ""},
    {"cosine_with_restarts", "cosine-restarts", "0", "--cycles", "1", ""},
    {"polynomial", "polynomial", "1e-7", "--power", "1", ""},
    {"inverse_sqrt", "inverse-sqrt", "", "", "", ""},
    {"cosine_with_min_lr", "cosine", "", "", "", "min_lr or min_lr_rate"},
    {"warmup_stable_decay", "wsd", "0", "--decay-shape", "cosine",
     "num_decay_steps"}};

static constexpr SchedulerArgument kArguments[] = {
    {"cosine_with_restarts", "num_cycles", "--cycles", false},
    {"polynomial", "power", "--power", false},
    {"polynomial", "lr_end", "--min-lr", false},
    {"cosine_with_min_lr", "min_lr", "--min-lr", false},
    {"cosine_with_min_lr", "min_lr_rate", "--min-lr", true},
    {"warmup_stable_decay", "num_decay_steps", "--decay-steps", false},
    {"warmup_stable_decay", "min_lr_ratio", "--min-lr", true},
    {"warmup_stable_decay", "decay_type", "--decay-shape", false}};

static const yaml::Content *findArgument(const Translator &t,
                                         const char *name) {
  const RecipeEntry *arguments = t.top().find("lr_scheduler_kwargs");
  return arguments ? arguments->node->find(name) : nullptr;
}

/// The steps of a part of the run, rounded down as axolotl does. Fails if it is
/// more than the run.
static int64_t takePart(Translator &t, const RecipeEntry &entry,
                        int64_t steps) {
  double part = t.top().getNumber(entry.rule->name);
  if (part >= 0 && part <= 1)
    return static_cast<int64_t>(part * double(steps));
  t.fail(entry, "expected a part of the run, from 0 to 1, found " + entry.text);
  return 0;
}

/// Whether lr_scheduler_kwargs says the option.
static bool setsOption(const Translator &t, llvm::StringRef scheduler,
                       llvm::StringRef option) {
  return llvm::any_of(kArguments, [&](const SchedulerArgument &it) {
    return it.scheduler == scheduler && it.option == option &&
           findArgument(t, it.name);
  });
}

/// The last learning rate that cosine_min_lr_ratio says; empty if it says none.
static std::string getCosineMinimum(const Translator &t) {
  double ratio = t.top().getNumber("cosine_min_lr_ratio");
  return t.top().getText("lr_scheduler") == "cosine" && ratio > 0
             ? formatNumber(ratio * t.top().getNumber("learning_rate"))
             : "";
}

void poplar::decideSchedule(Translator &t, const RecipeEntry &entry) {
  const Scheduler *known = llvm::find_if(
      kSchedulers, [&](const Scheduler &it) { return entry.text == it.name; });
  if (known == std::end(kSchedulers)) {
    std::string names;
    for (const Scheduler &it : kSchedulers)
      names += (names.empty() ? "" : ", ") + std::string(it.name);
    t.refuse(entry, "there are " + names);
    return;
  }
  llvm::SmallVector<llvm::StringRef, 2> required;
  llvm::StringRef(known->required).split(required, " or ");
  if (*known->required && llvm::none_of(required, [&](llvm::StringRef name) {
        return findArgument(t, name.str().c_str());
      })) {
    t.refuse(entry, "needs " + std::string(known->required) +
                        " in lr_scheduler_kwargs");
    return;
  }
  Options options = {{"--schedule", known->option}};
  std::string minimum = getCosineMinimum(t);
  if (minimum.empty())
    minimum = known->minimum;
  if (!minimum.empty() && !setsOption(t, entry.text, "--min-lr"))
    options.emplace_back("--min-lr", minimum);
  if (*known->extra && !setsOption(t, entry.text, known->extra))
    options.emplace_back(known->extra, known->value);
  t.honour(entry, options);
}

void poplar::decideScheduleArguments(Translator &t, const RecipeEntry &entry) {
  if (!t.isMap(entry))
    return;
  llvm::StringRef scheduler = t.top().getText("lr_scheduler");
  Options options;
  for (const yaml::Member &member : entry.node->members) {
    const SchedulerArgument *known =
        llvm::find_if(kArguments, [&](const SchedulerArgument &it) {
          return scheduler == it.scheduler && member.key == it.name;
        });
    if (known == std::end(kArguments)) {
      t.refuse(entry, member.key + " of " + scheduler.str() +
                          " is not supported; leave it out");
      return;
    }
    std::string value = member.value.text;
    // The name of a decay in transformers.
    if (value == "1-sqrt")
      value = "sqrt";
    if (known->isRatio) {
      double ratio = 0;
      if (llvm::StringRef(value).getAsDouble(ratio)) {
        t.fail(member.value.place, member.key + ": expected a number, found " +
                                       member.value.describe());
        return;
      }
      value = formatNumber(ratio * t.top().getNumber("learning_rate"));
    }
    options.emplace_back(known->option, value);
  }
  t.honour(entry, options);
}

void poplar::decideCosineRatio(Translator &t, const RecipeEntry &entry) {
  std::string minimum = getCosineMinimum(t);
  double part = t.top().getNumber("cosine_constant_lr_ratio");
  int64_t steps = t.top().getInteger("max_steps");
  if (minimum.empty())
    t.ignore(entry, "is for lr_scheduler: cosine with a cosine_min_lr_ratio "
                    "above 0");
  else if (entry.rule->name == "cosine_min_lr_ratio")
    t.honour(entry, "--min-lr", minimum);
  else if (part == 0)
    t.ignore(entry, "the learning rate falls until the end");
  else if (steps > 0)
    t.honour(entry, "--decay-steps", std::to_string(takePart(t, entry, steps)));
  else
    t.refuse(entry, "needs max_steps, of which it is a part");
}

/// Steps of the default warm-up of axolotl, at most.
static constexpr int64_t kMostImpliedWarmup = 100;

void poplar::decideWarmup(Translator &t, const RecipeEntry &entry) {
  bool hasSteps = t.top().find("warmup_steps") != nullptr,
       isImplied = !entry.node, isRatio = entry.rule->name == "warmup_ratio";
  if (isRatio && hasSteps) {
    if (!isImplied)
      t.ignore(entry, "warmup_steps says how long the warm-up is");
    return;
  }
  if (t.top().getText("lr_scheduler") == "constant") {
    if (!isImplied)
      t.ignore(entry, "the scheduler constant has no warm-up");
    return;
  }
  // In transformers, the first step of a warm-up has the learning rate 0, or
  // the last one of this scheduler.
  bool isStable = t.top().getText("lr_scheduler") == "warmup_stable_decay";
  Options options = {{"--warmup-start", isStable ? "minimum" : "zero"}};
  int64_t steps = t.top().getInteger("max_steps");
  if (isRatio && steps <= 0) {
    options.emplace_back("--warmup-ratio", entry.text);
    if (isImplied)
      options.emplace_back("--most-warmup", std::to_string(kMostImpliedWarmup));
    t.honour(entry, options);
    return;
  }
  int64_t warmup =
      isRatio ? takePart(t, entry, steps) : t.top().getInteger("warmup_steps");
  if (isImplied)
    warmup = std::min(warmup, kMostImpliedWarmup);
  // axolotl makes 2 steps of 1.
  if (warmup == 1)
    warmup = 2;
  options.emplace_back("--warmup", std::to_string(warmup));
  t.honour(entry, options);
}

namespace {
/// An optimizer of transformers that computes AdamW.
struct AdamW {
  const char *name;
  /// What it keeps moments in, if not in f32.
  const char *states = nullptr;
};
} // namespace

static constexpr AdamW kOptimizers[] = {{"adamw_torch"},
                                        {"adamw_torch_fused"},
                                        {"adamw_hf"},
                                        {"adamw_apex_fused"},
                                        {"adamw_torch_xla"},
                                        {"adamw_torch_npu_fused"},
                                        {"paged_adamw"},
                                        {"paged_adamw_32bit"},
                                        {"adamw_bnb_8bit", "int8"},
                                        {"adamw_8bit", "int8"},
                                        {"paged_adamw_8bit", "int8"},
                                        {"adamw_torch_8bit", "int8"},
                                        {"ao_adamw_8bit", "int8"},
                                        {"adamw_torch_4bit", "int4"},
                                        {"ao_adamw_4bit", "int4"}};

void poplar::decideOptimizer(Translator &t, const RecipeEntry &entry) {
  const AdamW *known = llvm::find_if(
      kOptimizers, [&](const AdamW &it) { return entry.text == it.name; });
  if (known == std::end(kOptimizers))
    t.refuse(entry, "the optimizer is AdamW, with moments in 32 bits, in 8 or "
                    "in 4: adamw_torch, adamw_bnb_8bit or adamw_torch_4bit");
  else if (known->states)
    t.honour(entry, "--optimizer-states", known->states);
  else
    t.ignore(entry, "AdamW is the optimizer");
}

namespace {
/// What says how often something happens in a run: keys and options.
struct Interval {
  const char *perEpoch, *steps, *strategy;
  const char *every, *ratio, *minutes;
};
} // namespace

static constexpr Interval kEvaluations = {"evals_per_epoch", "eval_steps",
                                          "eval_strategy",   "--eval-every",
                                          "--eval-ratio",    ""};
static constexpr Interval kSaves = {"saves_per_epoch", "save_steps",
                                    "save_strategy",   "--save-every",
                                    "--save-ratio",    "--save-minutes"};

/// Whether some rows are held out.
static bool isValidated(const Translator &t) {
  return t.top().getNumber("val_set_size") > 0 || t.top().find("test_datasets");
}

/// Decides one of the three keys of an interval.
static void decideInterval(Translator &t, const RecipeEntry &entry,
                           const Interval &names) {
  double perEpoch = t.top().getNumber(names.perEpoch),
         steps = t.top().getNumber(names.steps),
         epochs = t.top().getNumber("num_epochs");
  const char *decisive = perEpoch > 0 ? names.perEpoch
                         : steps > 0  ? names.steps
                                      : names.strategy;
  auto honourEpochs = [&](double times) {
    double part = times * epochs > 1 ? 1 / (times * epochs) : 1;
    t.honour(entry, names.ratio, formatNumber(part));
  };
  if (entry.rule->name != decisive) {
    if (entry.node)
      t.ignore(entry, std::string(decisive) + " says how often");
  } else if (perEpoch > 0) {
    honourEpochs(perEpoch);
  } else if (steps > 0) {
    t.honour(entry, steps < 1 ? names.ratio : names.every, entry.text);
  } else if (entry.text == "best" && *names.minutes && isValidated(t)) {
    t.honour(entry,
             {{"--keep-best", ""}, {names.every, "0"}, {names.minutes, "0"}});
  } else if (entry.text == "no") {
    Options options = {{names.every, "0"}};
    if (*names.minutes)
      options.emplace_back(names.minutes, "0");
    t.honour(entry, options);
  } else if (entry.text != "epoch") {
    t.refuse(entry, entry.text == "steps" ? std::string("needs ") + names.steps
                                          : "there are no, epoch and steps");
  } else if (t.top().getInteger("max_steps") > 0) {
    // The steps of an epoch are known when the data are.
    t.accept(entry, "an epoch, or a tenth of the run if that is longer");
  } else {
    honourEpochs(1);
  }
}

void poplar::decideEvaluations(Translator &t, const RecipeEntry &entry) {
  if (isValidated(t))
    decideInterval(t, entry, kEvaluations);
  else if (entry.node)
    t.ignore(entry, "no samples are held out");
}

void poplar::decideSaves(Translator &t, const RecipeEntry &entry) {
  decideInterval(t, entry, kSaves);
}

void poplar::decideBest(Translator &t, const RecipeEntry &entry) {
  bool isPatience = entry.rule->name == "early_stopping_patience";
  if (entry.text == "0" || entry.text == "false")
    t.ignore(entry, "the last checkpoints are kept");
  else if (!isValidated(t))
    t.fail(entry, "needs val_set_size or test_datasets");
  else if (isPatience)
    // axolotl then also loads the best checkpoint at the end.
    t.honour(entry, {{"--patience", entry.text}, {"--keep-best", ""}});
  else
    t.honour(entry, "--keep-best");
}

/// Checkpoints that axolotl keeps by default.
static constexpr int64_t kKept = 4;

void poplar::decideKept(Translator &t, const RecipeEntry &entry) {
  int64_t kept = t.top().getInteger("save_total_limit");
  t.honour(entry, "--keep", std::to_string(kept > 0 ? kept : kKept));
}
