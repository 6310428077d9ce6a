"""What the page shows of one stored job: no secret of it, and never more than a bounded answer."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import yaml

from optimus.jobs import JobKey
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.job_display import LONGEST_YAML, JobDisplay, shown_fields
from optimus.kube.job_events import MOST_EVENTS, DisplayedJob

JOB = DisplayedJob("TFJob", JobKey("team-a", "resnet"), "uid-1", created_at=0.0)
SECRET = "s3cret"
CONTAINER = {
    "name": "tensorflow",
    "image": "registry.example/resnet:4",
    "command": ["sh", "-c", SECRET],
    "args": [SECRET],
    "env": [{"name": "TOKEN", "value": SECRET}, {"name": "KEY", "valueFrom": {"x": SECRET}}],
    "envFrom": [{"secretRef": {"name": SECRET}}],
    "livenessProbe": {"exec": {"command": [SECRET]}},
    "lifecycle": {"preStop": {"httpGet": {"httpHeaders": [{"name": "a", "value": SECRET}]}}},
    "resources": {"limits": {"nvidia.com/gpu": "1"}},
}
POD = {
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "volumes": [
        {"name": "data", "csi": {"driver": "d", "volumeAttributes": {"password": SECRET}}},
        {"name": "code", "persistentVolumeClaim": {"claimName": "code"}},
        {"name": "odd", "iscsi": {"chapAuthSession": SECRET}},
    ],
    "somethingOfALaterVersion": SECRET,
}
METADATA = {"annotations": {"sidecar.example/token": SECRET}, "labels": {"team": "a"}}
ROLE = {"replicas": 3, "template": {"metadata": METADATA, "spec": POD}}
STORED = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {
        "name": "resnet",
        "annotations": {
            "optimus.dl/target-loss": "0.15",
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
        },
        "managedFields": [{"manager": SECRET}],
    },
    "spec": {"runPolicy": {"suspend": False}, "tfReplicaSpecs": {"PS": ROLE, "worker": ROLE}},
    "status": {"conditions": [{"type": "Running", "status": "True"}]},
}


class Source:
    """Answers of the API server, by the end of their path."""

    def __init__(self, **answers: object) -> None:
        self.answers, self.limits = answers, dict[str, int | None]()

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        read_seconds: float | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        assert read_seconds is not None
        assert path.startswith(("/api/v1/namespaces/team-a/", "/apis/kubeflow.org/v1/namespaces/"))
        name = path.rsplit("/", 1)[1]
        if name == "events" and ("fieldSelector", "involvedObject.uid=uid-1") not in query:
            return msgspec.json.encode(events())
        self.limits[name] = most_bytes
        answer = self.answers[name]
        if isinstance(answer, KubeError):
            raise answer
        return msgspec.json.encode(answer)


def events(*found: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7"}, "items": list(found)}


def event(at: str, message: str = "m") -> dict[str, Any]:
    about = {"name": "resnet", "uid": "uid-1"}
    return {"involvedObject": about, "type": "Normal", "message": message, "lastTimestamp": at}


def test_no_secret_of_a_job_is_shown() -> None:
    text = JobDisplay(Source(events=events(), resnet=STORED)).read(JOB).yaml
    assert SECRET not in text
    for shown in ("replicas: 3", "registry.example/resnet:4", "nvidia.com/gpu: '1'", "- name: KEY"):
        assert shown in text
    for shown in ("optimus.dl/target-loss: '0.15'", "claimName: code", "type: Running", "team: a"):
        assert shown in text


def test_of_a_jobset_the_replicated_jobs_are_shown() -> None:
    job = {"parallelism": 3, "template": ROLE["template"]}
    waits = [{"name": "data", "status": "Complete"}]
    replicated = {
        "name": "node",
        "dependsOn": waits,
        "template": {"metadata": METADATA, "spec": job},
    }
    spec = {"suspend": True, "replicatedJobs": [replicated]}
    text = yaml.safe_dump(shown_fields({"kind": "JobSet", "spec": spec}))
    assert SECRET not in text
    for shown in ("suspend: true", "name: node", "status: Complete", "parallelism: 3", "resnet:4"):
        assert shown in text


@pytest.mark.parametrize("stored", [{}, [], "text", {"spec": "text", "metadata": []}, {"spec": {}}])
def test_what_is_no_job_is_shown_as_nothing(stored: object) -> None:
    assert SECRET not in str(shown_fields(stored))


def test_events_come_newest_first_and_are_bounded() -> None:
    many = [event(f"2027-01-15T08:{n // 60:02}:{n % 60:02}Z", "x" * 9000) for n in range(300)]
    source = Source(events=events(*many), resnet=STORED)
    found = JobDisplay(source).read(JOB)
    assert len(found.events) == MOST_EVENTS
    assert found.events[0].last_at == "2027-01-15T08:04:59Z"
    assert {len(each.message) for each in found.events} == {1024}
    assert all(limit is not None for limit in source.limits.values())


def test_a_long_yaml_is_refused_before_it_is_written() -> None:
    labels = {f"label-{n}": "x" * 60 for n in range(LONGEST_YAML // 60)}
    long = {**STORED, "metadata": {"name": "resnet", "labels": labels}}
    found = JobDisplay(Source(events=events(), resnet=long)).read(JOB)
    assert (found.yaml, found.problems) == (
        "",
        ("the YAML of team-a/resnet is too long for this page",),
    )


def test_what_may_not_be_read_is_said_and_the_rest_is_shown() -> None:
    refused = KubeError(ErrorKind.FORBIDDEN, "cannot list the Events: forbidden")
    found = JobDisplay(Source(events=refused, resnet=STORED)).read(JOB)
    assert found.problems == ("cannot list the Events: forbidden",)
    assert "replicas: 3" in found.yaml
    broken = JobDisplay(Source(events={"items": [1]}, resnet=STORED))
    assert "list the Events on team-a/resnet" in broken.read(JOB).problems[0]
