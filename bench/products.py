# ===- products.py - Shares of peaks, fitted to published products ---------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The model of large products in lib/Planner/Cluster/Roofline.cpp, fitted to
bench/measurements.json and the figures of the device library.

Cards of a generation, at full and at half rate, are taken in the order of their
names: the first, third, ... are fitted, the others check the fit. A card is
measured at the median of its measurements; under continuous load (100 products
and more), if there is such a one."""

import json
import math
import os
import re
import statistics

from commands import ROOT

MEASUREMENTS = os.path.join(ROOT, "bench", "measurements.json")
LIBRARY = os.path.join(ROOT, "lib", "Import", "DeviceLibrary.json")
ROOFLINE = os.path.join(ROOT, "lib", "Planner", "Cluster", "Roofline.cpp")

# As in Roofline.cpp.
GENERATIONS = {
    "cuda:sm_60": "pascal",
    "cuda:sm_70": "volta",
    "cuda:sm_75": "turing",
    "cuda:sm_80": "ampere",
    "cuda:sm_86": "ampereRTX",
    "cuda:sm_89": "ada",
    "cuda:sm_90": "hopper",
    "cuda:sm_100": "blackwell",
    "cuda:sm_120": "blackwellRTX",
    "hip:gfx942": "cdna",
}
HALF_RATE = {"turing": 6, "ampereRTX": 3, "ada": 3, "blackwellRTX": 3}
# Generations whose limits of power are fitted: in these a card was measured
# that has more FLOP/s a watt than it can pay for. Volta and Turing are made by
# one process and fitted as one.
POWERED = {
    "volta": "12 nm", "turing": "12 nm", "ampere": "ampere",
    "ampereRTX": "ampereRTX", "ada": "ada", "hopper": "hopper",
}  # fmt: skip
CONTINUOUS = {"forum"}
# Side of the products; most sources give the best of some sizes around it.
SIDE, HALF = 8192, 128
SATURATION = (SIDE / (SIDE + HALF)) ** 3


def load(path):
    with open(path) as file:
        return json.load(file)


class Card:
    def __init__(self, key, figures, measured):
        self.key, self.measured = key, measured
        flops = figures["flops"]
        self.peak = flops.get("bf16", flops["f16"])
        self.power = figures["power"]
        self.generation = GENERATIONS[figures["target"]]
        self.half = self.peak < HALF_RATE.get(self.generation, 0) * flops["f32"]
        self.amd = self.generation == "cdna"
        self.process = None if self.half else POWERED.get(self.generation)

    def predict(self, shares):
        share = shares["amd" if self.amd else "half" if self.half else "full"]
        rate = self.peak * share
        if self.process:
            rate = min(rate, self.power * shares[self.process])
        return rate * SATURATION

    def get_error(self, shares):
        return math.log(self.predict(shares) / self.measured)


def load_cards():
    library, rows = load(LIBRARY)["devices"], {}
    for device, _, teraflops, source in load(MEASUREMENTS)["products"]:
        rows.setdefault(device, []).append((source in CONTINUOUS, teraflops * 1e12))
    cards = []
    for key, values in sorted(rows.items()):
        most = max(continuous for continuous, _ in values)
        kept = [rate for continuous, rate in values if continuous == most]
        cards.append(Card(key, library[key], statistics.median(kept)))
    return cards


def split(cards):
    """Those to fit and those to check."""
    parts, seen = ([], []), {}
    for card in cards:
        group = (card.generation, card.half)
        parts[seen.get(group, 0) % 2].append(card)
        seen[group] = seen.get(group, 0) + 1
    return parts


def fit(cards):
    """Shares of the peak and products per joule with the least sum of errors,
    each of two digits; between equal ones the middle."""
    shares = {"full": 1.0, "half": 1.0, "amd": 1.0}
    shares.update({process: 1e15 for process in POWERED.values()})

    def improve(name, grid):
        affected = [
            card for card in cards
            if name in ("full", "half", "amd") or card.process == name
        ]  # fmt: skip
        def cost(value):
            tried = {**shares, name: value}
            return round(sum(abs(card.get_error(tried)) for card in affected), 9)
        costs = [cost(value) for value in grid]
        best = [value for value, c in zip(grid, costs) if c == min(costs)]
        shares[name] = best[len(best) // 2]

    percents = [i / 100 for i in range(40, 141)]
    for _ in range(5):
        for name in ("full", "half", "amd"):
            improve(name, percents)
        for name in sorted(set(POWERED.values())):
            improve(name, [i * 1e10 for i in range(20, 200)])
    return shares


def read_constants():
    """The same from Roofline.cpp."""
    with open(ROOFLINE) as file:
        text = file.read()

    def find(pattern):
        return float(re.search(pattern, text).group(1))

    shares = {
        "full": find(r"gemmShare = ([\d.]+);\s+constants.halfRateShare"),
        "half": find(r"halfRateShare = ([\d.]+);"),
        "amd": find(r"makeGPU\(0, 0, .*?\);\s+constants.gemmShare = ([\d.]+);"),
    }
    for generation, process in POWERED.items():
        value = find(rf"\b{generation} = makeGPU\(([\d.e]+),")
        if shares.setdefault(process, value) != value:
            raise SystemExit(f"error: {process} has two values in {ROOFLINE}")
    return shares


def summarize(name, errors):
    sizes = [abs(math.exp(error) - 1) for error in errors]
    print(
        f"{name}: {len(sizes)} cards, median error {100 * statistics.median(sizes):.0f} %, "
        f"worst {100 * max(sizes):.0f} %"
    )


def show(check):
    fitted, held_back = split(load_cards())
    shares = fit(fitted)
    print("share of the peak:", end="")
    for name in ("full", "half", "amd"):
        print(f" {name} rate {shares[name]:.2f};", end="")
    print("\nTFLOP/s a watt:", end="")
    for name in sorted(set(POWERED.values())):
        print(f" {name} {shares[name] / 1e12:.2f};", end="")
    print("\ndevice             class             part   measured  predicted  error")
    for card in sorted(fitted + held_back, key=lambda c: (c.generation, c.half, c.key)):
        kind = f"{card.generation}, {'half' if card.half else 'full'}"
        part = "check" if card in held_back else "fit"
        error = math.exp(card.get_error(shares)) - 1
        print(
            f"{card.key:<18} {kind:<17} {part:<6} {card.measured / 1e12:>8.1f}"
            f" {card.predict(shares) / 1e12:>10.1f} {100 * error:>+5.0f} %"
        )
    summarize("fit", [card.get_error(shares) for card in fitted])
    summarize("check", [card.get_error(shares) for card in held_back])
    if not check:
        return 0
    constants = read_constants()
    wrong = {n: (v, shares[n]) for n, v in constants.items() if abs(v / shares[n] - 1) > 1e-6}
    for name, (value, fit_value) in sorted(wrong.items()):
        print(f"error: Roofline.cpp has {value:g} for {name}, the fit {fit_value:g}")
    return 1 if wrong else 0
