"""No namespace's changes keep the gangs of others waiting."""

from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, Role
from optimus.kube.pods import Pod
from optimus.kube.volumes import StorageClass, Volume, VolumeClaim
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Placement
from optimus.placement.queue.budgets import BURST_SECONDS, SHARE, NamespaceBudgets
from optimus.placement.rules import AffinityTerm, PodRules, PodSelector
from optimus.placement.theorem1 import Theorem1
from tests.unit.extender.fake_cluster import FakeCluster, reasons


@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 5.0)), max_size=30))
def test_in_the_long_run_a_namespace_takes_its_share(work: list[tuple[float, float]]) -> None:
    budgets, now, spent = NamespaceBudgets(), 0.0, 0.0
    for seconds, pause in work:
        now += pause
        if not budgets.is_over("tenant", now):
            budgets.charge("tenant", seconds, now)
            spent += seconds
            assert spent <= BURST_SECONDS + 2.0 + SHARE * now + 1e-9
        assert not budgets.is_over("another", now)


def test_what_is_made_up_for_is_forgotten() -> None:
    budgets = NamespaceBudgets()
    budgets.charge("tenant", 3.0, 0.0)
    assert budgets.is_over("tenant", 0.0)
    assert not budgets.is_over("tenant", 20.0)
    budgets.charge("tenant", 0.0, 40.0)
    assert budgets.spent == {}


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


def test_many_changes_between_two_looks_cost_one() -> None:
    cluster = FakeCluster({"a": 1})
    names = cluster.job("j", 1, 2)
    cluster.planner.advance()
    looked = observed(cluster)
    for value in range(50):
        relabel(cluster, names[value % 3], value)
    cluster.planner.advance()
    assert looked == ["uid-j"]


def test_a_gang_that_changes_too_often_is_looked_at_later_and_others_at_once() -> None:
    cluster = FakeCluster({"a": 3})
    tenant = cluster.job("large", 0, 400)
    looked = observed(cluster)
    for value in range(1000):
        relabel(cluster, tenant[0], value)
        cluster.planner.advance()
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
    cluster.planner.advance()
    assert "uid-large" in looked
    assert reasons(cluster, tenant[0], "a") == {
        "job ns/large (0 PS + 400 workers) does not fit as a whole"
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


def test_a_search_that_the_rules_of_other_pods_make_long_is_charged_to_these() -> None:
    cluster = FakeCluster({"a": 5, "b": 9})
    Costly(cluster)
    to_all = PodRules(anti_affinity=(AffinityTerm("host", PodSelector((), ("ns",))),))
    hostile = msgspec.structs.replace(
        cluster.other("hostile", 1, "a"), namespace="hostile", rules=to_all
    )
    cluster.change(hostile)
    for at in range(3):
        cluster.job(f"victim-{at}", 0, 6 + at)
    cluster.planner.advance()
    defers = cluster.planner._planning.defers
    assert defers("hostile", cluster.now)
    assert not defers("ns", cluster.now)


def test_a_gang_whose_search_is_costly_rests_though_its_pods_change() -> None:
    cluster = FakeCluster({"a": 5})
    costly = Costly(cluster)
    (name, *_) = cluster.job("tenant", 0, 6)
    for value in range(100):
        cluster.planner.plan_slice()
        relabel(cluster, name, value)
        cluster.now += 0.1
    assert len(costly.searched) <= 3, "in ten seconds"
    cluster.now += 60.0
    costly.searched.clear()
    cluster.planner.plan_slice()
    assert costly.searched == ["tenant"]


# --- volumes

LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits_for_pod=True)
MINE = VolumeClaim(namespace="ns", name="mine", storage_class="local")


def with_a_claim() -> tuple[FakeCluster, list[str]]:
    """A gang that mounts a claim and waits for a volume, and another that mounts none."""
    cluster = FakeCluster({"a": 9})
    cluster.handlers.storage_class(None, LOCAL)
    cluster.handlers.claim(None, MINE)
    cluster.pod("mounts", Role.WORKER, 0, Counts(0, 1), rules=PodRules(claims=("mine",)))
    cluster.job("large", 0, 10)
    cluster.planner.advance()
    looked = observed(cluster)
    return cluster, looked


def test_only_gangs_that_mount_a_claim_are_looked_at_when_it_changes() -> None:
    cluster, looked = with_a_claim()
    other = VolumeClaim(namespace="other", name="mine", storage_class="slow")
    cluster.handlers.claim(None, other)
    cluster.handlers.claim(other, msgspec.structs.replace(other, leaving=True))
    cluster.handlers.storage_class(None, StorageClass(name="slow"))
    taken = Volume(name="v", storage_class="local", claim=("other", "mine"), available=True)
    cluster.handlers.volume(None, taken)
    cluster.handlers.claim(MINE, msgspec.structs.replace(MINE))
    cluster.planner.advance()
    assert looked == []
    free = Volume(name="w", storage_class="local", available=True)
    changes: list[Callable[[], None]] = [
        lambda: cluster.handlers.claim(MINE, msgspec.structs.replace(MINE, bytes=1)),
        lambda: cluster.handlers.volume(None, msgspec.structs.replace(free, bytes=1)),
        lambda: cluster.handlers.storage_class(
            LOCAL, msgspec.structs.replace(LOCAL, provisioner="x")
        ),
    ]
    for change in changes:
        looked.clear()
        change()
        cluster.planner.advance()
        assert looked == ["uid-mounts"]


def test_a_label_that_no_rule_selects_makes_no_refusal_out_of_date() -> None:
    cluster = FakeCluster({"a": 9})
    apart = AffinityTerm("kubernetes.io/hostname", PodSelector((), namespaces=("ns",)))
    bound = cluster.other("bound", 1, "a")
    cluster.change(bound, rules=PodRules(anti_affinity=(apart,)))
    occupancy = cluster.state.cluster.occupancy
    before = occupancy.generation
    relabel(cluster, "bound", 1)
    cluster.change(cluster.pods["bound"], resource_version="2")
    assert occupancy.generation == before
