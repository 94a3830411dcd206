# ===- slurm.py - A job that Slurm starts ----------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Jobs of two device types train over two partitions of a real Slurm as by
launch.sh, to the bit; what Slurm has given and does not fit is refused by name.
Prints why and ends well where Slurm does not start."""

import os
import time

import jobs
from jobs import DeviceType, Plan, Rank
from slurm_cluster import Cluster, Missing

TYPES = (
    DeviceType("first", jobs.best_f32_target()),
    DeviceType("second", "host:sse41-f32"),
)
PARTITIONS = {"fast": ["n1", "n2", "n4"], "old": ["n3"]}
FAST, OLD = ("-pfast", "-N2", "-n4"), ("-pold", "-N1", "-n1")
STEPS = 3


def plan_rows():
    """Rows of equal nodes: two of two ranks, one of one."""
    ranks = [Rank(2, 2, 1, type="first", node=node) for node in ("a0", "a0", "a1", "a1")]
    return Plan("gpt2", 2, (*ranks, Rank(1, 2, 1, type="second", node="b0")), TYPES)


def plan_stages():
    """A pipeline whose stages each have a rank on either node, so that the ranks of
    a node do not follow each other."""
    ranks = [
        Rank(2, 2, 2, type=type, node=node, group=group)
        for group in (0, 1)
        for type, node in (("first", "a0"), ("second", "b0"))
    ]
    groups = (((0, 2), 1), ((2, 4), 1))
    return Plan("gpt2", 1, tuple(ranks), TYPES, groups, "1f1b")


def collect(done):
    return done.returncode, done.stdout + done.stderr


def batch(cluster, job, *options, **environment):
    """What starts a job with more words, by sbatch."""
    script = os.path.join(job, "slurm.sh")

    def start(words):
        return cluster.collect(*cluster.submit(options, [script, *words], **environment))

    return start


def allocate(cluster, script, *components):
    """The same in an allocation of salloc."""
    options = ":".join(" ".join(component) for component in components)
    options = options.replace(":", " : ").split()
    return lambda words: collect(cluster.run("salloc", *options, script, *words))


class Test:
    def __init__(self, directory):
        self.workshop, self.report = jobs.Workshop(directory), jobs.Report()

    def build(self, plan, name):
        """In a directory whose name needs quotes."""
        target = self.workshop.path(name, "it's a $(job)")
        module = self.workshop.planned(plan, name)
        slurm = ["--slurm", "first=fast", "--slurm", "second=old"]
        jobs.run(["poplar", "build", module, "-o", target, *slurm])
        return target

    def words(self, out):
        corpus = os.path.join(jobs.SOURCES, "examples", "data", "corpus.txt")
        words = ["train", "--data", corpus, "--steps", str(STEPS), "--lr", "1e-3"]
        return words + ["--out", out, "--peak-gflops", "1", "--eval-every", "0"]

    def expect(self, job, name):
        """As launch.sh starts it."""
        out = self.workshop.path(name + "-expected")
        local = ["env", "POPLAR_LOCAL=1", os.path.join(job, "launch.sh")]
        jobs.run([*local, *self.words(out)])
        return jobs.Run(out)

    def compare(self, name, expected, start):
        out = self.workshop.path(name + " run")
        status, output = start(self.words(out))
        failures = [f"exit status {status}\n{output}"] if status else []
        if not failures:
            losses = jobs.Run(out).losses
            if losses != expected.losses:
                failures.append(f"losses {losses}, expected {expected.losses}")
        self.report.check(name, failures)

    def refuse(self, name, text, start):
        status, output = start(self.words(self.workshop.path("never")))
        failures = [] if status else ["succeeds"]
        if text not in output:
            failures.append(f"does not say '{text}': {output}")
        self.report.check(name, failures)


def check_starts(test, cluster):
    """The same losses as by launch.sh; returns the job of plan_rows."""
    made = {}
    for name, plan in (("rows", plan_rows()), ("stages", plan_stages())):
        job = made[name] = test.build(plan, name)
        expected = test.expect(job, name)
        test.compare(name, expected, batch(cluster, job, "--time=10"))
    # An allocation that is there already, and a link to the script.
    link = test.workshop.path("link.sh")
    os.symlink(os.path.join(made["rows"], "slurm.sh"), link)
    test.compare("salloc", jobs.Run(test.workshop.path("rows-expected")),
                 allocate(cluster, link, FAST, OLD))
    return made["rows"]


def check_stop(test, cluster, job):
    """scancel reaches the ranks, which save and end."""
    out = test.workshop.path("stopped")
    words = [word if word != str(STEPS) else "1000000" for word in test.words(out)]
    script = os.path.join(job, "slurm.sh")
    number, output = cluster.submit(["--time=10"], [script, *words])
    end = time.monotonic() + 120
    metrics = os.path.join(out, "metrics.csv")
    while not os.path.exists(metrics) and time.monotonic() < end:
        time.sleep(0.1)
    cluster.run("scancel", number)
    _, text = cluster.collect(number, output)
    failures = [] if os.path.exists(os.path.join(out, "latest")) else ["saves nothing"]
    if "CANCELLED" not in text or "saved '" not in text:
        failures.append(text)
    test.report.check("scancel", failures)


def check_refusals(test, cluster, job):
    script = os.path.join(job, "slurm.sh")
    for name, text, start in (
        ("partition", "component 1 is in partition 'fast'; the plan needs 'old'",
         batch(cluster, job, "--partition=fast")),
        ("nodes", "component 0 has 1 nodes; the plan needs 2",
         allocate(cluster, script, ("-pfast", "-N1", "-n4"), OLD)),
        ("tasks", "component 0 has 2 tasks; the plan needs 4",
         allocate(cluster, script, ("-pfast", "-N2", "-n2"), OLD)),
        ("components", "the job has 1 components; the plan needs 2",
         allocate(cluster, script, FAST)),
        ("order", "component 0 is in partition 'old'; the plan needs 'fast'",
         allocate(cluster, script, OLD, FAST)),
        ("colon", "srun cannot pass on the word ':'",
         lambda words: allocate(cluster, script, FAST, OLD)([*words, ":"])),
        ("elsewhere", "'/nowhere' is not the directory of the job",
         batch(cluster, job, POPLAR_JOB_DIRECTORY="/nowhere")),
        ("alone", "not in a job of Slurm; start it by: sbatch",
         lambda words: collect(cluster.run(script, *words))),
    ):
        test.refuse(name, f"slurm.sh: error: {text}", start)


def main():
    arguments = jobs.parse_arguments(__doc__)
    try:
        cluster = Cluster(PARTITIONS)
    except Missing as reason:
        print(f"skipped: {reason}")
        return
    with cluster:
        test = Test(arguments.directory)
        job = check_starts(test, cluster)
        check_stop(test, cluster, job)
        check_refusals(test, cluster, job)
        test.report.finish()


main()
