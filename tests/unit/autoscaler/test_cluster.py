"""When the caches count as filled."""

import json
from random import Random
from typing import Any, cast

import pytest

from autoscaler.cluster import Caches, NodeList, Observation, PodIndex, waits_of
from optimus.jobs import NodeConstraints, Role
from optimus.kube.client import Client
from optimus.kube.contract import WAIT_ANNOTATION
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.events import LONGEST_MESSAGE
from optimus.kube.pods import Owner, Pod
from optimus.kube.reflector import ReflectorConfig
from optimus.kube.training_jobs import TrainingJob
from optimus.kube.waiting_events import JobAhead, Wait, WaitingEvent, decode_waiting_event
from optimus.resources import NONE, Resources
from optimus.snapshot import ReplicaId
from tests.unit.kube.job_json import job_json, read


def caches() -> Caches:
    """Caches that are never filled."""
    return Caches(cast("Client", object()), EligibilityConfig(), "", "", ReflectorConfig())


def observed(jobs: list[TrainingJob], pods: list[Pod]) -> Observation:
    """What is frozen of these jobs and pods, on no nodes."""
    index = PodIndex()
    for pod in pods:
        index.note(None, pod)
    return Observation.of(1.0, jobs, NodeList((), {}), index.freeze(), [])


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
    (placed,) = observed([read(job_json())], [pod]).snapshot.pods
    assert (placed.ended, placed.node, placed.resources) == (True, "n", NONE)


def event(
    uid: str, message: str, last_at: str, namespace: str = "ns", values: str = "{}"
) -> WaitingEvent:
    metadata = {
        "name": f"{uid}.{last_at}",
        "namespace": namespace,
        "annotations": {WAIT_ANNOTATION: values},
    }
    body = {
        "metadata": metadata,
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
    assert waits_of(events, {job.uid: job}) == {"u": Wait(text="new")}


def test_the_values_of_an_event_are_read_where_they_can_be() -> None:
    wait = Wait(text="a sentence", ahead=(JobAhead("ns/a", 2),), jobs_ahead=3, awaits="ns/b")
    (values,) = wait.annotations().values()
    assert "sentence" not in values
    assert event("u", "a sentence", "", values=values).wait == wait
    for broken in ("", "[", '{"ahead": 7}'):
        assert event("u", "a sentence", "", values=broken).wait == Wait(text="a sentence")


def test_an_event_of_any_length_is_cut_to_that_of_our_own() -> None:
    assert len(event("u", "m" * 1_000_000, "").wait.text) == LONGEST_MESSAGE
    names = [{"job": "j" * 100, "keepsNodes": 1}] * 100
    assert event("u", "a", "", values=json.dumps({"ahead": names})).wait == Wait(text="a")


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


def job_of(uid: str) -> dict[str, Any]:
    written = job_json()
    written["metadata"]["uid"] = uid
    return written


def pod_named(name: str, job: str, resource_version: str, **fields: Any) -> Pod:
    given: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "ns",
        "name": name,
        "created_at": 0.0,
        "owner": Owner("TFJob", job, job) if job else None,
        "replica": ReplicaId(job, Role.WORKER, 0) if job else None,
        "resources": Resources(cpu=1),
        "constraints": NodeConstraints(),
        "resource_version": resource_version,
    }
    return Pod(**(given | fields))


def drawn_pod(name: str, turn: int, random: Random) -> Pod | None:
    """A pod as it is stored next: changed, recreated under its name, or gone."""
    if random.random() < 0.2:
        return None
    return pod_named(
        name,
        random.choice(["", "u", "v"]),
        str(turn),
        uid=f"uid-{name}-{random.choice('ab')}",
        node=random.choice([None, "n1", "n2"]),
        phase=random.choice(["Running", "Running", "Succeeded", "Failed"]),
        leaving=random.random() < 0.2,
        priority=random.choice([0, 0, 5]),
    )


@pytest.mark.parametrize("seed", range(5))
def test_pods_kept_change_by_change_are_those_sorted_again(seed: int) -> None:
    random, index, stored = Random(seed), PodIndex(), dict[str, Pod]()
    decoded = [read(job_of(uid)) for uid in "uv"]
    for turn in range(60):
        for name in random.sample([f"pod-{number}" for number in range(12)], 3):
            before, after = stored.pop(name, None), drawn_pod(name, turn, random)
            index.note(before, after)
            if after is not None:
                stored[name] = after
        kept = Observation.of(1.0, decoded, NodeList((), {}), index.freeze(), [])
        rebuilt = observed(decoded, list(stored.values()))
        assert kept == rebuilt
        for uid in {pod.owner.uid for pod in stored.values() if pod.owner}:
            mine = [pod for pod in stored.values() if pod.owner and pod.owner.uid == uid]
            assert kept.pods[uid] == tuple(sorted(mine, key=lambda pod: pod.name))
        for job in kept.snapshot.jobs:
            mine = [pod for pod in stored.values() if pod.owner and pod.owner.uid == job.uid]
            staying = [pod.priority for pod in mine if not pod.leaving]
            assert job.priority == min(staying, default=0)
        assert {each.uid for each in kept.snapshot.pods} == {
            pod.uid for pod in stored.values() if pod.bound() or pod.ended()
        }


def test_pods_of_a_job_of_which_none_has_changed_are_the_same_object() -> None:
    index = PodIndex()
    first, second = pod_named("a", "u", "1", node="n"), pod_named("b", "v", "1", node="n")
    for pod in (first, second):
        index.note(None, pod)
    before = index.freeze()
    assert index.freeze() is before
    index.note(second, pod_named("b", "v", "2", node="n"))
    after = index.freeze()
    assert after.by_job["u"] is before.by_job["u"]
    assert after.by_job["v"] is not before.by_job["v"]
    assert before.by_job["v"] == (second,)


def test_pods_of_another_namespace_are_no_replicas_of_a_job() -> None:
    own = pod_named("own", "u", "1", node="n", phase="Running")
    forged = pod_named(
        "forged", "u", "1", namespace="other", node="n", phase="Running", priority=-9
    )
    ended = pod_named("ended", "u", "1", namespace="other", node="n", phase="Succeeded")
    index = PodIndex()
    for pod in (forged, ended, own):
        index.note(None, pod)
    found = Observation.of(1.0, [read(job_of("u"))], NodeList((), {}), index.freeze(), [])
    assert found.pods == {"u": (own,)}
    assert found.snapshot.jobs[0].priority == 0
    assert found.snapshot.bound_counts("u").workers == 1
    # What they take of their node is taken all the same.
    assert {each.uid for each in found.snapshot.pods} == {"uid-own", "uid-forged"}
