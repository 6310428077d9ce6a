"""What each kind of event changes in the planner."""

import json
from typing import Any

import msgspec

from extender.parts import Parts
from extender.settings import Settings
from extender.state.cluster import ProfileRescale
from extender.state.event_handlers import rescale_of
from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.nodes import decode_node
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.profiles import JobRef, ProfileStatus, RescaleStatus, TrainingProfile
from optimus.kube.training_jobs import TrainingJob, decode_job
from tests.cases import cases

RECORD = RescaleStatus("i7", "2026-01-01T00:00:00Z", 1, 2, 2, 4)


def leading_parts() -> Parts:
    parts = Parts.of(Settings())
    parts.state.leads = True
    return parts


def profile(**status: object) -> TrainingProfile:
    fields = ProfileStatus(**status)  # type: ignore[arg-type]  # each test names fields that exist
    return TrainingProfile(
        uid="p", namespace="ns", name="j", job=JobRef("TFJob", "j", "uid-j"), status=fields
    )


@cases(
    ("given", "rescale"),
    {
        "nothing is known yet": (profile(), None),
        "training": (profile(phase=Phase.TRAINING, rescale=RECORD), None),
        "a target that no job can have": (
            profile(phase=Phase.STARTING, target_ps=1, target_workers=2**31),
            None,
        ),
        "not begun yet": (profile(phase=Phase.WAITING_FOR_CHECKPOINT, rescale=RECORD), None),
        "its pods are about to go": (
            profile(phase=Phase.SUSPENDING, rescale=RECORD, target_ps=2, target_workers=4),
            ProfileRescale("uid-j", "i7", Counts(2, 4), leaving=True, kept=Counts(1, 2)),
        ),
        "going back: the target counts, not the record's": (
            profile(phase=Phase.STARTING, rescale=RECORD, target_ps=1, target_workers=2),
            ProfileRescale("uid-j", "i7", Counts(1, 2), leaving=False),
        ),
        "without a target the record's": (
            profile(phase=Phase.RESIZING, rescale=RECORD),
            ProfileRescale("uid-j", "i7", Counts(2, 4), leaving=False, kept=Counts(1, 2)),
        ),
        "without a record the interval's name": (
            profile(phase=Phase.SUSPENDING, interval_id="i8", target_ps=2, target_workers=4),
            ProfileRescale("uid-j", "i8", Counts(2, 4), leaving=True),
        ),
        "without either nothing can be reserved": (profile(phase=Phase.SUSPENDING), None),
        "suspended for good": (
            profile(phase=Phase.SUSPENDING, rescale=RECORD, target_ps=0, target_workers=0),
            None,
        ),
    },
)
def test_the_rescale_that_a_profile_shows(
    given: TrainingProfile, rescale: ProfileRescale | None
) -> None:
    assert rescale_of(given) == rescale


def pod(uid: str, index: int, node: str | None = None) -> Pod:
    cluster = {"cluster": {"ps": ["x"], "worker": ["y"]}}
    role = ("ps", "worker")[index]
    return decode_pod(
        json.dumps(
            {
                "metadata": {
                    "name": f"j-{role}-0",
                    "namespace": "ns",
                    "uid": uid,
                    "labels": {
                        "training.kubeflow.org/replica-type": role,
                        "training.kubeflow.org/replica-index": "0",
                    },
                    "ownerReferences": [
                        {
                            "apiVersion": "kubeflow.org/v1",
                            "kind": "TFJob",
                            "name": "j",
                            "uid": "uid-j",
                            "controller": True,
                        }
                    ],
                },
                "spec": {
                    "schedulerName": "optimus-scheduler",
                    "nodeName": node,
                    "containers": [
                        {
                            "name": "tensorflow",
                            "env": [{"name": "TF_CONFIG", "value": json.dumps(cluster)}],
                            "resources": {"requests": {"cpu": "1"}},
                        }
                    ],
                },
            }
        ).encode()
    )


def job(**status: object) -> TrainingJob:
    replicas = {
        "replicas": 1,
        "template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}},
    }
    body = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "uid-j"},
        "spec": {"tfReplicaSpecs": {"PS": replicas, "Worker": replicas}},
        "status": status,
    }
    return decode_job("TFJob", json.dumps(body).encode(), config=EligibilityConfig())


NODE = decode_node(
    b'{"metadata":{"name":"n","uid":"n"},"status":{"allocatable":{"cpu":"2","pods":"9"}}}'
)


def test_from_events_to_a_plan_and_back() -> None:
    parts = leading_parts()
    state, handlers = parts.state, parts.handlers
    handlers.node(None, NODE)
    handlers.job(None, job())
    handlers.pod(None, pod("u1", 0))
    handlers.pod(None, pod("u2", 1))
    while parts.planner.plan_slice():
        pass
    assert {each.pod.name for each in parts.pending.planned()} == {
        "j-ps-0",
        "j-worker-0",
    }
    # Recreated under its old name, bound, gone.
    handlers.pod(pod("u2", 1), pod("u3", 1))
    while parts.planner.plan_slice():
        pass
    assert {each.pod.uid for each in parts.pending.planned()} == {"u1", "u3"}
    handlers.pod(pod("u1", 0), pod("u1", 0, "n"))
    assert {each.pod.uid for each in parts.pending.planned()} == {"u3"}
    handlers.node(NODE, None)
    assert state.reservation_count() == 0


SUSPENDING = RescaleStatus("i", "", 1, 1, 1, 1)


@cases(
    "change",
    {
        "of another namespace": {"namespace": "attacker"},
        "of another name": {"name": "k"},
        "of another kind": {"job": JobRef("MXJob", "j", "uid-j")},
        "of a job that is gone": {"job": JobRef("TFJob", "j", "uid-k")},
    },
)
def test_a_profile_that_is_not_the_jobs_own_is_ignored(change: dict[str, Any]) -> None:
    parts = leading_parts()
    state, handlers = parts.state, parts.handlers
    handlers.node(None, NODE)
    handlers.job(None, job())
    foreign = msgspec.structs.replace(profile(phase=Phase.RESIZING, rescale=SUSPENDING), **change)
    own = profile(phase=Phase.RESIZING, rescale=SUSPENDING)
    handlers.profile(None, foreign)
    assert state.reservation_count() == 0
    if (foreign.namespace, foreign.name, foreign.job.kind) == (
        own.namespace,
        own.name,
        own.job.kind,
    ):
        handlers.profile(foreign, own)  # one name holds one profile
    else:
        handlers.profile(None, own)
        handlers.profile(foreign, None)
    assert state.reservation_count() == 2
    handlers.profile(own, None)
    assert state.reservation_count() == 0


@cases(
    "after",
    {"deleted": None, "succeeded": job(conditions=[{"type": "Succeeded", "status": "True"}])},
)
def test_a_job_that_ends_releases_its_reservations(after: TrainingJob | None) -> None:
    parts = leading_parts()
    state, handlers = parts.state, parts.handlers
    handlers.node(None, NODE)
    handlers.job(None, job())
    handlers.profile(
        None, profile(phase=Phase.RESIZING, rescale=RescaleStatus("i", "", 1, 1, 1, 1))
    )
    assert state.reservation_count() == 2
    handlers.job(job(), after)
    assert state.reservation_count() == 0
