// RUN: poplar-opt %s --nn-differentiate | FileCheck %s

#id = affine_map<(b, t, d) -> (b, t, d)>
#row = affine_map<(b, t, d) -> (d)>
#token = affine_map<(b, t, d) -> (b, t)>

nn.parameter @wte : tensor<16x8xf32> normal std 2.0e-02 decay
nn.parameter @w : tensor<8xf32> ones

// CHECK-DAG: #[[$ID:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$ROW:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG: #[[$TOKEN:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>

func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// tanh(x) * w: the broadcast parameter's gradient is summed into the running
// one. No size is asked of a forward value.
// CHECK-LABEL: func.func private @scale.backward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[W:[a-z0-9]+]]: tensor<8xf32> {nn.parameter}, %[[DY:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[A:[a-z0-9]+]]: tensor<8xf32> {nn.gradient})
// CHECK:         tensor.dim %[[DY]]
// CHECK:         %[[DX:.*]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ROW]], #[[$ID]], #[[$ID]]], iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[X]], %[[W]], %[[DY]]
// CHECK-NEXT:    ^bb0(%[[SX:.*]]: f32, %[[SW:.*]]: f32, %[[SDY:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[TANH:.*]] = math.tanh %[[SX]]
// CHECK-NEXT:      %[[D:.*]] = arith.mulf %[[SDY]], %[[SW]]
// CHECK-NEXT:      %[[SQUARE:.*]] = arith.mulf %[[TANH]], %[[TANH]]
// CHECK-NEXT:      %[[ONE:.*]] = arith.constant 1.0
// CHECK-NEXT:      %[[SLOPE:.*]] = arith.subf %[[ONE]], %[[SQUARE]]
// CHECK-NEXT:      %[[R:.*]] = arith.mulf %[[D]], %[[SLOPE]]
// CHECK-NEXT:      linalg.yield %[[R]]
// CHECK:         %[[DW:.*]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ID]], #[[$ROW]]], iterator_types = ["reduction", "reduction", "parallel"]} ins(%[[X]], %[[DY]] : {{.*}}) outs(%[[A]]
// CHECK-NEXT:    ^bb0(%[[SX2:.*]]: f32, %[[SDY2:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT:      %[[T2:.*]] = math.tanh %[[SX2]]
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[SDY2]], %[[T2]]
// CHECK-NEXT:      %[[S:.*]] = arith.addf %[[ACC]], %[[P]]
// CHECK-NEXT:      linalg.yield %[[S]]
// CHECK:         return %[[DX]], %[[DW]]
func.func private @scale(%x: tensor<?x4x8xf32>, %w: tensor<8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%n) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %w : tensor<?x4x8xf32>, tensor<8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = math.tanh %a : f32
    %m = arith.mulf %t, %b : f32
    linalg.yield %m : f32
  } -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// x - sum(x^2) in bf16: what was broadcast is summed, in f32, and what was
