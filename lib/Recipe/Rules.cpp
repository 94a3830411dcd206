//===- Rules.cpp - What each key of a recipe means ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"
#include "Keys.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar;

static constexpr const char *kPlanned =
    "the plan decides what each device holds and recomputes";
static constexpr const char *kKernels =
    "the compiler chooses kernels, which compute the same";
static constexpr const char *kLogs =
    "a run writes metrics.csv and prints its loss; nothing is uploaded";
static constexpr const char *kLoading =
    "files are loaded and kept without options";
static constexpr const char *kLayout =
    "samples have sequence_len places, and empty ones do not count";
static constexpr const char *kPreferences =
    "the losses of pairs are dpo and orpo, without variants; remove it";
static constexpr const char *kMedia =
    "images and audio are not supported; remove it, and train a text model";
static constexpr const char *kAdapters =
    "adapters are plain LoRA, of one rank; remove it";
static constexpr const char *kWeights =
    "a run trains the same weights from beginning to end; remove it, and "
    "name them in unfrozen_parameters";
static constexpr const char *kConfig =
    "change config.json of the model, and remove it";
static constexpr const char *kOneOptimizer =
    "the optimizer is AdamW; remove it with its optimizer";
static constexpr const char *kLoss = "the loss is cross entropy; remove it";
static constexpr const char *kTokens =
    "add the tokens to the model and its tokenizer in transformers, and remove "
    "it";
static constexpr const char *kOrder =
    "samples come in a random order; remove it";
static constexpr const char *kUnread = "axolotl does not read it";
static constexpr const char *kMetrics =
    "the loss on held-out rows is the only metric; remove it";
static constexpr const char *kFile =
    "prepare the rows as a file of JSON Lines, and remove it";

