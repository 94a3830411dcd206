// RUN: poplar-opt %s --annotate-cost --split-input-file --verify-diagnostics

// expected-error @below {{has no function @model}}
module {
  func.func @forward() {
    return
  }
}
