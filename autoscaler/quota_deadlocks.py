"""Pauses gangs that hold a part of a quota which a gang before them lacks.

Pods are created one by one, and a ResourceQuota refuses those beyond it: gangs that each have a
part of their pods would wait for each other for ever. At every tick, in every namespace:
1. The gangs of which a quota refuses pods are put in order: the highest priority first, then those
   that have run before, then the oldest.
2. The first one that the quota can hold at all is helped: gangs that lack pods, too, are paused
   until it fits, those that no quota could hold first, then the last in the order. Where that is
   not enough nobody is paused. A job that is not managed gets an Event that says what to do.
3. A paused gang is resumed once the quota has room for all of it beside what gangs before it lack.
   One that is too large for the quota is resumed once the gang that it was paused for is over.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from autoscaler.cluster import Observation
from autoscaler.jobs.managed import ManagedJobs
from autoscaler.jobs.state import BlockReason, TrackedJob
from autoscaler.profile.events import EventRecorder, JobEvent
from optimus.interval.victims import choose_victims
from optimus.jobs import NO_COUNTS, RescaleRule
from optimus.kube.contract import NOT_CREATED
from optimus.kube.suspension import Preemption
from optimus.kube.training_jobs import TrainingJob
from optimus.quotas import Quota, format_amount
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason
from optimus.resources import NONE, Resources, total

_SETTLED_SECONDS: Final = 15.0
"""A gang whose pods have been the same for so long gets no more of them by itself: the operator
tries at growing distances, at last every quarter of an hour."""

_VAIN_SECONDS: Final = 120.0
"""A gang that has not taken its pods' room of a quota for so long lacks something else."""


@dataclass(slots=True)
class _PartialGang:
    """A gang of which pods are missing."""

    job: TrainingJob
    state: TrackedJob | None
    staying: int
    size: int
    quotas: list[Quota] = field(default_factory=list)
    """Those that count it."""

    def demand(self, quota: Quota) -> Resources:
        """Return what the whole gang takes of a quota."""
        assert self.job.job is not None
        return quota.charges[self.job.uid].at(self.job.job.counts)

    def missing(self, quota: Quota) -> Resources:
        """Return what its missing pods take of it."""
        return self.demand(quota) - quota.charges[self.job.uid].held

    @property
    def refused_by(self) -> tuple[Quota, str] | None:
        """The quota that has no room for its missing pods, and the resource that it lacks."""
        for quota in self.quotas:
            missing, left = self.missing(quota), _left(quota)
            for name in quota.limited:
                if missing[name] > max(left[name], 0):
                    return quota, name
        return None

    @property
    def can_ever_fit(self) -> bool:
        return all(_is_within(self.demand(quota), quota.room, quota) for quota in self.quotas)

    @property
    def may_be_paused(self) -> bool:
        state = self.state
        return state is not None and not (
            state.held
            or not state.job.managed
            or state.job.rescale is RescaleRule.NEVER
            or self.job.not_suspendable
        )

    def text(self, jobs: Iterable[TrainingJob]) -> str:
        """Return why its pods are missing; ``jobs`` are all of the cluster."""
        missing = self.size - self.staying
        what = f"{missing} of its {self.size} {NOT_CREATED}"
        refused = self.refused_by
        if refused is None:
            return (
                f"{what}, or the operator has not tried: kubectl describe {self.job.kind.lower()}"
                f" {self.job.name} -n {self.job.namespace} says why; a quota, a LimitRange or an"
                " admission policy may refuse them"
            )
        quota, name = refused
        charges = ((job, quota.charges.get(job.uid)) for job in jobs)
        held = [
            f"{job.name} holds {format_amount(name, charge.held[name])}"
            for job, charge in sorted(charges, key=lambda pair: pair[0].created_at)
            if charge is not None and charge.held[name]
        ]
        allowed = format_amount(name, quota.hard[name])
        whole = format_amount(name, self.demand(quota)[name])
        whose = f", of which {', '.join(held)}" if held else ""
        return f"{what}: it needs {whole} of {name}, {quota.label} allows {allowed}{whose}"


def _order(job: TrainingJob, state: TrackedJob | None) -> tuple[int, bool, float, str]:
    has_run = state is not None and bool(state.record.gang_uids)
    priority = 0 if job.job is None else job.job.priority
    return -priority, not has_run, job.created_at, job.uid


