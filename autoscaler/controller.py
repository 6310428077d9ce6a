"""The autoscaler's loop: observe, read logs, advance rescales, decide, report; every two seconds.

One turn of the loop is a tick; it works on one frozen observation of the cluster. An exception in
the work for one job is logged and counted; it costs that job one tick and affects no other.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol

from autoscaler.cluster import Observation
from autoscaler.completion import CompletionRequester, PodAnnotator
from autoscaler.decide import ClusterMemory, Decider, DecisionConfig
from autoscaler.executor import LastReads, Reader, RescaleAccess, Rescales, Writer
from autoscaler.jobs.managed import Holds, ManagedJobs
from autoscaler.jobs.state import BlockReason, JobLimits, TrackedJob, begin_order
from autoscaler.logs.last_words import LastWords
from autoscaler.logs.poller import LogPoller
from autoscaler.logs.rotation import WorkerRotation
from autoscaler.metrics import Metrics
from autoscaler.preemption import GangPreemption, PreemptionConfig
from autoscaler.profile.events import EventRecorder, Events, JobEvent
from autoscaler.profile.status import phase_of
from autoscaler.profile.workloads import WorkloadRecorder, Workloads
from autoscaler.profile.writer import ProfileRecorder, Profiles
from autoscaler.quota_deadlocks import QuotaDeadlocks
from autoscaler.stragglers import ReplacementConfig, StragglerReplacer
from optimus.interval import IntervalPlan
from optimus.jobs import AtTarget, RescaleRule, alternating
from optimus.kube.contract import Phase
from optimus.kube.stored_settings import ClusterSettings
from optimus.kube.suspension import Preemption
from optimus.rescale.disruption import UNLIMITED, DisruptionBudget, DisruptionLimits, StoppedTime
from optimus.rescale.machine import RescaleConfig
from optimus.rescale.purpose import RescalePurpose

_LOG = logging.getLogger(__name__)
_MOST_SLEW: Final = 0.1


class Clock:
    """The time of day, seconds since the epoch, UTC, without jumps; ``timer`` is monotonic.

    Where the wall clock is set, this clock approaches it at most a tenth faster or slower than time
    passes: waits keep their length, and stored times become right again.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self.timer = timer
        self._now, self._timed_at = wall(), timer()

    def now(self) -> float:
        """The time of day."""
        timed_at = self.timer()
        passed_seconds, self._timed_at = timed_at - self._timed_at, timed_at
        self._now += passed_seconds
        most = _MOST_SLEW * passed_seconds
        self._now += min(max(self._wall() - self._now, -most), most)
        return self._now


class Observer(Protocol):
    """Observes the cluster; ``autoscaler.cluster.Caches`` does."""

    def observe(self, at: float) -> Observation:
        """The cluster as it is known now."""


class Page(Protocol):
    """Shows the cluster to people; ``autoscaler.web.feed.PageFeed`` does."""

    def publish(self, managed: Iterable[TrackedJob], observation: Observation, at: float) -> None:
        """Take a copy of what is known at the end of a tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Periods and limits of the loop, in seconds."""

    tick_seconds: float = 2.0
    half_bound_seconds: float = 600.0
    """A gang of which only a part has nodes for so long is suspended and resumed as a whole."""
    limits: JobLimits = field(default_factory=JobLimits)
    """Limits of each job."""
    disruption: DisruptionLimits = UNLIMITED
    """How many jobs may be stopped at once."""
    holds: Holds = field(default_factory=Holds)
    """When and of which jobs nothing may begin."""
    cache_age_limit_seconds: float = 120.0
    """Nothing begins while some cache has heard nothing for longer."""
    rescale_seconds: float = 5.0
    """How long one tick advances rescales; the others come first in the next."""
    log_seconds: float = 0.25
    """How long one tick waits for logs. On a small cluster all are read by then; on a large one the
    readers go on between the ticks."""


