"""Reclaiming capacity finds what trying every donor anew would, in far fewer attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility
from optimus.interval.plan import Reclaim, Reclaimed
from optimus.jobs import Counts, Job
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import ClusterSnapshot
from tests.unit.interval.cluster import bind, job, nodes
from tests.unit.interval.scenes import AT

LEAST = Counts(1, 1)


def crowd(workers: list[int], free: int) -> tuple[CapacityPlan, list[Classified]]:
    """Jobs of one PS each on a node of just their room, and a little more."""
    jobs = [job(f"j{index}", (1, count)) for index, count in enumerate(workers)]
    cluster = nodes(1, sum(workers) + len(workers) + free)
    pods = [pod for each in jobs for pod in bind(each, ["node-00"] * sum(each.counts))]
    room = CapacityPlan.of(ClusterSnapshot.of(AT, jobs, cluster, pods), Theorem1())
    return room, [Classified(each, Eligibility.RESIZABLE, each.counts, "", LEAST) for each in jobs]


def reclaim_of(donors: list[Classified], cost: float = 1.0, attempts: int = 1000) -> Reclaim:
    allocated = {each.job.uid: LEAST for each in donors}
    return Reclaim(tuple((each, cost) for each in donors), allocated, {}, attempts)


def slowly(
    room: CapacityPlan, donors: list[Classified], wanted: Job, max_cost: float
) -> list[Classified] | None:
    trial, shrunk = room.copy(), list[Classified]()
    for donor in donors:
        max_cost -= 1.0
        if max_cost <= 0:
            return None
        assert trial.move(donor.job, LEAST) is None
        shrunk.append(donor)
        if trial.fits(wanted, wanted.counts):
            return shrunk
    return None


@given(
    workers=st.lists(st.integers(2, 5), max_size=6),
    free=st.integers(0, 3),
    asked=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    max_cost=st.sampled_from([2.5, float("inf")]),
)
def test_finds_what_an_exhaustive_search_finds(
    workers: list[int], free: int, asked: list[int], max_cost: float
) -> None:
    room, jobs = crowd(workers, free)
    left, found_by = list(jobs), reclaim_of(jobs)
    decided: dict[str, Counts] = {}
    found_by.decided = decided
    for index, count in enumerate(asked):
        new = job(f"new{index}", (1, count))
        expected = slowly(room, left, new, max_cost)

        def moves(trial: CapacityPlan, job: Job = new) -> str | None:
            return trial.move(job, job.counts)

        found = found_by.find(room, moves, max_cost)
        if expected is None:
            assert isinstance(found, str)
            assert found or not left
            continue
        assert isinstance(found, Reclaimed)
        assert list(found.donors) == expected
        room.adopt(found.plan)
        for each in [*expected, Classified(new, Eligibility.WAITING, new.counts, "", LEAST)]:
            decided[each.job.uid] = LEAST if each in left else new.counts
            found_by.moved(each, decided[each.job.uid])
        left = left[len(expected) :]


@pytest.mark.parametrize("waiting", [1, 50])
def test_a_refusal_costs_one_attempt_however_many_donors_there_are(waiting: int) -> None:
    room, jobs = crowd([3] * 40, 0)
    found_by = reclaim_of(jobs)
    new = job("new", (50, 50))
    for _ in range(waiting):
        assert isinstance(found_by.find(room, lambda trial: trial.move(new, new.counts)), str)
    assert 1000 - found_by.attempts_left == 40 + waiting


def test_the_attempts_of_an_interval_are_bounded() -> None:
    room, jobs = crowd([3] * 40, 0)
    found_by, new = reclaim_of(jobs, attempts=60), job("new", (20, 20))
    assert isinstance(found_by.find(room, lambda trial: trial.move(new, new.counts)), str)
    assert -1 <= found_by.attempts_left <= 0
    said = found_by.find(room, lambda trial: trial.move(new, new.counts))
    assert isinstance(said, str)
    assert "in the next interval" in said
