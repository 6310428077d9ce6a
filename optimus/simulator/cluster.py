"""The simulated cluster: jobs that arrive, hold room, train, are suspended and resumed.

A suspended job does not train, and its pods leave; a resumed one trains once its new pods are bound
and have started. Room that pods are still leaving is not free, and no node ever holds more than it
has."""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Final

from optimus import lifecycle
from optimus.allocation import JobHistory
from optimus.interval.capacity_plan import Held
from optimus.jobs import Counts, Job, Role
from optimus.lifecycle import JobRecord
from optimus.lifecycle.workloads import NOTHING_PROVIDED, Provided
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.progress.types import TrainingProgress
from optimus.rescale.checkpoints import awaits_next_checkpoint
from optimus.rescale.machine import Rescale
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason, Step
from optimus.resources import NONE, Resources
from optimus.simulator.jobs import SimulatedJob
from optimus.simulator.training import Training
from optimus.snapshot import BoundPod, ClusterSnapshot

NO_RECORD: Final = JobRecord()


class SimulatedPhase(StrEnum):
    """CLEARING: its pods leave, or the room of its next ones is not free yet. STARTING: bound, does
    not train yet."""

    WAITING = "waiting"
    CLEARING = "clearing"
    STARTING = "starting"
    TRAINING = "training"
    ENDED = "ended"


@dataclass(slots=True)
class SimulatedJobState:
    """One job on the cluster, with its present spec.

    ``pods`` hold room now; that of ``coming``,
    its next pods, is nobody else's, and free from ``coming_at`` on. ``record`` holds what was done
    to it but for the rescale in progress; ``restarts`` are its suspensions for rescales after it
    had trained."""

    truth: SimulatedJob
    job: Job
    training: Training
    arrived_at: float
    phase: SimulatedPhase = SimulatedPhase.WAITING
    phase_ends_at: float = math.inf
    pods: tuple[BoundPod, ...] = ()
    coming: tuple[BoundPod, ...] = ()
    coming_at: float = 0.0
    ready_at: float | None = None
    """The earliest instant at which it trains again after it was suspended for a rescale."""

    suspended_by: str | None = None
    """The id of the rescale that has suspended it; ``pause``: why it is not resumed by that."""

    pause: PauseReason | None = None
    rescale: Rescale | None = None
    advanced_in: SimulatedPhase | None = None
    """The phase in which the rescale was taken as far as it went."""

    record: JobRecord = NO_RECORD
    earlier: Provided = NOTHING_PROVIDED
    """What ended jobs tell it: of its workload nothing once it was found to differ."""

    stop_lost_seconds: float | None = None
    """Training that its last suspension lost; ``None``: it ended none."""

    missed_at: float | None = None
    """When a rescale was withdrawn that waited for a checkpoint; ``None`` since the job was
    suspended."""

    known_history: tuple[JobRecord, object, JobHistory] | None = None
    """What ``history`` was made of when it was last asked for, and its answer."""

    known_share: tuple[tuple[object, ...], tuple[float, ...]] | None = None
    """What ``TimelinePoint`` last counted of it."""

    restarts: int = 0
    version: int = 0

    @property
    def placed_at(self) -> float | None:
        """Return when it was placed for the first time."""
        return self.record.began_at

    @property
    def ended_at(self) -> float | None:
        """Return when it ended."""
        return self.record.ended_at

    def progress(self, _: float, /) -> TrainingProgress:
        """The progress that its log shows."""
        progress = self.training.progress()
        told = self.earlier
        if not (told.earlier or told.lengths):
            return progress
        return replace(progress, earlier=told.earlier, lengths=told.lengths)

    def history(self, at: float, /) -> JobHistory:
        """Its rescales and profiling runs so far."""
        record, known, rescale = self.record, self.known_history, self.rescale
        awaits, speed_is_known = self.awaits_checkpoint(at), self.earlier.speed_is_known
        made_of = rescale, self.job.counts, awaits, speed_is_known, self.pause
        if known is not None and known[0] is record and known[1] == made_of:
            return known[2]
        found = JobHistory(
            **{
                **lifecycle.recorded_history(record, self.job),
                "saves_on_stop": self.truth.checkpoints is None,
            },
            rescaling_to=self.rescaling_to,
            measures=rescale is not None and rescale.record.purpose is RescalePurpose.PROFILING,
            awaits_checkpoint=awaits,
            workload_known=speed_is_known,
            paused=self.is_paused,
        )
        self.known_history = record, made_of, found
        return found

    @property
    def rescaling_to(self) -> Counts | None:
        """The target of the rescale in progress."""
        return None if self.rescale is None else self.rescale.record.current_target

    @property
    def is_paused(self) -> bool:
        """Return whether its policy has paused it or is about to, or it starts jobs itself and has
        not started this one yet."""
        record = None if self.rescale is None else self.rescale.record
        pause = record.pause if record is not None and record.pauses else self.pause
        return pause is PauseReason.POLICY

    def awaits_checkpoint(self, at: float) -> bool:
        """Return whether it is not moved before its next checkpoint: its wait for one timed out."""
        if self.missed_at is None:
            return False
        saved_at = self.training.saved.at
        seen_at = saved_at if saved_at is not None and saved_at > self.missed_at else None
        return awaits_next_checkpoint(seen_at, at)

    @property
    def next_at(self) -> float:
        """Return when something happens to it by itself."""
        saves_at = self.training.next_save_at if self.awaits_stop else math.inf
        return min(self.phase_ends_at, self.training.next_at, saves_at)

    @property
    def is_stopped(self) -> bool:
        """Return whether it does not train for a rescale."""
        return self.rescale is not None and self.rescale.record.is_stopped

    @property
    def awaits_stop(self) -> bool:
        """Return whether a rescale has begun and nothing has been done to the job: it trains on."""
        return self.rescale is not None and self.rescale.record.step is Step.CHECKPOINT

    @property
    def is_placed(self) -> bool:
        """Return whether it holds room or some is reserved for it."""
        return bool(self.pods or self.coming)