class ClusterAccess(NamedTuple):
    """All reads and writes of a cluster."""

    observer: Observer
    reader: Reader
    jobs: Writer
    profiles: Profiles
    events: Events
    pods: PodAnnotator
    workloads: Workloads
    memory: ClusterMemory | None = None
    """``None``: what a policy remembers of the whole cluster is not stored, and the extender is not
    told of kinds of nodes."""


class ControllerConfig(NamedTuple):
    """The settings by which a controller decides and acts."""

    decisions: DecisionConfig
    rescales: RescaleConfig
    timing: Timing
    settings: ClusterSettings
    """Stored with each job, for the command line's answers."""

    report_seconds: float
    """The least seconds between two writes of a profile that shows nothing urgent."""

    preemption: PreemptionConfig | None = None
    """``None``: no job is paused for a gang, and those that are paused for one are resumed."""

    replacement: ReplacementConfig | None = None
    """``None``: workers are not compared."""


@dataclass(frozen=True, slots=True)
class Process:
    """The rest that a controller has around it."""

    metrics: Metrics
    clock: Clock
    logs: LogPoller
    rotation: WorkerRotation
    last_words: LastWords
    last_reads: LastReads
    page: Page | None = None
    """``None``: there is no page."""

    instance: str = ""
    dry_run: bool = False


