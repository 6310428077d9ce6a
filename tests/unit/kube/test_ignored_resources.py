"""Resources that another extender of kube-scheduler accounts for: HAMi's, for example."""

import json

import pytest

from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.pods import watched_pods
from optimus.kube.training_jobs import watched_training_jobs
from optimus.resources import Resources
from optimus.runtime.settings import names_in, not_resources
from tests.cases import cases

IGNORED = frozenset({"nvidia.com/gpumem", "nvidia.com/gpucores"})
CONTAINER = {
    "name": "tensorflow",
    "image": "busybox",
    "resources": {
        "limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    },
}


def test_a_pod_is_planned_without_them() -> None:
    raw = json.dumps(
        {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [CONTAINER]}}
    ).encode()
    gpu = Resources({"nvidia.com/gpu": 1, "pods": 1})
    assert watched_pods(ignored_resources=IGNORED).decode(raw).resources == gpu
    assert watched_pods().decode(raw).resources["nvidia.com/gpumem"] == 3000


def test_a_job_is_planned_without_them_and_quotas_count_them() -> None:
    replicas = {"replicas": 2, "template": {"spec": {"containers": [CONTAINER]}}}
    raw = json.dumps(
        {
            "metadata": {"name": "m20", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
            "spec": {"tfReplicaSpecs": {"PS": replicas, "Worker": replicas}},
        }
    ).encode()
    config = EligibilityConfig.of("optimus-scheduler", "1.7.0", IGNORED)
    found = watched_training_jobs("TFJob", config).decode(raw)
    assert found.job is not None
    assert {*found.job.worker.resources} == {*found.job.ps.resources} == {"nvidia.com/gpu", "pods"}
    assert "gpumem" in str(found.templates)


@cases(
    ("text", "names"),
    {"none": ("", frozenset()), "two": ("nvidia.com/gpumem, nvidia.com/gpucores", IGNORED)},
)
def test_names_are_read_from_one_setting(text: str, names: frozenset[str]) -> None:
    assert names_in(text) == names
    assert not not_resources("ignored_resources", text)


@pytest.mark.parametrize("text", ["cpu", "memory,nvidia.com/gpu", "nvidia.com/a b"])
def test_only_extended_resources_can_be_left_out(text: str) -> None:
    (problem,) = not_resources("ignored_resources", text)
    assert problem.field == "ignored_resources"
