"""Events on jobs of which a part is bound and the rest cannot be."""

from dataclasses import dataclass, field, replace

import pytest

from extender.job_events import EventReporter, JobNotice
from extender.notices import half_placed_notices
from optimus.jobs import ConvergenceThreshold, Counts, Role
from optimus.kube.events import EventType, Subject
from tests.unit.extender.fake_cluster import FakeCluster


@dataclass
class EmittedEvents:
    """A job with its PS bound on a node that holds no worker beside it."""

    cluster: FakeCluster = field(default_factory=lambda: FakeCluster({"a": 2}))
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster.spec("j", 1, 1)
        names = self.cluster.job("j", 1, 1)
        assert self.cluster.place(names[0]) == "a"
        self.other = self.cluster.other("o", 1, "a")
        self.events = EventReporter(self.find, self.emit)

    def find(self) -> list[JobNotice]:
        return list(half_placed_notices(self.cluster.state, 60.0))

    def emit(
        self, job: Subject, kind: EventType, reason: str, message: str, annotations: object = ()
    ) -> None:
        assert not annotations
        assert (job.kind, job.namespace, job.name, job.uid) == ("TFJob", "ns", "j", "uid-j")
        assert (kind, reason) == (EventType.WARNING, "HalfPlaced")
        self.messages.append(message)

    def look(self, seconds: int) -> list[str]:
        for _ in range(seconds):
            self.cluster.now += 1
            self.cluster.plan()
            self.events.look(self.cluster.now)
        return self.messages


def test_a_job_that_is_bound_in_part_gets_one_event_with_what_would_help() -> None:
    emitted = EmittedEvents()
    assert emitted.look(55) == []
    message = (
        "1 of 2 pods are bound and hold their resources; the rest waits: job ns/j (1 PS + 1 worker)"
        " does not fit as a whole. Free capacity on the nodes that its pods may use, or suspend and"
        " resume the job so that it is placed again as a whole"
    )
    assert emitted.look(300) == [message]


@pytest.mark.parametrize("case", ["managed", "not bound at all", "the rest fits again"])
def test_no_event_is_written_on_a_job_that(case: str) -> None:
    emitted = EmittedEvents()
    cluster = emitted.cluster
    job = cluster.state.cluster.jobs["uid-j"]
    if case == "managed":
        cluster.handlers.set_job("uid-j", replace(job, goal=ConvergenceThreshold(0.01)))
    elif case == "not bound at all":
        cluster.delete("j-ps-0")
        cluster.other("p", 1, "a")
        cluster.pod("j", Role.PS, 0, Counts(1, 1))
    else:
        emitted.look(50)
        cluster.delete(emitted.other.name)
        emitted.look(50)
        assert cluster.place("j-worker-0") == "a"
    assert emitted.look(300) == []
