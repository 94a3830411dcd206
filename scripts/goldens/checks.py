# ===- checks.py - What checks against other libraries begin with ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What check_*.py that train with PyTorch begin with."""

import argparse
import pathlib

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make_parser(description):
    """A parser with --poplar, the build to check."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=str(ROOT / "build" / "release" / "bin" / "poplar"))
    return parser


def quiet_libraries():
    """Only rows of tables are printed; sums do not depend on the cores."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
