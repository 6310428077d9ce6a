"""What is written to pods, and when: one run after the other, by hand."""

from dataclasses import dataclass, field

import msgspec

from extender.nominator import (
    Nominator,
)
from extender.planner.nominations import PendingNomination
from extender.status_writes import StatusWrites
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
    to_ask: tuple[Pod, ...] = ()
    bound_meanwhile: set[str] = field(default_factory=set)
    changes: Changes = field(default_factory=Changes)
    save_time: bool = True

    def nominations_save_time(self) -> bool:
        return self.save_time

    def outdated_refusals(self) -> tuple[Pod, ...]:
        self.calls.append("outdated")
        outdated, self.outdated = self.outdated, ()
        return outdated

    def pending_nominations(self) -> tuple[PendingNomination, ...]:
        return self.now

    def find_waiting(self, pod: Pod) -> Pod | None:
        return self.waits.get(pod.uid)

    def pods_to_requeue(self) -> tuple[Pod, ...]:
        return self.to_ask

    def still_pending(self, pod: Pod, node: str) -> bool:
        return pod.uid not in self.bound_meanwhile

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
    reported: list[float] = field(default_factory=list)

    def nominator(self, *, nominate: bool = True) -> Nominator:
        return Nominator(
            self.plans,
            self.plans,
            StatusWrites(self.writer, count_write=self.counted.append),
            lambda: self.leads,
            nominate=nominate,
            report=self.reported.append,
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


def test_pods_are_nominated_in_the_order_in_which_kube_scheduler_tries_them() -> None:
    made = {"late": (2.0, 0), "b": (1.0, 0), "a": (1.0, 0), "urgent": (3.0, 5)}
    setting = Setting(
        FakePlans(
            tuple(
                PendingNomination(
                    msgspec.structs.replace(pod(name), created_at=created_at, priority=priority),
                    "node",
                    LONG_AGO,
                )
                for name, (created_at, priority) in made.items()
            )
        )
    )
    setting.nominator().run_once(10.0)
    assert [name for name, _ in setting.writer.nominated] == ["urgent", "a", "b", "late"]


def times_written(setting: Setting, seconds: int, *, nominate: bool = True) -> list[float]:
    """When a pod is written to while 50 runs a second are made."""
    nominator, times = setting.nominator(nominate=nominate), []
    for step in range(seconds * 50):
        before = len(setting.writer.nominated) + len(setting.writer.requeued)
        nominator.run_once(step / 50)
        if len(setting.writer.nominated) + len(setting.writer.requeued) > before:
            times.append(step / 50)
    return times


def test_a_failed_write_is_tried_again_ever_later() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    setting.writer.outcome = Refused(ErrorKind.FORBIDDEN, "no")
    assert times_written(setting, 20) == [0.0, 1.0, 3.0, 7.0, 15.0]


def queued(count: int, refused_at: float | None = None) -> tuple[PendingNomination, ...]:
    """Planned pods in the order in which kube-scheduler tries them."""
    return tuple(
        PendingNomination(pod(f"p{at:02}"), "a", LONG_AGO, refused_at=refused_at)
        for at in range(count)
    )


def answered(at: float, count: int = 2) -> tuple[PendingNomination, ...]:
    """Pods that kube-scheduler is binding."""
    return tuple(PendingNomination(pod(f"b{n}"), "a", at, assumed=True) for n in range(count))


def names_of(setting: Setting) -> list[str]:
    return [name for name, _ in setting.writer.nominated]


def test_only_the_leaders_extender_plans_and_nominates() -> None:
    stale = pod("old", "z")
    setting = Setting(
        FakePlans(
            (PendingNomination(pod("p"), "a", LONG_AGO),), stale=(stale,), waits={stale.uid: stale}
        ),
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
    assert setting.reported == [11.0, 12.0]
    assert setting.plans.calls == ["adopt", "outdated", "outdated", "release"]
    assert setting.writer.nominated[:2] == [("p", "a"), ("old", None)]


def test_a_process_that_led_before_does_not_clear_what_the_other_leader_nominated() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    setting.leads = False
    nominator.run_once(20.0)
    setting.leads, setting.plans.now = True, ()
    setting.plans.waits = {"uid-p": pod("p", "a")}
    nominator.run_once(30.0)
    assert setting.writer.nominated == [("p", "a")]
