//===- Keys.cpp - Which keys of a config.json are known -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar;
using namespace poplar::import;
using llvm::ArrayRef;

ArrayRef<Key> import::getCommonKeys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> table;
    for (const char *name :
         {// The file and its writer. The importer has chosen the family by
          // the first two before it looks at the others.
          "architectures", "model_type", "transformers_version",
          "_name_or_path", "name_or_path", "_commit_hash",
          "transformers.js_config", "unsloth_fixed", "unsloth_version",
          "finetuning_task", "task_specific_params", "tokenizer_class",
          "prefix",
          // Element types and ways to compute the same.
          "dtype", "torch_dtype", "use_bfloat16", "torchscript",
          "tf_legacy_loss", "attn_implementation", "_attn_implementation",
          "_attn_implementation_autoset", "gradient_checkpointing",
          "chunk_size_feed_forward", "use_cache", "pretraining_tp",
          // What a call returns beside the logits.
          "output_attentions", "output_hidden_states", "output_past",
          "return_dict", "use_return_dict", "output_scores",
          "return_dict_in_generate",
          // Heads for other tasks.
          "num_labels", "_num_labels", "id2label", "label2id", "problem_type",
          "classifier_dropout",
          // Special tokens, which tokenizers and generation use.
          "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id",
          "unk_token_id", "decoder_start_token_id",
          // Generation.
          "assistant_confidence_threshold", "bad_words_ids",
          "begin_suppress_tokens", "diversity_penalty", "do_sample",
          "early_stopping", "encoder_no_repeat_ngram_size",
          "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff",
          "exponential_decay_length_penalty", "forced_bos_token_id",
          "forced_eos_token_id", "length_penalty", "max_length",
          "max_new_tokens", "min_length", "no_repeat_ngram_size",
          "num_assistant_tokens", "num_assistant_tokens_schedule",
          "num_beam_groups", "num_beams", "num_return_sequences",
          "remove_invalid_values", "repetition_penalty", "suppress_tokens",
          "target_lookbehind", "assistant_lookbehind", "temperature", "top_k",
          "top_p", "typical_p"})
      table.push_back(harmless(name));
    for (const char *name :
         {"is_encoder_decoder", "add_cross_attention", "quantization_config",
          "cross_attention_hidden_size", "tie_encoder_decoder"})
      table.push_back(fixed(name, {"false", "null"}));
    table.push_back(fixed("pruned_heads", {"{}", "null"}));
    return table;
  }();
  return keys;
}

const Key *import::findKey(ArrayRef<Key> table, const std::string &name) {
  for (const Key &key : table)
    if (key.name == name || (!key.alias.empty() && key.alias == name))
      return &key;
  return nullptr;
}

static const Key *findKey(ArrayRef<ArrayRef<Key>> tables,
                          const std::string &name) {
  for (ArrayRef<Key> table : tables)
    if (const Key *key = import::findKey(table, name))
      return key;
  return nullptr;
}

static std::string join(const std::vector<std::string> &names) {
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  return list;
}

/// A key that is in a table.
static void checkKey(json::Value object, const Key &key,
                     const std::string &name, const std::string &family) {
  json::Value value = object[name];
  if (name == key.alias && object[key.name].isPresent())
    value.error("is an alias of " + key.name +
                ", which is also given: remove one");
  if (key.role == Key::Fixed && !llvm::is_contained(key.allowed, value.dump()))
    value.error(value.dump().substr(0, 80) + " is not supported by the " +
                family + " family (only " + join(key.allowed) + ")");
  bool read = key.role == Key::Function || key.role == Key::Training;
  if (read && !key.nullable && value.isNull())
    value.error("expected a value, found null");
  if (!key.members.empty() && value.isPresent())
    checkKeys(value, key.members, family);
}

void import::checkKeys(json::Value object, ArrayRef<ArrayRef<Key>> tables,
                       const std::string &family) {
  if (!object.isObject()) {
    object.error("expected an object, found " + object.describe());
    return;
  }
  std::vector<std::string> unknown;
  for (const std::string &name : object.keys())
    if (!::findKey(tables, name))
      unknown.push_back(name);
  if (!unknown.empty()) {
    object.error(
        (unknown.size() == 1 ? "unknown key " : "unknown keys ") +
        join(unknown) + ": may change what a model of the " + family +
        " family computes (--ignore-key KEY imports as if it were absent)");
    return;
  }
  for (const std::string &name : object.keys())
    checkKey(object, *::findKey(tables, name), name, family);
}

std::vector<std::string> import::listKeys(ArrayRef<ArrayRef<Key>> tables) {
  std::vector<std::string> names;
  for (ArrayRef<Key> table : tables)
    for (const Key &key : table) {
      names.push_back(key.name);
      if (!key.alias.empty())
        names.push_back(key.alias);
      if (!key.members.empty())
        for (const std::string &member : listKeys(key.members))
          names.push_back(key.name + "." + member);
    }
  return names;
}
