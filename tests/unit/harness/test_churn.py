"""The invariants of long runs see what they are there for."""

import time
from dataclasses import replace

import pytest

from tests.churn.invariants import faults_of, overcommitted, pods_of
from tests.churn.outages import Outages, Pods
from tests.churn.users import UserJob
from tests.harness.api import Json
from tests.harness.light_jobs import LightJob

MINE = UserJob(LightJob("TFJob", "a", 1, 2), "endless", managed=True)


def stored(ps: int, workers: int, **changes: Json) -> Json:
    replicas = {"PS": {"replicas": ps}, "Worker": {"replicas": workers}}
    spec = {"tfReplicaSpecs": replicas, **changes.get("spec", {})}
    annotations = changes.get("annotations", {})
    return {
        "metadata": {"name": "a", "annotations": annotations},
        "spec": spec,
        "status": changes.get("status", {}),
    }


def with_condition(kind: str) -> Json:
    return stored(1, 2, status={"conditions": [{"type": kind, "status": "True", "message": "m"}]})


def faults(job: Json, mine: UserJob) -> list[str]:
    return list(faults_of("TFJob", job, mine))


def test_a_node_that_holds_more_than_it_has() -> None:
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    container = {"resources": {"requests": {"cpu": "600m"}}}
    pod = {"spec": {"nodeName": "n", "containers": [container]}, "status": {"phase": "Running"}}
    assert not list(overcommitted([node], [pod]))
    assert list(overcommitted([node], [pod, pod])) == ["n holds 1200 of 1000 cpu"]
    ended = {**pod, "status": {"phase": "Succeeded"}}
    assert not list(overcommitted([node], [pod, ended]))


@pytest.mark.parametrize(
    ("job", "mine", "part"),
    [
        pytest.param(with_condition("Failed"), MINE, "has failed: m", id="failed"),
        pytest.param(with_condition("Succeeded"), MINE, "has no end", id="ended too early"),
        pytest.param(stored(1, 2), replace(MINE, suspended=True), "was resumed", id="resumed"),
        pytest.param(stored(2, 2), replace(MINE, managed=False), "is not managed", id="moved"),
        pytest.param(
            stored(1, 2, spec={"runPolicy": {"suspend": True}}),
            replace(MINE, managed=False),
            "was suspended",
            id="suspended",
        ),
        pytest.param(
            stored(
                1,
                2,
                annotations={"optimus.dl/min-workers": "3", "optimus.dl/suspended-by": "i-1"},
            ),
            MINE,
            "resized to 2 workers, at least 3",
            id="below its minimum",
        ),
    ],
)
def test_what_must_not_happen_to_a_job(job: Json, mine: UserJob, part: str) -> None:
    (fault,) = faults(job, replace(mine, changed_at=time.monotonic() - 1000))
    assert part in fault


@pytest.mark.parametrize(
    ("job", "mine"),
    [
        pytest.param(stored(2, 2), MINE, id="other counts"),
        pytest.param(with_condition("Failed"), replace(MINE, fate="fails"), id="fails by itself"),
        pytest.param(with_condition("Failed"), replace(MINE, excused="drained"), id="drained"),
        pytest.param(with_condition("Succeeded"), replace(MINE, fate="ends"), id="has ended"),
    ],
)
def test_what_may_happen(job: Json, mine: UserJob) -> None:
    assert not faults(job, replace(mine, changed_at=time.monotonic() - 1000))


ALL, NONE, PLACED = Pods(3, 3, 3), Pods(3, 0, 0), Pods(3, 3, 1)


def faults_over(course: list[tuple[float, Pods, str]], killed_at: float | None = None) -> set[str]:
    """What is found of a job that is seen so from these seconds on, checked each second."""
    outages, found = Outages(), set[str]()
    for at in range(int(course[-1][0]) + 1):
        seen = [each for each in course if each[0] <= at][-1]
        if killed_at == at:
            outages.killed(float(at))
        outages.begin(float(at))
        found.add(outages.observe("a", seen[1], seen[2]))
    return found - {""}


@pytest.mark.parametrize(
    ("course", "is_fault"),
    [
        pytest.param([(0, NONE, ""), (500, ALL, "")], False, id="it has never trained"),
        pytest.param([(0, ALL, ""), (5, NONE, ""), (65, ALL, "")], False, id="for 60 s"),
        pytest.param([(0, ALL, ""), (5, NONE, ""), (70, ALL, "")], True, id="for longer"),
        pytest.param(
            [(0, PLACED, ""), (30, ALL, ""), (40, NONE, ""), (125, ALL, "")],
            False,
            id="for as long as it takes to start, and 60 s",
        ),
        pytest.param(
            [(0, PLACED, ""), (30, ALL, ""), (40, NONE, ""), (135, ALL, "")],
            True,
            id="for longer than that",
        ),
        pytest.param(
            [(0, ALL, ""), (5, NONE, ""), (15, NONE, "drained"), (16, NONE, ""), (200, ALL, "")],
            False,
            id="something else was done to it",
        ),
        pytest.param(
            [(0, ALL, "drained"), (5, ALL, ""), (6, NONE, ""), (200, ALL, "")],
            True,
            id="something was done to it from which it has recovered",
        ),
        pytest.param([(0, ALL, ""), (5, Pods(3, 2, 2), ""), (70, ALL, "")], True, id="one pod"),
    ],
)
def test_a_job_without_its_pods(course: list[tuple[float, Pods, str]], is_fault: bool) -> None:
    assert bool(faults_over(course)) is is_fault


def test_the_time_after_a_kill_does_not_count() -> None:
    course = [(0.0, ALL, ""), (5.0, NONE, ""), (70.0, ALL, "")]
    assert faults_over(course)
    assert not faults_over(course, killed_at=20.0)


def test_the_pods_of_a_job_are_counted_by_what_they_do() -> None:
    owner = {"ownerReferences": [{"uid": "u"}]}
    job = stored(1, 2)
    job["metadata"]["uid"] = "u"
    pods: list[Json] = [
        {"metadata": owner, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}},
        {"metadata": owner, "spec": {"nodeName": "n"}, "status": {"phase": "Pending"}},
        {"metadata": owner, "spec": {}, "status": {"phase": "Pending"}},
        {
            "metadata": {**owner, "deletionTimestamp": "now"},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running"},
        },
    ]
    assert pods_of("TFJob", job, pods) == Pods(3, 2, 1)
