"""No new plans on caches that are too old; what is reserved is still answered."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from extender.cache_age import CacheAge
from optimus.jobs import Counts, Role
from optimus.kube.reflector import ReflectorConfig
from optimus.placement.queue.order import Instant
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons

START = 1_700_000_000.0
"""2023-11-14T22:13:20Z, when the clock below shows 0."""


@dataclass
class FakeCache:
    """A cache of one kind of object."""

    plural: str
    last_contact: float | None = 0.0

    @property
    def watched(self) -> SimpleNamespace:
        return SimpleNamespace(plural=self.plural)


@dataclass
class Frozen:
    """Two caches under a clock that stands still until it is set."""

    now: float = 0.0
    pods: FakeCache = field(default_factory=lambda: FakeCache("pods"))
    nodes: FakeCache = field(default_factory=lambda: FakeCache("nodes"))

    def __post_init__(self) -> None:
        caches = (self.pods, self.nodes)
        self.age = CacheAge(caches, 120.0, lambda: Instant(self.now, START + self.now))


@cases(
    ("now", "too_old"),
    {
        "just heard of": (0.0, False),
        "at the limit": (120.0, False),
        "past the limit": (120.1, True),
    },
)
def test_a_cache_is_too_old_past_the_limit(now: float, too_old: bool) -> None:
    frozen = Frozen(now=now)
    assert (frozen.age.why_too_old() is not None) is too_old
    assert frozen.age.seconds() == now


def test_the_oldest_cache_counts_and_is_named_with_its_age_and_the_limit() -> None:
    frozen = Frozen(now=200.0)
    frozen.nodes.last_contact = 190.0
    frozen.pods.last_contact = 10.0
    assert frozen.age.seconds() == 190.0
    why = "the cache of pods is as of 2023-11-14T22:13:30Z, older than the limit of 120 s"
    assert frozen.age.why_too_old() == f"{why} (cache-age-limit-seconds)"
    now = f"{why} (cache-age-limit-seconds): 190 s old; no new plans are made"
    assert frozen.age.why_not_ready() == now


def test_the_sentence_is_the_same_for_as_long_as_the_silence_lasts() -> None:
    frozen = Frozen(now=200.0)
    first = frozen.age.why_too_old()
    # The API server's clock is corrected meanwhile, by the answers to other calls.
    frozen.age._clock = lambda: Instant(260.4, START + 262.0)
    assert frozen.age.why_too_old() == first
    frozen.pods.last_contact = frozen.nodes.last_contact = 100.0
    assert frozen.age.why_too_old() not in (None, first)


@pytest.mark.parametrize("limit_seconds", [10.0, 120.0, 3600.0])
def test_each_watch_is_reopened_well_before_its_cache_is_too_old(limit_seconds: float) -> None:
    longest = (
        1.25 * ReflectorConfig.within(limit_seconds).watch_seconds
    )  # the jitter of a reflector
    assert longest < 0.7 * limit_seconds


SENTENCE = "the cache of pods is as of 2023-11-14T22:13:20Z"


class Stale(FakeCluster):
    """A cluster on caches that are too old from ``silence`` on."""

    sentence: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state.why_too_old = lambda: self.sentence

    def silence(self) -> None:
        self.sentence = SENTENCE

    def hear(self) -> None:
        self.sentence = None


def test_a_gang_with_reservations_is_answered() -> None:
    cluster = Stale({"a": 2})
    first, second = cluster.job("j", 1, 1)
    cluster.planner.advance()
    cluster.silence()
    assert (cluster.place(first), cluster.place(second)) == ("a", "a")


def test_nominations_of_the_last_leader_are_answered() -> None:
    cluster = Stale({"a": 2})
    cluster.silence()
    names = cluster.job("j", 1, 1)
    for name in names:
        cluster.change(cluster.pods[name], nominated_node="a")
    cluster.adoption.adopt_nominations()
    assert [cluster.place(name) for name in names] == ["a", "a"]


def test_no_room_is_reserved_for_a_rescale() -> None:
    cluster = Stale({"a": 4})
    cluster.adoption.adopt_nominations()
    cluster.spec("j", 1, 1)
    cluster.silence()
    cluster.rescale("j", 1, 3, leaving=False)
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 0
    for role, index in ((Role.PS, 0), (Role.WORKER, 0), (Role.WORKER, 1), (Role.WORKER, 2)):
        cluster.pod("j", role, index, Counts(1, 3))
    assert reasons(cluster, "j-ps-0") == {f"job ns/j is not planned: {SENTENCE}"}
    cluster.hear()
    assert cluster.place("j-ps-0") == "a"


def test_a_gang_is_planned_once_the_cache_is_fresh_again() -> None:
    cluster = Stale({"a": 2})
    cluster.silence()
    first, second = cluster.job("j", 1, 1)
    cluster.ask(first)
    cluster.hear()
    cluster.planner.advance()
    assert cluster.planned_nodes() == {first: "a", second: "a"}


def test_a_pod_is_requeued_whose_reason_is_out_of_date_once_the_cache_is_fresh() -> None:
    cluster = Stale({"a": 1})
    first, _ = cluster.job("j", 1, 1)
    assert reasons(cluster, first) == {"job ns/j (1 PS + 1 worker) does not fit as a whole"}
    cluster.silence()
    assert reasons(cluster, first) == {f"job ns/j is not planned: {SENTENCE}"}
    assert cluster.nominations.outdated_refusals() == ()
    cluster.hear()
    assert [pod.name for pod in cluster.nominations.outdated_refusals()] == [first]
    assert cluster.nominations.outdated_refusals() == ()
