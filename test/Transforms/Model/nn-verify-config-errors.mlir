// RUN: poplar import %examples/models/tiny-llama.json --seq-len 32 -o %t.mlir
// DEFINE: %{edit} =
// DEFINE: %{refused} = sed -e %{edit} %t.mlir > %t.edited.mlir && not poplar-opt %t.edited.mlir --nn-verify-config 2>&1 | FileCheck %s

// REDEFINE: %{edit} = 's/ eps 1.000000e-05 / eps 1.000000e-02 /'
// RUN: %{refused} --check-prefix=EPS
// EPS: edited.mlir:{{[0-9]+}}:{{[0-9]+}}: error: 'nn.rms_norm' op differs from the model of nn.model's config, which checkpoints get as config.json: eps is 1.000000e-02 : f64, and there 1.000000e-05 : f64
// EPS: note: import a configuration that says so; or remove config and config_facts from nn.model, and checkpoints have no configuration

// REDEFINE: %{edit} = 's/nn.silu %%7 /nn.relu %%7 /'
// RUN: %{refused} --check-prefix=OP
// OP: error: 'nn.relu' op differs from {{.*}}: there is another op, of other operands or results, nn.silu, in its place

// REDEFINE: %{edit} = 's/nn.mul %%9, %%8 /nn.mul %%9, %%7 /'
// RUN: %{refused} --check-prefix=OPERAND
// OPERAND: error: 'nn.mul' op differs from {{.*}}: its operand 1 is another value than there

// REDEFINE: %{edit} = 's/ config = "[^"]*",//'
// RUN: %{refused} --check-prefix=FACTS
// FACTS: error: nn.model: has config_facts and no config

// What makes plans compares, too.
// RUN: sed -e 's/ eps 1.000000e-05 / eps 1.000000e-02 /' %t.mlir > %t.edited.mlir
// RUN: not poplar-opt %t.edited.mlir --poplar-plan 2>&1 | FileCheck %s --check-prefix=EPS
