// RUN: poplar-opt %s --split-input-file --verify-diagnostics

exec.function unit @f(%x: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{'exec.rows' op takes 'memref<?x4x16xf32>' from token 6, which does not lie in 'memref<?x8x16xf32>'}}
  %r = exec.rows %x from 6 : memref<?x8x16xf32> to memref<?x4x16xf32>
  exec.return
}

// -----

exec.function unit @f(%x: memref<?x4x16xf32>, %y: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{has bounds [0, 5, 4], expected ascending bounds from 0, one more than ranks}}
  %t = exec.start_exchange gather_tokens bounds [0, 5, 4] position 0 %x into %y : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.return
}

// -----

exec.function unit @f(%x: memref<?x4x16xf32>, %y: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{has 1 results for 2 ranks}}
  %t = exec.start_exchange scatter_tokens bounds [0, 4, 8] position 0 %y into %x : (memref<?x8x16xf32>, memref<?x4x16xf32>)
  exec.return
}

// -----

exec.function unit @f(%x: memref<?x4x16xf32>, %y: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{is round 2 at position 0 of 2 ranks}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 0 round 2 %x into %y : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.return
}

// -----

exec.function unit @f(%x: memref<?x4x16xf32>, %y: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{expected the 9 tokens that are divided}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 9] position 0 %x into %y : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.return
}

// -----

exec.function unit @f(%x: memref<?x4x16xf32>, %y: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{is piece 2 of 2, expected at most 8 pieces in a round, and one in all rounds together}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 0 round 1 piece 2 of 2 %x into %y : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.return
}

// -----

exec.function unit @f(%x: memref<?x4x16xf32>, %y: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{is piece 0 of 2, expected at most 8 pieces in a round, and one in all rounds together}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 0 piece 0 of 2 %x into %y : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.return
}

// -----

exec.function unit @f(%x: memref<?x4x16xf32>, %y: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{is chained, but only a complete gather_tokens can be}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 1 round 1 chained %x into %y : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.wait_exchange %t
  exec.return
}
