# ===- check_auto.py - Is the plan of --policy auto the fastest? -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_auto.py CHOSEN DIRECTORY MODEL OPTION...

Plans MODEL without a policy and by each kind of plan itself, with the other
options of `poplar plan` as they are given. CHOSEN has to be what is chosen;
its plan has to take what `poplar simulate` says, and no more than the plan that
any other command writes."""

import json
import subprocess
import sys

chosen, directory, model = sys.argv[1:4]


def run(*arguments):
    return subprocess.run(["poplar", *arguments], capture_output=True, text=True)


def simulate(policy):
    """Simulated seconds of the plan by a policy; none if there is no plan."""
    plan, result = f"{directory}/{policy}.mlir", f"{directory}/{policy}.json"
    arguments = ["plan", model, *sys.argv[4:], "-o", plan]
    if policy == "auto":
        arguments += ["--json", f"{directory}/report.json"]
    else:
        arguments += ["--policy", policy]
    done = run(*arguments)
    if done.returncode:
        assert policy != "auto", done.stderr
        return None
    done = run("simulate", plan, "--json", result)
    assert done.returncode == 0, done.stderr
    return json.load(open(result))["simulated_seconds"]


seconds = simulate("auto")
report = json.load(open(f"{directory}/report.json"))
assert report["policy"] == chosen, report
assert abs(report["simulated_seconds"] / seconds - 1) < 1e-9, (report, seconds)
for kind in report["kinds"]:
    own = simulate(kind["policy"])
    if own is None:
        assert "error" in kind, kind
        continue
    assert seconds <= own * (1 + 1e-9), (seconds, kind, own)
    # A kind whose plans are all slower is not searched to its end.
    if "error" in kind:
        assert "that takes less than" in kind["error"], kind
    else:
        # A plan of another kind is not looked for if it cannot be the fastest.
        ratio = kind["simulated_seconds"] / own
        assert ratio > 1 - 1e-9, (kind, own)
        assert kind["policy"] != chosen or ratio < 1 + 1e-9, (kind, own)
        assert kind["lower_bound_seconds"] <= kind["predicted_seconds"], kind
        bound = report["lower_bound_of_all_kinds_seconds"]
        assert 0 < bound <= kind["lower_bound_seconds"], kind
        parts = ("computing", "waiting", "exposed")
        used = sum(kind[f"{part}_seconds"] for part in parts)
        assert used <= own * (1 + 1e-9) and kind["devices"] > 0, kind
print(f"{chosen}: {seconds} s, simulated")
