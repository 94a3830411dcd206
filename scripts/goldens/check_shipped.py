#!/usr/bin/env python3
# ===- check_shipped.py - Parameters of public models by transformers ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares the parameters in test/Import/Inputs/shipped-outcomes.json with the models that
transformers makes of the same configurations, without memory for their values.

Needs the packages of requirements.txt, and no build of the project.
"""

import json
import sys

import torch
import transformers

from checks import ROOT, quiet_libraries

INPUTS = ROOT / "test" / "Import" / "Inputs"


def count_parameters(config):
    """Those that are tied count once; of models that read pictures, those of the model
    of text."""
    kind = getattr(transformers, config["architectures"][0])
    with torch.device("meta"):
        model = kind(kind.config_class.from_dict(config))
    model.tie_weights()
    return sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if "text_config" not in config or ".language_model." in name or "lm_head" in name
    )


def main():
    quiet_libraries()
    outcomes = json.loads((INPUTS / "shipped-outcomes.json").read_text())
    compared = differences = 0
    for name, outcome in outcomes.items():
        if "refused" in outcome:
            continue
        config = json.loads((INPUTS / "shipped" / f"{name}.json").read_text())
        count = count_parameters(config)
        compared += 1
        if count != outcome["parameters"]:
            differences += 1
            print(f"{name}: {count} by transformers, {outcome['parameters']} in the table")
    print(f"{compared} numbers of parameters compared, {differences} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
