# ===- torchrun.py - A job that torchrun starts ----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Three ranks of two device types train by rank.sh as by start-ranks.py, to the
bit: started by torchrun, or as it does it, with a listener at MASTER_PORT."""

import os
import socket
import subprocess
import sys

import jobs
from jobs import DeviceType, Plan, Rank

TYPES = (
    DeviceType("first", jobs.best_f32_target()),
    DeviceType("second", "host:sse41-f32"),
)
STEPS = 3


def by_torchrun(words):
    """As two nodes of two ranks and one, on this machine: a run of one node meets at
    the loopback, and numbers its ranks by itself."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    nodes = []
    for node, count in enumerate((2, 1)):
        command = ["torchrun", "--nnodes", "2", "--node-rank", str(node)]
        command += ["--nproc-per-node", str(count), "--master-addr", "127.0.0.1"]
        command += ["--master-port", str(port), "--no-python", *words]
        nodes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    outputs = [node.communicate(timeout=jobs.TIMEOUT)[0] for node in nodes]
    return max(abs(node.returncode) for node in nodes), "".join(outputs)


def by_standalone(words):
    command = ["torchrun", "--standalone", "--nproc-per-node", "3", "--no-python"]
    return jobs.execute([*command, *words])


def imitate(words):
    with socket.create_server(("127.0.0.1", 0)) as agent:
        place = {
            "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": socket.gethostname(),
            "MASTER_PORT": str(agent.getsockname()[1]),
            "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }  # fmt: skip
        ranks = [
            subprocess.Popen(
                words, env={**os.environ, **place, "RANK": str(rank)}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            for rank in range(3)
        ]  # fmt: skip
        outputs = [rank.communicate(timeout=jobs.TIMEOUT)[0] for rank in ranks]
    return max(abs(rank.returncode) for rank in ranks), "".join(outputs)


def main():
    arguments = jobs.parse_arguments(
        __doc__, lambda parser: parser.add_argument("--imitate", action="store_true")
    )
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    ranks = (Rank(3, 2, 2, type="first"), Rank(2, 2, 1, type="second"), Rank(2, 2, 1, type="first"))
    job = workshop.build(Plan("gpt2", 2, ranks, TYPES), "job")
    corpus = os.path.join(jobs.SOURCES, "examples", "data", "corpus.txt")

    def train(name, start, program):
        out = workshop.path(name)
        words = [*program, "train", "--data", corpus, "--steps", str(STEPS), "--lr", "1e-3"]
        words += ["--out", out, "--peak-gflops", "1", "--eval-every", "0"]
        status, output = start(words)
        return status, output, jobs.Run(out)

    starter = os.path.join(jobs.SOURCES, "scripts", "start-ranks.py")
    expected = train("expected", jobs.execute, [sys.executable, starter, job, "--"])
    if expected[0]:
        sys.exit(expected[1])

    def compare(name, start):
        status, output, run = train(name, start, [os.path.join(job, "rank.sh")])
        failures = [f"exit status {status}\n{output}"] if status else []
        if not failures and run.losses != expected[2].losses:
            failures.append(f"losses {run.losses}, expected {expected[2].losses}")
        report.check(name, failures)

    def refuse(rank, text):
        done = subprocess.run(
            [os.path.join(job, "rank.sh"), "train"], env={**os.environ, "RANK": rank},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        failures = [] if done.returncode and text in done.stderr else [str(done)]
        report.check(f"RANK={rank}", failures)

    if arguments.imitate:
        compare("imitated", imitate)
        refuse("3", "the plan has ranks 0 to 2")
        refuse("one", "expected the number of a rank")
        refuse("", "expected the number of a rank")
    else:
        compare("torchrun", by_torchrun)
        compare("standalone", by_standalone)
    report.finish()


main()
