// RUN: poplar-opt %s --zero-report --verify-diagnostics

// expected-error @below {{has no programs with a plan: run --specialize-device-types first}}
module {
}