static constexpr Rule kRecipeRules[] = {
    // The model.
    decided("base_model", Kind::Text, decideModel),
    decided("base_model_config", Kind::Text, decideSameModel),
    decided("tokenizer_config", Kind::Text, decideSameModel),
    decided("revision_of_model", Kind::Text, decideRevision),
    only("model_revision", "", "give it as revision_of_model"),
    decided("model_type", Kind::Text, decideModelType),
    decided("type_of_model", Kind::Text, decideModelType),
    decided("tokenizer_type", Kind::Text, decideTokenizerType),
    only("cls_model_config", "", kConfig),
    decided("model_config", Kind::Any, decideModelConfig),
    decided("overrides_of_model_config", Kind::Any, decideModelConfig),
    only("model_kwargs", "", kConfig),
    only("overrides_of_model_kwargs", "", kConfig),
    only("rope_scaling", "", kConfig),
    nothing("trust_remote_code", "no code of a model is run"),
    nothing("tokenizer_use_fast", "the tokenizer beside the model is read"),
    only("tokenizer_legacy", "false",
         "the tokenizer is read as tokenizer.json has it; remove it"),
    decided("tokenizer_use_mistral_common", Kind::Flag, decideMistralCommon),
    nothing("tokenizer_save_jinja_files",
            "checkpoints hold the tokenizer's files as they are"),
    decided("special_tokens", Kind::Any, decideSpecialTokens),
    decided("tokens", Kind::Texts, decideTokens),
    only("added_tokens_overrides", "", kTokens),
    decided("resize_token_embeddings_to_32x", Kind::Flag, decideRounding),
    decided("mean_resizing_embeddings", Kind::Flag, decideNewRows, "false"),
    only("shrink_embeddings", "false", kTokens),
    only("fix_untrained_tokens", "", kTokens),
    decided("reinit_weights", Kind::Flag, decideRandomWeights),
    decided("model_quantization_config", Kind::Text, decidePackedExperts),
    decided("model_quantization_config_kwargs", Kind::Any, decidePackedExperts),
    only("use_onebitllms", "false", kQuantized),
    only("gptq", "false", kQuantized),
    only("gptq_*", "false", kQuantized),
    only("qat", "", "weights are not rounded in training; remove it"),
    nothing("quantization", "is for `axolotl quantize`, after training"),
    only("processor_type", "", kMedia),
    only("processor_kwargs", "", kMedia),
    only("image_size", "", kMedia),
    only("image_resize_algorithm", "", kMedia),
    only("role_boundaries", "", kMedia),
    only("freeze_mm_modules", "false", kMedia),
    decided("plugins", Kind::Texts, decidePlugins),
    only("trainer_cls", "", "there is one trainer; remove it"),

    // Formats of numbers.
    decided("bf16", Kind::Any, decidePrecision, "auto"),
    decided("fp16", Kind::Flag, decideHalf),
    decided("float16", Kind::Flag, decideHalf),
    decided("bfloat16", Kind::Flag, decideBrain),
    only("float32", "false", "give bf16: false"),
    only("torch_dtype", "", "give bf16: true or bf16: false"),
    only("fp8", "false",
         "axolotl rounds a whole tensor with one scale, so that numbers depend "
         "on how samples are divided; remove it, and give --fp8-products, "
         "which has a scale for each row"),
    only("fp8_enable_fsdp_float8_all_gather", "false", "remove it with fp8"),
    nothing("tf32", kKernels),
    nothing("fp32_norms", "norms are computed in f32"),
    nothing("fp32_norm_classes", "norms are computed in f32"),
    nothing("embeddings_skip_upcast", kPlanned),

    // Adapters.
    decided("adapter", Kind::Text, decideAdapter, "none"),
    decided("lora_r", Kind::Integer, decideRank),
    decided("lora_alpha", Kind::Number, decideAlpha),
    decided("lora_dropout", Kind::Number, decideAdapterDropout),
    decided("lora_target_modules", Kind::Texts, decideTargets),
    decided("lora_target_linear", Kind::Flag, decideTargets),
    decided("load_in_4bit", Kind::Flag, decideFourBits),
    decided("load_in_8bit", Kind::Flag, decideEightBits),
    decided("bnb_config_kwargs", Kind::Any, decideQuantization),
    option("lora_model_dir", Kind::Text, "--init-adapter"),
    decided("peft_use_rslora", Kind::Flag, decideStabilised),
    only("peft_use_dora", "false", kAdapters),
    only("peft_init_lora_weights", "true", kAdapters),
    only("peft_autocast_adapter_dtype", "true", kAdapters),
    only("peft_ensure_weight_tying", "false", kAdapters),
    only("peft", "", kAdapters),
    only("peft_*", "", kAdapters),
    only("lora_target_parameters", "[]",
         "experts have no adapters; remove it, and name linear layers in "
         "lora_target_modules"),
    decided("lora_modules_to_save", Kind::Texts, decideSavedModules),
    only("lora_rank_pattern", "", kAdapters),
    only("lora_alpha_pattern", "", kAdapters),
    nothing("lora_fan_in_fan_out", "the model says how it stores weights"),
    nothing("lora_on_cpu", kLoading),
    nothing("lora_mlp_kernel", kKernels),
    nothing("lora_qkv_kernel", kKernels),
    nothing("lora_o_kernel", kKernels),
    nothing("lora_embedding_kernel", kKernels),
    nothing("qlora_sharded_model_loading", kLoading),
    nothing("merge_lora", "`poplar merge` adds adapters to the weights"),
    nothing("merge_method", "`poplar merge` adds adapters to the weights"),
    only("loraplus_lr_ratio", "",
         "all weights have one learning rate; remove "
         "it"),
    nothing("loraplus_lr_embedding", "embeddings have no adapters"),
    only("relora", "false", kAdapters),
    nothing("relora_*", "is for relora"),
    only("jagged_restart_*", "",
         "the learning rate has no restarts of this "
         "kind; give lr_scheduler: "
         "cosine_with_restarts"),
    decided("unfrozen_parameters", Kind::Texts, decideUnfrozen),
    only("lisa_*", "", kWeights),
    only("spectrum_*", "", kWeights),
    decided("quantize_moe_experts", Kind::Flag, decideQuantizedExperts),

    // Data.
    decided("datasets", Kind::Any, decideDatasets),
    decided("test_datasets", Kind::Any, decideDatasets),
    decided("pretraining_dataset", Kind::Any, decidePretraining),
    decided("streaming", Kind::Flag, decideStreaming),
    nothing("streaming_multipack_buffer_size", "is for streaming"),
    nothing("pretrain_multipack_buffer_size", "is for pre-training"),
    decided("pretrain_multipack_attn", Kind::Flag, decideIsolation),
    nothing("pretraining_sample_concatenation",
            "is for pre-training without sample_packing"),
    decided("val_set_size", Kind::Number, decideValSize, "0"),
    option("sequence_len", Kind::Integer, "--seq-len", "512"),
    decided("excess_length_strategy", Kind::Text, decideLongRows, "drop"),
    decided("min_sample_len", Kind::Integer, decideShortRows),
    only("eval_sequence_len", "", "validation has sequence_len; remove it"),
    nothing("max_prompt_len", "is for reinforcement learning"),
    decided("sample_packing", Kind::Flag, decidePacking, "false"),
    only("sample_packing_sequentially", "false", kOrder),
    nothing("sample_packing_*", "samples are packed by best fit"),
    nothing("eval_sample_packing", "the loss of packed rows is the same"),
    nothing("multipack_real_batches", kLayout, Kind::Flag),
    nothing("batch_flattening", kLayout),
    nothing("pad_to_sequence_len", kLayout, Kind::Flag),
    nothing("pad_to_multiple_of", kLayout),
    nothing("base_model_ignore_patterns", kUnread),
    nothing("test_value", kUnread),
    nothing("full_finetune", kUnread),
    only("max_packed_sequence_len", "",
         "axolotl refuses it, too; give sequence_len and sample_packing"),
    only("group_by_length", "false", kOrder),
    only("curriculum_sampling", "false", kOrder),
    only("shuffle_merged_datasets", "true", kOrder),
    nothing("shuffle_before_merging_datasets", "all rows are shuffled"),
    decided("train_on_inputs", Kind::Flag, decideInputsCount),
    decided("chat_template", Kind::Text, decideChatTemplate),
    decided("chat_template_jinja", Kind::Text, decideChatTemplateFile),
    only("chat_template_kwargs", "",
         "write chat_template_kwargs into the rows"),
    nothing("eot_tokens", "the token that ends an answer counts"),
    only("default_system_message", "",
         "write the message into the rows, and remove it"),
    nothing("dataset_prepared_path", "encoded rows are cached by their hash"),
    nothing("dataset_processes", kLoading),
    nothing("dataset_num_proc", kLoading),
    nothing("dataset_keep_in_memory", kLoading),
    nothing("num_dataset_shards_to_save", kLoading),
    only("dataset_shard_num", "", kFile),
    only("dataset_shard_idx", "", kFile),
    decided("dataset_exact_deduplication", Kind::Flag, decideEqualRows),
    only("skip_prepare_dataset", "false", kFile),
    nothing("remove_unused_columns",
            "members of rows that are not read are an error when a run starts"),
    nothing("push_dataset_to_hub", kLogs),
    nothing("hf_use_auth_token", "nothing is downloaded"),
    nothing("dataloader_*", kLoading),
    nothing("accelerator_config", kLoading),
    only("use_pose", "false", "positions begin at 0; remove it"),
    only("pose_*", "", "positions begin at 0; remove it"),

    // The course of a run.
    decided("micro_batch_size", Kind::Integer, decideBatch),
    decided("gradient_accumulation_steps", Kind::Integer, decideBatch),
    decided("batch_size", Kind::Integer, decideBatch),
    nothing("eval_batch_size", "the plan decides the batch"),
    only("auto_find_batch_size", "false",
         "the plan finds micro-batches that fit; remove it"),
    decided("num_epochs", Kind::Number, decideEpochs, "1"),
    decided("max_steps", Kind::Integer, decideSteps),
    option("learning_rate", Kind::Number, "--lr"),
    decided("lr_scheduler", Kind::Text, decideSchedule, "cosine"),
    decided("lr_scheduler_kwargs", Kind::Any, decideScheduleArguments),
    decided("cosine_min_lr_ratio", Kind::Number, decideCosineRatio),
    decided("cosine_constant_lr_ratio", Kind::Number, decideCosineRatio),
    only("lr_quadratic_warmup", "false", "warm-up is linear; remove it"),
    nothing("lr_div_factor", "axolotl does not read it"),
    nothing("eta_min", "axolotl does not read it"),
    only("lr_groups", "", "all weights have one learning rate; remove it"),
    only("embedding_lr", "", "all weights have one learning rate; remove it"),
    only("embedding_lr_scale", "",
         "all weights have one learning rate; remove it"),
    decided("warmup_steps", Kind::Integer, decideWarmup),
    decided("warmup_ratio", Kind::Number, decideWarmup, "0.03"),
    decided("optimizer", Kind::Text, decideOptimizer, "adamw_torch_fused"),
    only("optim_args", "", kOneOptimizer),
    only("optim_target_modules", "", kOneOptimizer),
    only("torchdistx_path", "", kOneOptimizer),
    only("dion_*", "", kOneOptimizer),
    only("qgalore_*", "", kOneOptimizer),
    only("grokfast_*", "", kOneOptimizer),
    only("adam_epsilon2", "", kOneOptimizer),
    only("adam_beta3", "", kOneOptimizer),
    option("weight_decay", Kind::Number, "--weight-decay", "0"),
    option("adam_beta1", Kind::Number, "--beta1", "0.9"),
    option("adam_beta2", Kind::Number, "--beta2", "0.999"),
    option("adam_epsilon", Kind::Number, "--eps", "1e-8"),
    nothing("adam_eps", "axolotl does not read it, but adam_epsilon"),
    option("max_grad_norm", Kind::Number, "--clip", "1"),
    option("seed", Kind::Integer, "--seed", "42"),
    decided("neftune_noise_alpha", Kind::Number, decideNoise),
    decided("noisy_embedding_alpha", Kind::Number, decideNoise),

    // The loss.
    decided("rl", Kind::Text, decidePreference),
    only("trl", "", kPreferences),
    only("vllm", "", kPreferences),
    only("ebft", "", kPreferences),
    only("reward_model", "false", kPreferences),
    only("process_reward_model", "false", kPreferences),
    only("center_rewards_coefficient", "", kPreferences),
    nothing("precompute_ref_log_probs",
            "the reference scores each pair once, before the first step"),
    decided("rl_beta", Kind::Number, decideBeta),
    decided("dpo_beta", Kind::Number, decideBeta),
    decided("orpo_alpha", Kind::Number, decideBeta),
    only("rpo_alpha", "", kPreferences),
    decided("dpo_loss_type", Kind::Texts, decideLossType),
    only("dpo_label_smoothing", "0 0.0", kPreferences),
    only("dpo_use_weighting", "false", kPreferences),
    nothing("dpo_padding_free", kKernels),
    nothing("dpo_use_liger_kernel", kKernels),
    only("simpo_gamma", "", kPreferences),
    only("cpo_alpha", "", kPreferences),
    only("dpo_*", "", kPreferences),
    only("kto_*", "", kPreferences),
    only("nemo_gym_*", "", kPreferences),
    only("num_labels", "", "models with heads are not trained; remove it"),
    only("use_eaft", "false", kLoss),
    nothing("eaft_*", "is for use_eaft"),
    only("kd_*", "", kLoss),
    only("diffusion", "", kLoss),
    only("liger_use_token_scaling", "false", kLoss),
    only("llmcompressor", "", kLoss),
    only("mora", "", kAdapters),
    only("scaling_softmax", "false", kConfig),
    nothing("scaling_softmax_*", "is for scaling_softmax"),

    // Validation, checkpoints and logs.
    decided("evals_per_epoch", Kind::Number, decideEvaluations),
    decided("eval_steps", Kind::Number, decideEvaluations),
    decided("eval_strategy", Kind::Text, decideEvaluations, "no"),
    only("evaluation_strategy", "no false", "give it as eval_strategy"),
    decided("saves_per_epoch", Kind::Number, decideSaves),
    decided("save_steps", Kind::Number, decideSaves),
    decided("save_strategy", Kind::Text, decideSaves, "epoch"),
    decided("save_total_limit", Kind::Integer, decideKept, "4"),
    only("save_first_step", "false", "remove it"),
    nothing("save_only_model",
            "checkpoints also hold what a run continues from"),
    nothing("save_safetensors", "checkpoints are safetensors"),
    option("output_dir", Kind::Text, "--out", "./model-out"),
    option("logging_steps", Kind::Integer, "--log-every"),
    decided("early_stopping_patience", Kind::Integer, decideBest),
    decided("load_best_model_at_end", Kind::Flag, decideBest),
    only("metric_for_best_model", "loss eval_loss", kMetrics),
    only("greater_is_better", "false", kMetrics),
    option("loss_watchdog_threshold", Kind::Number, "--stop-above"),
    option("loss_watchdog_patience", Kind::Integer, "--stop-after"),
    only("resume_from_checkpoint", "",
         "`poplar finetune` continues the run that is in output_dir; remove "
         "it"),
    nothing("auto_resume_from_checkpoints",
            "`poplar finetune` continues the run that is in output_dir"),
    only("do_bench_eval", "false", kMetrics),
    only("bench_*", "", kMetrics),
    nothing("do_causal_lm_eval",
            "scores of texts are not written; the loss of validation is"),
    nothing("eval_causal_lm_metrics", "is for do_causal_lm_eval"),
    nothing("eval_table_size", kLogs),
    nothing("eval_max_new_tokens", kLogs),
    only("generate_samples", "false",
         "`poplar sample RUN` continues a text; remove it"),
    nothing("num_generation_samples", "is for generate_samples"),
    nothing("generation_*", "is for generate_samples"),
    only("lm_eval_*", "", kMetrics),
    nothing("include_tkps", kLogs),
    nothing("include_tokens_per_second", kLogs),
    nothing("profiler_*", "`poplar train --trace FILE` writes a timeline"),
    nothing("use_wandb", kLogs),
    nothing("wandb_*", kLogs),
    nothing("use_mlflow", kLogs),
    nothing("mlflow_*", kLogs),
    nothing("hf_mlflow_log_artifacts", kLogs),
    nothing("use_comet", kLogs),
    nothing("comet_*", kLogs),
    nothing("use_trackio", kLogs),
    nothing("trackio_*", kLogs),
    nothing("use_swanlab", kLogs),
    nothing("swanlab_*", kLogs),
    nothing("use_otel_metrics", kLogs),
    nothing("otel_*", kLogs),
    nothing("use_tensorboard", kLogs),
    nothing("hub_*", kLogs),
    nothing("gradio_*", "is for `axolotl inference`"),
    nothing("dynamic_checkpoint", "SIGUSR1 asks a run for a checkpoint"),

    // How it is computed.
    nothing("attn_implementation", kKernels),
    nothing("flash_attention", kKernels, Kind::Flag),
    nothing("flex_attention", kKernels, Kind::Flag),
    nothing("sage_attention", kKernels, Kind::Flag),
    nothing("xformers_attention", kKernels, Kind::Flag),
    nothing("*_attention", kKernels),
    nothing("flash_*", kKernels),
    nothing("flex_attn_*", kKernels),
    nothing("large_head_attention", kKernels),
    nothing("sdpa_varlen", kKernels),
    nothing("fused_attn_kernel", kKernels),
    nothing("gemma4_hybrid_attn_impl", kKernels),
    nothing("experts_implementation", kKernels),
    nothing("use_kernels", kKernels),
    nothing("use_scattermoe", kKernels),
    nothing("use_sonicmoe", kKernels),
    nothing("use_dsv4_kernels", kKernels),
    nothing("use_glm_dsa_kernels", kKernels),
    nothing("liger_*", kKernels),
    nothing("cut_cross_entropy", kKernels),
    nothing("chunked_cross_entropy", kKernels),
    nothing("chunked_cross_entropy_num_chunks", kKernels),
    nothing("tiled_mlp", kKernels),
    nothing("tiled_mlp_*", kKernels),
    nothing("torch_compile", kKernels),
    nothing("torch_compile_*", kKernels),
    nothing("llama4_linearized_experts", kLoading),
    nothing("gradient_checkpointing", kPlanned),
    nothing("gradient_checkpointing_kwargs", kPlanned),
    nothing("selective_checkpointing", kPlanned),
    nothing("activation_offloading", kPlanned),
    nothing("layer_offloading", kPlanned),
    nothing("deepspeed", kPlanned),
    nothing("deepcompile", kPlanned),
    nothing("fsdp", kPlanned),
    nothing("fsdp_*", kPlanned),
    nothing("dp_shard_size", kPlanned),
    nothing("dp_replicate_size", kPlanned),
    nothing("expert_parallel_*", kPlanned),
    nothing("ddp", kPlanned),
    nothing("ddp_*", kPlanned),
    decided("context_parallel_size", Kind::Integer, decideSharing),
    decided("sequence_parallel_degree", Kind::Integer, decideSharing),
    decided("tensor_parallel_size", Kind::Integer, decideSharing),
    nothing("heads_k_stride", "is for context_parallel_size"),
    nothing("ring_attn_func", "is for context_parallel_size"),
    nothing("device", "the cluster file says the devices"),
    nothing("device_map", "the cluster file says the devices"),
    nothing("world_size", "the cluster file says the devices"),
    nothing("local_rank", "the cluster file says the devices"),
    nothing("max_memory", "the cluster file says the memory of devices"),
    nothing("gpu_memory_limit", "the cluster file says the memory of devices"),
    nothing("low_cpu_mem_usage", kLoading),
    nothing("experimental_skip_move_to_device", kLoading),
    nothing("gc_steps", kLoading),
    nothing("gc_collect_steps", kLoading),
    nothing("torch_empty_cache_steps", kLoading),
    nothing("use_ray", "`poplar train` starts the ranks of a job"),
    nothing("ray_*", "`poplar train` starts the ranks of a job"),
    nothing("resources_per_worker", "`poplar train` starts the ranks of a job"),
    nothing("strict", "unknown keys are refused"),
    nothing("debug", "is for messages of axolotl"),
    nothing("is_*", "config.json of the model says what it is"),
    nothing("axolotl_config_path", "axolotl writes it"),
    nothing("preprocess_iterable", "axolotl writes it"),
    nothing("total_num_tokens", "counted from the data"),
    nothing("total_supervised_tokens", "counted from the data"),
};

