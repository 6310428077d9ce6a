"""What is written to pods, and when: one run after the other, by hand."""

from dataclasses import dataclass, field

import pytest

from extender.nominator import Nominator
from extender.planner import PendingNomination
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
class FakePlans:
    """Plans that a test sets."""

    now: tuple[PendingNomination, ...] = ()
    waits: dict[str, Pod] = field(default_factory=dict)
    stale: tuple[Pod, ...] = ()
    outdated: tuple[Pod, ...] = ()
    calls: list[str] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)

    def advance(self) -> tuple[Pod, ...]:
        self.calls.append("advance")
        outdated, self.outdated = self.outdated, ()
        return outdated

    def pending_nominations(self) -> tuple[PendingNomination, ...]:
        return self.now

    def find_waiting(self, pod: Pod) -> Pod | None:
        return self.waits.get(pod.uid)

    def adopt_nominations(self) -> tuple[Pod, ...]:
        self.calls.append("adopt")
        return self.stale

    def release_all(self) -> None:
        self.calls.append("release")


@dataclass
class FakeWriter:
    """Records what is written."""

    nominated: list[tuple[str, str | None]] = field(default_factory=list)
    requeued: list[str] = field(default_factory=list)
    outcome: Written | Refused = field(default_factory=Written)

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        self.nominated.append((pod.name, node))
        return self.outcome

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        self.requeued.append(f"{pod.name}: {reason}")
        return self.outcome


@dataclass
class Setting:
    """A nominator and all that it touches."""

    plans: FakePlans = field(default_factory=FakePlans)
    writer: FakeWriter = field(default_factory=FakeWriter)
    leads: bool = True
    counted: list[str] = field(default_factory=list)

    def nominator(self, *, nominate: bool = True) -> Nominator:
        return Nominator(
            self.plans,
            self.writer,
            lambda: self.leads,
            nominate=nominate,
            count_write=self.counted.append,
        )


def test_a_planned_pod_is_nominated_once_until_the_watch_shows_it() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    nominator.run_once(10.5)
    setting.plans.now = (PendingNomination(pod("p", "a"), "a", LONG_AGO),)
    nominator.run_once(20.0)
    assert setting.writer.nominated == [("p", "a")]
    assert setting.counted == ["written"]


def test_a_nomination_that_kube_scheduler_cleared_is_made_again_after_a_second() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    for now in (10.0, 10.9, 11.1, 11.5, 12.2):
        nominator.run_once(now)
    assert setting.writer.nominated == [("p", "a")] * 3


def test_a_pod_that_kube_scheduler_is_busy_with_is_left_alone() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", answered_at=9.8),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    assert setting.writer.nominated == []
    nominator.run_once(11.0)
    assert setting.writer.nominated == [("p", "a")]


def test_a_changed_plan_is_nominated_at_once() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    setting.plans.now = (PendingNomination(pod("p", "a"), "b", LONG_AGO),)
    nominator.run_once(10.1)
    assert setting.writer.nominated == [("p", "a"), ("p", "b")]


@pytest.mark.parametrize(
    ("now_is", "cleared"),
    [
        pytest.param(pod("p", "a"), [("p", None)], id="it still carries the nomination: cleared"),
        pytest.param(pod("p", None), [], id="kube-scheduler has cleared it itself"),
        pytest.param(pod("p", "c"), [], id="kube-scheduler has nominated another node"),
        pytest.param(None, [], id="it is bound or gone"),
    ],
)
def test_a_nomination_that_is_no_longer_planned(
    now_is: Pod | None, cleared: list[tuple[str, str | None]]
) -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    setting.plans.now = ()
    setting.plans.waits = {} if now_is is None else {now_is.uid: now_is}
    nominator.run_once(20.0)
    nominator.run_once(30.0)
    assert setting.writer.nominated == [("p", "a"), *cleared]


def test_a_nomination_that_could_not_be_cleared_is_cleared_at_the_next_run() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    setting.plans.now, setting.plans.waits = (), {"uid-p": pod("p", "a")}
    setting.writer.outcome = Refused(ErrorKind.TRANSIENT, "no answer")
    nominator.run_once(20.0)
    setting.writer.outcome = Written()
    nominator.run_once(21.0)
    nominator.run_once(22.0)
    assert setting.writer.nominated == [("p", "a"), ("p", None), ("p", None)]
    assert setting.counted == ["written", "transient", "written"]


@pytest.mark.parametrize("kind", [ErrorKind.NOT_FOUND, ErrorKind.INVALID, ErrorKind.FORBIDDEN])
def test_a_refused_write_does_not_end_the_run(kind: ErrorKind) -> None:
    setting = Setting(
        FakePlans(
            (PendingNomination(pod("p"), "a", LONG_AGO), PendingNomination(pod("q"), "b", LONG_AGO))
        )
    )
    setting.writer.outcome = Refused(kind, "no")
    setting.nominator().run_once(10.0)
    assert setting.writer.nominated == [("p", "a"), ("q", "b")]


def test_without_nominations_pods_are_requeued_by_an_annotation() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator(nominate=False)
    nominator.run_once(10.0)
    nominator.run_once(10.5)
    nominator.run_once(11.5)
    assert setting.writer.requeued == ["p: planned on a at 10.0", "p: planned on a at 11.5"]
    assert setting.writer.nominated == []


def test_pods_whose_refusal_is_out_of_date_are_requeued_once() -> None:
    setting = Setting(FakePlans(outdated=(pod("p"),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    nominator.run_once(11.0)
    assert setting.writer.requeued == ["p: its gang was planned again at 10.0"]


def test_only_the_leaders_extender_plans_and_nominates() -> None:
    setting = Setting(
        FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),), stale=(pod("old", "z"),)),
        leads=False,
    )
    nominator = setting.nominator()
    nominator.run_once(10.0)
    assert setting.plans.calls == []
    setting.leads = True
    nominator.run_once(11.0)
    nominator.run_once(12.0)
    setting.leads = False
    nominator.run_once(13.0)
    nominator.run_once(14.0)
    assert setting.plans.calls == ["adopt", "advance", "advance", "release"]
    assert setting.writer.nominated[0] == ("old", None)


def test_the_thread_runs_until_it_is_stopped() -> None:
    setting = Setting()
    nominator = setting.nominator()
    nominator.start()
    nominator.stop()
    assert not nominator._thread.is_alive()
