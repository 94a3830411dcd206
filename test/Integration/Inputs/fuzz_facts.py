# ===- fuzz_facts.py - Change the numbers of models and plans --------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Changes one integer, real number, string, word or value of a model (of poplar import)
or a plan of one rank (of poplar plan) at a time, builds what comes out, and trains for two
steps. That must end in one error that names a place, or in a result that is known
to be right:

- the same losses, where nothing is computed from the text (an estimate, a label);
- losses within 1e-6 of them, where a plan splits the same global batch otherwise;
- other losses, where the checkpoint's config.json describes the model that was
  trained: imported again, it gives the same loss for the checkpoint. A model that
  records no configuration is trained as it is written, to finite losses.

Never in a signal, in a hang, or in a checkpoint whose config.json says otherwise.

With --config, a number is also changed wherever it is written in the model that
the config describes: that must give the very losses of an import of a config with
this number.

Without --all, as many cases as --cases says are drawn by --seed, in turn from
every kind of place."""

import argparse
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys

NUMBER = r"(?<![\w.%@!#\"-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.\"])"
DIMENSION = r"(?<=[<x])\d+(?=x)"
STRING = r'"(?:[^"\\]|\\.)*"'
# The name of an op or a parameter, a keyword, and what an op takes.
WORD = r"(?<![\w.%!])@?[a-z][\w.]*(?=[\s,)]|$)|%\w+(?=[\s,)])"
TOKEN = re.compile(f"({STRING})|({NUMBER})|({DIMENSION})|({WORD})", re.MULTILINE)
LOCATED = re.compile(r"(poplar|train): error: \S.*")
LARGE = [2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63)]
# The hexadecimal ones are no number, and infinity.
REALS = ["0.0", "-1.0", "nan", "0x7FF8000000000000", "0x7FF0000000000000"]
REALS += ["1.0e+308", "-1.0e-300", "1.0e+30"]
# Anything may be written here: nothing is computed from it.
LABELS = re.compile(
    r"predicted_seconds|lower_bound_seconds|predicted_uncertainty|simulated_seconds|simulated_plans|priced_plans"
    r'|policy "|cluster\.(profile|link|node|device_type)|architecture ='
)
# What of a plan may be chosen.
SPLIT = re.compile(r"micro_batch|steps|last|threads|state|stage|global_batch")


class Case:
    def __init__(self, name, text, start, end, replacement):
        self.name, self.text = name, text
        self.start, self.end, self.replacement = start, end, replacement
        begin = text.rfind("\n", 0, start) + 1
        self.line = text.count("\n", 0, start) + 1
        self.before = text[begin:start]
        self.row = text[begin : text.find("\n", start)]

    def mutate(self):
        return self.text[: self.start] + self.replacement + self.text[self.end :]

    def __str__(self):
        old, new = self.text[self.start : self.end], self.replacement
        at = max(0, len(os.path.commonprefix([old, new])) - 30)
        shown = f"{old[at:][:60]} -> {new[at:][:60]}"
        return f"{self.name}:{self.line}: {shown} in {self.before[-60:]}"


def change_integer(text):
    value = int(text)
    changed = [value + 1, value - 1, 0, -1, 2 * value, *LARGE]
    return [str(new) for new in dict.fromkeys(changed) if new != value]


def change_real(text):
    value = float(text)
    nearby = [repr(value * factor) for factor in (2.0, 0.5, 1.0 + 1e-3)]
    # Reals are written with a point.
    nearby = [new if "." in new else re.sub("(?=e|$)", ".0", new, count=1) for new in nearby]
    return [new for new in nearby + REALS if new != text]


def change_string(text, others):
    inside = text[1:-1]
    changed = ['""', '"x"', f'"{inside}x"', '"$(touch X)"', '"../x"', '"a\\0Ab"']
    return [new for new in changed + others[:3] if new != text]


def change_word(text, words):
    """Nothing, or one of those that are alike."""
    alike = [word for word in words if word[0] == text[0]]
    at = alike.index(text)
    return [new for new in ("", alike[at - 1], alike[(at + 1) % len(alike)]) if new != text]


def change_config(text):
    """Each number and each yes or no in a text of JSON."""
    changed = ['""', '"{}"', '"[]"']
    for value in re.finditer(r"(?<![\w\\.])-?\d[\d.e-]*|true|false|null", text):
        other = {"true": "false", "false": "true", "null": "2"}.get(value[0])
        for new in [other] if other else [f"{value[0]}1", f"{float(value[0]) / 2:g}"]:
            changed.append(text[: value.start()] + new + text[value.end() :])
    return changed


def list_cases(path):
    text = path.read_text()
    tokens = list(TOKEN.finditer(text))
    strings = list(dict.fromkeys(token[0] for token in tokens if token[1]))
    words = list(dict.fromkeys(token[4] for token in tokens if token[4]))
    for token in tokens:
        if token[1]:
            if "config" in text[max(0, token.start() - 20) : token.start()]:
                changed = change_config(token[0])
            else:
                changed = change_string(token[0], strings)
        elif token[4]:
            changed = change_word(token[4], words)
        elif re.search(r"[.e]", token[0]):
            changed = change_real(token[0])
        else:
            changed = change_integer(token[0])
        for new in changed:
            yield Case(path.name, text, token.start(), token.end(), new)


class Runner:
    def __init__(self, directory, data):
        self.directory, self.data = directory, data

    def call(self, command):
        try:
            done = subprocess.run(
                [str(word) for word in command],
                capture_output=True, text=True, errors="replace", check=False,
                timeout=120, cwd=self.directory,
            )
        except subprocess.TimeoutExpired:
            return "hang", ""
        output = done.stderr + done.stdout
        if done.returncode == 0:
            return "ok", output
        errors = [line for line in output.splitlines() if LOCATED.match(line)]
        if done.returncode == 1 and len(errors) == 1:
            return "error", errors[0]
        return f"exit status {done.returncode}", output[-2000:]

    def build(self, source):
        """(what came of it, the program or the error)"""
        job = self.directory / "job"
        subprocess.run(["rm", "-rf", job], check=True)
        verdict, output = self.call(["poplar", "build", source, "-o", job])
        return verdict, next(job.glob("*/train")) if verdict == "ok" else output

    def run(self, text):
        """(what came of it, the losses or the error)"""
        source, out = self.directory / "case.mlir", self.directory / "run"
        source.write_text(text)
        subprocess.run(["rm", "-rf", out], check=True)
        verdict, program = self.build(source)
        if verdict != "ok":
            return verdict, program
        command = [program, "train", "--data", self.data, "--steps", "2"]
        if program.parent.name == "host":
            command += ["--batch", "2"]
        command += ["--log-every", "1", "--peak-gflops", "1", "--threads", "1", "--out", out]
        verdict, output = self.call(command)
        if verdict != "ok":
            return verdict, output
        rows = (out / "metrics.csv").read_text().splitlines()[1:]
        return "ok", [float(row.split(",")[1]) for row in rows]

    def evaluate(self, program):
        command = [program, "evaluate", "--checkpoint", "run", "--data", self.data]
        verdict, output = self.call([*command, "--threads", "1", "--batch", "2"])
        found = re.search(r"loss +([\d.]+)", output)
        return found[1] if found else f"{verdict} {output}"

    def check_checkpoint(self, text):
        """What the config.json of the last run's checkpoint computes otherwise than
        its program, which was made of `text`; nothing if it is the same."""
        checkpoint = next((self.directory / "run").glob("checkpoint-*"))
        if not (checkpoint / "config.json").exists():
            return None
        trained = self.evaluate(next(self.directory.glob("job/*/train")))
        model = self.directory / "described.mlir"
        verdict, output = self.call(
            ["poplar", "import", checkpoint, "-o", model]
            + ["--seq-len", re.search(r"seq_len = (\d+)", text)[1]]
        )
        if verdict == "ok":
            verdict, output = self.build(model)
        if verdict != "ok":
            return f"config.json of the checkpoint: {output}"
        described = self.evaluate(output)
        same = trained == described and re.fullmatch(r"[\d.]+", trained)
        return None if same else f"loss {trained}, of its config.json {described}"


def is_near(losses, reference, tolerance):
    return len(losses) == len(reference) and all(
        math.isfinite(a) and abs(a - b) <= tolerance for a, b in zip(losses, reference)
    )


def judge(case, verdict, result, reference, runner):
    """Why the outcome is wrong; nothing if it is right."""
    if verdict == "error":
        return None
    if verdict != "ok":
        return f"{verdict}: {result}"
    if is_near(result, reference, 0.0):
        # The text may be of the configuration alone.
        return None if case.name.startswith("plan") else runner.check_checkpoint(case.mutate())
    if case.name.startswith("plan") and SPLIT.search(case.row) and "zero." in case.row:
        return None if is_near(result, reference, 1e-6) else f"losses {result}"
    if LABELS.search(case.row):
        return f"losses {result}, though nothing is computed from it"
    if not all(math.isfinite(loss) for loss in result):
        return f"losses {result}"
    return runner.check_checkpoint(case.mutate())


def draw(cases, count, seed):
    """In turn from every kind of place: there are far more numbers in types than
    anywhere else."""
    kinds = {}
    for case in cases:
        text = re.sub(f"{STRING}|{NUMBER}|{DIMENSION}|[%@][\\w.]+", "#", case.before)
        kinds.setdefault((case.name, text[-24:]), []).append(case)
    source = random.Random(seed)
    for kind in kinds.values():
        source.shuffle(kind)
    drawn, kinds = [], sorted(kinds.values(), key=lambda kind: str(kind[0]))
    source.shuffle(kinds)
    while kinds and len(drawn) < count:
        drawn += [kind.pop() for kind in kinds]
        kinds = [kind for kind in kinds if kind]
    return drawn[:count]


# A key of a config, another value, and where the model has the value.
REBUILT = {
    "llama": [
        ("rms_norm_eps", 1e-2, r"eps (\S+)"),
        ("initializer_range", 0.1, r"std (\S+)"),
    ],
    "gpt2": [("layer_norm_epsilon", 1e-2, r"eps (\S+)")],
}


def check_rebuilt(runner, config, log):
    """How many numbers mean one thing in a config and another in its model."""
    described = json.loads(config.read_text())
    wrong, changed, model = 0, runner.directory / "config.json", runner.directory / "m.mlir"

    def describe(values):
        changed.write_text(json.dumps({**described, **values}))
        verdict, output = runner.call(["poplar", "import", changed, "-o", model])
        if verdict != "ok":
            sys.exit(f"{changed}: {output}")
        return model.read_text()

    for key, value, place in REBUILT[described["model_type"]]:
        original = describe({})
        old = re.search(place, original)
        edited = original.replace(old[0], old[0].replace(old[1], f"{value:.6e}"))
        # What the file says of where it comes from is not computed with.
        edited = re.sub(r', config(_facts)? = "(?:[^"\\]|\\.)*"', "", edited)
        results = [runner.run(text) for text in (original, edited, describe({key: value}))]
        log(f"{config.name}: {key} {value}: {results}")
        if results[1] != results[2] or results[0] == results[1] or results[1][0] != "ok":
            print(f"WRONG {config.name}: {key} {value}: {results}")
            wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("sources", type=pathlib.Path, nargs="+")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--config", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="cases whose line has this text")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    runner = Runner(arguments.directory.resolve(), arguments.data.resolve())
    os.environ["OMP_WAIT_POLICY"] = "passive"
    cases, references = [], {}
    for source in arguments.sources:
        verdict, losses = runner.run(source.read_text())
        if verdict != "ok":
            sys.exit(f"{source}: {verdict}: {losses}")
        references[source.name] = losses
        cases += [case for case in list_cases(source) if arguments.only in case.row]
    if not arguments.all:
        cases = draw(cases, arguments.cases, arguments.seed)
    log = print if arguments.all else lambda text: None
    wrong, counts = 0, {}
    for config in arguments.config:
        wrong += check_rebuilt(runner, config, log)
    for case in cases:
        verdict, result = runner.run(case.mutate())
        counts[verdict] = counts.get(verdict, 0) + 1
        reason = judge(case, verdict, result, references[case.name], runner)
        if reason:
            wrong += 1
            print(f"WRONG {case}: {reason}", flush=True)
        else:
            log(f"{case}: {verdict} {result}")
    print(f"{len(cases)} cases, {counts}, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
