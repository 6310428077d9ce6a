"""A job whose memory is near its limit is told of it, where the cluster has a metrics API."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.harness.api import KUBEFLOW, in_namespace
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario

_GROUP: Final = "metrics.k8s.io"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_METRICS: Final = f"/apis/{_GROUP}/v1beta1"
_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"pods.{_GROUP}",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for metrics-server"},
    },
    "spec": {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _OPEN},
            }
        ],
    },
}


@pytest.fixture
def metrics(scenario: Scenario) -> Iterator[str]:
    """The path of what the namespace's pods use."""
    scenario.api.create(_DEFINITIONS, _DEFINITION)
    path = in_namespace(_METRICS, scenario.namespace, "pods")
    scenario.wait(lambda: scenario.api.find(path), "the API is served")
    yield path
    scenario.api.delete(f"{_DEFINITIONS}/pods.{_GROUP}")


@pytest.mark.embedded
def test_its_user_is_told_that_a_pod_is_near_its_memory_limit(
    scenario: Scenario, metrics: str
) -> None:
    job = LightJob("TFJob", "near", 1, 1, {"optimus.dl/target-loss": "0.01"})
    body = job.manifest(scenario.namespace)
    (container,) = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = {"memory": "1Gi"}
    scenario.create(KUBEFLOW, "tfjobs", body)
    scenario.wait_bound(job)
    used = {"name": "tensorflow", "usage": {"cpu": "1", "memory": "960Mi"}}
    labels = {"training.kubeflow.org/job-name": "near"}
    pod = {"name": "near-worker-0", "labels": labels}
    measured = {"apiVersion": f"{_GROUP}/v1beta1", "kind": "PodMetrics", "containers": [used]}
    scenario.api.create(metrics, measured | {"metadata": pod})
    (said,) = scenario.wait_events("near", "MemoryNearLimit")["MemoryNearLimit"]
    assert said == "near-worker-0 uses 94% of its memory limit (0.938 of 1 Gi)"
    scenario.delete(job)
