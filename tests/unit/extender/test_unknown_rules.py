"""kube-scheduler leaves out nodes by rules that neither pods nor nodes show."""

from extender.nominator import LONGEST_LEFT_SECONDS, SEEN_AFTER_SECONDS, Nominator
from extender.state.unknown_rules import RECHECK_SECONDS, VALID_SECONDS, UnknownRules
from extender.status_writes import StatusWrites
from optimus.jobs import NodeConstraints
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.nodes import Node
from optimus.resources import Resources
from tests.unit.extender.fake_cluster import FakeCluster

NODES = {"a": 2, "b": 2, "c": 2}
ALL = [*NODES]


def ask_all(cluster: FakeCluster, names: list[str], offered: list[str]) -> list[tuple[str, ...]]:
    """What each pod is answered, asked about in turn; the planner's thread runs between."""
    answers = []
    for name in names:
        answers.append(cluster.ask(name, offered).kept)
        cluster.planner.advance()
    return answers


def test_no_pod_of_the_first_gang_is_answered_where_a_node_is_left_out() -> None:
    cluster = FakeCluster(NODES)
    names = cluster.job("j", 1, 5)
    cluster.planner.advance()
    for _ in range(3):
        assert ask_all(cluster, names, ["a", "b"]) == [()] * 6
    assert cluster.planned_nodes() == {}


def test_a_gang_that_fits_on_the_nodes_offered_is_answered_once_all_were_asked_about() -> None:
    cluster = FakeCluster(NODES)
    names = cluster.job("j", 1, 3)
    cluster.planner.advance()
    answers = ask_all(cluster, names, ["a", "b"])
    assert answers[:3] == [()] * 3
    assert {*cluster.planned_nodes().values()} == {"a", "b"}


def test_the_gangs_that_come_next_are_asked_about_too() -> None:
    cluster = FakeCluster(NODES)
    first = cluster.job("first", 1, 5)
    ask_all(cluster, first, ["a", "b"])
    second = cluster.job("second", 1, 1)
    cluster.planner.advance()
    assert cluster.ask(second[0], ["a", "b"]).kept == ()
    assert not {*second} & {*cluster.planned_nodes()}


def test_full_nodes_and_such_as_do_not_admit_the_pod_are_not_missed() -> None:
    cluster = FakeCluster(NODES)
    cordoned = Node("cordoned", Resources(cpu=9, pods=9), cordoned=True)
    cluster.handlers.set_node("cordoned", cordoned)
    cluster.other("o", 2, "c")
    names = cluster.job("held", 1, 1)
    cluster.planner.advance()
    (reserved,) = {*cluster.planned_nodes().values()}
    others = cluster.job("j", 1, 1)
    cluster.planner.advance()
    assert all(ask_all(cluster, others, [node for node in ("a", "b") if node != reserved]))
    assert all(ask_all(cluster, names, ["a", "b"]))


def test_a_node_that_is_full_with_nominated_pods_of_the_same_gang_is_not_missed() -> None:
    """Workers with a volume are nominated before a PS without one is asked about."""
    cluster = FakeCluster(NODES)
    ps, *workers = cluster.job("j", 1, 3)
    cluster.planner.advance()
    planned = cluster.planned_nodes()
    for name in workers:
        cluster.change(cluster.pods[name], nominated_node=planned[name])
    assert len(cluster.fitting(cluster.pods[ps])) < len(NODES)
    assert cluster.place(ps) == planned[ps]
    constraints = cluster.pods[ps].constraints
    assert constraints not in cluster.state.unknown_rules.last, "this shows nothing"
    assert [cluster.place(name) for name in workers] == [planned[name] for name in workers]
    assert cluster.state.unknown_rules.last[constraints].is_complete


def test_a_node_that_nominated_pods_left_a_moment_ago_is_not_missed() -> None:
    cluster = FakeCluster(NODES)
    ps, *workers = cluster.job("j", 1, 3)
    for name in workers[:2]:
        cluster.change(cluster.pods[name], nominated_node="c")
    for name in workers[:2]:
        cluster.change(cluster.pods[name], nominated_node=None)
    cluster.planner.advance()
    assert cluster.ask(ps, ["a", "b"]).kept


