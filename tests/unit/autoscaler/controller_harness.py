"""An autoscaler that rules a cluster."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from autoscaler.controller import (
    Clock,
    ClusterAccess,
    Controller,
    ControllerConfig,
    Process,
    Timing,
)
from autoscaler.decide import DecisionConfig
from autoscaler.executor import LastReads
from autoscaler.jobs.state import TrackedJob
from autoscaler.logs.last_words import LastWords
from autoscaler.logs.poller import LogPoller
from autoscaler.logs.rotation import WorkerRotation
from autoscaler.memory import MemoryWatch
from autoscaler.metrics import Metrics
from autoscaler.preemption import PreemptionConfig
from autoscaler.stragglers import ReplacementConfig
from autoscaler.web.feed import PageFeed
from optimus.allocation import Policy
from optimus.interval import IntervalConfig, ProfilingConfig
from optimus.interval.driver import DriverConfig
from optimus.kube.errors import KubeError
from optimus.kube.profiles import ProfileStatus
from optimus.kube.stored_settings import ClusterSettings
from optimus.models.forecast import ForecastFn, forecast_job
from optimus.placement import PLACEMENT_RULES
from optimus.policies import policy_named
from optimus.progress.stragglers import StragglerConfig
from optimus.rescale.machine import RescaleConfig
from tests.unit.autoscaler.fake_cluster import FakeCluster

TIMING = Timing(log_seconds=60, half_bound_seconds=30)
"""A tick waits for logs in real time: long enough on a busy machine."""


P = ParamSpec("P")
T = TypeVar("T")


class AtOnce(Executor):
    """Does what it is given where it is given."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done = Future[T]()
        try:
            done.set_result(fn(*args, **kwargs))
        except KubeError as error:
            done.set_exception(error)
        return done


class ControllerHarness:
    """Runs a controller on a fake cluster; ``restart`` starts another from what is stored."""

    def __init__(
        self,
        cluster: FakeCluster,
        *,
        dry_run: bool = False,
        timing: Timing = TIMING,
        last_reads: LastReads | None = None,
        instance: str = "",
        poll_seconds: float = 1,
        stragglers: ReplacementConfig | None = None,
        expects: bool = True,
        policy: str | Policy = "optimus",
        forecast: ForecastFn = forecast_job,
        interval_seconds: float = 20,
        measures: bool = True,
        page: PageFeed | None = None,
        preemption: PreemptionConfig | None = None,
    ) -> None:
        self.cluster = cluster
        self.page = page
        self._instance = instance
        self._poll_seconds = poll_seconds
        self._last_reads = last_reads
        self._dry_run = dry_run
        self._preemption = preemption
        self._stragglers = stragglers
        self._timing, self._expects = timing, expects
        self._policy = policy_named(policy) if isinstance(policy, str) else policy
        self._forecast = forecast
        self._interval_seconds, self._measures = interval_seconds, measures
        self.restart()

    def restart(self) -> None:
        cluster, self.metrics = self.cluster, Metrics()
        logs = LogPoller(cluster, readers=1, poll_seconds=self._poll_seconds, last_read_seconds=60)
        self.decisions = decision_config = DecisionConfig(
            self._policy,
            PLACEMENT_RULES[self._policy.traits.placed_by],
            self._forecast,
            stale_seconds=130,
            driver=DriverConfig(
                interval=IntervalConfig(
                    rescale_seconds=5,
                    cooldown_seconds=10,
                    profiling=ProfilingConfig(
                        first_steady_seconds=5,
                        steady_seconds=5,
                        run_limit_seconds=30,
                        max_replicas=6,
                    ),
                ),
                interval_seconds=self._interval_seconds,
                early_interval_seconds=5,
                measures=self._measures,
                expects=self._expects,
                pauses=self._policy.traits.preempts,
            ),
        )
        config = RescaleConfig(
            fresh_seconds=10,
            break_grace_seconds=2,
            start_seconds=60,
            verify_seconds=20,
            quiet_seconds=2,
            checkpoint_warning_seconds=100,
        )
        workloads, stragglers = cluster.workloads, self._stragglers
        access = ClusterAccess(
            cluster, cluster, cluster, cluster, cluster, cluster, workloads, cluster
        )
        settings = ClusterSettings(decision_config.settings)
        detection = StragglerConfig() if stragglers is None else stragglers.detection
        self.controller = Controller(
            access,
            ControllerConfig(
                decision_config, config, self._timing, settings, 5, self._preemption, stragglers
            ),
            Process(
                self.metrics,
                Clock(lambda: cluster.at + cluster.day_offset, lambda: cluster.at),
                logs,
                WorkerRotation(cluster, detection, logs.pool),
                LastWords(cluster, AtOnce()),
                self._last_reads or logs,
                MemoryWatch(cluster.read_usage, AtOnce()),
                self.page,
                self._instance,
                self._dry_run,
            ),
        )

    @property
    def intervals(self) -> float:
        """How many intervals were planned."""
        return self.metrics.registry.get_sample_value("optimus_autoscaler_intervals_total") or 0.0

    def run(self, seconds: int, *, tick: int = 2) -> None:
        """Tick every ``tick`` seconds, as often as the autoscaler does, and once at the end."""
        self.cluster.instance = self._instance
        for passed in range(0, seconds, tick):
            self.cluster.pass_time(float(min(tick, seconds - passed)))
            self.controller.tick()

    def run_until(
        self, name: str, *phases: str, seconds: int = 400, tick: int = 1
    ) -> ProfileStatus:
        """Tick until the job's profile shows one of these phases."""
        for _ in range(0, seconds, tick):
            self.run(tick, tick=tick)
            if name in self.cluster.profiles and self.status(name).phase in phases:
                return self.status(name)
        shown = self.status(name) if name in self.cluster.profiles else None
        raise AssertionError(f"{name} did not come to {phases} within {seconds} s: {shown}")

    def run_till(self, holds: Callable[[], object], seconds: int = 300) -> None:
        """Tick each second until something holds."""
        for _ in range(seconds):
            self.run(1)
            if holds():
                return
        raise AssertionError(f"it does not hold within {seconds} s: {self.cluster.events}")

    def state(self, name: str = "a") -> TrackedJob:
        """What the controller knows of a job."""
        return self.controller.managed.states[f"uid-{name}"]

    def status(self, name: str) -> ProfileStatus:
        """What the job's profile says."""
        return self.cluster.profiles[name].status