def _left(quota: Quota) -> Resources:
    return quota.room - total(each.held + each.leaving for each in quota.charges.values())


def _is_within(asked: Resources, room: Resources, quota: Quota) -> bool:
    return all(asked[name] <= max(room[name], 0) for name in quota.limited)


class QuotaDeadlocks:
    """``step`` is called in each tick in which there are quotas, or a managed job lacks pods."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._pods: dict[str, tuple[int, float]] = {}
        """How many pods each gang in part has, and since when, by UID."""
        self._refused_at: dict[str, float] = {}
        """When a quota had no room for the missing pods of a gang last, by UID."""

    def goes_on(
        self,
        uid: str,
        preemption: Preemption,
        observation: Observation,
        states: Mapping[str, TrackedJob],
    ) -> bool:
        """Return whether a job is to stay paused for the gang."""
        gang, job = observation.jobs.get(preemption.uid), observation.jobs.get(uid)
        if job is None or job.active is None:
            return False
        is_over = gang is None or gang.active is None or _is_stopped(gang)
        for quota in observation.snapshot.quotas:
            own = quota.charges.get(uid)
            if own is None:
                continue
            demand, room = own.at(job.active.counts), _left(quota) + own.held + own.leaving
            if not _is_within(demand, quota.room, quota):
                if not is_over:
                    return True
            elif not _is_within(
                demand, room - self._lacked_before(job, quota, observation, states), quota
            ):
                return True
        return False

    def _lacked_before(
        self,
        job: TrainingJob,
        quota: Quota,
        observation: Observation,
        states: Mapping[str, TrackedJob],
    ) -> Resources:
        """Return what gangs before a job lack of a quota, unless there was room in vain."""
        lacked = [NONE]
        for uid, charge in quota.charges.items():
            other, state = observation.jobs[uid], states.get(uid)
            moves = state is not None and state.rescale is not None
            since = self._pods[uid][1] if uid in self._pods else observation.at
            since = max(since, self._refused_at.get(uid, since))
            if other.active is None or (_is_stopped(other) and not moves):
                continue
            if _order(other, state) > _order(job, states.get(job.uid)):
                continue
            demand = charge.at(other.active.counts)
            if _is_within(demand, quota.room, quota) and observation.at - since < _VAIN_SECONDS:
                lacked.append(demand.beyond(charge.held))
        return total(lacked)

    def step(self, managed: ManagedJobs, observation: Observation, *, may_begin: bool) -> None:
        """Say which gangs lack pods, and pause those that hold what others lack."""
        parts = list(self._parts(managed, observation))
        for part in parts:
            text = part.text(observation.jobs.values())
            if part.state is not None:
                part.state.block(BlockReason.NO_NODES, text)
            if part.refused_by is not None or part.state is not None:
                self._events.emit_once(part.job, JobEvent("PodsNotCreated", text))
        parts.sort(key=lambda part: (part.job.namespace, _order(part.job, part.state)))
        refused = [part for part in parts if part.refused_by is not None]
        self._refused_at |= {part.job.uid: observation.at for part in refused}
        for uid in self._refused_at.keys() - observation.jobs.keys():
            del self._refused_at[uid]
        if not may_begin:
            return
        for _, line in groupby(refused, key=lambda part: part.job.namespace):
            self._help_first(list(line), observation.at)
        self._retry(parts, managed, observation.at)

    def _parts(self, managed: ManagedJobs, observation: Observation) -> Iterable[_PartialGang]:
        """The gangs that have lacked the same pods for a while."""
        quotas: dict[str, list[Quota]] = {}
        for quota in observation.snapshot.quotas:
            for uid in quota.charges:
                quotas.setdefault(uid, []).append(quota)
        before, self._pods = self._pods, {}
        for uid in dict.fromkeys([*managed.states, *quotas]):
            part = _part(uid, managed.states.get(uid), observation)
            if part is None:
                continue
            part.quotas = quotas.get(uid, [])
            known = before.get(uid)
            is_same = known is not None and known[0] == part.staying
            since = known[1] if known is not None and is_same else observation.at
            self._pods[uid] = part.staying, since
            if observation.at - since >= _SETTLED_SECONDS:
                yield part

    def _help_first(self, line: Sequence[_PartialGang], at: float) -> None:
        """Pause others of one namespace for the first that a quota can hold."""
        possible = [part for part in line if part.can_ever_fit]
        if not possible:
            return
        first, *behind = possible
        others = [part for part in line if not part.can_ever_fit] + behind[::-1]
        others = [part for part in others if part.staying]

        def fits(given: Sequence[_PartialGang]) -> bool:
            """Once these have given theirs back, and leaving pods are gone."""
            uids = {part.job.uid for part in given}
            for quota in first.quotas:
                kept = (each.held for uid, each in quota.charges.items() if uid not in uids)
                if not _is_within(first.missing(quota), quota.room - total(kept), quota):
                    return False
            return True

        victims = choose_victims([part for part in others if part.may_be_paused], fits)
        if victims:
            for victim in victims:
                _pause(victim, first, at)
        elif not fits(()):
            for part in choose_victims(others, fits):
                if not part.may_be_paused:
                    self._events.emit_once(part.job, _holds_quota(part.job, first.job))

    def _retry(self, parts: Sequence[_PartialGang], managed: ManagedJobs, at: float) -> None:
        """Have the operator create the pods for which a quota has room again: it sees at once that
        a job is resumed, and nothing of a gang that was never whole is lost."""
        # What a gang gives back, to be created anew as a whole, is not for those behind it.
        tried = {state.job.key.namespace for state in managed if state.rescale is not None}
        for part in parts:
            uid, state, namespace = part.job.uid, part.state, part.job.namespace
            if part.refused_by is not None or uid not in self._refused_at or namespace in tried:
                continue
            tried.add(namespace)
            is_due = at - self._refused_at[uid] >= _SETTLED_SECONDS and part.may_be_paused
            if is_due and state is not None and not state.record.gang_uids:
                del self._refused_at[uid]
                purpose, why = RescalePurpose.TAKE_BACK, "its quota has room for its missing pods"
                state.begin(purpose.id_of(f"{at:.0f}"), at, state.job.counts, why, purpose)


def _is_stopped(job: TrainingJob) -> bool:
    """Return whether a job is suspended by its user, or paused."""
    mark = job.suspension
    return job.suspended and (mark is None or mark.pause is not None)


def quota_refusal(uid: str, observation: Observation) -> str:
    """Return which quota has no room for the pods that a job without a profile lacks; empty where
    none refuses them."""
    part = _part(uid, None, observation)
    if part is not None:
        part.quotas = [each for each in observation.snapshot.quotas if uid in each.charges]
    refused = part is not None and part.refused_by is not None
    return part.text(observation.jobs.values()) if part is not None and refused else ""


def _part(uid: str, state: TrackedJob | None, observation: Observation) -> _PartialGang | None:
    """A gang of which pods are missing; ``None`` where none is, or it is being moved or ends."""
    job = observation.jobs.get(uid)
    if job is None or job.active is None or job.suspended or job.shape is not None:
        return None
    if state is not None and (state.rescale is not None or state.gang.is_ending):
        return None
    size = sum(job.active.counts) + sum(role.count for role in job.active.fixed)
    if state is not None and not state.gang.missing:
        return None
    pods = observation.pods.get(uid, ())
    staying = sum(not pod.leaving for pod in pods)
    if staying >= size or any(pod.finished for pod in pods):
        return None
    return _PartialGang(job, state, staying, size)


def _pause(victim: _PartialGang, first: _PartialGang, at: float) -> None:
    refused, state = first.refused_by, victim.state
    assert refused is not None
    assert state is not None
    preemption = Preemption(str(first.job.key), first.job.uid, at, by_quota=True)
    why = (
        f"paused for {first.job.key}, which came first and lacks what this job holds of"
        f" {refused[0].label}; it is resumed by itself once there is room for all of it"
    )
    purpose, pause = RescalePurpose.PREEMPTION, PauseReason.GANG
    state.begin(preemption.text, at, NO_COUNTS, why, purpose, pause)


def _holds_quota(job: TrainingJob, first: TrainingJob) -> JobEvent:
    """A warning on a job that holds what an earlier gang lacks, and may not be paused."""
    message = (
        f"it holds a part of a quota that job {first.name} lacks, which came first, and neither"
        f" can start: suspend it until {first.name} runs ({job.suspend_line}), or raise the"
        " quota. A job with a goal (optimus.dl/target) is paused and resumed by itself"
    )
    return JobEvent("HoldsQuota", message)
