// RUN: not poplar-opt %s --nn-verify-config 2>&1 | FileCheck %s

// The configuration is of another architecture than the module says.
module attributes {nn.model = {architecture = "gpt2", config = "{\22model_type\22: \22llama\22, \22hidden_size\22: 8, \22intermediate_size\22: 8, \22num_hidden_layers\22: 1, \22num_attention_heads\22: 2, \22vocab_size\22: 16, \22max_position_embeddings\22: 4}"}} {
}

// The result:
//
// CHECK: error: 'builtin.module' op differs from the model of nn.model's config, which checkpoints get as config.json: nn.model: architecture is "gpt2", and there "llama"
// CHECK: note: import a configuration that says so; or remove config and config_facts from nn.model, and checkpoints have no configuration
