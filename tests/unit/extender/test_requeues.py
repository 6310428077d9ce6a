"""The limits of writes to pods: one a second to each, ever rarer, none while the API throttles."""

from dataclasses import dataclass, field

from extender.requeues import Requeue, Requeues
from optimus.jobs import NodeConstraints
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.resources import NONE

THROTTLED = Refused(ErrorKind.THROTTLED, "too many requests")


def pod(name: str) -> Pod:
    return Pod(
        uid=name,
        namespace="ns",
        name=name,
        created_at=0.0,
        resources=NONE,
        constraints=NodeConstraints(),
    )


ON_A, ON_B = Requeue(pod("p"), "a"), Requeue(pod("p"), "b")


@dataclass
class FakeWriter:
    """Gives the answers one by one, the last one again and again."""

    answers: list[Written | Refused] = field(default_factory=lambda: [Written()])
    written: list[tuple[str, str]] = field(default_factory=list)

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        self.written.append((pod.name, reason))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def writes_answered(*answers: Written | Refused) -> Requeues:
    return Requeues(FakeWriter([*answers]).requeue)


def times_due(writes: Requeues, write: Requeue, until: float) -> list[float]:
    """Writes it at each tenth of a second at which it is due; when that was."""
    found = []
    for tenths in range(int(10 * until) + 1):
        now = tenths / 10
        if writes.is_due(write, now):
            writes.write_all([write], now)
            found.append(now)
    return found


def test_the_same_write_is_repeated_at_doubling_intervals() -> None:
    times = times_due(writes_answered(Written()), ON_A, 250.0)
    assert times == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


# --- an API server that throttles


def test_no_pod_is_written_to_for_a_second_after_the_api_server_throttles() -> None:
    writes, fresh = writes_answered(THROTTLED), Requeue(pod("fresh"), "a")
    writes.write_all([ON_A], 5.0)
    assert not writes.is_due(fresh, 5.9)
    assert writes.write_all([fresh], 5.9) == [None]
    assert writes.is_due(fresh, 6.1)
