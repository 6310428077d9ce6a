"""Gangs that kube-scheduler itself binds together or not at all (PodGroups), beside the extender.

These gates are off by default; a policy makes each job's pods members of its PodGroup."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from localcluster.testing.pod_groups import pod_groups
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.scheduler import TrainingJobs, tfjob, unharmed
from tests.harness.api import Api, in_namespace
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

GROUPS = in_namespace(pod_groups().api, "default", "podgroups")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
JOB = "training.kubeflow.org/job-name"
MUTATION = (
    "Object{spec: Object.spec{schedulingGroup: Object.spec.schedulingGroup{"
    f'podGroupName: object.metadata.labels["{JOB}"]}}}}}}'
)


@pytest.fixture(scope="module")
def own(shown: Shown) -> Iterator[LocalCluster]:
    """Four nodes of four CPUs; its kube-scheduler knows PodGroups."""
    nodes = numbered_nodes(4, {"cpu": "4", "memory": "8Gi"})
    with LocalCluster("groups", nodes, flags=pod_groups().flags()) as cluster, shown(cluster):
        with cluster.api_client() as client:
            join_groups(Api(client))
        yield cluster


def join_groups(api: Api) -> None:
    """From now on a job's pods are members of the PodGroup of its name."""
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ]
        },
        "matchConditions": [
            {"name": "of-a-job", "expression": f'"{JOB}" in object.metadata.?labels.orValue({{}})'}
        ],
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": MUTATION},
            }
        ],
    }
    api.create(
        f"{ADMISSION}/mutatingadmissionpolicies", {"metadata": {"name": "groups"}, "spec": spec}
    )
    api.create(
        f"{ADMISSION}/mutatingadmissionpolicybindings",
        {"metadata": {"name": "groups"}, "spec": {"policyName": "groups"}},
    )
    probe = {
        "metadata": {"generateName": "probe-", "labels": {JOB: "probe"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    pods = in_namespace("/api/v1", "default", "pods")

    def is_in_force() -> bool:
        made = api.create(pods, probe)
        api.delete(f"{pods}/{made['metadata']['name']}")
        return "schedulingGroup" in made["spec"]

    wait_until("the policy is in force", is_in_force)


class Groups:
    """Jobs with a PodGroup of as many pods as they have."""

    def __init__(self, jobs: TrainingJobs, api: Api) -> None:
        self._jobs, self._api = jobs, api

    def submit(self, name: str, workers: int, **spec: object) -> None:
        policy = {"gang": {"minCount": workers + 1}}
        body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
        self._api.create(GROUPS, body)
        document = json.loads(tfjob(name, 1, workers))
        document["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"].update(spec)
        self._jobs.submit(name, json.dumps(document))


@pytest.fixture
def groups(jobs: TrainingJobs, api: Api) -> Groups:
    return Groups(jobs, api)


def test_of_two_gangs_one_is_bound_whole_and_the_other_on_the_same_nodes_after_it(
    own: LocalCluster, tmp_path: Path, groups: Groups, jobs: TrainingJobs
) -> None:
    """Failed cycles of a PodGroup are no failed bindings: no node is excluded for them."""
    with unharmed(own, tmp_path) as running:
        for name in ("first", "second"):
            groups.submit(name, 10)

        def bound() -> list[int]:
            return sorted(len(jobs.nodes(name)) for name in ("first", "second"))

        wait_until("one is bound", lambda: bound() == [0, 11])
        holds_for(lambda: bound() == [0, 11], "the other waits whole", 8.0)
        first = "first" if jobs.nodes("first") else "second"
        jobs.delete(first)
        jobs.wait_bound("second" if first == "first" else "first", 11)
        assert "is excluded" not in running.log("extender")
