"""Replaces workers that are far slower than the others of their job (Optimus, section 5.2).

1. All workers of jobs with three or more are read in rotation; their speeds are compared.
2. Where one is a straggler, and nothing speaks against it, the job is restarted at its counts: a
   rescale like any other, after a checkpoint and within the disruption budget. Deleting the one pod
   would fail the job.
3. The extender avoids the straggler's node for the job for a day, while the job fits on others.

Whatever is found is said in the profile and in an Event, with what is done or why nothing is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.cluster import Observation
from autoscaler.decide import CapacityFn
from autoscaler.jobs.managed import Guard
from autoscaler.jobs.state import BlockReason, TrackedJob
from autoscaler.logs.rotation import WorkerRotation
from autoscaler.metrics import Metrics
from autoscaler.profile.events import EventRecorder, JobEvent
from optimus.interval import IntervalConfig
from optimus.interval.classify import why_moved_enough
from optimus.jobs import RescaleRule, TrainingMode
from optimus.kube.pods import Pod
from optimus.lifecycle import Avoided
from optimus.models.forecast import Forecast
from optimus.progress.stragglers import Straggler, StragglerConfig, find_stragglers
from optimus.rescale.purpose import RescalePurpose

_DAY_SECONDS: Final = 86_400.0
_MOST_AVOIDED: Final = 8
"""The number that the profile's schema allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementConfig:
    """When a straggler is replaced."""

    detection: StragglerConfig = field(default_factory=StragglerConfig)
    interval: IntervalConfig = field(default_factory=IntervalConfig)

    per_day: int = 2
    """Restarts of a job for stragglers within 24 h. Default: a second if the first did not help."""

    avoid_seconds: float = _DAY_SECONDS
    """How long the node is avoided. Default: long enough for a repair within a working day."""


@dataclass(slots=True)
class _JobStragglers:
    """The stragglers of one job."""

    stragglers: tuple[Straggler, ...]
    considered_at: float = float("-inf")
    said: tuple[Collection[tuple[int, str]], str] | None = None
    """Which workers and why nothing is done: what is said is not changed for figures alone."""

    @property
    def places(self) -> list[tuple[int, str]]:
        """Return which workers, and where."""
        return [(each.index, each.node) for each in self.stragglers]


