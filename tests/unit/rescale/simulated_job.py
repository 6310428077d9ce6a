"""A simulated job with its operator, kubelet and user.

A resume that finds a pod of the old run fails the job, as the real operator does.
"""

from dataclasses import dataclass, field

from optimus.jobs import Counts
from optimus.rescale.words import ObservedPods, SeenJob

BEFORE, TARGET = Counts(1, 2), Counts(2, 3)


@dataclass
class Pod:
    run: int
    role: str
    started: bool = False
    leaving: bool = False


@dataclass
class SimulatedJob:
    """``capacity`` is how many pods can be placed; ``user_wants_suspension`` whether the user
    owns the suspension.

    ``believed`` is the operator's own copy of the job: (run, counts) of the pods it makes
    until it has seen the next change. ``user_resumed`` is set once the user has ended a suspension
    that was ours. ``unwanted``: what the user has written since speaks against the rescale.
    """

    counts: Counts = BEFORE
    suspended: bool = False
    mark: str | None = None
    suspension_confirmed: bool = False
    finished: bool = False
    failed: bool = False
    version: int = 1
    run: int = 1
    capacity: int = 10
    at: float = 1000.0
    user_wants_suspension: bool = False
    user_counts: Counts | None = None
    user_resumed: bool = False
    unwanted: bool = False
    believed: tuple[int, Counts] | None = None
    checkpoint_at: float | None = None
    pods: list[Pod] = field(default_factory=list)

    @classmethod
    def paused(cls, capacity: int = 10) -> "SimulatedJob":
        """A job that was paused by us, and of which no pod is left."""
        return cls(suspended=True, mark="i7", suspension_confirmed=True, capacity=capacity)

    def __post_init__(self) -> None:
        self.operator()
        self.scheduler()

    def change(self) -> None:
        self.version += 1

    # -- the cluster's own controllers
    def operator(self) -> None:
        """Sees the job as it is, and acts."""
        if self.finished or self.failed:
            return
        self.believed = None if self.suspended else (self.run, self.counts)
        if self.suspended:
            for pod in self.pods:
                pod.leaving = True
        elif any(pod.run != self.run or pod.leaving for pod in self.pods):
            self.failed = True
            return
        if self.suspension_confirmed is not self.suspended:
            self.suspension_confirmed = self.suspended
            self.change()
        self.lagging_operator()

    def lagging_operator(self) -> None:
        """Makes the pods of the job as it last saw it."""
        if self.believed is None or self.finished or self.failed:
            return
        run, counts = self.believed
        for role, count in (("ps", counts.ps), ("worker", counts.workers)):
            there = sum(pod.role == role for pod in self.pods)
            self.pods += [Pod(run, role) for _ in range(count - there)]

    def kubelet(self) -> None:
        self.pods = [pod for pod in self.pods if not pod.leaving]

    def scheduler(self) -> None:
        if len(self.pods) == sum(self.counts) <= self.capacity and not any(
            pod.leaving for pod in self.pods
        ):
            for pod in self.pods:
                pod.started = True

    def checkpoint(self) -> None:
        if self.pods and all(pod.started and not pod.leaving for pod in self.pods):
            self.checkpoint_at = self.at

    def finish(self) -> None:
        if not self.suspended and self.pods and all(pod.started for pod in self.pods):
            self.finished = True
            self.change()

    # -- the user
    def user_suspends(self) -> None:
        if not self.suspended:
            # With our mark on it, it looks as if nothing had been done: only taking the mark away
            # makes it the user's.
            self.user_wants_suspension, self.user_resumed = self.mark is None, False
            self.suspended = True
            self.change()

    def user_resumes(self) -> None:
        """Without reading the annotation, and with enough patience for the old pods to be
        gone."""
        if self.suspended:
            self.user_resumed = self.mark is not None
            self.operator()
            self.kubelet()
            self.run += 1
            self.suspended, self.user_wants_suspension = False, False
            self.change()

    def user_takes_the_mark(self) -> None:
        if self.mark is not None:
            # Resumed and unmarked, a job shows no trace of a suspension of which the answer was
            # lost.
            self.user_wants_suspension, self.user_resumed = self.suspended, False
            self.mark = None
            self.change()

    def user_resizes(self) -> None:
        if self.suspended:
            self.counts = Counts(1, 1)
            self.user_counts = self.counts
            self.change()

    def user_withdraws(self) -> None:
        """By an annotation: never, other bounds, another goal."""
        if not self.unwanted:
            self.unwanted = True
            self.change()

    # -- the API server
    def suspend(self, by: str) -> None:
        assert not self.suspended, "our mark on a suspension that is not ours"
        assert not self.user_resumed, "suspended again although its user has resumed it"
        self.suspended, self.mark = True, by

    def resize_and_resume(self, counts: Counts) -> None:
        assert not self.user_wants_suspension, "resumed against its user"
        assert self.suspended, "resized while it runs"
        assert self.mark is not None, "resumed without our mark"
        assert not self.pods, "resumed while a pod is left"
        self.counts, self.suspended, self.mark = counts, False, None
        self.run += 1

    def observed(self) -> SeenJob:
        ended = self.finished or self.failed
        version, confirmed = str(self.version), self.suspension_confirmed
        return SeenJob(self.suspended, self.mark, confirmed, self.counts, version, ended)

    def observed_pods(self) -> ObservedPods:
        started = [pod.role for pod in self.pods if pod.started and not pod.leaving]
        counts = Counts(started.count("ps"), started.count("worker"))
        return ObservedPods(len(self.pods), counts, counts, trains=bool(started))
