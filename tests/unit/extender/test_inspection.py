"""Reports on gangs that wait, in each state on their way to their nodes."""

from dataclasses import dataclass, field

import msgspec
import pytest

from extender.gang_report import GangReport, amounts, cause, wait_of
from extender.gang_states import GangPhase, WaitReason
from extender.inspection import MOST_AHEAD, Inspector
from extender.state.cluster import ProfileFacts, ProfileForecast
from optimus.jobs import Counts, FixedRole, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.kube.waiting_events import Wait
from optimus.placement.queue.backfill import ENDLESS_SECONDS
from optimus.placement.rules import AffinityTerm, HostPort, PodRules, PodSelector
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons

CPU = 1000
EVERY_POD = PodSelector((), ("ns",))
LONG = 700.0
"""Longer than the age limit."""


@dataclass
class Inspected:
    """Two nodes of two CPUs."""

    cluster: FakeCluster = field(
        default_factory=lambda: FakeCluster({"a": 2 * CPU, "b": 2 * CPU}, now=43_380.0)
    )

    def __post_init__(self) -> None:
        self.inspector = Inspector(self.cluster.planner, 600.0)

    def submit(self, name: str, ps: int, workers: int, cpu: int = CPU, **fields: object) -> None:
        self.cluster.spec(name, ps, workers)
        self.cluster.job(name, ps, workers, cpu, **fields)
        self.cluster.plan()

    def run(self, name: str, ps: int, workers: int) -> None:
        self.submit(name, ps, workers)
        for pod in [each for each in self.cluster.pods if each.startswith(f"{name}-")]:
            assert self.cluster.place(pod)

    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds
        self.cluster.plan()

    def set_forecast(self, name: str, seconds: float) -> None:
        facts = ProfileFacts(ProfileForecast(self.cluster.now, seconds))
        self.cluster.handlers.set_profile(f"uid-{name}", facts)

    def one(self, name: str) -> GangReport:
        (found,) = self.inspector.of_job(JobKey("ns", name))
        return found

    def states(self) -> dict[str, GangPhase]:
        return {each.job: each.state for each in self.inspector.waiting()}


def test_the_report_of_a_gang_without_room_has_what_is_lacking_and_until_when() -> None:
    shown = Inspected()
    shown.run("first", 1, 3)
    shown.set_forecast("first", 2220)
    shown.submit("second", 1, 2)
    shown.wait(30)
    found = shown.one("second")
    assert (found.state, found.whole, found.position) == (GangPhase.WAITING, True, 1)
    assert found.waited_seconds == 30
    lacking = {each.role: (each.expected, each.bound, each.lacking) for each in found.roles}
    assert lacking == {Role.PS: (1, 0, 1), Role.WORKER: (2, 0, 2)}
    places = found.roles[1].places
    assert places is not None
    assert (places.hold_it_now, places.hold_it_empty, places.short_of) == (0, 2, {"cpu": 2})
    assert found.sentence == (
        "waits: 1 PS of 1 cpu lacks a place (0 of 2 nodes hold one; cpu is short), 2 workers of"
        " 1 cpu lack a place (0 of 2 nodes hold one; cpu is short); since 12:03 UTC; until ns/first"
        " ends"
    )
    assert found.expected is not None
    assert found.expected.at == "1970-01-01T12:40:00Z"
    assert found.reason == "job ns/second (1 PS + 2 workers) does not fit as a whole"
    assert (found.kind, found.uid, found.priority) == ("TFJob", "uid-second", 0)


def test_a_job_that_has_ended_is_not_waited_for_and_no_time_has_passed() -> None:
    shown = Inspected()
    shown.run("first", 1, 3)
    shown.set_forecast("first", 60)
    shown.submit("second", 1, 2)
    assert [each.job for each in shown.inspector.waiting()] == ["second"]
    assert shown.one("second").expected is not None
    shown.wait(61)
    overdue = shown.one("second")
    assert overdue.expected is not None
    assert (overdue.expected.at, overdue.expected.awaits) == (None, "ns/first")
    del shown.cluster.state.cluster.jobs["uid-first"]
    assert "until ns/first ends" in shown.one("second").sentence, "by its pods"
    for pod in [each for each in shown.cluster.pods if each.startswith("first-")]:
        shown.cluster.delete(pod)
    assert "until" not in shown.one("second").sentence


