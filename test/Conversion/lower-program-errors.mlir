// RUN: poplar-opt %s --lower-program --split-input-file --verify-diagnostics

// expected-error @below {{has no exec.arena: run --plan-memory first}}
module {
}
