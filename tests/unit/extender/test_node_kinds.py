"""The kinds of nodes that a job's workers are held to, or prefer for their first start."""

from dataclasses import dataclass, field, replace
from typing import Any

from extender.kind_orders import KindOrdersReader
from extender.state.cluster import ProfileFacts
from optimus.jobs import (
    Binding,
    CountBounds,
    Manage,
    NodeConstraints,
    RescaleRule,
    TargetLoss,
)
from optimus.kube.errors import ErrorKind
from optimus.kube.kind_orders import encode_kind_orders
from optimus.kube.leases import Lease
from optimus.kube.profiles import JobRef, NodeKind, ProfileStatus, TrainingProfile
from optimus.kube.results import Refused
from optimus.placement.first_kind import NO_ORDERS, KindOrders
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster

FAST = Binding("kind", "fast")
GOAL = TargetLoss(0.1)
ADVISED = Manage.RECOMMEND


def two_kinds(fast: int, slow: int) -> FakeCluster:
    cluster = FakeCluster({})
    cluster.node("fast", fast, kind="fast")
    cluster.node("slow", slow, kind="slow")
    return cluster


def nodes_of(cluster: FakeCluster, names: list[str]) -> dict[str, str | None]:
    return {name: cluster.place(name) for name in names}


def test_workers_go_to_the_kind_and_the_ps_where_there_is_room() -> None:
    cluster = two_kinds(fast=2, slow=9)
    cluster.spec("j", 1, 2)
    cluster.handlers.set_profile("uid-j", ProfileFacts(binding=FAST))
    assert nodes_of(cluster, cluster.job("j", 1, 2)) == {
        "j-ps-0": "slow",
        "j-worker-0": "fast",
        "j-worker-1": "fast",
    }


def test_a_job_waits_while_its_kind_is_full_and_others_do_not() -> None:
    cluster = two_kinds(fast=1, slow=9)
    cluster.spec("j", 1, 2)
    cluster.handlers.set_profile("uid-j", ProfileFacts(binding=FAST))
    names = cluster.job("j", 1, 2)
    assert not cluster.ask(names[0]).kept
    assert set(nodes_of(cluster, cluster.job("k", 1, 2)).values()) == {"slow"}
    cluster.node("fast", 3, kind="fast")
    cluster.plan()
    assert nodes_of(cluster, names)["j-worker-0"] == "fast"


def test_what_a_profile_says() -> None:
    cluster = two_kinds(fast=2, slow=9)
    cluster.spec("j", 1, 2)
    kind = NodeKind("kind", "fast")
    given = TrainingProfile(
        uid="p",
        namespace="ns",
        name="j",
        job=JobRef("TFJob", "j", "uid-j"),
        status=ProfileStatus(node_kind=kind),
    )
    cluster.handlers._job_uids["TFJob", "ns", "j"] = "uid-j"
    cluster.handlers.profile(None, given)
    assert cluster.state.cluster.profiles == {"uid-j": ProfileFacts(binding=FAST)}
    cluster.handlers.profile(given, None)
    assert not cluster.state.cluster.profiles
    cluster.handlers.profile(None, given)
    cluster.handlers.set_job("uid-j", None)
    assert not cluster.state.cluster.profiles


# --- the kinds that jobs prefer for their first start


def submitted(cluster: FakeCluster, name: str, ps: int, workers: int) -> list[str]:
    """A job of which the watch shows the object, too."""
    cluster.spec(name, ps, workers)
    return cluster.job(name, ps, workers)


def prefer(cluster: FakeCluster, *kinds: str, **workloads: tuple[str, ...]) -> None:
    of = {("ns", name): order for name, order in workloads.items()}
    cluster.state.cluster.kind_orders = KindOrders("kind", kinds, of)


def test_a_new_jobs_workers_start_on_the_first_kind_that_holds_them() -> None:
    cluster = two_kinds(fast=4, slow=9)
    prefer(cluster, "fast", "slow")
    assert nodes_of(cluster, submitted(cluster, "j", 1, 3)) == {
        "j-ps-0": "fast",
        "j-worker-0": "fast",
        "j-worker-1": "fast",
        "j-worker-2": "fast",
    }
    assert set(nodes_of(cluster, submitted(cluster, "k", 1, 3)).values()) == {"slow"}


