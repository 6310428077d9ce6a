"""The managed jobs, as they come and go."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from autoscaler.job_state import JobState
from autoscaler.observation import Observation
from autoscaler.rescale.machine import ObservedJob, adopt
from optimus.allocation.placement_failures import kept
from optimus.kube.contract import Phase
from optimus.kube.profiles import TrainingProfile
from optimus.kube.training_jobs import TrainingJob
from optimus.nodes import Node

_LOG = logging.getLogger(__name__)

Guard = Callable[[str, JobState | None], AbstractContextManager[None]]
"""Keeps a fault that concerns one job from everything else."""


class ManagedJobs:
    """The state of every managed job, by UID."""

    def __init__(self, guard: Guard, *, dry_run: bool) -> None:
        self._guard = guard
        self._dry_run = dry_run
        self.states: dict[str, JobState] = {}
        self._nodes: tuple[Node, ...] | None = None

    def __iter__(self) -> Iterator[JobState]:
        return iter(list(self.states.values()))

    def look(self, observation: Observation) -> list[JobState]:
        """Take in what is there now; returns the jobs that have ended or are managed no longer, to
        be reported last."""
        for uid in self.states.keys() - observation.jobs.keys():
            _LOG.info("job %s is gone", self.states.pop(uid).job.key)
        for seen in observation.jobs.values():
            if seen.uid not in self.states and _concerns_us(
                seen, observation.profiles.get(seen.uid)
            ):
                with self._guard("look", None):
                    self._add(seen, observation)
        nodes_changed = self._nodes not in (None, observation.snapshot.nodes)
        self._nodes = observation.snapshot.nodes
        for state in self:
            with self._guard("look", state):
                state.look(observation)
            if nodes_changed:
                state.record = replace(
                    state.record, setbacks=kept(state.record.setbacks, observation.at, lifted=True)
                )
            self._adopt(state, observation.at)
        leaving = [state for state in self if not _is_managed(state.seen) and state.rescale is None]
        for state in leaving:
            del self.states[state.job.uid]
        return leaving

    def _add(self, seen: TrainingJob, observation: Observation) -> None:
        assert seen.job is not None
        state = JobState.first_seen(
            seen, seen.job, observation.profiles.get(seen.uid), observation.at
        )
        self.states[seen.uid] = state
        known = "new" if state.profile is None else "known from its profile"
        _LOG.info("job %s is looked after (%s), at %s", seen.key, known, seen.job.counts)

    def _adopt(self, state: JobState, at: float) -> None:
        if self._dry_run or state.rescale is not None or state.seen.active is None:
            return
        if state.record.suspended_at_target and state.seen.suspended:
            # for good; once its user has resumed it, the mark must not make the next suspension
            # look like ours
            return
        state.rescale = adopt(ObservedJob.of(state.seen), at)
        if state.rescale is not None:
            _LOG.warning(
                "job %s was suspended by this software and nothing is recorded of it", state.job.key
            )


def _concerns_us(seen: TrainingJob, profile: TrainingProfile | None) -> bool:
    """Whether a job is managed, or something that an earlier process began with it is still to be
    ended."""
    if _is_managed(seen):
        return True
    if profile is None or seen.job is None or seen.deleted:
        return False
    if seen.outcome is not None:
        return profile.status.phase not in _LAST_PHASES
    return seen.suspended_by is not None and profile.status.rescale is not None


_LAST_PHASES = (Phase.COMPLETED, Phase.FAILED, Phase.LEFT_ALONE)


def _is_managed(seen: TrainingJob) -> bool:
    return seen.active is not None and seen.active.managed
