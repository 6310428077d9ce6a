"""When the caches count as filled."""

import json
from typing import cast

import pytest

from autoscaler.cluster import Caches, Observation, waits_of
from optimus.jobs import NodeConstraints, Role
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.pods import Owner, Pod
from optimus.kube.reflector import ReflectorConfig
from optimus.kube.waiting_events import WaitingEvent, decode_waiting_event
from optimus.resources import NONE, Resources
from optimus.snapshot import ReplicaId
from tests.unit.kube.job_json import job_json, read


def caches() -> Caches:
    """Caches that are never filled."""
    return Caches(cast("Client", object()), EligibilityConfig(), "", "", ReflectorConfig())


def test_a_cache_that_is_not_filled_yet_is_named_with_its_reason() -> None:
    filled = caches()
    for cache in filled.all[:-1]:
        cache._synced.set()
    filled.all[-1]._failure = "cannot list trainingprofiles: forbidden"
    assert (
        filled.missing()
        == "trainingprofiles not read yet (cannot list trainingprofiles: forbidden)"
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_replica_that_has_ended_keeps_its_place_and_takes_no_room(phase: str) -> None:
    pod = Pod(
        uid="p",
        namespace="ns",
        name="j-worker-0",
        created_at=0.0,
        replica=ReplicaId("u", Role.WORKER, 0),
        node="n",
        phase=phase,
        resources=Resources(cpu=1000),
        constraints=NodeConstraints(),
    )
    (placed,) = Observation.of(0.0, [read(job_json())], [], [pod], []).snapshot.pods
    assert (placed.ended, placed.node, placed.resources) == (True, "n", NONE)


def event(uid: str, message: str, last_at: str, namespace: str = "ns") -> WaitingEvent:
    body = {
        "metadata": {"name": f"{uid}.{last_at}", "namespace": namespace},
        "involvedObject": {"uid": uid},
        "message": message,
        "lastTimestamp": last_at,
    }
    return decode_waiting_event(json.dumps(body).encode())


def test_the_newest_event_says_why_a_job_waits() -> None:
    job = read(job_json())
    events = [
        event("u", "new", "2026-01-01T00:02:00Z"),
        event("u", "old", "2026-01-01T00:01:00Z"),
        event("u", "forged", "2026-01-01T00:03:00Z", namespace="other"),
        event("v", "of no job", "2026-01-01T00:03:00Z"),
    ]
    assert waits_of(events, {job.uid: job}) == {"u": "new"}


def test_a_job_has_the_lowest_priority_of_its_pods() -> None:
    job = read(job_json())
    pods = [
        Pod(
            uid=f"p{at}",
            namespace="ns",
            name=f"p{at}",
            created_at=0.0,
            owner=Owner("TFJob", job.name, job.uid),
            resources=Resources(cpu=1),
            constraints=NodeConstraints(),
            priority=priority,
            leaving=leaving,
        )
        for at, (priority, leaving) in enumerate([(9, False), (7, False), (1, True)])
    ]
    (shown,) = Observation.of(0.0, [job], [], pods, []).snapshot.jobs
    (without,) = Observation.of(0.0, [job], [], [], []).snapshot.jobs
    assert (shown.priority, without.priority) == (7, 0)


def test_events_are_not_waited_for() -> None:
    filled = caches()
    for cache in filled.all:
        if cache.watched.plural != "events":
            cache._synced.set()
    assert filled.missing() is None
    assert filled.wait_synced(0.0)


def test_a_filled_cache_that_cannot_be_refreshed_counts_as_filled() -> None:
    filled = caches()
    for cache in filled.all:
        cache._synced.set()
    filled.all[0]._failure = "cannot watch tfjobs: no answer"
    assert filled.missing() is None
