"""When moves end since moved jobs ended later than untouched."""

import numpy as np
import pytest

from optimus.lifecycle.books import ERROR, MOST_JOBS, EndedJob, brake_of, evidence
from tests.cases import cases


def ended(*fractions: float, namespace: str = "team", workload: str = "") -> list[EndedJob]:
    return [
        EndedJob(f"{number:04}", f"{workload}{number}", namespace, workload, each)
        for number, each in enumerate(fractions)
    ]


def alarm_after(mean: float, spread: float, seed: int) -> int:
    """After how many jobs it brakes; at most 2,000."""
    rng, seen = np.random.default_rng(seed), list[float]()
    drawn = np.clip(rng.normal(mean, spread, 2000), -1, 1)
    # The detector as it goes on, one job at a time.
    found = np.ones(3)
    for number, x in enumerate(drawn.tolist(), 1):
        seen.append(x)
        found = np.maximum(found, 1) * (1 - np.array([0.25, 0.5, 0.9]) * x)
        if found.mean() >= 1 / ERROR:
            assert evidence(seen) == pytest.approx(found.mean())
            return number
    return 2000


def test_a_false_alarm_is_rarer_than_stated() -> None:
    """Jobs that break even on average, with much noise."""
    assert np.mean([alarm_after(0.0, 0.3, seed) for seed in range(40)]) >= 1 / ERROR


@cases(("mean", "jobs"), {"a large loss": (-0.3, 30), "a loss of a tenth": (-0.1, 120)})
def test_a_loss_is_found(mean: float, jobs: int) -> None:
    assert np.mean([alarm_after(mean, 0.15, seed) for seed in range(20)]) < jobs


def test_it_says_how_much_later_jobs_ended() -> None:
    why = brake_of(ended(*[-0.4] * 20)).why("team", "")
    assert why == (
        "the last 20 moved jobs of its namespace ended 40% later than untouched on average"
    )
    assert brake_of(ended(*[0.3] * 20)).why("team", "") == ""
    assert brake_of(()).why("team", "") == ""


def test_earlier_gains_hide_no_loss_and_old_losses_are_forgotten() -> None:
    assert brake_of(ended(*[0.5] * 100, *[-0.4] * 20)).why("team", "")
    assert not brake_of(ended(*[-0.4] * 20, *[0.3] * MOST_JOBS)).why("team", "")


def test_one_workload_is_braked_alone() -> None:
    losing = ended(*[-0.4] * 20, workload="slow")
    gaining = [each._replace(workload="fast", saved_fraction=0.9) for each in losing]
    mixed = [each._replace(ended_at=f"{each.ended_at}b") for each in gaining]
    brake = brake_of([*losing, *mixed])
    assert "jobs of its workload" in brake.why("team", "slow")
    assert brake.why("team", "fast") == brake.why("team", "") == brake.why("other", "slow") == ""


def test_a_namespace_ends_the_moves_of_no_other() -> None:
    """Its jobs may print what they like."""
    brake = brake_of([*ended(*[-1.0] * 200, namespace="liar"), *ended(0.1, namespace="team")])
    assert brake.why("liar", "")
    assert brake.why("team", "") == ""


@cases(
    ("losing", "gaining", "braked"),
    {"two of two": (2, 0, False), "three of five": (3, 2, True), "three of six": (3, 3, False)},
)
def test_moves_of_all_end_where_those_of_most_namespaces_do(
    losing: int, gaining: int, *, braked: bool
) -> None:
    jobs = [
        job
        for number in range(losing + gaining)
        for job in ended(*[-0.4 if number < losing else 0.4] * 20, namespace=f"n{number}")
    ]
    assert bool(brake_of(jobs).why("new", "")) is braked
