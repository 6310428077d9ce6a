"""Pauses whole gangs of a lower priority for a gang that does not fit, until it has its nodes.

At every tick:
1. A preemption is over once its gang is placed or gone, or its time is: ``ManagedJobs`` then
   resumes the jobs that were paused for it.
2. For the gang that is being helped, else for the first in the queue that lacks capacity, jobs are
   paused, the youngest of the lowest priority first, until the placement rule says that it fits.
   Where it fits nowhere nobody is paused.
The mark on a paused job, and the record in the profile of one that is about to be, say for which
gang and since when, so that any leader goes on with it.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from autoscaler.cluster import Observation
from autoscaler.decide import CapacityFn
from autoscaler.jobs.managed import ManagedJobs
from autoscaler.metrics import Metrics
from autoscaler.profile.events import EventRecorder, JobEvent
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.victims import choose_victims
from optimus.jobs import NO_COUNTS, Job
from optimus.kube.pods import Pod
from optimus.kube.suspension import Preemption
from optimus.kube.training_jobs import TrainingJob
from optimus.placement.gang import Gang, Placement
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason

_LOG = logging.getLogger(__name__)

BACK_OFF_SECONDS: Final = 600.0
"""Back-off of a gang after a preemption that did not help."""

_LOOK_AGAIN_SECONDS: Final = 10.0
"""A gang that fits, or for which no jobs were found, is considered again after this time, and those
behind it before that."""

_MOST_AHEAD_SECONDS: Final = 60.0
"""How far another process's clock may be ahead."""

_MOST_MISFITS: Final = 3
"""Misfits in a row, on what the paused jobs leave, after which a preemption is given up."""


class PreemptionConfig(NamedTuple):
    """For whose gangs jobs are paused, and how long that may take."""

    scheduler_name: str
    seconds: float = 300.0
    """How long a gang has to get its nodes once jobs are paused for it."""


class _WaitingGang(NamedTuple):
    """A job of which some pod has no node, with all its pods."""

    job: Job
    pods: Sequence[Pod]

    @property
    def priority(self) -> int:
        return min(pod.priority for pod in self.pods)

    @property
    def since(self) -> float:
        return max(pod.created_at for pod in self.pods)