static constexpr const char *kRows =
    "rows are read as they are; write what is meant into the file";

static constexpr Rule kDatasetRules[] = {
    decided("path", Kind::Text, decidePath),
    decided("data_files", Kind::Texts, decideDataFiles),
    decided("type", Kind::Any, decideType, "none"),
    only("ds_type", "json", "rows are read from JSON Lines; convert the file"),
    only("split", "train",
         "a file is read as a whole: write the rows that are meant into a file "
         "of their own"),
    nothing("name", "is for data sets of the Hub"),
    nothing("revision", "is for data sets of the Hub"),
    nothing("trust_remote_code", "no code of a data set is run"),
    nothing("preprocess_shards", kLoading),
    only("shards", "", kRows),
    only("shards_idx", "", kRows),
    only("conversation", "", "give chat_template"),
    decided("chat_template", Kind::Text, decideDatasetTemplate),
    decided("chat_template_jinja", Kind::Text, decideChatTemplateFile),
    decided("field_messages", Kind::Text, decideMessages),
    decided("message_field_role", Kind::Text, decideMessages),
    decided("message_field_content", Kind::Text, decideMessages),
    decided("message_property_mappings", Kind::Any, decideMapping),
    decided("roles", Kind::Any, decideRoles),
    decided("roles_to_train", Kind::Texts, decideTrainedRoles),
    only("train_on_eos", "turn",
         "the token that ends an answer counts, and no "
         "other; remove it"),
    only("train_on_eot", "turn",
         "the token that ends an answer counts, and no "
         "other; remove it"),
    decided("message_field_training", Kind::Text, decideMessageField),
    only("message_field_training_detail", "",
         "a message counts whole or not; remove it"),
    decided("field_tools", Kind::Text, decideTools),
    decided("field_thinking", Kind::Text, decideMessageField),
    only("template_thinking_key", "reasoning_content thinking",
         "templates get reasoning as reasoning_content and as thinking; remove "
         "it"),
    only("split_thinking", "false",
         "reasoning is a member of its own; write it so into the rows"),
    decided("drop_system_message", Kind::Flag, decideSystemDropped),
    decided("field", Kind::Text, decideField),
    decided("text_column", Kind::Text, decideTextColumn),
    only("skip", "0", "remove the rows from the file", Kind::Integer),
    decided("field_chosen", Kind::Text, decideAnswerField),
    decided("field_rejected", Kind::Text, decideAnswerField),
    only("field_*", "", kRows),
    only("input_format", "", kRows),
    only("input_transform", "", kRows),
    only("logprobs_field", "", kLoss),
    only("temperature", "", kLoss),
    only("step_separator", "", kPreferences),
    only("max_completion_length", "", kPreferences),
    only("train_on_last_step_only", "false", kPreferences),
};

