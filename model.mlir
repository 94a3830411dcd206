module attributes {nn.model = {architecture = "gpt2", config = "{\0A  \22activation_function\22: \22gelu_new\22,\0A  \22architectures\22: [\0A    \22GPT2LMHeadModel\22\0A  ],\0A  \22attn_pdrop\22: 0.1,\0A  \22embd_pdrop\22: 0.1,\0A  \22initializer_range\22: 0.02,\0A  \22layer_norm_epsilon\22: 1e-05,\0A  \22model_type\22: \22gpt2\22,\0A  \22n_ctx\22: 128,\0A  \22n_embd\22: 64,\0A  \22n_head\22: 4,\0A  \22n_inner\22: null,\0A  \22n_layer\22: 2,\0A  \22n_positions\22: 128,\0A  \22resid_pdrop\22: 0.1,\0A  \22vocab_size\22: 256\0A}\0A", config_facts = "{\22architecture\22:\22GPT2LMHeadModel\22,\22facts\22:[{\22keys\22:[\22vocab_size\22],\22values\22:[256]},{\22keys\22:[\22n_embd\22,\22hidden_size\22],\22values\22:[64]},{\22keys\22:[\22n_layer\22,\22num_hidden_layers\22],\22values\22:[2]},{\22absent\22:1024,\22keys\22:[\22n_positions\22,\22max_position_embeddings\22],\22values\22:[128]},{\22absent\22:1.0000000000000001e-05,\22keys\22:[\22layer_norm_epsilon\22],\22values\22:[1.0000000000000001e-05]},{\22absent\22:\22gelu_new\22,\22keys\22:[\22activation_function\22],\22values\22:[\22gelu_new\22,\22gelu_pytorch_tanh\22]},{\22absent\22:true,\22keys\22:[\22tie_word_embeddings\22],\22values\22:[true]},{\22absent\22:true,\22keys\22:[\22scale_attn_weights\22],\22values\22:[true]},{\22keys\22:[\22n_head\22,\22num_attention_heads\22],\22values\22:[4]},{\22absent\22:256,\22keys\22:[\22n_inner\22],\22values\22:[256]},{\22absent\22:false,\22keys\22:[\22scale_attn_by_inverse_layer_idx\22],\22null\22:null,\22values\22:[false]},{\22absent\22:true,\22keys\22:[\22is_causal\22],\22null\22:null,\22values\22:[true]},{\22absent\22:false,\22keys\22:[\22is_encoder_decoder\22],\22null\22:null,\22values\22:[false,null]},{\22absent\22:false,\22keys\22:[\22add_cross_attention\22],\22null\22:null,\22values\22:[false,null]},{\22absent\22:false,\22keys\22:[\22quantization_config\22],\22null\22:null,\22values\22:[false,null]},{\22absent\22:false,\22keys\22:[\22cross_attention_hidden_size\22],\22null\22:null,\22values\22:[false,null]},{\22absent\22:false,\22keys\22:[\22tie_encoder_decoder\22],\22null\22:null,\22values\22:[false,null]},{\22absent\22:{},\22keys\22:[\22pruned_heads\22],\22null\22:null,\22values\22:[{},null]}],\22known\22:[\22vocab_size\22,\22n_embd\22,\22hidden_size\22,\22n_layer\22,\22num_hidden_layers\22,\22n_head\22,\22num_attention_heads\22,\22n_positions\22,\22max_position_embeddings\22,\22n_inner\22,\22activation_function\22,\22layer_norm_epsilon\22,\22scale_attn_weights\22,\22tie_word_embeddings\22,\22resid_pdrop\22,\22embd_pdrop\22,\22attn_pdrop\22,\22initializer_range\22,\22scale_attn_by_inverse_layer_idx\22,\22is_causal\22,\22reorder_and_upcast_attn\22,\22is_decoder\22,\22pad_token_id\22,\22n_ctx\22,\22summary_type\22,\22summary_use_proj\22,\22summary_activation\22,\22summary_proj_to_labels\22,\22summary_first_dropout\22,\22architectures\22,\22model_type\22,\22transformers_version\22,\22_name_or_path\22,\22name_or_path\22,\22_commit_hash\22,\22transformers.js_config\22,\22unsloth_fixed\22,\22unsloth_version\22,\22finetuning_task\22,\22task_specific_params\22,\22tokenizer_class\22,\22prefix\22,\22dtype\22,\22torch_dtype\22,\22use_bfloat16\22,\22torchscript\22,\22tf_legacy_loss\22,\22attn_implementation\22,\22_attn_implementation\22,\22_attn_implementation_autoset\22,\22gradient_checkpointing\22,\22chunk_size_feed_forward\22,\22use_cache\22,\22pretraining_tp\22,\22output_attentions\22,\22output_hidden_states\22,\22output_past\22,\22return_dict\22,\22use_return_dict\22,\22output_scores\22,\22return_dict_in_generate\22,\22num_labels\22,\22_num_labels\22,\22id2label\22,\22label2id\22,\22problem_type\22,\22classifier_dropout\22,\22bos_token_id\22,\22eos_token_id\22,\22sep_token_id\22,\22cls_token_id\22,\22unk_token_id\22,\22decoder_start_token_id\22,\22assistant_confidence_threshold\22,\22bad_words_ids\22,\22begin_suppress_tokens\22,\22diversity_penalty\22,\22do_sample\22,\22early_stopping\22,\22encoder_no_repeat_ngram_size\22,\22encoder_repetition_penalty\22,\22epsilon_cutoff\22,\22eta_cutoff\22,\22exponential_decay_length_penalty\22,\22forced_bos_token_id\22,\22forced_eos_token_id\22,\22length_penalty\22,\22max_length\22,\22max_new_tokens\22,\22min_length\22,\22no_repeat_ngram_size\22,\22num_assistant_tokens\22,\22num_assistant_tokens_schedule\22,\22num_beam_groups\22,\22num_beams\22,\22num_return_sequences\22,\22remove_invalid_values\22,\22repetition_penalty\22,\22suppress_tokens\22,\22target_lookbehind\22,\22assistant_lookbehind\22,\22temperature\22,\22top_k\22,\22top_p\22,\22typical_p\22,\22is_encoder_decoder\22,\22add_cross_attention\22,\22quantization_config\22,\22cross_attention_hidden_size\22,\22tie_encoder_decoder\22,\22pruned_heads\22],\22model_type\22:\22gpt2\22}", hidden_size = 64 : i64, num_layers = 2 : i64, num_parameters = 124672 : i64, objective = "causal", seq_len = 32 : i64, vocab_size = 256 : i64}} {
  nn.parameter @transformer.wte.weight : tensor<256x64xf32>  normal std 2.000000e-02 decay
  nn.parameter @transformer.wpe.weight : tensor<128x64xf32>  normal std 2.000000e-02 decay
  nn.parameter @transformer.h.0.ln_1.weight : tensor<64xf32>  ones
  nn.parameter @transformer.h.0.ln_1.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.h.0.attn.c_attn.weight : tensor<64x192xf32>  normal std 2.000000e-02 decay
  nn.parameter @transformer.h.0.attn.c_attn.bias : tensor<192xf32>  zeros
  nn.parameter @transformer.h.0.attn.c_proj.weight : tensor<64x64xf32>  normal std 1.000000e-02 decay
  nn.parameter @transformer.h.0.attn.c_proj.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.h.0.ln_2.weight : tensor<64xf32>  ones
  nn.parameter @transformer.h.0.ln_2.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.h.0.mlp.c_fc.weight : tensor<64x256xf32>  normal std 2.000000e-02 decay
  nn.parameter @transformer.h.0.mlp.c_fc.bias : tensor<256xf32>  zeros
  nn.parameter @transformer.h.0.mlp.c_proj.weight : tensor<256x64xf32>  normal std 1.000000e-02 decay
  nn.parameter @transformer.h.0.mlp.c_proj.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.h.1.ln_1.weight : tensor<64xf32>  ones
  nn.parameter @transformer.h.1.ln_1.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.h.1.attn.c_attn.weight : tensor<64x192xf32>  normal std 2.000000e-02 decay
  nn.parameter @transformer.h.1.attn.c_attn.bias : tensor<192xf32>  zeros
  nn.parameter @transformer.h.1.attn.c_proj.weight : tensor<64x64xf32>  normal std 1.000000e-02 decay
  nn.parameter @transformer.h.1.attn.c_proj.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.h.1.ln_2.weight : tensor<64xf32>  ones
  nn.parameter @transformer.h.1.ln_2.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.h.1.mlp.c_fc.weight : tensor<64x256xf32>  normal std 2.000000e-02 decay
  nn.parameter @transformer.h.1.mlp.c_fc.bias : tensor<256xf32>  zeros
  nn.parameter @transformer.h.1.mlp.c_proj.weight : tensor<256x64xf32>  normal std 1.000000e-02 decay
  nn.parameter @transformer.h.1.mlp.c_proj.bias : tensor<64xf32>  zeros
  nn.parameter @transformer.ln_f.weight : tensor<64xf32>  ones
  nn.parameter @transformer.ln_f.bias : tensor<64xf32>  zeros
  func.func private @embed(%arg0: tensor<?x32xi32>, %arg1: tensor<?x2xi32>, %arg2: tensor<256x64xf32> {nn.parameter}, %arg3: tensor<128x64xf32> {nn.parameter}) -> tensor<?x32x64xf32> attributes {nn.unit} {
    %0 = nn.embedding %arg0, %arg2 : (tensor<?x32xi32>, tensor<256x64xf32>) -> tensor<?x32x64xf32>
    %1 = nn.position_embedding %0, %arg3 : (tensor<?x32x64xf32>, tensor<128x64xf32>) -> tensor<?x32x64xf32>
    %2 = nn.dropout %1 keys %arg1 p 1.000000e-01 op_id 0 : tensor<?x32x64xf32>, tensor<?x2xi32>
    return %2 : tensor<?x32x64xf32>
  }
  func.func private @block(%arg0: tensor<?x32x64xf32>, %arg1: tensor<?x2xi32>, %arg2: tensor<64xf32> {nn.parameter}, %arg3: tensor<64xf32> {nn.parameter}, %arg4: tensor<64x192xf32> {nn.parameter}, %arg5: tensor<192xf32> {nn.parameter}, %arg6: tensor<64x64xf32> {nn.parameter}, %arg7: tensor<64xf32> {nn.parameter}, %arg8: tensor<64xf32> {nn.parameter}, %arg9: tensor<64xf32> {nn.parameter}, %arg10: tensor<64x256xf32> {nn.parameter}, %arg11: tensor<256xf32> {nn.parameter}, %arg12: tensor<256x64xf32> {nn.parameter}, %arg13: tensor<64xf32> {nn.parameter}) -> tensor<?x32x64xf32> attributes {nn.unit} {
    %result, %mean, %rstd = nn.layer_norm %arg0, %arg2, %arg3 eps 1.000000e-05 : (tensor<?x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x32x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>)
    %0 = nn.linear %result, %arg4 bias %arg5 layout  in_out : (tensor<?x32x64xf32>, tensor<64x192xf32>, tensor<192xf32>) -> tensor<?x32x192xf32>
    %result_0, %lse = nn.attention %0 keys %arg1 causal heads 4 kv_heads 4 scale 2.500000e-01 dropout 1.000000e-01 : (tensor<?x32x192xf32>, tensor<?x2xi32>) -> (tensor<?x32x64xf32>, tensor<?x4x32xf32>)
    %1 = nn.linear %result_0, %arg6 bias %arg7 layout  in_out : (tensor<?x32x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<?x32x64xf32>
    %2 = nn.dropout %1 keys %arg1 p 1.000000e-01 op_id 1 : tensor<?x32x64xf32>, tensor<?x2xi32>
    %3 = nn.add %arg0, %2 : tensor<?x32x64xf32>
    %result_1, %mean_2, %rstd_3 = nn.layer_norm %3, %arg8, %arg9 eps 1.000000e-05 : (tensor<?x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x32x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>)
    %4 = nn.linear %result_1, %arg10 bias %arg11 layout  in_out : (tensor<?x32x64xf32>, tensor<64x256xf32>, tensor<256xf32>) -> tensor<?x32x256xf32>
    %5 = nn.gelu %4 form  tanh : tensor<?x32x256xf32>
    %6 = nn.linear %5, %arg12 bias %arg13 layout  in_out : (tensor<?x32x256xf32>, tensor<256x64xf32>, tensor<64xf32>) -> tensor<?x32x64xf32>
    %7 = nn.dropout %6 keys %arg1 p 1.000000e-01 op_id 2 : tensor<?x32x64xf32>, tensor<?x2xi32>
    %8 = nn.add %3, %7 : tensor<?x32x64xf32>
    return %8 : tensor<?x32x64xf32>
  }
  func.func private @head(%arg0: tensor<?x32x64xf32>, %arg1: tensor<64xf32> {nn.parameter}, %arg2: tensor<64xf32> {nn.parameter}, %arg3: tensor<256x64xf32> {nn.parameter}) -> tensor<?x32x256xf32> attributes {nn.unit} {
    %result, %mean, %rstd = nn.layer_norm %arg0, %arg1, %arg2 eps 1.000000e-05 : (tensor<?x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x32x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>)
    %0 = nn.linear %result, %arg3 : (tensor<?x32x64xf32>, tensor<256x64xf32>) -> tensor<?x32x256xf32>
    return %0 : tensor<?x32x256xf32>
  }
  func.func private @loss(%arg0: tensor<?x32x256xf32>, %arg1: tensor<?x32xi32>) -> tensor<?x32xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %arg0, %arg1 : (tensor<?x32x256xf32>, tensor<?x32xi32>) -> (tensor<?x32xf32>, tensor<?x32xf32>)
    return %loss : tensor<?x32xf32>
  }
  func.func @model(%arg0: tensor<?x32xi32>, %arg1: tensor<?x32xi32>, %arg2: tensor<?x2xi32>) -> tensor<?x32xf32> {
    %0 = nn.fold_key %arg2, 0 : tensor<?x2xi32>
    %1 = nn.get_parameter @transformer.wte.weight : tensor<256x64xf32>
    %2 = nn.get_parameter @transformer.wpe.weight : tensor<128x64xf32>
    %3 = call @embed(%arg0, %0, %1, %2) : (tensor<?x32xi32>, tensor<?x2xi32>, tensor<256x64xf32>, tensor<128x64xf32>) -> tensor<?x32x64xf32>
    %4 = nn.fold_key %arg2, 1 : tensor<?x2xi32>
    %5 = nn.get_parameter @transformer.h.0.ln_1.weight : tensor<64xf32>
    %6 = nn.get_parameter @transformer.h.0.ln_1.bias : tensor<64xf32>
    %7 = nn.get_parameter @transformer.h.0.attn.c_attn.weight : tensor<64x192xf32>
    %8 = nn.get_parameter @transformer.h.0.attn.c_attn.bias : tensor<192xf32>
    %9 = nn.get_parameter @transformer.h.0.attn.c_proj.weight : tensor<64x64xf32>
    %10 = nn.get_parameter @transformer.h.0.attn.c_proj.bias : tensor<64xf32>
    %11 = nn.get_parameter @transformer.h.0.ln_2.weight : tensor<64xf32>
    %12 = nn.get_parameter @transformer.h.0.ln_2.bias : tensor<64xf32>
    %13 = nn.get_parameter @transformer.h.0.mlp.c_fc.weight : tensor<64x256xf32>
    %14 = nn.get_parameter @transformer.h.0.mlp.c_fc.bias : tensor<256xf32>
    %15 = nn.get_parameter @transformer.h.0.mlp.c_proj.weight : tensor<256x64xf32>
    %16 = nn.get_parameter @transformer.h.0.mlp.c_proj.bias : tensor<64xf32>
    %17 = call @block(%3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16) : (tensor<?x32x64xf32>, tensor<?x2xi32>, tensor<64xf32>, tensor<64xf32>, tensor<64x192xf32>, tensor<192xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x256xf32>, tensor<256xf32>, tensor<256x64xf32>, tensor<64xf32>) -> tensor<?x32x64xf32>
    %18 = nn.fold_key %arg2, 2 : tensor<?x2xi32>
    %19 = nn.get_parameter @transformer.h.1.ln_1.weight : tensor<64xf32>
    %20 = nn.get_parameter @transformer.h.1.ln_1.bias : tensor<64xf32>
    %21 = nn.get_parameter @transformer.h.1.attn.c_attn.weight : tensor<64x192xf32>
    %22 = nn.get_parameter @transformer.h.1.attn.c_attn.bias : tensor<192xf32>
    %23 = nn.get_parameter @transformer.h.1.attn.c_proj.weight : tensor<64x64xf32>
    %24 = nn.get_parameter @transformer.h.1.attn.c_proj.bias : tensor<64xf32>
    %25 = nn.get_parameter @transformer.h.1.ln_2.weight : tensor<64xf32>
    %26 = nn.get_parameter @transformer.h.1.ln_2.bias : tensor<64xf32>
    %27 = nn.get_parameter @transformer.h.1.mlp.c_fc.weight : tensor<64x256xf32>
    %28 = nn.get_parameter @transformer.h.1.mlp.c_fc.bias : tensor<256xf32>
    %29 = nn.get_parameter @transformer.h.1.mlp.c_proj.weight : tensor<256x64xf32>
    %30 = nn.get_parameter @transformer.h.1.mlp.c_proj.bias : tensor<64xf32>
    %31 = call @block(%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30) : (tensor<?x32x64xf32>, tensor<?x2xi32>, tensor<64xf32>, tensor<64xf32>, tensor<64x192xf32>, tensor<192xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x256xf32>, tensor<256xf32>, tensor<256x64xf32>, tensor<64xf32>) -> tensor<?x32x64xf32>
    %32 = nn.get_parameter @transformer.ln_f.weight : tensor<64xf32>
    %33 = nn.get_parameter @transformer.ln_f.bias : tensor<64xf32>
    %34 = call @head(%31, %32, %33, %1) : (tensor<?x32x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<256x64xf32>) -> tensor<?x32x256xf32>
    %35 = call @loss(%34, %arg1) : (tensor<?x32x256xf32>, tensor<?x32xi32>) -> tensor<?x32xf32>
    return %35 : tensor<?x32xf32>
  }
}

