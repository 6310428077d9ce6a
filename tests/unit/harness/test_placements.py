"""Which gangs of a record can be judged, and that a bad one is found."""

import json
from collections.abc import Sequence

from tests.harness.api import Json
from tests.harness.light_jobs import POOL, LightJob
from tests.harness.placements import PlacedGang, placed_gangs
from tests.harness.watch_recorder import Change

CPU = {"PS": {"cpu": "1"}, "Worker": {"cpu": "1"}}
FIRST, SECOND = (
    LightJob("TFJob", "first", 1, 1, requests=CPU),
    LightJob("TFJob", "second", 1, 1, requests=CPU),
)
NODES: Sequence[Json] = [
    {
        "metadata": {"name": name, "labels": POOL},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    for name in ("a", "b")
]


def pod(job: LightJob, role: str, node: str = "", leaving: bool = False) -> Json:
    config = json.dumps({"cluster": {"ps": ["x"], "worker": ["x"]}})
    labels = {
        "training.kubeflow.org/job-name": job.name,
        "training.kubeflow.org/replica-type": role,
    }
    meta: Json = {"name": f"{job.name}-{role}-0", "uid": f"{job.name}-{role}", "labels": labels}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": "1"}},
        "env": [{"name": "TF_CONFIG", "value": config}],
    }
    return {
        "metadata": meta,
        "spec": {"containers": [container], "nodeName": node},
        "status": {"phase": "Running"},
    }


def made(job: LightJob) -> list[Change]:
    return [Change("ADDED", pod(job, role)) for role in ("ps", "worker")]


def bound(job: LightJob, ps: str, worker: str) -> list[Change]:
    return [Change("MODIFIED", pod(job, "ps", ps)), Change("MODIFIED", pod(job, "worker", worker))]


def gangs(*changes: list[Change]) -> list[PlacedGang]:
    return placed_gangs([change for part in changes for change in part], NODES, [FIRST, SECOND])


def test_a_gang_on_more_servers_than_needed_is_found() -> None:
    together, apart = (
        gangs(made(FIRST), bound(FIRST, "a", "a")),
        gangs(made(FIRST), bound(FIRST, "a", "b")),
    )
    assert [gang.violations for gang in together] == [[]]
    assert [gang.violations for gang in apart] == [["the job lies on 2 servers, 1 hold it"]]


def test_the_room_of_a_gang_is_what_the_others_leave() -> None:
    found = gangs(made(FIRST), bound(FIRST, "a", "a"), made(SECOND), bound(SECOND, "b", "b"))
    assert [(gang.job.name, gang.free["a"]["cpu"]) for gang in found] == [
        ("first", 4000),
        ("second", 2000),
    ]


def test_a_gang_is_passed_over_where_another_came_or_went_while_it_was_placed() -> None:
    leaves = [Change("MODIFIED", pod(FIRST, "ps", "a", leaving=True))]
    both_made = gangs(made(FIRST), made(SECOND), bound(FIRST, "a", "a"), bound(SECOND, "b", "b"))
    one_leaves = gangs(
        made(FIRST), bound(FIRST, "a", "a"), made(SECOND), leaves, bound(SECOND, "b", "b")
    )
    assert not [gang for gang in both_made if gang.job.name == "second"]
    assert [gang.job.name for gang in one_leaves] == ["first"]