class GangPreemption:
    """Called once in each tick: ``observe`` before the managed jobs are updated, then ``step``."""

    def __init__(
        self,
        config: PreemptionConfig,
        events: EventRecorder,
        metrics: Metrics,
        free_capacity: CapacityFn,
    ) -> None:
        self._config, self._free_capacity = config, free_capacity
        self._events, self._metrics = events, metrics
        self._observation: Observation | None = None
        self._begun: Preemption | None = None
        self._has_chosen = False
        """Whether this process has chosen the jobs; the leader before it may have ended first."""
        self._misfits, self._given_up_at = 0, float("-inf")
        self._left_until: dict[str, float] = {}
        """Until when a gang is not considered, by the UID of its job."""

    def goes_on(self, preemption: Preemption) -> bool:
        """Return whether jobs are still to be paused for a gang, at the last observation."""
        observation = self._observation
        if observation is None:
            return False
        age_seconds = observation.at - preemption.at
        is_young = -_MOST_AHEAD_SECONDS <= age_seconds < self._config.seconds
        is_given_up = preemption.at <= self._given_up_at
        return is_young and not is_given_up and _outcome(observation, preemption.uid) == "failed"

    def observe(self, observation: Observation) -> None:
        """Take in an observation: a preemption whose gang has its nodes, or is gone, is over."""
        self._observation = observation
        for uid in self._left_until.keys() - observation.jobs.keys():
            del self._left_until[uid]
        begun = self._begun
        if begun is None or self.goes_on(begun):
            return
        self._begun, self._has_chosen, self._misfits = None, False, 0
        self._given_up_at, outcome = max(observation.at, begun.at), _outcome(observation, begun.uid)
        self._metrics.preemptions.labels(outcome).inc()
        _LOG.info("preemption for job %s is over: %s", begun.job, outcome)
        if outcome == "failed":
            self._left_until[begun.uid] = observation.at + BACK_OFF_SECONDS
            message = (
                "jobs of a lower priority were paused for it, but its pods have not been placed: "
                f"they are resumed; tried again after {BACK_OFF_SECONDS:.0f} s"
            )
            event = JobEvent("PreemptionFailed", message)
            self._events.emit(observation.jobs[begun.uid], event)

    def step(self, managed: ManagedJobs, observation: Observation, *, may_begin: bool) -> None:
        """Help one gang."""
        found = (state.preemption for state in managed)
        of_gangs = (each for each in found if each is not None and not each.by_quota)
        self._begun = self._begun or next(filter(self.goes_on, of_gangs), None)
        waiting, at = self._waiting(managed, observation), observation.at
        if self._begun is not None:
            waiting = [each for each in waiting if each.job.uid == self._begun.uid]
        else:
            ends = self._left_until
            waiting = [each for each in waiting if may_begin and at >= ends.get(each.job.uid, at)]
        if waiting:
            self._help(waiting[0], managed, observation)

    def _help(self, waiting: _WaitingGang, managed: ManagedJobs, observation: Observation) -> None:
        """Pause jobs for one gang where it does not fit."""
        plan, uid = self._free_capacity(managed.states, observation), waiting.job.uid
        capacity, later_at = plan.capacity, observation.at + _LOOK_AGAIN_SECONDS
        nodes = {pod.replica: pod.node for pod in waiting.pods if pod.node is not None}
        gang = Gang.of(waiting.job)
        members = (replace(each, node=nodes.get(gang.replica(each))) for each in gang.members)
        gang = replace(gang, members=tuple(members))
        others = (pod for of, pods in observation.pods.items() if of != uid for pod in pods)
        for pod in others:  # those that the extender has planned are about to take their nodes
            node = None if pod.leaving or pod.node else pod.nominated_node
            if node in capacity.row_of:
                plan.take(node, pod.resources)
        _give(plan, _leaving(managed, observation, uid))

        def fits(given: Sequence[TrainingJob]) -> bool:
            mark = capacity.mark()
            for each in given:
                _give(plan, observation.pods[each.uid])
            answer = plan.rule.place(gang, capacity)
            capacity.undo_to(mark)
            return isinstance(answer, Placement)

        if fits(()):
            self._misfits, self._left_until[uid] = 0, later_at
            return
        victims = []
        if not self._has_chosen:
            victims = choose_victims(self._candidates(waiting.priority, managed, observation), fits)
        if victims:
            self._pause(waiting, victims, managed, observation)
        elif self._begun is None:
            self._left_until[uid] = later_at
        else:
            self._misfits += 1
            if self._misfits == _MOST_MISFITS:
                self._given_up_at = max(observation.at, self._begun.at)

    def _pause(
        self,
        waiting: _WaitingGang,
        victims: Iterable[TrainingJob],
        managed: ManagedJobs,
        observation: Observation,
    ) -> None:
        job, at = waiting.job, observation.at
        self._begun = self._begun or Preemption(str(job.key), job.uid, at)
        self._has_chosen = True
        why = (
            f"paused to make room for {job.key}, of priority {waiting.priority}; it is resumed by"
            f" itself once that job has its nodes, or after {self._config.seconds:.0f} s, and"
            " continues when there is capacity"
        )
        names = []
        for victim in victims:
            state = managed.take_up(victim, observation)
            purpose, pause = RescalePurpose.PREEMPTION, PauseReason.GANG
            state.begin(self._begun.text, at, NO_COUNTS, why, purpose, pause)
            self._metrics.preempted.inc()
            names.append(f"{victim.key} (priority {_highest(observation, victim)})")
        unplaced = sum(pod.node is None for pod in waiting.pods)
        message = (
            f"preempts {', '.join(names)} for its {unplaced} pods, which do not fit beside them at"
            f" priority {waiting.priority}"
        )
        self._events.emit(observation.jobs[job.uid], JobEvent("Preempting", message))

    def _waiting(self, managed: ManagedJobs, observation: Observation) -> list[_WaitingGang]:
        """The refused gangs that may preempt: the highest priority first, then the oldest."""
        found = (
            _WaitingGang(job, _staying(observation, job.uid))
            for job in observation.snapshot.jobs
            if not job.suspended and not _is_moving(managed, job.uid)
        )
        may_preempt = filter(self._may_preempt, found)
        return sorted(may_preempt, key=lambda each: (-each.priority, each.since, each.job.uid))

    def _may_preempt(self, waiting: _WaitingGang) -> bool:
        """Return whether a whole gang may lack capacity alone, and its pods may preempt."""
        pods, gang = waiting.pods, Gang.of(waiting.job)
        if all(pod.node is not None or pod.finished for pod in pods):
            return False
        is_whole = {gang.replica(each) for each in gang.members} <= {pod.replica for pod in pods}
        return is_whole and all(
            pod.may_preempt
            and pod.scheduler_name == self._config.scheduler_name
            and (pod.node is not None or (pod.refused and not pod.gates))
            for pod in pods
        )

    def _candidates(
        self, priority: int, managed: ManagedJobs, observation: Observation
    ) -> list[TrainingJob]:
        """The gangs below a priority that may be paused: the youngest of the lowest first."""
        found = []
        for uid, job in observation.jobs.items():
            pods = [pod for pod in observation.pods.get(uid, ()) if not pod.finished]
            if (
                any(pod.bound() for pod in pods)
                and _highest(observation, job) < priority
                and job.active is not None
                and not (job.suspended or job.suspended_by or job.not_suspendable)
                and not _is_moving(managed, uid)
                and not any(pod.leaving or (pod.nominated_node and not pod.node) for pod in pods)
                and all(pod.scheduler_name == self._config.scheduler_name for pod in pods)
            ):
                youngest = max(pod.created_at for pod in pods)
                found.append(((_highest(observation, job), -youngest, uid), job))
        return [job for _, job in sorted(found, key=lambda each: each[0])]


