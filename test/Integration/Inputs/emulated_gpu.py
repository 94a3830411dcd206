# ===- emulated_gpu.py - Executables for GPUs, on an emulated one ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains with executables for GPUs whose driver is emulated: the PTX in them is
what runs, addresses of the GPU's memory cannot be followed by the host, and
work is done no sooner than it is waited for (unittests/GPU/emulated/). Compares
with runs on the host:
  losses     within 1e-5 of each other, relatively; 1e-3 with products in TF32,
             1 % in bf16 and f16
  updates    as in equivalence.py, in f32
Nothing here runs on a GPU.

--jobs: jobs of several ranks instead, some of them on the host, through the
host's memory. In f32, what is replicated has to be the same bits on the GPU and
on the host.

--nccl: such jobs with an emulated NCCL between the GPUs, alone or as an island
beside hosts; ranks that share units and exchange by it; and what happens where
NCCL cannot be used, or fails."""

import os
import re

import jobs
from jobs import DeviceType, Plan, Rank

# The third step is the first that replays graphs, the fourth goes on from it.
STEPS = 4
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("host", HOST),
    DeviceType("volta", "cuda:sm_70"),
    DeviceType("turing_f16", "cuda:sm_75", "f16"),
    DeviceType("ampere", "cuda:sm_80"),
    DeviceType("ampere_tf32", "cuda:sm_80", "tf32"),
    DeviceType("hopper_bf16", "cuda:sm_90", "bf16"),
)
ALONE = [
    ("gpt2", "ampere", 1e-5),
    ("llama", "volta", 1e-5),
    ("bert", "ampere", 1e-5),
    ("llama", "hopper_bf16", 1e-2),
    ("gpt2", "hopper_bf16", 1e-2),
    ("gpt2", "ampere_tf32", 1e-3),
    ("gpt2", "turing_f16", 1e-2),
    ("qwen3", "ampere", 1e-5),
    ("qwen3_5", "ampere", 1e-5),
    ("qwen3_5", "hopper_bf16", 1e-2),
    ("gemma2", "hopper_bf16", 1e-2),
    ("phi3", "volta", 1e-5),
    ("gpt_neox", "ampere", 1e-5),
    # Neighbouring columns rotated.
    ("glm4", "ampere", 1e-5),
    # Logits in chunks of tokens.
    ("llama:8192", "ampere", 1e-5),
    ("gpt2:4096", "hopper_bf16", 1e-2),
    # Rows of logits that would begin at odd places.
    ("gpt2@257", "ampere", 1e-5),
    ("llama@263", "hopper_bf16", 1e-2),
    ("gpt2@259:4096", "ampere", 1e-5),
]
# Model, stage, ranks: micro-batch, steps, last, state, type.
TOGETHER = [
    ("gpt2", 0, [(3, 2, 2, 1, "ampere"), (2, 2, 2, 1, "host")]),
    ("llama", 1, [(3, 2, 1, 2, "host"), (2, 2, 2, 1, "volta")]),
    ("gpt2", 2, [(3, 2, 2, 2, "ampere"), (2, 2, 1, 1, "ampere")]),
    ("llama", 3, [(3, 2, 1, 1, "volta"), (0, 2, 1, 3, "host")]),
]
# What is said of ranks that have no library in common.
APART = "of ranks 0, 1: through the host's memory, as they have no library in common\n"
# Model, schedule, type of each of two pipeline stages, tolerance, and what is said
# of collectives: of a tied embedding, which both stages hold.
STAGES = [
    ("gpt2", "1f1b", ("ampere", "host"), 1e-5, f"collectives {APART}"),
    ("llama", "gpipe", ("volta", "ampere"), 1e-5, ""),
    ("llama", "1f1b", ("turing_f16", "ampere"), 1e-2, ""),
]
# Model, stage of ZeRO, types that share units, their parts, and what is said.
SHARED = [
    ("llama", 1, ("ampere", "ampere"), (1, 1), "exchanges of ranks 0, 1: NCCL 2.28.9\n"),
    ("gpt2", 3, ("ampere", "host"), (3, 1), f"exchanges {APART}"),
]


# What NCCL is called for: equal shards, unequal ones, and islands of some ranks.
EQUAL, UNEQUAL = {"ncclAllGather", "ncclReduceScatter"}, {"ncclBroadcast", "ncclReduce"}
# The same, the ranks that share NCCL, and what they call.
NCCL = [
    (
        "gpt2",
        0,
        [(3, 2, 2, 1, "ampere"), (2, 2, 2, 1, "ampere")],
        "0, 1",
        1e-5,
        {"ncclAllReduce"},
    ),
    (
        "llama",
        1,
        [(3, 2, 1, 2, "ampere"), (2, 2, 2, 1, "ampere")],
        "0, 1",
        1e-5,
        UNEQUAL,
    ),
    (
        "gpt2",
        2,
        [(2, 2, 2, 1, "ampere"), (2, 2, 2, 1, "ampere")],
        "0, 1",
        1e-5,
        EQUAL,
    ),
    (
        "llama",
        3,
        [(3, 2, 1, 1, "ampere"), (0, 2, 1, 3, "ampere")],
        "0, 1",
        1e-5,
        UNEQUAL,
    ),
    (
        "llama",
        3,
        [(3, 2, 1, 1, "hopper_bf16"), (2, 2, 1, 3, "hopper_bf16")],
        "0, 1",
        1e-2,
        UNEQUAL,
    ),
    # Islands that messages join.
    (
        "gpt2",
        0,
        [(2, 2, 2, 1, "ampere"), (1, 2, 2, 1, "host"), (2, 2, 1, 1, "ampere")],
        "0, 2",
        1e-5,
        UNEQUAL,
    ),
    (
        "llama",
        2,
        [(1, 2, 2, 1, "host"), (2, 2, 2, 1, "ampere"), (2, 2, 1, 2, "ampere")],
        "1, 2",
        1e-5,
        UNEQUAL,
    ),
    (
        "gpt2",
        3,
        [(2, 2, 2, 2, "ampere"), (2, 2, 1, 1, "ampere"), (1, 2, 1, 1, "host")],
        "0, 1",
        1e-5,
        UNEQUAL,
    ),
]


# Model, groups of pipelines that share units (end, stage of ZeRO, types, parts),
# pipelines, what is said of exchanges and of the collectives of those who hold the
# same buckets, and what NCCL is called for besides exchanges, if it does these.
NCCL_OF = ": NCCL 2.28.9"
EXCHANGES = [
    (
        "llama",
        [(4, 1, ("ampere", "ampere"), (1, 1))],
        1,
        [f"exchanges of ranks 0, 1{NCCL_OF}", f"collectives of ranks 0, 1{NCCL_OF}"],
        EQUAL,
    ),
    # Ranks with the same part, and all four of what is not divided.
    (
        "gpt2",
        [(4, 3, ("ampere", "ampere"), (3, 1))],
        2,
        [
            f"exchanges of ranks 2, 3{NCCL_OF}",
            f"collectives of ranks 0, 1, 2, 3{NCCL_OF}",
            f"collectives of ranks 0, 2{NCCL_OF}",
            f"collectives of ranks 1, 3{NCCL_OF}",
        ],
        EQUAL,
    ),
    (
        "gpt2",
        [(4, 0, ("ampere",) * 3, (2, 1, 1))],
        1,
        [f"exchanges of ranks 0, 1, 2{NCCL_OF}"],
        {"ncclAllReduce"},
    ),
    # Messages between stages go on while ranks wait in an exchange.
    (
        "llama",
        [(2, 0, ("ampere", "ampere"), (2, 1)), (4, 1, ("host", "ampere"), (1, 1))],
        1,
        [
            f"exchanges of ranks 0, 1{NCCL_OF}",
            f"collectives of ranks 0, 1{NCCL_OF}",
            "collectives of ranks 2, 3: through the host's memory",
        ],
        {"ncclAllReduce"},
    ),
    (
        "llama",
        [(4, 1, ("ampere", "host"), (1, 1))],
        1,
        [f"exchanges {APART}"],
        None,
    ),
]


def make_shared_plan(model, groups, pipelines):
    groups = [(end, stage, tuple(zip(types, parts))) for end, stage, types, parts in groups]
    # On slow links, tokens travel in pieces where pipelines are not several.
    bandwidth = "1.0e+06" if pipelines == 1 else "1.0e+09"
    return jobs.plan_shared(model, pipelines, groups, 5 * pipelines, TYPES, bandwidth)


def make_plan(model, stage, ranks):
    return Plan(model, stage, tuple(Rank(*rank) for rank in ranks), TYPES)


def compare(workshop, report, name, plan, tolerance, options=(), *expected):
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5, *options]
    # Without chunks.
    model = plan.model.partition(":")[0]
    reference = workshop.train_alone(model, f"{name}-alone", plan.samples, options[:6])
    try:
        run = workshop.train(workshop.build(plan, name), f"{name}-run", options)
    except jobs.JobError as error:
        return report.check(name, [str(error)])
    worst, failures = jobs.compare_losses(run, reference, tolerance)
    failures += [f"does not say '{text}'" for text in expected if text not in run.output]
    note = f"losses {worst:.1e}"
    if tolerance == jobs.LOSS_TOLERANCE:
        update, more = jobs.compare_updates(
            run, reference, workshop.initial_weights(model)
        )
        failures += more
        note += f", updates {update:.1e}"
    report.check(name, failures, note)


def check_overflow(workshop, report):
    """Too large a loss scale: steps are skipped until it is small enough."""
    plan = Plan("gpt2", 0, (Rank(3, 2, 2, type="turing_f16"),), TYPES)
    steps = 5
    options = ["--steps", steps, "--lr", 1e-3, "--loss-scale", 1e7]
    run = workshop.train(workshop.build(plan, "gpt2-turing_f16"), "overflow", options)
    skipped = run.output.count("gradients have overflowed in f16")
    failures = []
    if not 0 < skipped < steps:
        failures.append(f"{skipped} of {steps} steps were skipped")
    if not all(loss == loss for loss in run.losses):
        failures.append("a loss is NaN")
    report.check("f16 overflow", failures, f"{skipped} steps skipped")


def count_calls(workshop, name, plan, steps):
    """What a run asks of the driver."""
    os.environ["POPLAR_EMULATED_COUNT"] = "1"
    options = ["--steps", steps, "--lr", 1e-3]
    run = workshop.train(workshop.build(plan, name), f"{name}-{steps}", options)
    del os.environ["POPLAR_EMULATED_COUNT"]
    # Of all ranks together.
    lines = re.findall(r"emulated GPU: (\d+ .*)", run.output)
    return [sum(map(int, c)) for c in zip(*(re.findall(r"\d+", l) for l in lines))], run


def check_loop(workshop, report):
    """The loop allocates nothing, and replays graphs that were made before."""
    plan = Plan("gpt2", 0, (Rank(3, 2, 2, type="ampere"),), TYPES)
    few, many = (count_calls(workshop, "gpt2-ampere", plan, s)[0] for s in (3, 6))
    failures = []
    if few[0] != many[0]:
        failures.append(f"{many[0] - few[0]} allocations in three steps")
    # Of the micro-steps, one and the last; each is a graph.
    if few[1] != many[1] or few[1] != 2:
        failures.append(f"{few[1]} and {many[1]} graphs were made, expected 2")
    if many[2] - few[2] != 3 * 2:
        failures.append(f"{many[2] - few[2]} graphs started in three steps, expected 6")
    report.check("loop", failures, f"{many[1]} graphs made, {many[2]} started")


def check_order(workshop, report):
    """Where NCCL does it all, the GPU waits for slow collectives, and the host
    only for what it reads: the loss of a micro-step, and gradients' norms. Fast
    or slow, the results are the same bits."""
    model, stage, ranks, *_ = NCCL[2]
    plan, name = make_plan(model, stage, ranks), f"nccl-{model}-stage{stage}-ampere-ampere"
    os.environ["POPLAR_EMULATED_NCCL_DELAY"] = "3"
    (few, _), (many, slow) = (count_calls(workshop, name, plan, s) for s in (3, 6))
    del os.environ["POPLAR_EMULATED_NCCL_DELAY"]
    _, fast = count_calls(workshop, name, plan, 6)
    failures = []
    if few[0] != many[0]:
        failures.append(f"{many[0] - few[0]} allocations in three steps")
    # Of a rank and a step.
    host, device, early = ((b - a) / 6 for a, b in zip(few[4:], many[4:]))
    if not early > device / 2:
        failures.append(f"{early} of {device} waits of the GPU are of any use")
    # What reduces and gathers in two micro-steps and an update is much more.
    if not host < device:
        failures.append(f"the host waits {host} times a step, the GPU {device} times")
    if slow.losses != fast.losses or slow.norms != fast.norms:
        failures.append("losses or norms depend on how long collectives take")
    note = f"the host waits {host:g} times a step, the GPU {device:g}, {early:g} early"
    report.check("order", failures, note)


def compare_start(workshop, report, name, plan, make_command, *expected):
    """The same for a job that is started otherwise: by what `make_command` makes
    of its directory and the arguments of train."""
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5]
    reference = workshop.train_alone(
        plan.model, f"{name}-alone", plan.samples, options
    )
    out = workshop.path(f"{name}-run")
    corpus = os.path.join(jobs.SOURCES, "examples", "data", "corpus.txt")
    words = ["train", "--out", out, "--data", corpus, "--data-format", "bytes", "--peak-gflops", "1"]
    words += ["--eval-every", "0", "--check-replicas", *map(str, options)]
    try:
        output = jobs.run(make_command(workshop.build(plan, name), words))
    except jobs.JobError as error:
        return report.check(name, [str(error)])
    worst, failures = jobs.compare_losses(jobs.Run(out), reference)
    failures += [f"does not say '{text}'" for text in expected if text not in output]
    report.check(name, failures, f"losses {worst:.1e}")


def check_starts(workshop, report):
    library = "NCCL 2.28.9"
    ranks = [(3, 2, 2, 1, "ampere"), (1, 2, 1, 1, "host"), (2, 2, 2, 1, "ampere")]
    starter = os.path.join(jobs.SOURCES, "scripts", "start-ranks.py")
    compare_start(
        workshop,
        report,
        "as-torchrun-does",
        make_plan("gpt2", 1, ranks),
        lambda job, words: ["python3", starter, job, "--", *words],
        f"collectives of ranks 0, 2: {library}\n",
    )

    # Types whose libraries cannot talk to each other.
    def mpirun(job, words):
        command = ["mpirun", "--bind-to", "none", "--oversubscribe"]
        for variable in ([], ["-x", "POPLAR_EMULATED_NCCL=22005"]):
            name = "volta" if variable else "ampere"
            program = os.path.join(job, name, "train")
            command += [":"] * bool(variable) + ["-np", "2", *variable, program, *words]
        return command

    if os.getuid() == 0:
        os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    before = os.environ["POPLAR_EMULATED_GPUS"]
    os.environ["POPLAR_EMULATED_GPUS"] = "sm_80,sm_70,sm_80,sm_70"
    ranks = [
        (2, 1, 2, 1, "ampere"),
        (2, 1, 1, 2, "ampere"),
        (1, 1, 1, 1, "volta"),
        (1, 1, 1, 1, "volta"),
    ]
    compare_start(
        workshop,
        report,
        "two-versions",
        make_plan("llama", 2, ranks),
        mpirun,
        f"collectives of ranks 0, 1: {library}\n",
        "collectives of ranks 2, 3: NCCL 2.20.5\n",
    )
    os.environ["POPLAR_EMULATED_GPUS"] = before


def check_nccl(workshop, report):
    library = "NCCL 2.28.9"
    log = os.environ["POPLAR_EMULATED_NCCL_LOG"] = workshop.path("calls")
    for model, stage, ranks, island, tolerance, expected in NCCL:
        names = "-".join(rank[-1] for rank in ranks)
        if os.path.exists(log):
            os.remove(log)
        check = ["--check-replicas"] if stage < 3 and tolerance < 1e-3 else []
        compare(
            workshop,
            report,
            f"nccl-{model}-stage{stage}-{names}",
            make_plan(model, stage, ranks),
            tolerance,
            check,
            f"collectives of ranks {island}: {library}\n",
        )
        with open(log) as file:
            calls = set(file.read().split())
        missing = [f"calls no {name}" for name in sorted(expected - calls)]
        report.check(f"calls-of-stage{stage}-{names}", missing, " ".join(sorted(calls)))
    del os.environ["POPLAR_EMULATED_NCCL_LOG"]

    model, stage, ranks, *_ = NCCL[2]
    plan = make_plan(model, stage, ranks)
    job = workshop.build(plan, f"nccl-{model}-stage{stage}-ampere-ampere")

    def attempt(name, variables, *expected, succeeds=False):
        """Trains, or fails and says why."""
        os.environ.update(variables)
        try:
            output = workshop.train(job, name, ["--steps", 2]).output
            failures = [] if succeeds else ["succeeds"]
        except jobs.JobError as error:
            output, failures = str(error), ["fails"] if succeeds else []
        for variable in variables:
            del os.environ[variable]
        failures += [f"does not say '{text}'" for text in expected if text not in output]
        report.check(name, failures + ([output] if failures else []))

    shared = {"POPLAR_CUDA_DEVICE": "0"}
    shares = "it shares its GPU, "
    through = "through the host's memory, as "
    attempt("two-ranks-on-a-gpu", shared, through + shares, succeeds=True)
    demand = {"POPLAR_COMM": "nccl"}
    attempt(
        "nccl-demanded",
        {**shared, **demand},
        "POPLAR_COMM is nccl, but rank",
        "the host's memory",
    )
    attempt("nccl-had", demand, f"collectives of ranks 0, 1: {library}", succeeds=True)
    verbose = {"POPLAR_VERBOSE": "1"}
    by_nccl = "of the GPU's memory are allocated by NCCL"
    attempt(
        "nccl-has-buffers",
        verbose,
        by_nccl,
        f"of the GPU's memory are registered with {library}",
        succeeds=True,
    )
    attempt(
        "nccl-allocates-nothing",
        {**verbose, "POPLAR_EMULATED_NCCL_MEMORY": "0"},
        f"are allocated by the driver, as {library} does not allocate it: unhandled cuda",
        f"of the GPU's memory are registered with {library}",
        succeeds=True,
    )
    attempt(
        "nccl-registers-nothing",
        {**verbose, "POPLAR_EMULATED_NCCL_REGISTER": "0"},
        by_nccl,
        f"are not registered with {library}, which copies what it collects there, as "
        "that is off in the library (NCCL_LOCAL_REGISTER)",
        succeeds=True,
    )
    attempt(
        "host-demanded", {"POPLAR_COMM": "host"}, through + "POPLAR_COMM is host", succeeds=True
    )
    attempt(
        "old-nccl", {"POPLAR_EMULATED_NCCL": "21805"}, "NCCL 2.18.5 is too old", succeeds=True
    )
    attempt("no-such-communicator", {"POPLAR_COMM": "rccl"}, "use auto, nccl or host")
    # All ranks are in the same collective, of the second step.
    attempt(
        "nccl-hangs",
        {"POPLAR_EMULATED_NCCL_HANG": "25"},
        "no progress for ",
        "in phase 'training'",
        ", ampere, pid ",
        "last collective: ",
        ", bucket ",
        " s not",
    )
    # The reason is the library's, although there is no communicator to ask.
    attempt(
        "nccl-does-not-start",
        {"POPLAR_EMULATED_NCCL_INIT": "0"},
        f"{library} cannot join the others: unhandled cuda error",
        "made to fail by POPLAR_EMULATED_NCCL_INIT",
        "NCCL_DEBUG=WARN prints details",
    )
    attempt(
        "nccl-fails",
        {"POPLAR_EMULATED_NCCL_FAIL": "7"},
        f"{library} cannot go on: remote process exited",
        "NCCL_DEBUG=WARN prints details",
    )


def check_exchanges(workshop, report):
    """Ranks that share units, and tell each other tokens by NCCL; those that hold
    the same buckets collect by it."""
    before = os.environ["POPLAR_EMULATED_GPUS"]
    os.environ["POPLAR_EMULATED_GPUS"] = "sm_80,sm_80,sm_80,sm_80"
    log = os.environ["POPLAR_EMULATED_NCCL_LOG"] = workshop.path("exchanges")
    for index, (model, groups, pipelines, expected, called) in enumerate(EXCHANGES):
        if os.path.exists(log):
            os.remove(log)
        name = f"exchanges-{index}-{model}"
        plan = make_shared_plan(model, groups, pipelines)
        compare(workshop, report, name, plan, 1e-5, ["--check-replicas"], *expected)
        calls = set()
        if os.path.exists(log):
            with open(log) as file:
                calls = set(file.read().split())
        wanted = set() if called is None else {"ncclSend", "ncclRecv"} | called
        wrong = [f"calls {sorted(calls)}"] if calls != wanted else []
        report.check(f"calls-of-{name}", wrong)
    del os.environ["POPLAR_EMULATED_NCCL_LOG"]
    os.environ["POPLAR_EMULATED_GPUS"] = before


def check_alone(workshop, report, runs):
    for model, name, tolerance in runs:
        plan = Plan(model, 0, (Rank(3, 2, 2, type=name),), TYPES)
        compare(workshop, report, f"{model}-{name}", plan, tolerance)


def check_together(workshop, report, runs):
    os.environ["POPLAR_COMM"] = "host"
    for model, stage, ranks in runs:
        plan = make_plan(model, stage, ranks)
        names = "-".join(rank[-1] for rank in ranks)
        check = ["--check-replicas"] if stage < 3 else []
        compare(workshop, report, f"{model}-stage{stage}-{names}", plan, 1e-5, check)


def main():
    def add(parser):
        parser.add_argument("--jobs", action="store_true")
        parser.add_argument("--nccl", action="store_true")

    arguments = jobs.parse_arguments(__doc__, add)
    os.environ["POPLAR_EMULATED_GPUS"] = "sm_90,sm_90"
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    if arguments.nccl:
        check_nccl(workshop, report)
        check_exchanges(workshop, report)
        check_order(workshop, report)
        check_starts(workshop, report)
        return report.finish()
    if not arguments.jobs:
        check_alone(workshop, report, ALONE)
        check_overflow(workshop, report)
        check_loop(workshop, report)
    else:
        check_together(workshop, report, TOGETHER)
    for model, schedule, types, tolerance, expected in STAGES if arguments.jobs else []:
        ranks = [Rank(2, 3, 1, type=t, group=g) for g, t in enumerate(types)]
        groups = (((0, 2), 1), ((2, 4), 1))
        plan = Plan(model, 1, tuple(ranks), TYPES, groups, schedule)
        name = f"{model}-{schedule}-{'-'.join(types)}"
        os.environ["POPLAR_COMM"] = "auto"
        check = ["--check-replicas"]
        compare(workshop, report, name, plan, tolerance, check, expected)
    for model, stage, types, parts, expected in SHARED if arguments.jobs else []:
        ranks = tuple(Rank(2, 3, 1, type=type) for type in types)
        plan = Plan(model, stage, ranks, TYPES, (((0, 4), stage, parts),))
        name = f"{model}-shared-{'-'.join(types)}"
        os.environ["POPLAR_COMM"] = "auto"
        compare(workshop, report, name, plan, 1e-5, ["--check-replicas"], expected)
    report.finish()


if __name__ == "__main__":
    main()
