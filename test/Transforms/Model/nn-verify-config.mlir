// Integration/Build/model-differs-from-config.test and Integration/Commands/fuzz-model-facts.test edit more.

// RUN: poplar import %examples/models/tiny-llama.json --seq-len 32 -o %t.mlir
// RUN: poplar-opt %t.mlir --nn-verify-config | FileCheck %s
// CHECK: nn.model
// CHECK: nn.rms_norm {{.*}} eps 1.000000e-05

// Adapters and formats of frozen weights are no part of the configuration.
// RUN: poplar-opt %t.mlir --nn-add-adapters="targets=all-linear" --nn-quantize-frozen --nn-verify-config

// Without a configuration there is nothing to compare with.
// RUN: sed -e 's/ config = "[^"]*", config_facts = "[^"]*",//' -e 's/ eps 1.000000e-05 / eps 1.000000e-02 /' %t.mlir > %t.other.mlir
// RUN: poplar-opt %t.other.mlir --nn-verify-config | FileCheck %s --check-prefix=OTHER
// OTHER: nn.rms_norm {{.*}} eps 1.000000e-02
