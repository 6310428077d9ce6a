"""The rest of a gang is bound with its first pod, or not at all by this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from extender.bindings import Binding as PodAndNode
from extender.gang_binding import PAUSES, GangBinding
from extender.settings import Settings
from extender.state.unseen_bindings import (
    FRESH_SECONDS,
    OTHERS_SECONDS,
    QUIET_SECONDS,
    SOON_SECONDS,
)
from optimus.jobs import NodeConstraints
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.placement.queue.order import SYSTEM_CRITICAL_PRIORITY
from optimus.placement.rules import PodRules
from tests.cases import cases
from tests.unit.extender.fake_cluster import SETTINGS, FakeCluster

BINDS = replace(SETTINGS, bind_gangs=True)


@dataclass
class Binding(FakeCluster):
    """An extender that binds gangs, and an API server that binds at once unless it refuses."""

    settings: Settings = BINDS
    refuses: Callable[[Pod], ErrorKind | None] = lambda _: None
    seen: bool = True
    """Whether the watch shows bindings at once."""
    written: dict[str, str] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.binder = GangBinding(
            self.state,
            self.offers_check,
            self._bind_all,
            count=self.outcomes.append,
        )
        self.gangs.bind_others = self.binder.bind_rest

    def _bind_all(
        self, bindings: Sequence[PodAndNode], why_not: Callable[[Pod, str], str | None]
    ) -> list[Written | Refused]:
        outcomes: list[Written | Refused] = []
        for pod, node in bindings:
            failed = any(isinstance(each, Refused) and each.kind in PAUSES for each in outcomes)
            reason = "another was not bound" if failed else why_not(pod, node)
            outcomes.append(
                self._write(pod, node) if reason is None else Refused(ErrorKind.NOT_LEADING, reason)
            )
        return outcomes

    def _write(self, pod: Pod, node: str) -> Written | Refused:
        kind = self.refuses(pod)
        if kind not in (None, ErrorKind.TRANSIENT):
            return Refused(kind, "no")
        self.written[pod.name] = node
        if self.seen:
            self.bind(pod.name, node)
        return Written() if kind is None else Refused(kind, "lost")

    def show(self) -> None:
        """The watch shows what was bound."""
        for name, node in self.written.items():
            self.bind(name, node)


def test_one_call_binds_the_whole_gang_where_it_was_planned() -> None:
    cluster = Binding({"a": 3, "b": 3})
    first, *others = cluster.job("j", 2, 4)
    (node,) = cluster.ask(first).kept
    assert set(cluster.written) == {*others}
    assert cluster.outcomes == ["bound"]
    cluster.bind(first, node)
    (notice,) = cluster.placed.notices()
    assert notice.message == "all 6 pods have a node: 3 on a, 3 on b"
    cluster.assert_not_overcommitted()
    assert sorted(cluster.free(name) for name in "ab") == [0, 0]
    assert cluster.state.reservation_count() == 0


@cases(
    ("change", "cause"),
    {
        "rules of its own": ({"rules": PodRules(ports=())}, "rules"),
        "rules that only kube-scheduler knows": ({"beyond_plan": True}, None),
        "a PodGroup": ({"in_group": True}, "rules"),
        "constraints of which no list has been compared": (
            {"constraints": NodeConstraints(selector=(("x", "y"),))},
            None,
        ),
    },
)
def test_nothing_is_bound_where_the_plan_does_not_know_everything(
    change: dict[str, object], cause: str | None
) -> None:
    cluster = Binding({"a": 9})
    cluster.node("a", 9, x="y")
    first, *others = cluster.job("j", 1, 3)
    cluster.change(cluster.pods[others[-1]], **change)
    cluster.ask(first)
    assert cluster.written == {}
    assert cause is None or cluster.outcomes == [cause]


@pytest.mark.parametrize("copied", ["j-ps-0", "j-worker-0", "j-worker-1"])
def test_pods_whose_labels_name_one_replica_do_not_share_what_is_reserved_for_it(
    copied: str,
) -> None:
    cluster = Binding({"a": 4})
    first, *_ = cluster.job("j", 1, 2)
    for number in range(4):
        name = f"copy-{number}"
        cluster.change(msgspec.structs.replace(cluster.pods[copied], name=name, uid=name))
    (node,) = cluster.ask(first).kept
    cluster.bind(first, node)
    assert cluster.free("a") >= 0
    assert not any(name.startswith("copy") for name in cluster.written)


@cases(
    "kind",
    {
        "it is throttled": ErrorKind.THROTTLED,
        "it lacks the right": ErrorKind.FORBIDDEN,
        "a policy refuses": ErrorKind.INVALID,
        "the pod is gone": ErrorKind.NOT_FOUND,
        "its time is over": ErrorKind.NOT_LEADING,
        "another has bound it": ErrorKind.CONFLICT,
    },
)
@pytest.mark.parametrize("position", range(5))
def test_kube_scheduler_binds_what_was_not_bound_where_it_was_planned(
    kind: ErrorKind, position: int
) -> None:
    cluster = Binding({"a": 3, "b": 3})
    first, *others = cluster.job("j", 2, 4)
    refused = set(others[position:])
    cluster.refuses = lambda pod: kind if pod.name in refused else None
    (node,) = cluster.ask(first).kept
    cluster.bind(first, node)
    assert set(cluster.written) == {*others} - refused
    cluster.refuses = lambda _: ErrorKind.INVALID
    for name in sorted(refused):
        assert cluster.place(name) is not None, "its reservation is kept"
        cluster.assert_not_overcommitted()
    assert sorted(cluster.free(name) for name in "ab") == [0, 0]


def test_a_binding_of_which_no_answer_came_keeps_its_node() -> None:
    cluster = Binding({"a": 3, "b": 3}, seen=False)
    first, *others = cluster.job("j", 2, 4)
    cluster.refuses = lambda pod: ErrorKind.TRANSIENT
    (node,) = cluster.ask(first).kept
    cluster.bind(first, node)
    (lost,), cluster.refuses = cluster.written.items(), lambda _: ErrorKind.INVALID
    assert cluster.ask(lost[0]).kept == (lost[1],), "kube-scheduler binds it there, too"
    assert all(cluster.ask(name).kept for name in others), "none was tried after it"


@cases(
    "kind",
    {
        "it lacks the right": ErrorKind.FORBIDDEN,
        "it is throttled": ErrorKind.THROTTLED,
        "a webhook of the namespace fails": ErrorKind.TRANSIENT,
    },
)
def test_a_binding_that_fails_in_one_namespace_pauses_that_namespace_alone(
    kind: ErrorKind,
) -> None:
    cluster = Binding({"a": 20})
    cluster.refuses = lambda pod: kind if pod.namespace == "broken" else None
    for name, namespace in (("i", "broken"), ("j", "ns"), ("k", "broken"), ("l", "other")):
        first, *_ = cluster.job(name, 1, 3, namespace=namespace)
        cluster.ask(first)
    assert {name[0] for name in cluster.written} - {"i"} == {"j", "l"}
    assert cluster.outcomes.count(str(kind)) == 1, "the others are not tried"


def test_a_gang_waits_for_a_pod_that_may_be_going_to_its_nodes() -> None:
    cluster = Binding({"a": 4})
    cluster.job("before", 1, 0)
    cluster.place("before-ps-0")
    single = cluster.other("o", 1)
    assert cluster.ask(single.name).kept == ("a",)
    first, *_ = cluster.job("j", 1, 2)
    answer = cluster.ask(first, ["a"])
    assert (answer.kept, answer.cause) == ((), "passing pods"), "or a part of it would be bound"
    assert cluster.written == {}
    assert cluster.ask(cluster.other("later", 1).name, ["a"]).kept == (), "its room is reserved"
    cluster.delete(single.name)
    assert cluster.ask(first, ["a"]).kept == ("a",)
    assert len(cluster.written) == 2


def test_a_gang_does_not_wait_for_pods_that_were_refused_its_room() -> None:
    cluster = Binding({"a": 3, "b": 1})
    first, *_ = cluster.job("j", 1, 2)
    cluster.plan()
    assert cluster.ask(cluster.other("o", 1).name, ["a", "b"]).kept == ("b",)
    assert cluster.ask(first, ["a", "b"]).kept == ("a",)


def test_a_gang_does_not_wait_for_a_binding_that_takes_long() -> None:
    cluster = Binding({"a": 3})
    assert cluster.ask(cluster.other("o", 1).name).kept == ("a",)
    first, *_ = cluster.job("j", 1, 2)
    assert cluster.ask(first).kept == ()
    cluster.now += SOON_SECONDS
    assert cluster.ask(first).kept == ("a",)


@pytest.mark.parametrize("priority", [0, SYSTEM_CRITICAL_PRIORITY])
def test_a_pod_of_no_job_is_kept_from_room_that_kube_scheduler_may_take_for_free(
    priority: int,
) -> None:
    cluster = Binding({"a": 4, "b": 1})
    first, *_ = cluster.job("j", 1, 3)
    cluster.bind(first, *cluster.ask(first, ["a", "b"]).kept)
    single = cluster.other("o", 1, priority=priority)
    assert cluster.ask(single.name, ["a", "b"]).kept == ("b",), "it does not know of the bindings"
    assert "tried again soon" in cluster.ask(single.name, ["a"]).error
    cluster.delete(first)
    cluster.now += FRESH_SECONDS + 1
    assert cluster.ask(single.name, ["a", "b"]).kept == ("a", "b")


def test_nothing_is_bound_for_a_while_after_a_binding_by_another_scheduler() -> None:
    cluster = Binding({"a": 9})
    cluster.other("o", 1, "a")
    first, *_ = cluster.job("j", 1, 3)
    cluster.ask(first)
    assert (cluster.written, cluster.outcomes) == ({}, ["other scheduler"])
    cluster.now += OTHERS_SECONDS + 1
    cluster.job("k", 1, 0)
    cluster.ask(first)
    assert len(cluster.written) == 3


def test_a_binding_that_kube_scheduler_made_after_it_asked_again_is_its_own() -> None:
    cluster = Binding({"a": 9})
    first, *_ = cluster.job("j", 1, 3)
    (node,) = cluster.ask(first).kept
    assert cluster.ask(first, ["b"]).kept == (), "its first request timed out"
    cluster.bind(first, node)
    second, *_ = cluster.job("k", 1, 3)
    cluster.ask(second)
    assert cluster.outcomes == ["bound", "bound"]


def test_no_gang_follows_one_of_which_the_watch_does_not_show_the_bindings() -> None:
    cluster = Binding({"a": 9}, seen=False)
    first, *_ = cluster.job("j", 1, 3)
    cluster.ask(first)
    cluster.show()
    second, *_ = cluster.job("k", 1, 3)
    cluster.ask(second)
    assert len(cluster.written) == 3


def test_no_further_pod_is_bound_once_another_scheduler_has_bound_one() -> None:
    cluster = Binding({"a": 3, "b": 3})
    first, *_ = cluster.job("j", 2, 4)

    def others_bind(pod: Pod) -> None:
        if not cluster.written:
            cluster.other("o", 1, "b")

    cluster.refuses = others_bind
    cluster.ask(first)
    assert len(cluster.written) == 1, "the one that was on its way"
    assert cluster.outcomes == ["not leading"] * 4 + ["bound in part"]


def test_room_that_others_were_evicted_for_is_left_to_their_preemptor() -> None:
    cluster = Binding({"a": 5})
    preemptor = cluster.other("o", 2, priority=9)
    cluster.change(preemptor, nominated_node="a")
    first, *_ = cluster.job("j", 1, 3)
    cluster.ask(first, ["a"])
    assert (cluster.written, cluster.outcomes) == ({}, ["passing pods"])
    cluster.change(cluster.pods["o"], nominated_node=None)
    cluster.ask(first, ["a"])
    assert len(cluster.written) == 3


def test_nothing_is_bound_while_the_watch_may_be_late() -> None:
    cluster = Binding({"a": 9})
    first, *_ = cluster.job("j", 1, 3)
    cluster.now += QUIET_SECONDS + 1
    cluster.ask(first)
    assert (cluster.written, cluster.outcomes) == ({}, ["late"])
    cluster.job("k", 1, 0)
    cluster.ask(first)
    assert len(cluster.written) == 3
