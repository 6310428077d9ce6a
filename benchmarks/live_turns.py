"""Whether time-sharing policies give the shares that they announce, on the embedded control plane.

``python -m benchmarks.live_turns [--policy NAME ...] [--rounds 10]`` runs both processes from
``manifests/`` beside the embedded control plane: six light jobs that differ in their length alone,
whose pods are processes of this machine, on a node of each of two kinds that hold two jobs each.
Printed is one line of CSV for each job after so many rounds: the mean of the shares announced at
the beginning of each round, the part of the time that the job has held its nodes, both as parts of
the sum over all jobs, and how often it was paused."""

import argparse
import csv
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from localcluster.specs import Backend
from optimus.kube.profile_codec import unpack
from optimus.lifecycle import JobRecord, received_until
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import QUICK_TUNING, optimus_cluster
from tests.harness.scenario import Scenario, scenario_namespace
from tests.harness.two_kinds import nodes_of_two_kinds, one_kind_job

JOBS = 6
EPOCHS = 10_000
"""Of the shortest job: none ends meanwhile, and one that is shorter stays so."""


def record_of(scenario: Scenario, job: LightJob) -> JobRecord:
    """What the job's profile has of it."""
    status = (scenario.profile(job) or {}).get("status") or {}
    return unpack(status.get("state"), job.name, 1e12).record


def announced(record: JobRecord) -> float:
    """The part of the time that the job is meant to run."""
    remembered = record.remembered or {"data": {}}
    return min(float(sum(remembered["data"].get("shares", {}).values())), 1.0)


def measured(scenario: Scenario, rounds: int) -> Iterator[tuple[str, float, float, int]]:
    """Of each job its name, its share as announced and as received, and its pauses."""
    jobs = [
        replace(
            one_kind_job(f"job-{number}"),
            annotations={"optimus.dl/target-epochs": f"{EPOCHS * (number + 1)}"},
        )
        for number in range(JOBS)
    ]
    scenario.submit(*jobs)
    scenario.wait(
        lambda: all(announced(record_of(scenario, job)) > 0 for job in jobs[:4]), "shares are set"
    )
    lease = "/apis/coordination.k8s.io/v1/namespaces/optimus-system/leases/optimus-autoscaler"
    begun, shares = set[str](), {job.name: list[float]() for job in jobs}
    before = {job.name: received_until(record_of(scenario, job), time.time()) for job in jobs}
    while len(begun) <= rounds:
        memory = scenario.api.get(lease)["metadata"]["annotations"]["optimus.dl/policy-memory"]
        if memory not in begun:
            begun.add(memory)
            for job in jobs:
                shares[job.name].append(announced(record_of(scenario, job)))
        time.sleep(0.5)
    now = {job.name: received_until(record_of(scenario, job), time.time()) for job in jobs}
    seconds = {name: now[name].seconds - before[name].seconds for name in now}
    means = {name: fmean(each) for name, each in shares.items()}
    for job in jobs:
        name = job.name
        given, due = seconds[name] / sum(seconds.values()), means[name] / sum(means.values())
        yield name, due, given, record_of(scenario, job).pauses


def main() -> None:
    """Run one policy after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", nargs="+", default=["gavel-las", "gavel-sjf"])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    writer = csv.writer(sys.stdout)
    writer.writerow(("policy", "job", "announced", "received", "pauses"))
    nodes = tuple(
        replace(node, capacity={**node.capacity, "cpu": "8"}) for node in nodes_of_two_kinds()
    )
    for policy in options.policy:
        name = f"turns-{secrets.token_hex(3)}"
        tuning = replace(
            QUICK_TUNING,
            autoscaler={
                **QUICK_TUNING.autoscaler,
                "policy": policy,
                "profiling_samples": "1",
                "interval_seconds": "12",
                "rescale_cost_seconds": "4",
            },
        )
        with (
            tempfile.TemporaryDirectory() as folder,
            optimus_cluster(name, nodes, tuning, backend=Backend.EMBEDDED) as optimus,
        ):
            optimus.deploy()
            with scenario_namespace(optimus, "turns", Path(folder)) as scenario:
                for row in measured(scenario, options.rounds):
                    writer.writerow((policy, row[0], f"{row[1]:.3f}", f"{row[2]:.3f}", row[3]))
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
