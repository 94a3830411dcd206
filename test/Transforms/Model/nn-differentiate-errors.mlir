// RUN: poplar-opt %s --nn-differentiate --split-input-file --verify-diagnostics
// RUN: not poplar-opt %s --split-input-file --nn-differentiate=recompute=some 2>&1 | FileCheck %s

// CHECK: unknown 'some', expected keep, recompute-attention, recompute-unit

// expected-error @below {{expected a function @model to differentiate}}
module {
  func.func private @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
    return %x : tensor<?x4x8xf32>
  }
}

// -----

// expected-error @below {{expected ids, targets and keys (rank-2 i32 tensors) and one result, the loss (a rank-2 f32 tensor), but its type is '(tensor<?x4xi32>) -> tensor<?x4xf32>'}}
func.func @model(%ids: tensor<?x4xi32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?x4xi32>
  %0 = tensor.empty(%n) : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
// expected-error @below {{has the name @train of a function that this pass makes: rename it}}
func.func @train() {
  return
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%x, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
// expected-error @below {{cannot be differentiated: there is a symbol @unit.backward already}}
func.func private @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  return %x : tensor<?x4x8xf32>
}
func.func private @unit.backward()
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %y = func.call @unit(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @other(tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{expected a call of a unit, but @other has no attribute nn.unit}}
  %y = func.call @other(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = tensor.cast %x : tensor<?x4x8xf32> to tensor<2x4x8xf32>
  // expected-error @below {{'tensor.cast' op has no derivative}}
  %y = tensor.cast %0 : tensor<2x4x8xf32> to tensor<?x4x8xf32>
  return %y : tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %y = func.call @unit(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes {nn.unit} {
  return %x, %x : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{cannot be differentiated: result 1 of @unit does not influence the loss}}
  %y:2 = func.call @unit(%x) : (tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>)
  %loss = func.call @loss(%y#0, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>, %a: tensor<16x8xf32> {nn.parameter}, %b: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %a : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %1 = nn.linear %0, %b layout in_out : (tensor<?x4x16xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{passes one parameter to two arguments of @unit, which would both update its gradient in place}}
  %y = func.call @unit(%x, %w, %w) : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>, %a: tensor<?x4x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.add %x, %a : tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{expected operand 1 to be a parameter, as argument 1 of @unit is}}
  %y = func.call @unit(%x, %x) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

// A statistic used as an activation.
nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{has no derivative of its result 1, a statistic that only its own gradient may use}}
  %1:2 = nn.cross_entropy %0, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %1#1 : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %loss = func.call @embed(%ids, %targets, %w) : (tensor<?x4xi32>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %y: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %s = nn.add %x, %y : tensor<?x4x8xf32>
  %0:2 = nn.cross_entropy %s, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %y = nn.relu %x : tensor<?x4x8xf32>
  return %y : tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %y = func.call @unit(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{expected the targets to meet one value, the logits; this is a second one}}
  %loss = func.call @loss(%x, %y, %targets) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

#id = affine_map<(b, t, d) -> (b, t, d)>
#token = affine_map<(b, t, d) -> (b, t)>
nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  // expected-error @below {{has no derivative: 'math.floor' in its body has none}}
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<?x4x8xf32>) outs(%x : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %f = math.floor %a : f32
    linalg.yield %f : f32
  } -> tensor<?x4x8xf32>
  return %y : tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %y = func.call @unit(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

#id = affine_map<(b, t, d) -> (b, t, d)>
#token = affine_map<(b, t, d) -> (b, t)>
nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>, %t: tensor<?x4xf32>) -> tensor<?x4xf32> attributes {nn.unit} {
  // expected-error @below {{has no derivative: result 0 is reduced by something else than adding to it (only sums are supported)}}
  %y = linalg.generic {indexing_maps = [#id, #token], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x : tensor<?x4x8xf32>) outs(%t : tensor<?x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%x, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  %l2 = func.call @unit(%x, %loss) : (tensor<?x4x8xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %l2 : tensor<?x4xf32>
}

// -----

#shift = affine_map<(b, t, d) -> (b, t + d)>
#id = affine_map<(b, t, d) -> (b, t, d)>
#token = affine_map<(b, t, d) -> (b, t)>
nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x11xf32>, %y: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  // expected-error @below {{has no derivative: the indexing map of operand 0 is not a projected permutation}}
  %0 = linalg.generic {indexing_maps = [#shift, #id], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<?x11xf32>) outs(%y : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%n) : tensor<?x11xf32>
  %y = func.call @unit(%e, %x) : (tensor<?x11xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

#id = affine_map<(b, t, d) -> (b, t, d)>
#token = affine_map<(b, t, d) -> (b, t)>
nn.parameter @w : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func private @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %c0 = arith.constant 0 : index
  %s = tensor.extract %x[%c0, %c0, %c0] : tensor<?x4x8xf32>
  // expected-error @below {{has no derivative: its body captures a value that needs one}}
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<?x4x8xf32>) outs(%x : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %f = arith.mulf %a, %s : f32
    linalg.yield %f : f32
  } -> tensor<?x4x8xf32>
  return %y : tensor<?x4x8xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<16x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %y = func.call @unit(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// -----

nn.parameter @f : tensor<8x8xf32> ones frozen
nn.parameter @w : tensor<8x8xf32> ones
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %f = nn.get_parameter @f : tensor<8x8xf32>
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  // expected-note @below {{the other call}}
  %y = func.call @block(%x, %f) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{passes a parameter that is trained as argument 1 of @block, but another call does not: both run the same function}}
  %z = func.call @block(%y, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%z, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}
