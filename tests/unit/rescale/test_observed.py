"""What the state machine of a rescale sees of a job and of its pods."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from optimus.jobs import NO_COUNTS, Counts, Job, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.kube.pods import ContainerState, Pod
from optimus.kube.profile_codec import observed_job, observed_pods
from optimus.kube.suspension import SuspensionMark
from optimus.kube.training_jobs import TrainingJob
from optimus.rescale.words import ObservedPods, SeenJob
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.cases import cases

ROOM = Resources(cpu=1, pods=1)
COUNTS = Counts(1, 2)


def pod(role: Role = Role.WORKER, index: int = 0, **fields: object) -> Pod:
    """A replica that runs on a node."""
    running = Pod(
        uid=f"{role}-{index}",
        namespace="ns",
        name=f"a-{role}-{index}",
        created_at=0.0,
        replica=ReplicaId("uid-a", role, index),
        resources=ROOM,
        constraints=NodeConstraints(),
        node="n1",
        phase="Running",
    )
    return msgspec.structs.replace(running, **fields)


def ended(error: str, restarts: int, *, crash_loops: bool = False) -> ContainerState:
    return ContainerState(None, restarts, error, "CrashLoopBackOff" if crash_loops else "")


def observed(pods: Iterable[Pod], fixed: int = 0) -> ObservedPods:
    return observed_pods([*pods], fixed)


def test_every_pod_is_left_and_those_that_stay_are_counted_by_role() -> None:
    seen = observed(
        [
            pod(Role.PS),
            pod(Role.WORKER, 0),
            pod(Role.WORKER, 1, phase="Pending"),
            pod(Role.WORKER, 2, phase="Pending", node=None),
            pod(Role.WORKER, 3, phase="Succeeded"),
            pod(Role.WORKER, 4, leaving=True),
        ]
    )
    assert seen.left == 6
    assert seen.bound == Counts(1, 3)
    assert seen.started == Counts(1, 2)


@cases(
    ("pods", "fixed", "missing"),
    {
        "a job without fixed roles": ([], 0, 0),
        "none of them": ([], 2, 2),
        "one of two": ([pod(Role.CHIEF)], 2, 1),
        "it has not started": ([pod(Role.CHIEF, phase="Pending")], 1, 1),
        "it is being deleted": ([pod(Role.CHIEF, leaving=True)], 1, 1),
        "more than asked for": ([pod(Role.CHIEF), pod(Role.CHIEF, 1)], 1, 0),
        "no other pod counts": ([pod(Role.PS), pod(), pod(replica=None)], 1, 1),
    },
)
def test_the_fixed_roles_that_are_missing(pods: list[Pod], fixed: int, missing: int) -> None:
    seen = observed(pods, fixed)
    assert seen.fixed_missing == missing
    assert seen.all_started(NO_COUNTS) is (missing == 0)


def test_of_the_containers_that_ended_with_an_error_the_one_restarted_most_is_named() -> None:
    seen = observed(
        [
            pod(Role.PS, container=ContainerState(1.0, restarts=7)),
            pod(index=0, container=ended("exit code 1", 2)),
            pod(index=1, container=ended("exit code 137 (OOMKilled)", 3)),
            pod(index=2, container=ended("exit code 2", 3)),
            pod(index=3, container=ended("exit code 9", 9), leaving=True),
        ]
    )
    assert seen.error == f"a-{Role.WORKER}-1 ended with exit code 137 (OOMKilled)"
    assert seen.restarts == 7


def test_pods_that_run_well_have_no_error_and_no_restart() -> None:
    seen = observed([pod(Role.PS), pod()])
    assert (seen.error, seen.restarts, seen.crash_loops, seen.is_ending) == ("", 0, False, False)
    assert observed([]) == ObservedPods(0, NO_COUNTS, NO_COUNTS)


@cases(
    ("one", "loops"),
    {
        "it was restarted": (pod(container=ended("exit code 1", 1)), False),
        "it waits ever longer": (pod(container=ended("exit code 1", 4, crash_loops=True)), True),
        "its pod has failed": (pod(container=ended("exit code 1", 0), phase="Failed"), True),
        "its pod was lost without an error": (pod(phase="Failed"), False),
        "it is being deleted": (
            pod(container=ended("exit code 1", 4, crash_loops=True), leaving=True),
            False,
        ),
    },
)
def test_a_container_that_does_not_come_back(one: Pod, loops: bool) -> None:
    assert observed([pod(Role.PS), one]).crash_loops is loops


@cases(
    ("one", "ends"),
    {
        "a worker has succeeded": (pod(phase="Succeeded"), True),
        "a PS trains nothing": (pod(Role.PS, phase="Succeeded"), False),
        "it runs": (pod(), False),
        "it has failed": (pod(phase="Failed"), False),
    },
)
def test_a_job_is_about_to_end_once_a_trainer_has_succeeded(one: Pod, ends: bool) -> None:
    assert observed([pod(Role.PS, 1), one]).is_ending is ends


SPEC = ReplicaSpec(ROOM)
VALID = Job(
    key=JobKey("ns", "a"),
    uid="uid-a",
    kind="TFJob",
    created_at=0.0,
    counts=COUNTS,
    ps=SPEC,
    worker=SPEC,
)
FOUND = TrainingJob(
    kind="TFJob",
    namespace="ns",
    name="a",
    uid="uid-a",
    resource_version="5",
    created_at=0.0,
    job=VALID,
)


def test_a_running_job() -> None:
    assert observed_job(FOUND) == SeenJob(False, None, False, COUNTS, "5")


def test_a_job_that_we_suspended_and_the_operator_has_confirmed() -> None:
    mark, confirmed = SuspensionMark("i7"), frozenset({"Created", "Suspended"})
    job = replace(FOUND, suspended=True, suspension=mark, conditions=confirmed)
    assert observed_job(job) == SeenJob(True, "i7", True, COUNTS, "5")


@cases(
    ("job", "finished", "failed"),
    {
        "unfinished": (FOUND, False, False),
        "succeeded": (replace(FOUND, outcome="Succeeded"), True, False),
        "failed": (replace(FOUND, outcome="Failed"), True, True),
        "being deleted": (replace(FOUND, deleted=True), True, False),
        "no longer a job that can be scheduled": (replace(FOUND, job=None), True, False),
    },
)
def test_a_job_that_has_ended(job: TrainingJob, finished: bool, failed: bool) -> None:
    seen = observed_job(job)
    assert (seen.finished, seen.failed) == (finished, failed)
    assert seen.counts == (NO_COUNTS if job.job is None else COUNTS)
