"""What is written to pods, and when: one run after the other, by hand."""

import threading
from dataclasses import dataclass, field

import msgspec
import pytest

from extender.nominator import (
    LONGEST_IN_QUEUE_SECONDS,
    LONGEST_LEFT_SECONDS,
    MOST_WRITES,
    QUEUE_MOVES_SECONDS,
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
from tests.cases import cases

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


def test_a_refused_pod_that_keeps_its_nomination_is_requeued() -> None:
    """DefaultPreemption that was refused its victims leaves the nomination as it is, and the gang
    may be planned again on the same node: nothing else would make kube-scheduler try the pod."""
    setting = Setting(
        FakePlans((PendingNomination(pod("p", "a"), "a", LONG_AGO, refused_at=10.0),))
    )
    nominator = setting.nominator()
    nominator.run_once(10.5)
    assert setting.writer.requeued == [], "the watch may show soon that it has been cleared"
    for now in (11.0, 11.5, 12.5, 13.5):
        nominator.run_once(now)
    assert setting.writer.requeued == ["p: planned on a at 11.0", "p: planned on a at 12.5"]
    assert setting.writer.nominated == []


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


@pytest.mark.parametrize("nominate", [True, False])
def test_a_nomination_that_kube_scheduler_keeps_clearing_is_made_again_ever_later(
    nominate: bool,
) -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    times = times_written(setting, 200, nominate=nominate)
    assert times == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0, 183.0]


def test_a_pod_is_written_to_once_a_second_even_if_its_plan_changes_all_the_time() -> None:
    setting = Setting()
    nominator = setting.nominator()
    for step in range(500):
        setting.plans.now = (PendingNomination(pod("p"), f"n{step}", LONG_AGO),)
        nominator.run_once(step / 50)
    assert len(setting.writer.nominated) == 10


def test_a_pod_that_is_being_bound_is_not_nominated() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO, assumed=True),)))
    setting.nominator().run_once(10.0)
    assert setting.writer.nominated == []


def test_a_pod_that_was_answered_since_the_run_began_is_left_out() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    setting.plans.bound_meanwhile.add("uid-p")
    nominator = setting.nominator()
    nominator.run_once(10.0)
    assert setting.writer.nominated == []
    setting.plans.bound_meanwhile.clear()
    nominator.run_once(10.02)
    assert setting.writer.nominated == [("p", "a")], "what was left out counts as no write"


def test_a_failed_write_is_tried_again_ever_later() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    setting.writer.outcome = Refused(ErrorKind.FORBIDDEN, "no")
    assert times_written(setting, 20) == [0.0, 1.0, 3.0, 7.0, 15.0]


def test_a_pod_that_kube_scheduler_is_busy_with_is_left_alone() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", answered_at=9.8),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    assert setting.writer.nominated == []
    nominator.run_once(11.0)
    assert setting.writer.nominated == [("p", "a")]