def test_without_ps_all_that_trains_starts_on_one_kind() -> None:
    cluster = two_kinds(fast=2, slow=9)
    prefer(cluster, "fast", "slow")
    assert set(nodes_of(cluster, submitted(cluster, "j", 0, 3)).values()) == {"slow"}
    assert set(nodes_of(cluster, submitted(cluster, "k", 0, 2)).values()) == {"fast"}


def test_no_job_waits_that_fits_on_nodes_of_several_kinds() -> None:
    cluster = two_kinds(fast=2, slow=2)
    prefer(cluster, "fast", "slow")
    assert None not in nodes_of(cluster, submitted(cluster, "j", 1, 3)).values()


@cases(
    ("selector", "fields", "node"),
    {
        "what its user wants is left to it": ((("kind", "slow"),), {}, "slow"),
        "its workload's own order counts": ((), {"workload": "other"}, "slow"),
        "that of another workload does not": ((), {"workload": "third"}, "fast"),
        "that its workload has none does": ((), {"workload": "neither"}, "slow"),
        "its counts are about to be decided": ((), {"goal": GOAL}, "slow"),
        "it is only recommended other counts": ((), {"goal": GOAL, "manage": ADVISED}, "fast"),
        "it is never moved": ((), {"goal": GOAL, "rescale": RescaleRule.NEVER}, "fast"),
        "its counts are fixed": ((), {"goal": GOAL, "bounds": CountBounds(1, 1, 2, 2)}, "fast"),
        "it can get more workers": ((), {"goal": GOAL, "bounds": CountBounds(1, 1, 2, 3)}, "slow"),
    },
)
def test_what_counts_more(
    selector: tuple[tuple[str, str], ...], fields: dict[str, Any], node: str
) -> None:
    cluster = two_kinds(fast=4, slow=9)
    prefer(cluster, "fast", "slow", other=("slow", "fast"), neither=())
    cluster.spec("j", 1, 2)
    job = cluster.state.cluster.jobs["uid-j"]
    cluster.handlers.set_job("uid-j", replace(job, **fields))
    names = cluster.job("j", 1, 2, constraints=NodeConstraints(selector))
    assert set(nodes_of(cluster, names).values()) == {node}


# --- as the autoscaler's Lease says

ORDERS = KindOrders("kind", ("fast", "slow"), {("ns", "other"): ("slow", "fast")})


@dataclass
class StoredLease:
    """A Lease that ``renew`` renews, with what its holder has written."""

    text: str = field(default_factory=lambda: encode_kind_orders(ORDERS, "one"))
    holder: str = "one"
    renewals: int = 0
    refused: bool = False

    def read(self) -> Lease | Refused | None:
        if self.refused:
            return Refused(ErrorKind.FORBIDDEN, "leases are forbidden")
        return Lease(self.holder, 10.0, 0, str(self.renewals), kind_orders=self.text)


class Reading:
    """A reader of a Lease that is renewed every second; ``seconds`` later it looks."""

    def __init__(self, lease: StoredLease | None = None) -> None:
        self.lease, self.state = lease or StoredLease(), FakeCluster({}).state
        self.now = 0.0
        self._reader = KindOrdersReader(self.lease.read, self.state, lambda: self.now)
        self.look(0.0)

    def look(self, seconds: float, *, renewed: bool = True) -> KindOrders:
        self.now += seconds
        self.lease.renewals += int(renewed)
        self._reader.look()
        return self.state.cluster.kind_orders


def test_the_holders_order_counts_while_it_renews_the_lease() -> None:
    reading = Reading()
    assert reading.look(100) == ORDERS
    assert reading.look(59, renewed=False) == ORDERS
    assert reading.look(2, renewed=False) == NO_ORDERS
    assert reading.look(1) == ORDERS
