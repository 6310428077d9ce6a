"""No namespace's changes keep the gangs of others waiting."""

import msgspec

from optimus.kube.pods import Pod
from optimus.kube.volumes import StorageClass
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Placement
from optimus.placement.theorem1 import Theorem1
from tests.unit.extender.fake_cluster import FakeCluster, reasons

# --- gangs that change


def observed(cluster: FakeCluster) -> list[str]:
    """The jobs whose gangs are looked at from now on."""
    found: list[str] = []
    queue = cluster.state.queue
    observe = queue.observe_waiting

    def noted(job_uid: str) -> object:
        found.append(job_uid)
        return observe(job_uid)

    queue.observe_waiting = noted  # type: ignore[method-assign,assignment]
    return found


def relabel(cluster: FakeCluster, name: str, value: int) -> None:
    cluster.change(cluster.pods[name], labels=(("changed", str(value)),))


def test_a_gang_that_changes_too_often_is_looked_at_later_and_others_at_once() -> None:
    cluster = FakeCluster({"a": 3})
    tenant = cluster.job("large", 0, 400)
    looked = observed(cluster)
    for value in range(1000):
        relabel(cluster, tenant[0], value)
        cluster.plan()
    assert len(looked) < 200, "of a thousand changes"
    assert reasons(cluster, tenant[0], "a") == {"pods of job ns/large change too often: later"}
    other = [
        msgspec.structs.replace(each, namespace="other", uid=f"other-{each.uid}")
        for each in made(cluster, "honest", 3)
    ]
    for pod in other:
        cluster.handlers.pod(None, pod)
    assert cluster.filter(other[0], ["a"]).kept == ("a",)
    cluster.now += 60.0
    looked.clear()
    cluster.plan()
    assert "uid-large" in looked
    assert reasons(cluster, tenant[0], "a") == {
        "job ns/large (400 workers) does not fit as a whole"
    }


def made(cluster: FakeCluster, job: str, workers: int) -> list[Pod]:
    """Pods that no watch shows."""
    names = cluster.job(job, 0, workers)
    pods = [cluster.pods[name] for name in names]
    cluster.delete(*names)
    return pods


# --- searches


class Costly:
    """A placement rule with which each search for a gang of the namespace ns takes a second."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.now, self.searched, self._rule = 0.0, list[str](), Theorem1()
        planning = cluster.planner._planning
        planning._rule = self
        planning._clock = lambda: self.now

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        self.searched.append(gang.key.name)
        self.now += 1.0 if gang.key.namespace == "ns" else 0.0
        return self._rule.place(gang, capacity)


def test_costly_searches_of_one_namespace_do_not_keep_other_gangs_waiting() -> None:
    cluster = FakeCluster({"a": 5})
    costly = Costly(cluster)
    tenants = [cluster.job(f"tenant-{at}", 0, 6 + at)[0] for at in range(3)]
    planner = cluster.planner
    for value in range(20):
        planner.plan_slice()
        for name in tenants:
            relabel(cluster, name, value)
    pods = [msgspec.structs.replace(each, namespace="other") for each in made(cluster, "honest", 2)]
    for pod in pods:
        cluster.handlers.pod(None, pod)
    costly.searched.clear()
    planner.plan_slice()
    assert costly.searched[:1] == ["honest"]
    assert len(cluster.planned_nodes()) == 2


# --- volumes

LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits_for_pod=True)
