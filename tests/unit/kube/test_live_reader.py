"""Which pods are a job's, among those with its labels."""

import json
from collections.abc import Sequence
from typing import cast

from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.live_reader import LiveReader
from optimus.kube.training_jobs import decode_job

JOB = decode_job(
    "TFJob",
    json.dumps(
        {"metadata": {"name": "j", "namespace": "ns", "uid": "u1"}, "spec": {"tfReplicaSpecs": {}}}
    ).encode(),
    config=EligibilityConfig(),
)


def pod(name: str, kind: str, uid: str) -> dict[str, object]:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": "j", "uid": uid}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "c"}]},
    }


class ListedPods:
    """Answers one list of pods."""

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        items = [pod("own", "TFJob", "u1"), pod("other", "MXJob", "u2")]
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()


def test_the_pods_of_another_kind_of_job_of_the_same_name_are_not_the_jobs() -> None:
    found = LiveReader(cast("Client", ListedPods()), EligibilityConfig()).pods_of(JOB)
    assert isinstance(found, tuple)
    assert [each.name for each in found] == ["own"]