def _outcome(observation: Observation, uid: str) -> str:
    """Return what a preemption for a gang has come to if it ends now."""
    job, pods = observation.jobs.get(uid), _staying(observation, uid)
    if job is None or job.active is None or job.suspended or not pods:
        return "gone"
    waits = any(pod.node is None and not pod.finished for pod in pods)
    return "failed" if waits else "placed"


def _staying(observation: Observation, uid: str) -> Sequence[Pod]:
    return [pod for pod in observation.pods.get(uid, ()) if not pod.leaving]


def _highest(observation: Observation, job: TrainingJob) -> int:
    return max(pod.priority for pod in observation.pods[job.uid])


def _is_moving(managed: ManagedJobs, uid: str) -> bool:
    state = managed.states.get(uid)
    return state is not None and state.rescale is not None


def _leaving(managed: ManagedJobs, observation: Observation, gang_uid: str) -> Iterator[Pod]:
    """The pods that are being deleted, or are those of jobs paused for this gang.

    What the pods of another job that is rescaled or paused leave is kept for others."""

    def leaves(pod: Pod, uid: str) -> bool:
        state = managed.states.get(uid)
        preemption = None if state is None else state.preemption
        if preemption is not None:
            return preemption.uid == gang_uid
        return pod.leaving and pod.replica is not None and not _is_moving(managed, uid)

    pods = observation.pods.items()
    return (pod for uid, of_job in pods for pod in of_job if leaves(pod, uid))


def _give(plan: CapacityPlan, pods: Iterable[Pod]) -> None:
    """Give back what these pods take of nodes now."""
    capacity = plan.capacity
    for bound in filter(None, (pod.bound() for pod in pods)):
        row, vector = capacity.row_of.get(bound.node), capacity.vector(bound.resources)
        if row is not None and vector is not None:
            capacity.give_back(row, vector)
