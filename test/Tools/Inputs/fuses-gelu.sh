#!/bin/sh
# Status 1 says that the module is interesting.
! poplar-opt "$1" --fuse-gemm-epilogues | grep -q nn.linear_gelu