class StragglerReplacer:
    """Compares the workers of jobs, and begins replacements."""

    def __init__(
        self,
        rotation: WorkerRotation,
        events: EventRecorder,
        metrics: Metrics,
        config: ReplacementConfig,
        guard: Guard,
        free_capacity: CapacityFn,
    ) -> None:
        self._rotation, self._events, self._metrics = rotation, events, metrics
        self._config, self._guard, self._free_capacity = config, guard, free_capacity
        self._found: dict[str, _JobStragglers] = {}

    def step(
        self,
        managed: Mapping[str, TrackedJob],
        observation: Observation,
        now: float,
        *,
        may_begin: bool,
    ) -> None:
        """Read on, compare, and begin what is to be done."""
        least = self._config.detection.least_workers
        jobs = {
            uid: state.log.options
            for uid, state in managed.items()
            if state.job.counts.workers >= least
            and state.gang.run is not None
            and not state.rescale
        }

        def pods_of(job_uid: str) -> Sequence[Pod]:
            return observation.pods.get(job_uid, ())

        complete = self._rotation.step(jobs, pods_of, now)
        self._found = {uid: each for uid, each in self._found.items() if uid in jobs}
        for uid in complete:
            with self._guard("stragglers", managed[uid]):
                self._compare(uid, pods_of(uid), observation.node_kinds)
        for uid, state in managed.items():
            if uid not in self._found and not state.rescale:
                state.block(BlockReason.STRAGGLER, "")
        if may_begin:
            for uid, found in self._found.items():
                with self._guard("stragglers", managed[uid]):
                    self._consider(managed, managed[uid], found, observation)
        self._metrics.stragglers.set(sum(len(each.stragglers) for each in self._found.values()))

    def _compare(self, uid: str, pods: Sequence[Pod], node_kinds: Mapping[str, str]) -> None:
        workers = self._rotation.compared(uid, pods, node_kinds)
        stragglers = find_stragglers(workers, self._config.detection)
        if not stragglers:
            self._found.pop(uid, None)
        elif uid in self._found:
            self._found[uid].stragglers = stragglers
        else:
            self._found[uid] = _JobStragglers(stragglers)

    def _consider(
        self,
        managed: Mapping[str, TrackedJob],
        state: TrackedJob,
        found: _JobStragglers,
        observation: Observation,
    ) -> None:
        """Begin a replacement, or say why not; at most once in a window."""
        now = observation.at
        if now - found.considered_at < self._config.detection.window_seconds:
            return
        found.considered_at = now
        why_not = self._why_not(managed, state, found, observation)
        if (found.places, why_not) != found.said:
            found.said = found.places, why_not
            what = "; ".join(map(str, found.stragglers))
            then = (
                f"nothing is done: {why_not}" if why_not else "the job is restarted on other nodes"
            )
            state.block(BlockReason.STRAGGLER, f"{what}; {then}")
            event = JobEvent("StragglerFound", f"{what}; {then}")
            self._events.emit_once(state.training_job, event)
        if not why_not:
            self._begin(state, found.stragglers, now)

    def _begin(self, state: TrackedJob, stragglers: Sequence[Straggler], now: float) -> None:
        until = now + self._config.avoid_seconds
        new = {each.node: Avoided(each.node, until) for each in stragglers}
        kept = (each for each in _avoided(state, now) if each.node not in new)
        avoided = (*kept, *new.values())[-_MOST_AVOIDED:]
        state.record = replace(state.record, avoided=avoided)
        why = "; ".join(map(str, stragglers))
        purpose = RescalePurpose.STRAGGLER
        state.begin(purpose.id_of(f"{now:.0f}"), now, state.job.counts, why, purpose)

    def _why_not(
        self,
        managed: Mapping[str, TrackedJob],
        state: TrackedJob,
        found: _JobStragglers,
        observation: Observation,
    ) -> str:
        """Return why a job is not restarted, without figures; empty where it is to be."""
        why = state.held or _why_not_now(state, observation.at)
        why = why or self._why_too_often(state, observation.at)
        why = why or self._why_not_worth_it(state, found.stragglers)
        return why or self._why_no_room(managed, state, found, observation)

    def _why_too_often(self, state: TrackedJob, now: float) -> str:
        config, history = self._config.interval, state.history(now)
        recent = [at for at in state.record.replacements if now - at < _DAY_SECONDS]
        if len(recent) >= self._config.per_day:
            return f"it was restarted for stragglers {len(recent)} times within 24 h"
        last = history.last_rescaled_at
        if last is not None and now - last < config.cooldown_seconds:
            return f"cooldown: rescaled within the last {config.cooldown_seconds:.0f} s"
        if why_moved_enough(history, now, config) is not None:
            return f"rescaled {config.moves_per_hour} times within an hour"
        return ""

    def _why_not_worth_it(self, state: TrackedJob, stragglers: Sequence[Straggler]) -> str:
        forecast = state.forecasts.current
        if not isinstance(forecast, Forecast):
            return ""
        if forecast.goal_met:
            return "its goal is met"
        price_seconds = self._config.interval.price_seconds(state.history(0.0))
        saved_seconds = forecast.at(state.job.counts) * lost_share(state, stragglers)
        return "" if saved_seconds > price_seconds else "a restart costs more time than it saves"

    def _why_no_room(
        self,
        managed: Mapping[str, TrackedJob],
        state: TrackedJob,
        found: _JobStragglers,
        observation: Observation,
    ) -> str:
        """Return why the job would come back to the nodes that it is to avoid."""
        slow = {each.node for each in found.stragglers}
        avoided = slow | {each.node for each in _avoided(state, observation.at)}
        snapshot = observation.snapshot
        others = replace(
            snapshot,
            nodes=tuple(node for node in snapshot.nodes if node.name not in avoided),
            pods=tuple(pod for pod in snapshot.pods if pod.node not in avoided),
        )
        room = self._free_capacity(managed, replace(observation, snapshot=others))
        if room.fits(state.job, state.job.counts):
            return ""
        return f"it does not fit without {', '.join(sorted(avoided))}"


def lost_share(state: TrackedJob, stragglers: Sequence[Straggler]) -> float:
    """The part of the job's remaining time that its stragglers cost: synchronous workers all wait
    for the slowest, at most for as long as it computes longer; of asynchronous ones each makes its
    own steps."""
    if state.job.mode is TrainingMode.SYNC:
        return 1 - min(each.fraction for each in stragglers)
    return sum(1 - each.fraction for each in stragglers) / state.job.counts.workers


def _why_not_now(state: TrackedJob, now: float) -> str:
    """Return why the job is not to be stopped now, whatever it would bring."""
    if state.job.rescale is RescaleRule.NEVER:
        return "optimus.dl/rescale is never"
    if state.gang.is_ending or state.completion_requested_at is not None:
        return "the job is about to end"
    if state.gang.half_bound_since is not None:
        return "some of its pods have no node"
    if state.record.profiling_since is not None:
        return "its speed is being measured"
    if state.awaits_checkpoint(now):
        return "it waits for a checkpoint"
    return ""


def _avoided(state: TrackedJob, now: float) -> list[Avoided]:
    """The nodes that are avoided now."""
    return [each for each in state.record.avoided if each.until > now]
