poplar plan --model model.mlir --cluster cluster.json --profiles profiles/sse41-f32.json --global-batch 8 -o plan.mlir
