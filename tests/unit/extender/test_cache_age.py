"""No new plans on caches that are too old; what is reserved is still answered."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from extender.cache_age import CacheAge
from optimus.placement.queue.order import Instant
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster

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
        self.age = CacheAge(
            caches,  # type: ignore[arg-type]
            120.0,
            lambda: Instant(self.now, START + self.now),
        )


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
    cluster.plan()
    cluster.silence()
    assert (cluster.place(first), cluster.place(second)) == ("a", "a")


def test_a_gang_is_planned_once_the_cache_is_fresh_again() -> None:
    cluster = Stale({"a": 2})
    cluster.silence()
    first, second = cluster.job("j", 1, 1)
    cluster.ask(first)
    cluster.hear()
    cluster.plan()
    assert cluster.planned_nodes() == {first: "a", second: "a"}