// summed is broadcast; x gets both its cotangents.
// CHECK-LABEL: func.func private @center.backward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<?x4x8xbf16>, %[[DY:[a-z0-9]+]]: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16>
// CHECK:         %[[ZERO:.*]] = linalg.fill
// CHECK:         %[[DS:.*]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$TOKEN]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[DY]] : {{.*}}) outs(%[[ZERO]] : tensor<?x4xf32>)
// CHECK-NEXT:    ^bb0(%[[SDY:.*]]: bf16, %[[ACC:.*]]: f32):
// CHECK-NEXT:      %[[NEG:.*]] = arith.negf %[[SDY]]
// CHECK-NEXT:      %[[EXT:.*]] = arith.extf %[[NEG]]
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[ACC]], %[[EXT]]
// CHECK:         %[[DX:.*]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$TOKEN]], #[[$ID]]], iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[X]], %[[DS]]
// CHECK:         %[[SUM:.*]] = nn.add %[[DY]], %[[DX]]
// CHECK:         return %[[SUM]]
func.func private @center(%x: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16> attributes {nn.unit} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x4x8xbf16>
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = linalg.generic {indexing_maps = [#id, #token], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x : tensor<?x4x8xbf16>) outs(%z : tensor<?x4xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %f = arith.extf %a : bf16 to f32
    %q = arith.mulf %f, %f : f32
    %m = arith.addf %o, %q : f32
    linalg.yield %m : f32
  } -> tensor<?x4xf32>
  %e2 = tensor.empty(%n) : tensor<?x4x8xbf16>
  %0 = linalg.generic {indexing_maps = [#id, #token, #id], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %s : tensor<?x4x8xbf16>, tensor<?x4xf32>) outs(%e2 : tensor<?x4x8xbf16>) {
  ^bb0(%a: bf16, %b: f32, %o: bf16):
    %t = arith.truncf %b : f32 to bf16
    %m = arith.subf %a, %t : bf16
    linalg.yield %m : bf16
  } -> tensor<?x4x8xbf16>
  return %0 : tensor<?x4x8xbf16>
}

// Every scalar op, in a chain.
// CHECK-LABEL: func.func private @scalars.backward(
// CHECK:         ^bb0(%[[X:.*]]: f32, %[[DY:.*]]: f32, %{{.*}}: f32):
// CHECK-DAG:       %[[ERF:.*]] = math.erf %[[X]]
// CHECK-DAG:       %[[MAX:.*]] = arith.maximumf %[[ERF]], %[[C:.*]] :
// CHECK-DAG:       %[[SQRT:.*]] = math.sqrt %[[MAX]]
// CHECK-DAG:       %[[RSQRT:.*]] = math.rsqrt %[[SQRT]]
// CHECK-DAG:       %[[LOG:.*]] = math.log %[[RSQRT]]
// CHECK-DAG:       %[[EXP:.*]] = math.exp %[[LOG]]
// CHECK-DAG:       %[[CMP:.*]] = arith.cmpf ogt, %[[EXP]]
// CHECK-DAG:       %[[SEL:.*]] = arith.select %[[CMP]], %[[EXP]], %[[C]]
// CHECK-DAG:       %[[DIV:.*]] = arith.divf %[[C]], %[[SEL]]
// d/dx (c / x) = -(dy / x) y
// CHECK:           %[[RATIO:.*]] = arith.divf %{{.*}}, %[[SEL]]
// CHECK:           %[[RY:.*]] = arith.mulf %[[RATIO]], %[[DIV]]
// CHECK:           %[[D1:.*]] = arith.negf %[[RY]]
// CHECK:           %[[D2:.*]] = arith.select %[[CMP]], %[[D1]], %{{.*}}
// CHECK:           %[[D3:.*]] = arith.mulf %[[D2]], %[[EXP]]
// CHECK:           %[[D4:.*]] = arith.divf %[[D3]], %[[RSQRT]]
// CHECK:           %[[Y2:.*]] = arith.mulf %[[RSQRT]], %[[RSQRT]]
// CHECK:           %[[Y3:.*]] = arith.mulf %[[Y2]], %[[RSQRT]]
// CHECK:           %[[MHALF:.*]] = arith.constant -5.000000e-01
// CHECK:           %[[D4H:.*]] = arith.mulf %[[D4]], %[[MHALF]]
// CHECK:           %[[D5:.*]] = arith.mulf %[[D4H]], %[[Y3]]
// CHECK:           %[[HALF:.*]] = arith.constant 5.000000e-01
// CHECK:           %[[D5H:.*]] = arith.mulf %[[D5]], %[[HALF]]
// CHECK:           %[[D6:.*]] = arith.divf %[[D5H]], %[[SQRT]]
// CHECK:           %[[WINS:.*]] = arith.cmpf ogt, %[[ERF]], %[[C]]
// CHECK:           %[[D7:.*]] = arith.select %[[WINS]], %[[D6]]
// CHECK:           %[[XX:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK:           %[[MXX:.*]] = arith.negf %[[XX]]
// CHECK:           %[[BELL:.*]] = math.exp %[[MXX]]
// CHECK:           %[[K:.*]] = arith.constant 1.12837
// CHECK:           %[[SLOPE:.*]] = arith.mulf %[[K]], %[[BELL]]
// CHECK:           %[[D8:.*]] = arith.mulf %[[D7]], %[[SLOPE]]
// CHECK:           linalg.yield %[[D8]]
func.func private @scalars(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<?x4x8xf32>) outs(%x : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.constant 0.5 : f32
    %erf = math.erf %a : f32
    %max = arith.maximumf %erf, %c : f32
    %sqrt = math.sqrt %max : f32
    %rsqrt = math.rsqrt %sqrt : f32
    %log = math.log %rsqrt : f32
    %exp = math.exp %log : f32
    %cmp = arith.cmpf ogt, %exp, %c : f32
    %sel = arith.select %cmp, %exp, %c : f32
    %div = arith.divf %c, %sel : f32
    %neg = arith.negf %div : f32
    linalg.yield %neg : f32
  } -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}

// Ops between the units are differentiated too.
// CHECK-LABEL: func.func @train(
// CHECK:         %[[DS:.*]] = call @loss.backward
// CHECK:         %[[DSB:.*]] = nn.cast %[[DS]] : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
// CHECK:         %[[DCB:.*]] = call @center.backward(%{{.*}}, %[[DSB]])
// CHECK:         %[[DC:.*]] = nn.cast %[[DCB]]
// CHECK:         nn.add %[[DS]], %[[DC]]
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte : tensor<16x8xf32>
  %w = nn.get_parameter @w : tensor<8xf32>
  %x0 = func.call @embed(%ids, %wte) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %x1 = func.call @scale(%x0, %w) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %x2 = func.call @scalars(%x1) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %c = nn.cast %x2 : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
  %x3 = func.call @center(%c) : (tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16>
  %d = nn.cast %x3 : tensor<?x4x8xbf16> to tensor<?x4x8xf32>
  %s = nn.add %d, %x2 : tensor<?x4x8xf32>
  %loss = func.call @loss(%s, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}
