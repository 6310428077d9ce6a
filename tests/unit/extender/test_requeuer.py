"""Which pods are requeued, and when: one run after the other, by hand."""

from dataclasses import dataclass, field, replace

import msgspec

from extender.planner.pending_pods import PendingPod
from extender.requeuer import MOST_WRITES, Requeuer
from extender.requeues import Requeues
from optimus.jobs import NodeConstraints
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.resources import NONE
from tests.cases import cases

LONG_AGO = float("-inf")


def pod(name: str, namespace: str = "ns", *, refused: bool = False) -> Pod:
    return Pod(
        uid=f"uid-{namespace}-{name}",
        namespace=namespace,
        name=name,
        created_at=0.0,
        resources=NONE,
        constraints=NodeConstraints(),
        refused=refused,
    )


def refused(name: str, namespace: str = "ns") -> PendingPod:
    return PendingPod(pod(name, namespace), "a", LONG_AGO, refused_at=5.0)


@dataclass
class FakePlans:
    """Plans that a test sets."""

    now: tuple[PendingPod, ...] = ()
    outdated: tuple[Pod, ...] = ()
    calls: list[str] = field(default_factory=list)
    to_ask: tuple[Pod, ...] = ()
    gone: set[str] = field(default_factory=set)

    def outdated_refusals(self) -> tuple[Pod, ...]:
        self.calls.append("outdated")
        outdated, self.outdated = self.outdated, ()
        return outdated

    def planned(self) -> tuple[PendingPod, ...]:
        return self.now

    def is_waiting(self, pod: Pod) -> bool:
        return pod.name not in self.gone

    def pods_to_ask_about(self) -> tuple[Pod, ...]:
        return self.to_ask

    def still_pending(self, pod: Pod, node: str) -> bool:
        return pod.name not in self.gone

    def begin(self) -> None:
        self.calls.append("begin")

    def release_all(self) -> None:
        self.calls.append("release")


@dataclass
class Setting:
    """A requeuer and all that it touches."""

    plans: FakePlans = field(default_factory=FakePlans)
    leads: bool = True
    outcome: Written | Refused = field(default_factory=Written)
    requeued: list[str] = field(default_factory=list)
    reported: list[float] = field(default_factory=list)

    def requeuer(self) -> Requeuer:
        return Requeuer(
            self.plans,  # type: ignore[arg-type]
            self.plans,  # type: ignore[arg-type]
            Requeues(self.requeue),
            lambda: self.leads,
            report=self.reported.append,
        )

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        self.requeued.append(f"{pod.namespace}/{pod.name}: {reason}")
        return self.outcome


@cases(
    ("pending", "expected"),
    {
        "the extender refused it": (refused("p"), True),
        "kube-scheduler itself found no node": (
            PendingPod(pod("p", refused=True), "a", LONG_AGO),
            True,
        ),
        "kube-scheduler has yet to try it": (PendingPod(pod("p"), "a", LONG_AGO), False),
        "kube-scheduler is binding it": (replace(refused("p"), assumed=True), False),
        "it was answered just now": (replace(refused("p"), answered_at=9.5), False),
    },
)
def test_a_planned_pod_is_requeued_that_kube_scheduler_does_not_try_by_itself(
    pending: PendingPod, expected: bool
) -> None:
    setting = Setting(FakePlans((pending,)))
    setting.requeuer().run_once(10.0)
    assert setting.requeued == ["ns/p: planned on a at 10.0"] * expected


def test_a_pod_that_is_bound_meanwhile_is_not_requeued() -> None:
    setting = Setting(FakePlans((refused("p"),), gone={"p"}))
    setting.requeuer().run_once(10.0)
    assert setting.requeued == []


def test_the_pods_of_a_namespace_with_thousands_do_not_keep_others_from_being_requeued() -> None:
    many = tuple(refused(f"p{at:03}", "many") for at in range(3 * MOST_WRITES))
    setting = Setting(FakePlans((*many, refused("p", "few"))))
    requeuer = setting.requeuer()
    requeuer.run_once(10.0)
    assert len(setting.requeued) == MOST_WRITES
    assert "few/p: planned on a at 10.0" in setting.requeued
    for step in range(3):
        requeuer.run_once(10.1 + step / 10)
    assert len(setting.requeued) == len(many) + 1


def test_a_pod_of_a_higher_priority_is_requeued_first() -> None:
    urgent = replace(refused("u"), pod=msgspec.structs.replace(pod("u"), priority=5))
    setting = Setting(FakePlans((refused("a"), urgent)))
    setting.requeuer().run_once(10.0)
    assert [each.partition(":")[0] for each in setting.requeued] == ["ns/u", "ns/a"]


def test_a_pod_whose_users_read_that_pods_are_missing_is_requeued_until_it_is_written() -> None:
    setting = Setting(FakePlans(outdated=(pod("p"), pod("q")), gone={"q"}))
    setting.outcome = Refused(ErrorKind.THROTTLED, "later")
    requeuer = setting.requeuer()
    requeuer.run_once(10.0)
    setting.outcome = Written()
    for now in (20.0, 30.0):
        requeuer.run_once(now)
    assert setting.requeued == [
        f"ns/p: its gang was planned again at {now}" for now in (10.0, 20.0)
    ]


def test_only_the_leaders_extender_plans_and_requeues() -> None:
    setting = Setting(FakePlans((refused("p"),)), leads=False)
    requeuer = setting.requeuer()
    requeuer.run_once(10.0)
    assert setting.plans.calls == []
    setting.leads = True
    requeuer.run_once(11.0)
    requeuer.run_once(11.5)
    setting.leads = False
    requeuer.run_once(13.0)
    requeuer.run_once(14.0)
    assert setting.reported == [11.0, 11.5]
    assert setting.plans.calls == ["begin", "outdated", "outdated", "release"]
    assert setting.requeued == ["ns/p: planned on a at 11.0"]
