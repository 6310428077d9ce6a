"""Setups of the paper's experiments, simulated and compared seed by seed."""

import json
from collections.abc import Iterator, Sequence

from benchmarks.paper_setups import (
    Ratios,
    Setting,
    Setup,
    Task,
    absolute,
    compare,
    ratios_to_first,
    setup,
)
from optimus.simulator.ground_truth.assignment import AssignmentRule
from optimus.simulator.results import Simulation

SMALL = Setting(jobs=3)


def one_by_one(tasks: Sequence[Task]) -> Iterator[Simulation]:
    return (task.run() for task in tasks)


def test_the_same_seed_gives_the_same_and_jobs_are_the_same_for_every_setup() -> None:
    drf, tetris = setup("drf"), setup("tetris")
    once, again, other = (Task(SMALL, each, 3).run() for each in (drf, drf, tetris))
    assert once == again
    assert [(job.uid, job.kind, job.arrived_at, job.epochs) for job in once.jobs] == [
        (job.uid, job.kind, job.arrived_at, job.epochs) for job in other.jobs
    ]
    assert (once.policy, other.policy) == ("drf", "tetris")


def test_ratios_are_to_the_first_setup_seed_by_seed() -> None:
    setups = (setup("drf"), Setup("the same again", setup("drf").scheduler, AssignmentRule.MXNET))
    found = compare(SMALL, setups, (1, 2), one_by_one)
    assert found[1].ratios["average_jct_seconds"].by_seed == (1.0, 1.0)
    row = ratios_to_first(found, {"the same again": Ratios(2.0, 1.0)})["the same again"]
    assert row["jct"] == {
        "ratio": 1.0,
        "low": 1.0,
        "high": 1.0,
        "published": 2.0,
        "deviation": -0.5,
    }
    json.dumps([row, absolute(found[0])], allow_nan=False)
