"""The invariants of long runs see what they are there for."""

import time
from dataclasses import replace

import pytest

from tests.churn.invariants import faults_of, overcommitted
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