def test_a_gang_that_never_fits_waits_behind_nobody() -> None:
    """Not even while nodes are kept free for those before it."""
    shown = Inspected()
    shown.run("first", 1, 1)
    shown.submit("large", 1, 3)
    shown.wait(LONG)
    shown.submit("huge", 1, 4)
    huge = shown.one("huge")
    assert huge.jobs_ahead == 1
    assert huge.fits_without_other_jobs is False
    assert huge.sentence.endswith("it does not fit even once all training jobs have ended")
    assert "behind" not in huge.sentence
    assert wait_of(huge) == Wait(text=huge.sentence, never=True)


@cases(
    ("rules", "named"),
    {
        "pods that repel each other": (
            PodRules(anti_affinity=(AffinityTerm("host", EVERY_POD),)),
            "pod anti-affinity",
        ),
        "a port of the node": (PodRules(ports=(HostPort(80),)), "host ports"),
    },
)
def test_a_gang_that_its_own_rules_refuse_is_told_so_and_that_it_never_fits(
    rules: PodRules, named: str
) -> None:
    shown = Inspected()
    for name in ("a", "b"):
        shown.cluster.node(name, 2 * CPU, host=name)
    shown.submit("j", 1, 2, cpu=CPU // 8, rules=rules)
    found = shown.one("j")
    assert found.rules == (named,)
    assert found.fits_without_other_jobs is False
    assert f"not on nodes that its rules allow ({named})" in found.sentence
    assert wait_of(found).rules == (named,)


def test_a_gang_that_waits_since_another_day_is_told_its_date() -> None:
    shown = Inspected()
    shown.run("first", 1, 3)
    shown.submit("second", 1, 2)
    shown.wait(86_400.0)
    assert "; since 1970-01-01 12:03 UTC" in shown.one("second").sentence


def test_a_gang_that_no_node_admits_is_reported_so() -> None:
    shown = Inspected()
    elsewhere = NodeConstraints(selector=(("pool", "other"),))
    shown.submit("j", 1, 1, constraints=elsewhere)
    assert "no node admits one: see its node selector" in shown.one("j").sentence


def test_a_gang_of_which_each_pod_alone_would_fit_is_reported_so() -> None:
    shown = Inspected()
    shown.cluster.other("o", CPU, "a")
    shown.cluster.other("p", CPU, "b")
    shown.cluster.node("b", 3 * CPU)
    shown.submit("j", 2, 2)
    assert [each.lacking for each in shown.one("j").roles] == [0, 0]
    assert "job ns/j (2 PS + 2 workers) does not fit as a whole" in shown.one("j").sentence


def test_the_job_that_keeps_nodes_free_is_named() -> None:
    shown = Inspected()
    shown.run("first", 1, 1)
    shown.submit("large", 1, 3)
    shown.wait(LONG)
    shown.submit("small", 1, 1)
    small, large = shown.one("small"), shown.one("large")
    assert large.keeps_nodes == ("a", "b")
    assert [(each.job, each.keeps_nodes) for each in small.ahead] == [("ns/large", 2)]
    assert "behind ns/large (2 nodes), for which nodes are kept free" in small.sentence
    assert "a job before it in the queue needs the capacity" in small.reason
    shown.wait(ENDLESS_SECONDS + 1)
    assert shown.one("large").keeps_nodes == ()


def test_jobs_ahead_are_named_up_to_a_number_and_counted() -> None:
    shown = Inspected()
    shown.run("first", 1, 3)
    for number in range(MOST_AHEAD + 4):
        shown.submit(f"j{number:02}", 1, 1)
    found = shown.inspector.waiting()
    assert [each.position for each in found] == list(range(1, MOST_AHEAD + 5))
    assert (len(found[-1].ahead), found[-1].jobs_ahead) == (MOST_AHEAD, MOST_AHEAD + 3)
    assert "behind ns/j00, ns/j01, ns/j02 and 10 more jobs" in found[-1].sentence


def test_a_gang_with_scheduling_gates_names_them() -> None:
    shown = Inspected()
    shown.submit("j", 1, 1, gates=("example.com/quota",))
    found = shown.one("j")
    assert (found.state, found.gates) == (GangPhase.INCOMPLETE, ("example.com/quota",))
    assert [each.gated for each in found.roles] == [1, 1]
    assert found.sentence.startswith("waiting for scheduling gate example.com/quota of job ns/j")


def test_a_gang_on_its_way_to_its_nodes_is_planned_binding_and_running_in_turn() -> None:
    shown = Inspected()
    shown.submit("j", 1, 1)
    assert shown.one("j").state is GangPhase.PLANNED
    assert shown.one("j").nodes.keys() == {"ps-0", "worker-0"}
    assert shown.one("j").sentence == "is planned on a"
    shown.cluster.ask("j-ps-0")
    assert shown.one("j").state is GangPhase.BINDING
    shown.cluster.bind("j-ps-0", "a")
    shown.cluster.bind("j-worker-0", "a")
    found = shown.one("j")
    assert (found.state, found.sentence) == (GangPhase.RUNNING, "all its pods have a node")
    assert found.nodes == {"ps-0": "a", "worker-0": "a"}
    assert shown.states() == {}


def test_a_gang_that_kube_scheduler_does_not_offer_nodes_backs_off() -> None:
    shown = Inspected()
    shown.submit("j", 1, 1)
    shown.cluster.ask("j-ps-0", ["c"])
    assert shown.one("j").wait is WaitReason.ASKED
    assert "until pods of job ns/j have been offered nodes" in shown.one("j").sentence
    shown.cluster.ask("j-worker-0", ["c"])
    found = shown.one("j")
    assert (found.wait, found.backs_off_seconds) == (WaitReason.NOT_OFFERED, 1.0)
    (told,) = reasons(shown.cluster, "j-worker-0", "c")
    assert found.reason == told
    assert found.fits_without_other_jobs is None


def test_a_gang_whose_reservations_ended_is_paused() -> None:
    shown = Inspected()
    shown.submit("j", 1, 1)
    shown.wait(100)
    assert shown.one("j").wait is WaitReason.UNUSED
    assert "were not bound in time" in shown.one("j").sentence


def test_a_job_that_is_about_to_be_suspended_and_one_without_pods() -> None:
    shown = Inspected()
    shown.submit("j", 1, 1)
    shown.cluster.rescale("j", 1, 2, leaving=True)
    assert shown.one("j").state is GangPhase.RESCALING
    evaluator = FixedRole(Role.EVALUATOR, 1, ReplicaSpec(Resources(cpu=CPU, pods=1)))
    shown.cluster.spec("k", 1, 2, evaluator)
    found = shown.one("k")
    assert (found.state, found.whole) == (GangPhase.INCOMPLETE, False)
    assert found.sentence == "the training operator has not created its pods"
    assert [(each.role, each.expected) for each in found.roles] == [
        (Role.EVALUATOR, 1),
        (Role.PS, 1),
        (Role.WORKER, 2),
    ]
    assert {(each.exist, each.gated, each.bound) for each in found.roles} == {(0, 0, 0)}
    assert shown.inspector.of_job(JobKey("ns", "nobody")) == ()


def test_a_gang_that_is_not_in_the_queue_waits_behind_nobody() -> None:
    shown = Inspected()
    shown.run("first", 1, 3)
    shown.submit("second", 1, 2)
    found = shown.one("first")
    assert (found.position, found.ahead, found.jobs_ahead) == (None, (), 0)
    shown.cluster.spec("part", 1, 1)
    shown.cluster.pod("part", Role.PS, 0, Counts(1, 1), CPU)
    found = shown.one("part")
    assert found.state is GangPhase.INCOMPLETE
    assert (found.position, found.ahead, found.jobs_ahead) == (None, (), 0)


def test_the_cause_stays_the_same_while_only_figures_change() -> None:
    shown = Inspected()
    shown.run("first", 1, 3)
    shown.submit("second", 1, 1)
    before = shown.one("second")
    shown.set_forecast("first", 60)
    shown.wait(100)
    shown.submit("third", 1, 1)
    after = shown.one("second")
    assert before.waited_seconds != after.waited_seconds
    assert cause(before) == cause(after)
    shown.cluster.node("a", CPU)
    shown.cluster.node("b", CPU // 2)
    shown.submit("second", 1, 1, cpu=3 * CPU)
    assert cause(shown.one("second")) != cause(before)


def test_a_report_is_json() -> None:
    shown = Inspected()
    shown.run("first", 1, 3)
    shown.submit("second", 1, 1)
    (body,) = msgspec.json.decode(msgspec.json.encode(shown.inspector.waiting()))
    assert (body["state"], body["waitedSeconds"], body["jobsAhead"]) == ("waiting", 0.0, 0)
    assert body["roles"][1]["places"]["holdItNow"] == 0


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"cpu": 2500, "pods": 1}, "2.5 cpu"),
        ({"memory": 4 << 30}, "4Gi memory"),
        ({"memory": 100 << 20, "nvidia.com/gpu": 2}, "100Mi memory, 2 nvidia.com/gpu"),
        ({"memory": 100}, "100 memory"),
    ],
)
def test_amounts_are_written_as_kubernetes_writes_them(request_: dict[str, int], text: str) -> None:
    assert amounts(request_) == text
