"""Why a job's pods do not run, from the status of its pods and the ends of their logs."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from optimus.kube.pod_failures import FORGIVEN_SECONDS, failure_of, last_line
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.times import parse_instant
from tests.cases import cases

NOW = parse_instant("2026-01-01T00:10:00Z")
STARTED = parse_instant("2026-01-01T00:09:00Z")
OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
CRASHED = {"terminated": {"exitCode": 1, "reason": "Error"}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:09:00Z"}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def pod(
    name: str = "w-0",
    state: Mapping[str, Any] = RUNNING,
    last: Mapping[str, Any] | None = None,
    restarts: int = 0,
    phase: str = "Running",
    **status: Any,
) -> Pod:
    """A pod of a job, as the API server shows it."""
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "u"}
    trains = {"name": "tensorflow", "restartCount": restarts, "state": state}
    body = {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "ns",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"training.kubeflow.org/replica-type": "worker"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "tensorflow"}]},
        "status": {
            "phase": phase,
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{**trains, "lastState": last or {}}],
            **status,
        },
    }
    return decode_pod(json.dumps(body).encode())


@cases(
    ("failing", "sentence"),
    {
        "it crashes again and again": (
            pod(state=waiting("CrashLoopBackOff", "back-off 40s"), last=CRASHED, restarts=5),
            "w-0: CrashLoopBackOff, exit code 1 after 5 restarts",
        ),
        "its memory does not suffice": (
            pod(state=waiting("CrashLoopBackOff"), last=OOM, restarts=1),
            "w-0: CrashLoopBackOff, exit code 137 (OOMKilled) after 1 restart",
        ),
        "its image is not pulled": (
            pod(state=waiting("ErrImagePull", "not found"), phase="Pending"),
            "w-0: ImagePullBackOff: not found",
        ),
        "its container cannot be made": (
            pod(state=waiting("CreateContainerConfigError", 'secret "s" not found')),
            'w-0: CreateContainerConfigError: secret "s" not found',
        ),
        "a container before it fails": (
            pod(
                state=waiting("PodInitializing"),
                initContainerStatuses=[
                    {"name": "init", "state": waiting("CrashLoopBackOff"), "lastState": CRASHED}
                ],
            ),
            "w-0: CrashLoopBackOff",
        ),
        "it was evicted": (
            pod(state=OOM, phase="Failed", reason="Evicted", message="low on memory"),
            "w-0: Evicted: low on memory, exit code 137 (OOMKilled)",
        ),
        "it is not started again": (
            pod(state=CRASHED, phase="Failed"),
            "w-0: ended with exit code 1",
        ),
        "it runs again": (
            pod(last=OOM, restarts=2),
            "w-0: ended with exit code 137 (OOMKilled) after 2 restarts",
        ),
        "it left a message": (
            pod(
                state=waiting("CrashLoopBackOff"),
                last={
                    "terminated": {
                        "exitCode": 1,
                        "message": "Traceback\nRuntimeError: CUDA out of memory.\nexiting",
                    }
                },
            ),
            "w-0: CrashLoopBackOff, exit code 1: RuntimeError: CUDA out of memory.",
        ),
    },
)
def test_what_the_kubelet_knows_is_the_reason(failing: Pod, sentence: str) -> None:
    assert str(failure_of([pod("w-1"), failing], NOW)) == sentence


@pytest.mark.parametrize(
    "well",
    [
        pytest.param(pod(), id="it runs"),
        pytest.param(pod(state=waiting("ContainerCreating"), phase="Pending"), id="it is made"),
        pytest.param(pod(state=waiting("PodInitializing"), phase="Pending"), id="it initializes"),
        pytest.param(pod(state={"terminated": {}}, phase="Succeeded"), id="it has succeeded"),
        pytest.param(pod(last={"terminated": {}}, restarts=3), id="it ended without an error"),
    ],
)
def test_a_pod_that_runs_or_is_about_to_does_not_fail(well: Pod) -> None:
    assert failure_of([well], NOW) is None


def test_a_container_that_runs_again_fails_until_it_trains_or_has_run_for_long() -> None:
    again = [pod(last=CRASHED, restarts=1)]
    assert failure_of(again, NOW, trained_at=STARTED) is not None
    assert failure_of(again, NOW, trained_at=STARTED + 1) is None
    assert failure_of(again, STARTED + FORGIVEN_SECONDS) is None


def test_of_several_pods_the_one_that_took_the_others_with_it_is_named() -> None:
    loops = waiting("CrashLoopBackOff")
    others = [pod(f"w-{at}", loops, CRASHED, 9) for at in (0, 2)]
    cause = pod("w-1", loops, OOM, 2)
    found = failure_of([*others, cause], NOW)
    assert str(found).startswith("w-1: CrashLoopBackOff, exit code 137 (OOMKilled)")
    assert str(found).endswith("; 2 more pods too")
    words = {"w-2": "a\ntorch.cuda.OutOfMemoryError: CUDA out of memory\nb"}
    assert str(failure_of(others, NOW, last_words=words)).startswith("w-2: ")


def test_a_restart_alone_is_no_other_cause() -> None:
    loops = waiting("CrashLoopBackOff")
    before, after, other = (
        failure_of([pod("w-0", loops, last, restarts)], NOW)
        for last, restarts in ((CRASHED, 3), (CRASHED, 4), (OOM, 4))
    )
    assert before is not None
    assert after is not None
    assert other is not None
    assert before.cause == after.cause != other.cause


@cases(
    ("log", "line"),
    {
        "memory of a GPU": ("RuntimeError: CUDA out of memory\nError: exiting", 0),
        "memory of a node": ("x\nstd::bad_alloc\nAborted", 1),
        "an exception": ("Traceback\nModuleNotFoundError: No module named 'x'\n\nbye", 1),
        "a full disk": ("OSError: [Errno 28] No space left on device\nbye", 0),
        "nothing known": ("one\ntwo\n", 1),
    },
)
def test_the_line_that_says_why_a_program_ended(log: str, line: int) -> None:
    assert last_line(log.splitlines()) == log.splitlines()[line]
    assert last_line([]) == ""
    assert len(last_line(["x" * 9999 + " CUDA out of memory " + "y" * 9999])) <= 200