def test_a_node_that_a_pod_left_some_seconds_ago_is_missed() -> None:
    cluster = FakeCluster(NODES)
    pod = cluster.other("o", 2, "c")
    cluster.change(pod, phase="Succeeded")
    for _ in range(5):
        cluster.planner.advance()
        cluster.now += 1
    cluster.change(cluster.other("p", 1, "a"), phase="Running")
    names = cluster.job("j", 1, 5)
    cluster.planner.advance()
    assert ask_all(cluster, names, ["a", "b"]) == [()] * 6


def test_a_rule_that_comes_later_is_noticed_when_lists_are_compared_again() -> None:
    cluster = FakeCluster(NODES)
    assert all(ask_all(cluster, cluster.job("first", 1, 1), ALL))
    cluster.delete("first-ps-0", "first-worker-0")
    cluster.now += VALID_SECONDS
    assert ask_all(cluster, cluster.job("second", 1, 5), ["a", "b"]) == [()] * 6


def test_a_gang_of_which_a_pod_is_being_bound_keeps_its_plan_where_a_node_is_left_out() -> None:
    cluster = FakeCluster(NODES)
    binding, planned = cluster.job("first", 1, 1)
    assert cluster.ask(binding, ALL).kept
    cluster.state.unknown_rules.last.clear()  # as where many others were compared since
    second = cluster.job("second", 1, 1)
    assert cluster.ask(second[0], ["a"]).kept == ()
    assert {*cluster.planned_nodes()} == {binding, planned}


def test_where_pods_are_only_scored_no_list_is_waited_for() -> None:
    cluster = FakeCluster(NODES)
    names = cluster.job("j", 1, 1)
    cluster.planner.advance()
    assert not any(each.compared for each in cluster.nominations.pending_nominations())
    cluster.prioritize(cluster.pods[names[0]], ALL)
    assert all(each.compared for each in cluster.nominations.pending_nominations())


def test_what_kube_scheduler_has_seen_is_what_happened_so_long_ago() -> None:
    rules = UnknownRules()
    assert rules.releases_seen(0.0) == 0
    rules.mark(10.0, 5)
    rules.mark(11.0, 7)  # sooner than the lag after the last mark
    assert [rules.releases_seen(now) for now in (11.9, 12.0)] == [0, 5]
    rules.mark(12.0, 8)
    assert [rules.releases_seen(now) for now in (13.9, 14.0)] == [5, 8]


def test_a_complete_list_holds_longer_than_one_with_a_node_missing() -> None:
    rules, pods = UnknownRules(), NodeConstraints()
    found = [
        (rules.record(pods, 10.0, is_complete=is_complete), rules.last[pods].recheck_at)
        for is_complete in (True, True, False, False, True)
    ]
    complete, missing = 10.0 + VALID_SECONDS, 10.0 + RECHECK_SECONDS
    assert found == [
        (True, complete),
        (False, complete),
        (True, missing),
        (False, missing),
        (True, complete),
    ]


def test_a_list_that_shows_nothing_leaves_the_last_result_for_a_moment() -> None:
    rules, pods = UnknownRules(), NodeConstraints()
    rules.keep(pods, 10.0)
    assert pods not in rules.last
    rules.record(pods, 10.0, is_complete=True)
    rules.keep(pods, 20.0)
    assert rules.last[pods] == (True, 20.0 + RECHECK_SECONDS)


class Writer:
    def __init__(self) -> None:
        self.nominated: set[str] = set()

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        self.nominated.add(pod.name)
        return Written()

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        raise AssertionError(f"{pod.name} is requeued: {reason}")


def test_pods_are_nominated_once_a_list_has_been_compared() -> None:
    """kube-scheduler offers a nominated pod that node alone, which tells nothing."""
    cluster, writer = FakeCluster(NODES), Writer()
    nominator = Nominator(
        cluster.nominations,
        cluster.adoption,
        StatusWrites(writer),
        lambda: True,
        nominate=True,
    )
    first, *others = cluster.job("j", 1, 3)
    cluster.planner.advance()
    nominator.run_once(cluster.now)
    assert not writer.nominated
    assert cluster.ask(first, ALL).kept
    nominator.run_once(cluster.now + 2 * SEEN_AFTER_SECONDS)
    assert not writer.nominated, "in so small a cluster they are left to be tried first"
    nominator.run_once(cluster.now + 2 * SEEN_AFTER_SECONDS + LONGEST_LEFT_SECONDS)
    assert writer.nominated == {*others}
