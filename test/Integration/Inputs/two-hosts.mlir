// Two hosts of unlike speed on one machine, with profiles made up for tests.
cluster.device_type @fast target "host:avx2-f32" memory 4294967296 precision f32 threads 1
cluster.device_type @slow target "host:sse41-f32" memory 4294967296 precision f32 threads 1
cluster.node @node0 devices [@fast, @slow]
cluster.link inside nodes latency 1.0e-05 bandwidth 5.0e+09
cluster.profile @fast stage 0 micro_batches [1, 2, 4] seconds [0.01, 0.02, 0.04] memory fixed 3217792 per_sample 1466432
cluster.profile @slow stage 0 micro_batches [1, 2, 4] seconds [0.02, 0.04, 0.08] memory fixed 3217792 per_sample 1466432
cluster.profile @fast stage 1 micro_batches [1, 2, 4] seconds [0.01, 0.02, 0.04] memory fixed 3217792 per_sample 1466432
cluster.profile @slow stage 1 micro_batches [1, 2, 4] seconds [0.02, 0.04, 0.08] memory fixed 3217792 per_sample 1466432
cluster.profile @fast stage 2 micro_batches [1, 2, 4] seconds [0.01, 0.02, 0.04] memory fixed 3217792 per_sample 1466432
cluster.profile @slow stage 2 micro_batches [1, 2, 4] seconds [0.02, 0.04, 0.08] memory fixed 3217792 per_sample 1466432
cluster.profile @fast stage 3 micro_batches [1, 2, 4] seconds [0.01, 0.02, 0.04] memory fixed 3217792 per_sample 1466432
cluster.profile @slow stage 3 micro_batches [1, 2, 4] seconds [0.02, 0.04, 0.08] memory fixed 3217792 per_sample 1466432