class _PlacedPods:
    """All pods that hold room, present and coming, and what follows from them.

    An event changes the pods of one job. What follows is kept up to date job by job: counting all
    pods after every event would let the time of a simulation grow with the square of its size."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._free = {node.name: node.allocatable for node in nodes}
        self._of: dict[str, tuple[BoundPod, ...]] = {}
        self._counts: dict[str, Counts] = {}
        self._pods: tuple[BoundPod, ...] | None = None

    def update(self, state: SimulatedJobState) -> None:
        """Take over the pods of one job."""
        uid, free = state.job.uid, self._free
        for pod in self._of.pop(uid, ()):
            free[pod.node] = free[pod.node] + pod.resources
        pods = tuple(sorted((*state.pods, *state.coming), key=attrgetter("uid")))
        for pod in pods:
            free[pod.node] = free[pod.node] - pod.resources
        roles = Counter(pod.replica.role for pod in pods if pod.replica and not pod.leaving)
        self._counts.pop(uid, None)
        if pods:
            self._of[uid] = pods
        if roles:
            self._counts[uid] = Counts(roles[Role.PS], roles[Role.WORKER])
        self._pods = None

    @property
    def pods(self) -> tuple[BoundPod, ...]:
        """All pods, by UID."""
        if self._pods is None:
            in_order = (pod for uid in sorted(self._of) for pod in self._of[uid])
            self._pods = tuple(sorted(in_order, key=attrgetter("uid")))
        return self._pods

    def prepare(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot, with what is known of its pods."""
        return snapshot.prepare(dict(self._counts), dict(self._free))


