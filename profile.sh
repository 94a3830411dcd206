poplar profile --model model.mlir --cluster cluster.json --device-type sse41-f32 -o profiles/sse41-f32.json --max-batch 4
