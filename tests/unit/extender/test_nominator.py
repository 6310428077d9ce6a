"""What pods are told, and when: one look after the other, by hand."""

from dataclasses import dataclass, field

import pytest

from extender.nominator import Nominator
from extender.results import PendingNomination
from optimus.jobs import NodeConstraints
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.store import Changes
from optimus.resources import NONE

LONG_AGO = float("-inf")


def pod(name: str, nominated: str | None = None) -> Pod:
    return Pod(
        uid=f"uid-{name}",
        namespace="ns",
        name=name,
        created_at=0.0,
        resources=NONE,
        constraints=NodeConstraints(),
        nominated_node=nominated,
    )


@dataclass
class Plans:
    """Wishes that a test sets."""

    now: tuple[PendingNomination, ...] = ()
    waits: dict[str, Pod] = field(default_factory=dict)
    stale: tuple[Pod, ...] = ()
    misinformed: tuple[Pod, ...] = ()
    calls: list[str] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)

    def advance(self) -> tuple[Pod, ...]:
        self.calls.append("advance")
        misinformed, self.misinformed = self.misinformed, ()
        return misinformed

    def wishes(self) -> tuple[PendingNomination, ...]:
        return self.now

    def waiting(self, pod: Pod) -> Pod | None:
        return self.waits.get(pod.uid)

    def rebuild(self) -> tuple[Pod, ...]:
        self.calls.append("rebuild")
        return self.stale

    def let_go(self) -> None:
        self.calls.append("let go")


@dataclass
class Teller:
    """Records what is written."""

    told: list[tuple[str, str | None]] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)
    outcome: Written | Refused = field(default_factory=Written)

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        self.told.append((pod.name, node))
        return self.outcome

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        self.woken.append(f"{pod.name}: {reason}")
        return self.outcome


@dataclass
class Leads:
    """Leads or not, as a test says."""

    yes: bool = True

    def leads(self) -> bool:
        return self.yes


@dataclass
class Setting:
    """A nominator and all that it touches."""

    plans: Plans = field(default_factory=Plans)
    teller: Teller = field(default_factory=Teller)
    leads: Leads = field(default_factory=Leads)
    counted: list[str] = field(default_factory=list)

    def nominator(self, *, nominate: bool = True) -> Nominator:
        return Nominator(
            self.plans, self.teller, self.leads, nominate=nominate, told=self.counted.append
        )


def test_a_planned_pod_is_told_its_node_once_until_the_watch_shows_it() -> None:
    setting = Setting(Plans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.round(10.0)
    nominator.round(10.5)
    setting.plans.now = (PendingNomination(pod("p", "a"), "a", LONG_AGO),)
    nominator.round(20.0)
    assert setting.teller.told == [("p", "a")]
    assert setting.counted == ["written"]


def test_a_nomination_that_kube_scheduler_cleared_is_made_again_after_a_second() -> None:
    setting = Setting(Plans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    for now in (10.0, 10.9, 11.1, 11.5, 12.2):
        nominator.round(now)
    assert setting.teller.told == [("p", "a")] * 3


def test_a_pod_that_kube_scheduler_is_busy_with_is_left_alone() -> None:
    setting = Setting(Plans((PendingNomination(pod("p"), "a", answered_at=9.8),)))
    nominator = setting.nominator()
    nominator.round(10.0)
    assert setting.teller.told == []
    nominator.round(11.0)
    assert setting.teller.told == [("p", "a")]


def test_a_changed_plan_is_told_at_once() -> None:
    setting = Setting(Plans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.round(10.0)
    setting.plans.now = (PendingNomination(pod("p", "a"), "b", LONG_AGO),)
    nominator.round(10.1)
    assert setting.teller.told == [("p", "a"), ("p", "b")]


@pytest.mark.parametrize(
    ("now_is", "told"),
    [
        pytest.param(pod("p", "a"), [("p", None)], id="it still carries the nomination: cleared"),
        pytest.param(pod("p", None), [], id="kube-scheduler has cleared it itself"),
        pytest.param(pod("p", "c"), [], id="kube-scheduler has nominated another node"),
        pytest.param(None, [], id="it is bound or gone"),
    ],
)
def test_what_is_told_and_no_longer_planned(
    now_is: Pod | None, told: list[tuple[str, str | None]]
) -> None:
    setting = Setting(Plans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.round(10.0)
    setting.plans.now = ()
    setting.plans.waits = {} if now_is is None else {now_is.uid: now_is}
    nominator.round(20.0)
    nominator.round(30.0)
    assert setting.teller.told == [("p", "a"), *told]


def test_a_nomination_that_could_not_be_cleared_is_cleared_at_the_next_look() -> None:
    setting = Setting(Plans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.round(10.0)
    setting.plans.now, setting.plans.waits = (), {"uid-p": pod("p", "a")}
    setting.teller.outcome = Refused(ErrorKind.TRANSIENT, "no answer")
    nominator.round(20.0)
    setting.teller.outcome = Written()
    nominator.round(21.0)
    nominator.round(22.0)
    assert setting.teller.told == [("p", "a"), ("p", None), ("p", None)]
    assert setting.counted == ["written", "transient", "written"]


@pytest.mark.parametrize("kind", [ErrorKind.NOT_FOUND, ErrorKind.INVALID, ErrorKind.FORBIDDEN])
def test_a_refused_write_does_not_end_the_look(kind: ErrorKind) -> None:
    setting = Setting(
        Plans(
            (PendingNomination(pod("p"), "a", LONG_AGO), PendingNomination(pod("q"), "b", LONG_AGO))
        )
    )
    setting.teller.outcome = Refused(kind, "no")
    setting.nominator().round(10.0)
    assert setting.teller.told == [("p", "a"), ("q", "b")]


def test_without_nominations_pods_are_woken_by_an_annotation() -> None:
    setting = Setting(Plans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator(nominate=False)
    nominator.round(10.0)
    nominator.round(10.5)
    nominator.round(11.5)
    assert setting.teller.woken == ["p: planned on a at 10.0", "p: planned on a at 11.5"]
    assert setting.teller.told == []


def test_pods_whose_refusal_is_out_of_date_are_woken_once() -> None:
    setting = Setting(Plans(misinformed=(pod("p"),)))
    nominator = setting.nominator()
    nominator.round(10.0)
    nominator.round(11.0)
    assert setting.teller.woken == ["p: its gang was looked at again at 10.0"]


def test_only_the_leaders_extender_plans_and_tells() -> None:
    setting = Setting(
        Plans((PendingNomination(pod("p"), "a", LONG_AGO),), stale=(pod("old", "z"),)),
        leads=Leads(False),
    )
    nominator = setting.nominator()
    nominator.round(10.0)
    assert setting.plans.calls == []
    setting.leads.yes = True
    nominator.round(11.0)
    nominator.round(12.0)
    setting.leads.yes = False
    nominator.round(13.0)
    nominator.round(14.0)
    assert setting.plans.calls == ["rebuild", "advance", "advance", "let go"]
    assert setting.teller.told[0] == ("old", None)


def test_the_thread_looks_when_something_changes_and_ends_when_told() -> None:
    setting = Setting()
    nominator = setting.nominator()
    nominator.start()
    nominator.stop()
    assert not nominator._thread.is_alive()