class SimulatedCluster:
    """All jobs that have arrived and not ended, by UID, at the instant ``now``."""

    def __init__(
        self, nodes: Iterable[Node], leaving_seconds: float, *, measures_prices: bool = False
    ) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        self._kinds = {node.name: node.labels.get(NODE_KIND_LABEL, "") for node in self.nodes}
        self.priced = {node.name: node for node in self.nodes if node.price is not None}
        """Nodes of which it is known what they cost, by name."""
        self.now = 0.0
        self.leaving_seconds = leaving_seconds
        self.measures_prices = measures_prices
        self.states: dict[str, SimulatedJobState] = {}
        self._placed = _PlacedPods(self.nodes)
        self.ended: list[SimulatedJobState] = []
        self.most_futile: SimulatedJobState | None = None
        """The job that was stopped most often since its last checkpoint, if any was."""
        self._events: list[tuple[float, str, int]] = []

    @property
    def next_at(self) -> float:
        """Return when something happens by itself next."""
        while self._events and not self._is_current(*self._events[0]):
            heapq.heappop(self._events)
        return self._events[0][0] if self._events else math.inf

    def add(self, state: SimulatedJobState) -> None:
        """A job arrives."""
        self.states[state.job.uid] = state
        self._schedule(state)

    def advance(self, to: float) -> bool:
        """Advance the clock; returns whether a scheduler would see a change."""
        changed = False
        while self.next_at <= to:
            at, uid, _ = heapq.heappop(self._events)
            self.now = at
            changed |= self._process(self.states[uid], at)
        self.now = to
        return changed

    def catch_up(self) -> None:
        """Advance every job's training to the present instant."""
        for state in self.states.values():
            state.training.advance(self.now)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of nodes, by name."""
        return tuple(sorted(set(self._kinds.values())))

    def _workers_by_kind(self, state: SimulatedJobState) -> Mapping[str, int]:
        found = Counter(self._kinds[pod.node] for pod in state.pods if _is_worker(pod))
        return dict(sorted(found.items()))

    def snapshot(self) -> ClusterSnapshot:
        """Return what the scheduler sees, leaving and coming pods included."""
        jobs = tuple(sorted((state.job for state in self.states.values()), key=lambda job: job.uid))
        placed = self._placed
        return placed.prepare(ClusterSnapshot(self.now, jobs, self.nodes, placed.pods))

    def reserve(
        self, state: SimulatedJobState, placement: Iterable[Held], free_at: float = 0.0
    ) -> None:
        """Keep the nodes of a job's next pods for it; they are free from ``free_at`` on."""
        state.coming, state.coming_at = tuple(map(_pod, placement)), free_at
        self._placed.update(state)

    def suspend(self, state: SimulatedJobState, by: str, pause: PauseReason | None = None) -> None:
        """Stop the job; its pods leave. ``pause``: why it is not resumed at once."""
        at, training, seconds = self.now, state.training, state.truth.rescale_seconds
        state.record = lifecycle.service_ended(state.record, at)
        lost_seconds, most = training.stop(at), self.most_futile
        if training.futile_stops > (0 if most is None else most.training.futile_stops):
            self.most_futile = state
        trained = bool(state.pods) and training.trained_seconds > 0
        state.stop_lost_seconds = lost_seconds if trained else None
        state.suspended_by, state.pause, state.missed_at = by, pause, None
        state.phase, state.phase_ends_at, state.ready_at = SimulatedPhase.WAITING, math.inf, None
        save_seconds = state.truth.save_seconds if trained else 0.0
        if trained and pause is None:
            state.restarts += 1
            seconds = training.draw_rescale_seconds()
        if state.pods:
            if pause is None:
                start_seconds = seconds if trained else state.truth.start_seconds
                state.ready_at = at + save_seconds + start_seconds
            state.pods = tuple(replace(pod, leaving=True) for pod in state.pods)
            self._placed.update(state)
            state.phase = SimulatedPhase.CLEARING
            state.phase_ends_at = at + save_seconds + min(self.leaving_seconds, seconds)
        self._schedule(state)

    def resume(self, state: SimulatedJobState, counts: Counts) -> None:
        """Make the pods of a job at these counts, on the nodes that are reserved for them."""
        state.suspended_by = state.pause = None
        if counts != state.job.counts:
            state.job = replace(state.job, counts=counts)
        if state.coming_at > self.now:
            state.phase, state.phase_ends_at = SimulatedPhase.CLEARING, state.coming_at
        else:
            self._bind(state)
        self._schedule(state)

    def place(self, state: SimulatedJobState, placement: Iterable[Held]) -> None:
        """Bind the pods of a job that waits for nodes."""
        self.reserve(state, placement)
        self._bind(state)
        self._schedule(state)

    def note_advanced(self, state: SimulatedJobState) -> None:
        """The job's rescale was taken as far as it goes now."""
        state.advanced_in = state.phase
        self._schedule(state)

    def used(self) -> Mapping[str, Resources]:
        """Return what is held on each node, by its name."""
        used: dict[str, Resources] = {node.name: NONE for node in self.nodes}
        for pod in (pod for state in self.states.values() for pod in state.pods):
            used[pod.node] = used[pod.node] + pod.resources
        return used

    def _process(self, state: SimulatedJobState, at: float) -> bool:
        """Process one job's event; returns whether a scheduler would see a change."""
        saved_at = state.training.saved.at
        state.training.advance(at)
        if state.phase is SimulatedPhase.TRAINING and state.training.is_finished:
            self._end(state, at)
            return True
        due = state.phase_ends_at <= at
        if due:
            self._end_phase(state, at)
        self._schedule(state)
        return due or (state.awaits_stop and state.training.saved.at != saved_at)

    def _end_phase(self, state: SimulatedJobState, at: float) -> None:
        state.phase_ends_at = math.inf
        if state.phase is SimulatedPhase.CLEARING and state.suspended_by is not None:
            state.pods, state.phase = (), SimulatedPhase.WAITING
            self._placed.update(state)
        elif state.phase is SimulatedPhase.CLEARING:
            self._bind(state)
        elif state.phase is SimulatedPhase.STARTING:
            state.phase = SimulatedPhase.TRAINING
            state.training.begin(at, _servers(state.pods), self._workers_by_kind(state))

    def _bind(self, state: SimulatedJobState) -> None:
        """The coming pods take the room; without any the job waits for nodes."""
        state.pods, state.coming = state.coming, ()
        self._placed.update(state)
        state.phase, state.phase_ends_at = SimulatedPhase.WAITING, math.inf
        if state.pods:
            workers = self._workers_by_kind(state)
            state.record = lifecycle.service_began(state.record, self.now, workers)
            state.phase, state.phase_ends_at = SimulatedPhase.STARTING, self._ready_at(state)
            state.ready_at = None

    def _ready_at(self, state: SimulatedJobState) -> float:
        """When a job trains whose pods are bound now: after a rescale, a first start, a pause."""
        at, training = self.now, state.training
        if state.ready_at is not None:
            return max(state.ready_at, at)
        if training.trained_seconds == 0:
            return at + state.truth.start_seconds
        return at + max(training.draw_rescale_seconds() - self.leaving_seconds, 0.0)

    def _end(self, state: SimulatedJobState, at: float) -> None:
        state.phase, state.phase_ends_at = SimulatedPhase.ENDED, math.inf
        state.record = replace(lifecycle.service_ended(state.record, at), ended_at=at)
        state.pods = state.coming = ()
        state.rescale = None
        self._placed.update(state)
        state.version += 1
        self.ended.append(self.states.pop(state.job.uid))

    def _schedule(self, state: SimulatedJobState) -> None:
        """Schedule the job's next event; older entries become invalid."""
        state.version += 1
        if state.next_at < math.inf:
            heapq.heappush(self._events, (state.next_at, state.job.uid, state.version))

    def _is_current(self, _: float, uid: str, version: int) -> bool:
        state = self.states.get(uid)
        return state is not None and state.version == version


def _pod(held: Held) -> BoundPod:
    replica = held.replica
    return BoundPod(
        f"{replica.job_uid}/{replica.role}-{replica.index}", held.node, held.resources, replica
    )


def _is_worker(pod: BoundPod) -> bool:
    return pod.replica is not None and pod.replica.role is Role.WORKER


def _servers(pods: Iterable[BoundPod]) -> tuple[Counts, ...]:
    """Return how many PSs and workers each server has that has any, the largest first."""
    share: dict[str, list[int]] = {}
    for pod in pods:
        role = None if pod.replica is None else pod.replica.role
        if role in {Role.PS, Role.WORKER}:
            share.setdefault(pod.node, [0, 0])[role is Role.WORKER] += 1
    return tuple(sorted((Counts(*each) for each in share.values()), reverse=True))
