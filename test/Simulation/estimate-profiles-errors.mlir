// RUN: poplar-opt %s --split-input-file --verify-diagnostics --estimate-profiles

// expected-error @below {{has no function @model whose steps to estimate}}
module {
  cluster.device_type @a target "host" memory 1 precision f32
}

// -----

// expected-error @below {{has no zero.bucket: run --zero-form-buckets first}}
module {
  func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
    %0 = call @unit(%ids) : (tensor<?x4xi32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
  func.func private @unit(tensor<?x4xi32>) -> tensor<?x4xf32>
}