class Controller:
    """Runs the loop; ``tick`` is one turn of it, for tests and one-shot runs."""

    def __init__(self, access: ClusterAccess, config: ControllerConfig, process: Process) -> None:
        metrics, timing, timer = process.metrics, config.timing, process.clock.timer
        instance, dry_run, rotation = process.instance, process.dry_run, process.rotation
        self._observer, self._metrics, self._page = access.observer, metrics, process.page
        self._clock, self._timing, self._dry_run = process.clock, timing, dry_run
        self._logs, self._last_words = process.logs, process.last_words
        self._events = events = EventRecorder(access.events, metrics, timer)
        self._recorder = recorder = ProfileRecorder(
            access.profiles,
            events,
            spacing_seconds=config.report_seconds,
            instance=instance,
            settings=config.settings,
            timer=timer,
        )
        self._decider = Decider(
            config.decisions, metrics, dry_run=dry_run, memory=access.memory, instance=instance
        )
        parts = RescaleAccess(access.reader, access.jobs, recorder, events, process.last_reads)
        self._rescales = Rescales(parts, config.rescales)
        self._workloads = WorkloadRecorder(
            access.workloads, metrics, instance=instance, timer=timer
        )
        self._completion = CompletionRequester(access.pods, events)
        replacement, preemption = config.replacement, config.preemption
        self._stragglers = (
            None
            if replacement is None
            else StragglerReplacer(
                rotation, events, metrics, replacement, self._guard, self._decider.free_capacity
            )
        )
        self._preemption = preemption and GangPreemption(
            preemption, events, metrics, self._decider.free_capacity
        )
        self._quota_deadlocks = QuotaDeadlocks(events)
        self.managed = ManagedJobs(
            self._guard,
            dry_run=dry_run,
            limits=timing.limits,
            holds=timing.holds,
            preempts=self._pause_goes_on,
            instance=instance,
        )
        self.last_tick_at: float | None = None
        self._observation: Observation | None = None
        self._silent_since: float | None = None
        self._phases: Counter[Phase] | None = None
        self._not_reached: frozenset[str] = frozenset()
        self._stopped_time = StoppedTime()

    def run(
        self, stopping: Callable[[float], bool], may_act: Callable[[], bool] = lambda: True
    ) -> None:
        """Tick until ``stopping``, which waits for the given seconds, returns true; not while this
        process may not act."""
        self._alive()  # from here on: a loop whose ticks all fail must count as stuck
        while not stopping(self._timing.tick_seconds):
            if not may_act():
                self._alive()
                continue
            with self._guard("tick"), self._metrics.tick_seconds.time():
                self.tick()

    def tick(
        self, *, decides: bool = True, log_seconds: float | None = None
    ) -> IntervalPlan | None:
        """One turn; returns the plan where an interval was due. One that does not ``decide`` only
        continues what was decided. ``log_seconds``: how long it waits for logs, if not as usual."""
        now = self._clock.now()
        # 1. Observe the cluster and the logs.
        observation = self._observer.observe(now)
        leaving = self._take_in(observation)
        self._read_logs(now, self._timing.log_seconds if log_seconds is None else log_seconds)
        is_current = self._is_current(observation, now)
        # 2. Act: begin what no interval decides, and take every rescale as far as it goes now.
        if not self._dry_run:
            self._replace_stragglers(observation, now, may_begin=is_current)
            if is_current:
                self._pause_for_others(observation)
            self._advance_rescales(observation, now, may_begin=is_current)
        # 3. Decide.
        plan = None
        with self._guard("decisions"):
            if is_current:
                managed, timer = self.managed.states, self._clock.timer()
                plan = self._decider.step(
                    managed, observation, timer, decides=decides, alive=self._alive
                )
        # 4. Tell.
        if not self._dry_run:
            self._request_completion(observation, now)
            self._report([*leaving, *self.managed], observation, now)
        if self._page is not None:
            with self._guard("page"):
                self._page.publish(self.managed, observation, now)
        self._alive()
        return plan

    def _take_in(self, observation: Observation) -> list[TrackedJob]:
        """Take in an observation; returns the jobs that are to be reported a last time."""
        self._observation = observation
        with self._guard("preemption"):
            if self._preemption is not None:
                self._preemption.observe(observation)
        return self.managed.update(observation)

    def _alive(self) -> None:
        self.last_tick_at = time.monotonic()

    @property
    def is_busy(self) -> bool:
        """Return whether a rescale is in progress."""
        return any(state.rescale is not None for state in self.managed)

    @property
    def awaits_capacity(self) -> bool:
        """Return whether a decided rescale has not begun, since its capacity is not free yet."""
        return self._decider.has_pending

    def _read_logs(self, now: float, timeout_seconds: float) -> None:
        """Take in what was read since the last tick; the readers go on meanwhile."""
        managed = list(self.managed)
        with self._guard("logs"):
            running = [(state, state.gang.run) for state in managed if state.gang.run is not None]
            awaited = {run.name for state, run in running if state.watches_for_checkpoint}
            runs = [(state.log, run) for state, run in running]
            self._logs.poll(runs, now, timeout_seconds=timeout_seconds, awaited=awaited)
            self._metrics.log_lag.set(self._logs.lag_seconds(now))
            self._last_words.read([state for state in managed if state.gang.failing], now)
        for state in managed:
            if state.forecasts.earlier.earlier:
                with self._guard("compare", state):
                    state.compare_if_young(now)

    def _is_current(self, observation: Observation, now: float) -> bool:
        """Return whether the caches are new enough to begin something on them.

        Waits that were measured on older ones are made shorter by the silence."""
        seconds = observation.silent_seconds
        if seconds > self._timing.cache_age_limit_seconds:
            if self._silent_since is None:
                self._silent_since = now - seconds
                _LOG.warning(
                    "nothing has come from the API server for %.0f s: nothing is decided and no "
                    "job is stopped until it answers",
                    seconds,
                )
            return False
        if self._silent_since is not None:
            silent_seconds, self._silent_since = now - self._silent_since, None
            _LOG.info("the API server answers again, after %.0f s", silent_seconds)
            self.managed.forget_time(silent_seconds)
        return True

    def _replace_stragglers(self, observation: Observation, now: float, *, may_begin: bool) -> None:
        if self._stragglers is not None:
            with self._guard("stragglers"):
                self._stragglers.step(self.managed.states, observation, now, may_begin=may_begin)

    def _pause_goes_on(self, uid: str, preemption: Preemption) -> bool:
        if preemption.by_quota:
            observation = self._observation
            return observation is not None and self._quota_deadlocks.goes_on(
                uid, preemption, observation, self.managed.states
            )
        return self._preemption is not None and self._preemption.goes_on(preemption)

    def _pause_for_others(self, observation: Observation) -> None:
        """Before rescales are advanced: a job that is paused stops in this tick."""
        managed = self.managed
        may_begin = not self._timing.holds.recommend
        if observation.snapshot.quotas or any(state.gang.missing for state in managed):
            with self._guard("quotas"):
                self._quota_deadlocks.step(managed, observation, may_begin=may_begin)
        if self._preemption is not None:
            with self._guard("preemption"):
                self._preemption.step(managed, observation, may_begin=may_begin)

    def _advance_rescales(self, observation: Observation, now: float, *, may_begin: bool) -> None:
        jobs, limits = [each.job for each in self.managed], self._timing.disruption
        stopped = Counter(each.job.key.namespace for each in self.managed if each.counts_as_stopped)
        namespaces = len({job.key.namespace for job in jobs})
        part = limits.cluster.of(len(jobs)) / max(namespaces, 1)
        budget = DisruptionBudget(jobs, limits, self._stopped_time.note(stopped, part, now))
        for state in self.managed:
            self._count(state, budget, now)
        first, began = self._not_reached, self._clock.timer()
        in_order = sorted(
            self.managed, key=lambda state: (state.job.uid not in first, *begin_order(state))
        )
        find = partial(self._decider.counts_found, self.managed.states, observation)
        reached = set[str]()
        for state in alternating(in_order, _namespace_of):
            if self._clock.timer() - began > self._timing.rescale_seconds:
                break
            reached.add(state.job.uid)
            with self._guard("rescale", state):
                if may_begin:
                    self._restart_if_changed(state, now)
                    self._take_back_if_half_bound(state, now)
                if state.rescale is not None:
                    record = state.rescale.record
                    state.may_stop = may_begin and budget.allows(state.job, record.purpose)
                    self._rescales.advance(state, observation, find, now)
                    self._count(state, budget, now)
        self._not_reached = frozenset(self.managed.states.keys() - reached)
        self._alive()

    @staticmethod
    def _count(state: TrackedJob, budget: DisruptionBudget, now: float) -> None:
        stuck = state.is_stuck(now)
        budget.note(state.job, is_stopped=state.counts_as_stopped, is_stuck=stuck)

    def _request_completion(self, observation: Observation, now: float) -> None:
        """Request jobs that have met their goal to end, where their users want that. What takes
        too long is done at the next tick."""
        began = self._clock.timer()
        wanted = [
            state
            for state in self.managed
            if state.job.at_target is AtTarget.COMPLETE or state.completion_requested_at is not None
        ]
        for state in alternating(wanted, _namespace_of):
            if self._clock.timer() - began > self._timing.tick_seconds / 2:
                break
            with self._guard("completion", state):
                self._completion.advance(state, observation.pods.get(state.job.uid, ()), now)

    def _restart_if_changed(self, state: TrackedJob, now: float) -> None:
        """Stop a job whose replicas were changed while it runs, before the operator fails it."""
        if (
            state.gang.changed_from is None
            or state.training_job.active is None
            or state.gang.is_ending
        ):
            return
        if state.rescale is None and not state.held and state.job.rescale is not RescaleRule.NEVER:
            why = f"its replicas were changed from {state.gang.changed_from} while it ran"
            purpose = RescalePurpose.RESTART
            state.begin(purpose.id_of(f"{now:.0f}"), now, state.job.counts, why, purpose)

    def _take_back_if_half_bound(self, state: TrackedJob, now: float) -> None:
        since, limit_seconds = state.gang.half_bound_since, self._timing.half_bound_seconds
        is_other = state.rescale is not None or state.gang.is_ending
        if since is None or is_other or now - since < limit_seconds:
            return
        trained_at = max((sample.at for sample in state.progress(now).samples), default=0.0)
        may_have_trained = state.was_fully_bound or state.has_unknown_past(now)
        stays = state.held or state.job.rescale is RescaleRule.NEVER
        if may_have_trained or trained_at > since or stays:
            # A job that has trained may continue with the pods it has, its log readable or not.
            self._warn_half_bound(state)
            return
        why = f"only some of its pods have had a node for {now - since:.0f} s"
        purpose = RescalePurpose.TAKE_BACK
        state.begin(purpose.id_of(f"{now:.0f}"), now, state.job.counts, why, purpose)

    def _report(self, states: list[TrackedJob], observation: Observation, now: float) -> None:
        recorder, metrics = self._recorder, self._metrics
        self._keep_for_workloads(states, observation, now)
        began = self._clock.timer()
        for state in alternating(sorted(states, key=_longest_unwritten), _namespace_of):
            if self._clock.timer() - began > self._timing.tick_seconds:
                # An API server that hangs must not delay rescales; the next tick writes the others.
                break
            with self._guard("report", state):
                recorder.report(state, now)
        with self._guard("report"):
            moving = {state.job.uid for state in states}
            seconds = self._timing.tick_seconds / 2
            metrics.left_alone.set(recorder.left_alone(observation, moving, seconds))
        self._measure_books()
        phases = Counter(phase_of(state) for state in self.managed)
        if phases != self._phases:
            self._phases = phases
            for phase in Phase:
                metrics.jobs.labels(phase.value).set(phases[phase])

    def _measure_books(self) -> None:
        """Measure what moving the running jobs has saved, and how many it is not done for."""
        metrics, shown = self._metrics, [state.profile.shown for state in self.managed]
        books = [each.status.books for each in shown if each and each.status.books]
        faster = (each.saved_seconds + each.stopped_seconds + each.redone_seconds for each in books)
        metrics.books.labels("faster").set(sum(faster))
        metrics.books.labels("stopped").set(sum(each.stopped_seconds for each in books))
        metrics.books.labels("redone").set(sum(each.redone_seconds for each in books))
        metrics.braked.set(
            sum(bool(state.blocks.text(BlockReason.BRAKED)) for state in self.managed)
        )

    def _keep_for_workloads(
        self, states: list[TrackedJob], observation: Observation, now: float
    ) -> None:
        """Before the profiles are written, which say how much of each job is kept."""
        workloads = self._workloads
        for state in states:
            if state.job.workload is not None:
                with self._guard("workloads", state):
                    workloads.note(state, now)
        if workloads.waiting:
            with self._guard("workloads"):
                workloads.write(now, self._timing.tick_seconds / 2)
        if observation.workloads:
            with self._guard("workloads"):
                workloads.expire(observation.workloads.values(), now)

    def _warn_half_bound(self, state: TrackedJob) -> None:
        """Warn of a job that holds only a part of its gang, and is not stopped for that."""
        advice = (
            "the job does not train: free capacity for the others, or delete the job"
            if state.gang.run is None
            else "the job trains on with them: free capacity for the others, or suspend and resume"
            " the job once it has saved a checkpoint"
        )
        seconds = self._timing.half_bound_seconds
        message = f"for {seconds:.0f} s only some of its pods have had a node; {advice}"
        self._events.emit_once(state.training_job, JobEvent("HalfPlaced", message))

    @contextmanager
    def _guard(self, where: str, state: TrackedJob | None = None) -> Iterator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 - a fault of our own is logged, counted and retried
            self._metrics.faults.labels(where).inc()
            _LOG.exception("%s failed%s", where, f" for job {state.job.key}" if state else "")


def _longest_unwritten(state: TrackedJob) -> tuple[bool, float]:
    """Jobs that have ended come first: there is no next tick for them."""
    return state.training_job.outcome is None, state.profile.written_at or 0.0


def _namespace_of(state: TrackedJob) -> str:
    return state.job.key.namespace