@cases(
    ("now_is", "cleared"),
    {
        "it still carries the nomination: cleared": (pod("p", "a"), [("p", None)]),
        "kube-scheduler has cleared it itself": (pod("p", None), []),
        "kube-scheduler has nominated another node": (pod("p", "c"), []),
        "it is bound or gone": (None, []),
    },
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
    nominator.run_once(22.0)
    nominator.run_once(23.0)
    assert setting.writer.nominated == [("p", "a"), ("p", None), ("p", None)]
    assert setting.counted == ["written", "transient", "written"]


def test_without_nominations_pods_are_requeued_by_an_annotation() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator(nominate=False)
    nominator.run_once(10.0)
    nominator.run_once(10.5)
    nominator.run_once(11.5)
    assert [text[:17] for text in setting.writer.requeued] == ["p: planned on a a"] * 2
    assert len({*setting.writer.requeued}) == 2, "an equal text would write nothing"
    assert setting.writer.nominated == []


def test_pods_whose_refusal_is_out_of_date_are_requeued_once() -> None:
    setting = Setting(FakePlans(outdated=(pod("p"),), waits={"uid-p": pod("p")}))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    nominator.run_once(11.0)
    assert [text[:32] for text in setting.writer.requeued] == ["p: its gang was planned again at"]


@pytest.mark.parametrize("kind", [ErrorKind.THROTTLED, ErrorKind.FORBIDDEN])
def test_a_pod_is_requeued_after_a_pause_but_not_against_a_refusal(kind: ErrorKind) -> None:
    setting = Setting(FakePlans(outdated=(pod("p"),), waits={"uid-p": pod("p")}))
    nominator = setting.nominator()
    setting.writer.outcome = Refused(kind, "no")
    nominator.run_once(10.0)
    setting.writer.outcome = Written()
    nominator.run_once(20.0)
    nominator.run_once(30.0)
    assert len(setting.writer.requeued) == (2 if kind is ErrorKind.THROTTLED else 1)


def test_pods_that_are_to_be_offered_nodes_are_requeued_until_they_are_ever_later() -> None:
    setting = Setting(FakePlans(to_ask=(pod("p"), pod("q"))))
    assert times_written(setting, 20) == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert {text[:4] for text in setting.writer.requeued} == {"p: k", "q: k"}
    assert len(setting.writer.requeued) == 10


@pytest.mark.parametrize("why", ["to be asked about", "refused", "nominated"])
def test_pods_of_one_namespace_do_not_keep_those_of_others_from_being_written_to(why: str) -> None:
    count = 5 * MOST_WRITES
    many = [pod(f"p{number}", "a") for number in range(count)]
    pods = (*many, msgspec.structs.replace(pod("honest", "a"), namespace="other"))
    setting = Setting(FakePlans(waits={each.uid: each for each in pods}))
    if why == "to be asked about":
        setting.plans.to_ask = pods
    elif why == "refused":
        setting.plans.outdated = pods
    else:
        setting.plans.stale = pods
    nominator = setting.nominator()
    nominator.run_once(10.0)
    written = [*(text.split(":")[0] for text in setting.writer.requeued)]
    written += [name for name, _ in setting.writer.nominated]
    assert "honest" in written
    assert len(written) <= MOST_WRITES
    for second in range(count // MOST_WRITES + 1):
        nominator.run_once(10.0 + second / 100)
    writes = [*(text.split(":")[0] for text in setting.writer.requeued)]
    assert {*writes, *(name for name, _ in setting.writer.nominated)} == {p.name for p in pods}


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


def test_a_pod_that_a_busy_kube_scheduler_does_not_try_is_nominated_after_a_second() -> None:
    setting = Setting()
    nominator = setting.nominator()
    for now in (10.0, 10.4, 10.8):
        setting.plans.now = (*answered(now - 0.01), *queued(2))
        nominator.run_once(now)
    assert names_of(setting) == []
    setting.plans.now = (*answered(10.99), *queued(2))
    nominator.run_once(10.0 + LONGEST_LEFT_SECONDS)
    assert names_of(setting) == ["p00", "p01"]


def small_pool() -> Setting:
    """A cluster where trying every node costs less than a nomination."""
    return Setting(FakePlans(save_time=False))


def test_in_a_small_cluster_pods_are_left_to_kube_scheduler_while_its_queue_moves() -> None:
    setting = small_pool()
    nominator = setting.nominator()
    end = 10.0 + LONGEST_IN_QUEUE_SECONDS
    now = 10.0
    while now < end:
        setting.plans.now = (*answered(now - 0.5), *queued(2))
        nominator.run_once(now)
        now += 0.5
    assert names_of(setting) == []
    setting.plans.now = (*answered(end - 0.5), *queued(2))
    nominator.run_once(end)
    assert names_of(setting) == ["p00", "p01"], "but not for ever"


def test_in_a_small_cluster_a_refused_pod_is_nominated_at_once() -> None:
    """kube-scheduler tries it only when something wakes it."""
    setting = small_pool()
    setting.plans.now = (*answered(9.99), *queued(1, refused_at=9.8), *queued(3)[1:])
    setting.nominator().run_once(10.0)
    assert names_of(setting) == ["p00"]


def test_in_a_small_cluster_a_pod_that_is_refused_later_is_nominated_at_once_too() -> None:
    """The whole queue is looked at once a second, refused pods in each run."""
    setting = small_pool()
    nominator = setting.nominator()
    setting.plans.now = (*answered(9.99), *queued(3))
    nominator.run_once(10.0)
    setting.plans.now = (*answered(10.09), *queued(1, refused_at=9.8), *queued(3)[1:])
    nominator.run_once(10.1)
    assert names_of(setting) == ["p00"]


def test_in_a_small_cluster_pods_are_nominated_once_the_queue_stands_still() -> None:
    setting = small_pool()
    nominator = setting.nominator()
    setting.plans.now = (*answered(10.0), *queued(2))
    nominator.run_once(10.0)
    setting.plans.now = queued(2)  # the others are bound
    nominator.run_once(10.0 + 0.9 * QUEUE_MOVES_SECONDS)
    assert names_of(setting) == []
    nominator.run_once(10.0 + QUEUE_MOVES_SECONDS)
    assert names_of(setting) == ["p00", "p01"]


class RecordedChanges(Changes):
    """Keeps how long the thread would have waited for a change, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.twice = threading.Event()

    def wait(self, seen: int, timeout_seconds: float) -> int:
        self.waits.append(timeout_seconds)
        if len(self.waits) == 2:
            self.twice.set()
        return super().wait(seen, 0.0)


def test_the_thread_waits_for_no_change_while_pods_are_left_to_be_nominated() -> None:
    changes = RecordedChanges()
    setting = Setting(FakePlans(queued(2 * MOST_WRITES), changes=changes))
    nominator = setting.nominator()
    nominator.start()
    assert changes.twice.wait(180.0)
    nominator.stop()
    assert changes.waits[:2] == [1.0, 0.0]


class BrokenWriter(FakeWriter):
    """Fails as no API server does."""

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        raise RuntimeError(pod.name)


def test_a_long_queue_that_cannot_be_nominated_is_tried_again_after_a_pause() -> None:
    changes = RecordedChanges()
    plans = FakePlans(queued(2 * MOST_WRITES), changes=changes)
    nominator = Setting(plans, BrokenWriter()).nominator()
    nominator.start()
    assert changes.twice.wait(180.0)
    nominator.stop()
    assert {*changes.waits} == {1.0}


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


def test_what_another_leader_planned_meanwhile_is_not_requeued() -> None:
    setting = Setting(FakePlans(outdated=(pod("p"),), waits={"uid-p": pod("p")}))
    nominator = setting.nominator()
    setting.writer.outcome = Refused(ErrorKind.THROTTLED, "later", 5.0)
    nominator.run_once(10.0)
    setting.leads, setting.writer.outcome = False, Written()
    setting.writer.requeued.clear()
    nominator.run_once(20.0)
    setting.leads = True
    nominator.run_once(30.0)
    assert setting.writer.requeued == []


def test_the_thread_runs_until_it_is_stopped() -> None:
    setting = Setting()
    nominator = setting.nominator()
    nominator.start()
    nominator.stop()
    assert not nominator._thread.is_alive()


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


def test_a_nomination_whose_answer_was_lost_is_cleared_once_it_is_no_longer_planned() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    setting.writer.outcome = Refused(ErrorKind.TRANSIENT, "no answer")
    nominator.run_once(10.0)
    setting.writer.outcome = Written()
    setting.plans.now, setting.plans.waits = (), {"uid-p": pod("p", "a")}
    nominator.run_once(20.0)
    assert setting.writer.nominated == [("p", "a"), ("p", None)]


def test_a_nomination_of_the_last_leader_is_cleared_once_it_is_no_longer_planned() -> None:
    setting = Setting(FakePlans((PendingNomination(pod("p", "a"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    nominator.run_once(10.0)
    setting.plans.now, setting.plans.waits = (), {"uid-p": pod("p", "a")}
    nominator.run_once(20.0)
    assert setting.writer.nominated == [("p", None)]


def test_a_nomination_that_was_refused_and_that_another_makes_is_not_cleared() -> None:
    """kube-scheduler nominates a pod by itself where it preempts others for it."""
    setting = Setting(FakePlans((PendingNomination(pod("p"), "a", LONG_AGO),)))
    nominator = setting.nominator()
    setting.writer.outcome = Refused(ErrorKind.THROTTLED, "later", 5.0)
    nominator.run_once(10.0)
    setting.writer.outcome = Written()
    setting.plans.now, setting.plans.waits = (), {"uid-p": pod("p", "a")}
    nominator.run_once(20.0)
    assert setting.writer.nominated == [("p", "a")]
