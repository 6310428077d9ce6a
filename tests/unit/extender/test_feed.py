"""What each kind of event means for the placer."""

import json
from typing import Any

import msgspec
import pytest

from extender.placer import Placer
from extender.planner import Rules
from extender.state.cluster import Rescale
from extender.state.event_handlers import EventHandlers, has_run, rescale_of
from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.nodes import decode_node
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.profiles import JobRef, ProfileStatus, RescaleRecord, TrainingProfile
from optimus.kube.training_jobs import TrainingJob, decode_job

RECORD = RescaleRecord("i7", "2026-01-01T00:00:00Z", 1, 2, 2, 4)


def profile(**status: object) -> TrainingProfile:
    fields = ProfileStatus(**status)  # type: ignore[arg-type]  # each test names fields that exist
    return TrainingProfile(
        uid="p", namespace="ns", name="j", job=JobRef("TFJob", "j", "uid-j"), status=fields
    )


@pytest.mark.parametrize(
    ("given", "rescale"),
    [
        pytest.param(profile(), None, id="nothing is known yet"),
        pytest.param(profile(phase=Phase.TRAINING, rescale=RECORD), None, id="training"),
        pytest.param(
            profile(phase=Phase.WAITING_FOR_CHECKPOINT, rescale=RECORD), None, id="not begun yet"
        ),
        pytest.param(
            profile(phase=Phase.SUSPENDING, rescale=RECORD, target_ps=2, target_workers=4),
            Rescale("uid-j", "i7", Counts(2, 4), leaving=True),
            id="its pods are about to go",
        ),
        pytest.param(
            profile(phase=Phase.STARTING, rescale=RECORD, target_ps=1, target_workers=2),
            Rescale("uid-j", "i7", Counts(1, 2), leaving=False),
            id="going back: the target counts, not the record's",
        ),
        pytest.param(
            profile(phase=Phase.RESIZING, rescale=RECORD),
            Rescale("uid-j", "i7", Counts(2, 4), leaving=False),
            id="without a target the record's",
        ),
        pytest.param(
            profile(phase=Phase.SUSPENDING, interval_id="i8", target_ps=2, target_workers=4),
            Rescale("uid-j", "i8", Counts(2, 4), leaving=True),
            id="without a record the interval's name",
        ),
        pytest.param(
            profile(phase=Phase.SUSPENDING), None, id="without either nothing can be held"
        ),
        pytest.param(
            profile(phase=Phase.SUSPENDING, rescale=RECORD, target_ps=0, target_workers=0),
            None,
            id="suspended for good",
        ),
    ],
)
def test_which_rescale_a_profile_tells_of(given: TrainingProfile, rescale: Rescale | None) -> None:
    assert rescale_of(given) == rescale


def test_a_job_that_has_trained_has_run() -> None:
    assert has_run(profile(trained_seconds=1.0))
    assert has_run(profile(rescales=1))
    assert not has_run(profile())


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
    placer = Placer(Rules(scheduler_name="optimus-scheduler"))
    feed = EventHandlers(placer)
    feed.node(None, NODE)
    feed.job(None, job())
    feed.pod(None, pod("u1", 0))
    feed.pod(None, pod("u2", 1))
    placer.advance()
    assert {wish.pod.name for wish in placer.wishes()} == {"j-ps-0", "j-worker-0"}
    # Made anew under its old name, bound, gone.
    feed.pod(pod("u2", 1), pod("u3", 1))
    placer.advance()
    assert {wish.pod.uid for wish in placer.wishes()} == {"u1", "u3"}
    feed.pod(pod("u1", 0), pod("u1", 0, "n"))
    assert {wish.pod.uid for wish in placer.wishes()} == {"u3"}
    feed.node(NODE, None)
    assert placer.reservations() == 0


def test_a_node_that_cannot_be_used_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    feed = EventHandlers(Placer(Rules(scheduler_name="optimus-scheduler")))
    bare = decode_node(b'{"metadata":{"name":"bare","uid":"b"},"status":{}}')
    assert bare.problem
    feed.node(None, NODE)
    feed.node(None, bare)
    feed.node(bare, bare)
    assert [record.getMessage() for record in caplog.records] == [bare.problem]


SUSPENDING = RescaleRecord("i", "", 1, 1, 1, 1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"namespace": "attacker"}, id="of another namespace"),
        pytest.param({"name": "k"}, id="of another name"),
        pytest.param({"job": JobRef("MXJob", "j", "uid-j")}, id="of another kind"),
        pytest.param({"job": JobRef("TFJob", "j", "uid-k")}, id="of a job that is gone"),
    ],
)
def test_a_profile_that_is_not_the_jobs_own_says_nothing(change: dict[str, Any]) -> None:
    placer = Placer(Rules(scheduler_name="optimus-scheduler"))
    feed = EventHandlers(placer)
    feed.node(None, NODE)
    feed.job(None, job())
    foreign = msgspec.structs.replace(profile(phase=Phase.RESIZING, rescale=SUSPENDING), **change)
    own = profile(phase=Phase.RESIZING, rescale=SUSPENDING)
    feed.profile(None, foreign)
    assert placer.reservations() == 0
    if (foreign.namespace, foreign.name, foreign.job.kind) == (
        own.namespace,
        own.name,
        own.job.kind,
    ):
        feed.profile(foreign, own)  # one name holds one profile
    else:
        feed.profile(None, own)
        feed.profile(foreign, None)
    assert placer.reservations() == 2
    feed.profile(own, None)
    assert placer.reservations() == 0


def test_a_profile_may_be_seen_before_its_job() -> None:
    placer = Placer(Rules(scheduler_name="optimus-scheduler"))
    feed = EventHandlers(placer)
    feed.node(None, NODE)
    feed.profile(None, profile(phase=Phase.RESIZING, rescale=SUSPENDING))
    assert placer.reservations() == 0
    feed.job(None, job())
    placer.advance()
    assert placer.reservations() == 2
    feed.job(job(), None)
    assert placer.reservations() == 0


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(None, id="deleted"),
        pytest.param(job(conditions=[{"type": "Succeeded", "status": "True"}]), id="succeeded"),
    ],
)
def test_a_job_that_ends_lets_its_room_go(after: TrainingJob | None) -> None:
    placer = Placer(Rules(scheduler_name="optimus-scheduler"))
    feed = EventHandlers(placer)
    feed.node(None, NODE)
    feed.job(None, job())
    feed.profile(None, profile(phase=Phase.RESIZING, rescale=RescaleRecord("i", "", 1, 1, 1, 1)))
    assert placer.reservations() == 2
    feed.job(job(), after)
    assert placer.reservations() == 0