llvm::ArrayRef<Rule> poplar::getRecipeRules() { return kRecipeRules; }
llvm::ArrayRef<Rule> poplar::getDatasetRules() { return kDatasetRules; }

/// Whether a name with a * stands for the other name.
static bool covers(llvm::StringRef pattern, llvm::StringRef name) {
  auto [begin, end] = pattern.split('*');
  return pattern.contains('*') && name.size() > begin.size() + end.size() &&
         name.starts_with(begin) && name.ends_with(end);
}

const Rule *poplar::findRule(llvm::ArrayRef<Rule> rules, llvm::StringRef name) {
  auto find = [&](auto matches) {
    auto rule = llvm::find_if(rules, matches);
    return rule == rules.end() ? nullptr : rule;
  };
  const Rule *exact = find([&](const Rule &it) { return it.name == name; });
  return exact ? exact
               : find([&](const Rule &it) { return covers(it.name, name); });
}

llvm::StringRef poplar::findSimilar(llvm::ArrayRef<Rule> rules,
                                    llvm::StringRef name) {
  // A third of the letters may differ.
  unsigned least = unsigned(name.size()) / 3 + 1;
  llvm::StringRef similar;
  for (const Rule &rule : rules) {
    unsigned distance = rule.name.edit_distance(
        name, /*AllowReplacements=*/true, /*MaxEditDistance=*/least);
    if (distance < least && !rule.name.contains('*')) {
      least = distance;
      similar = rule.name;
    }
  }
  return similar;
}
