"""``python -m autoscaler``: reads its settings, connects, and runs until it is told to stop."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from autoscaler.cluster import Caches
from autoscaler.controller import Clock, Components, Controller, Timing
from autoscaler.decide import Decider, DecisionConfig
from autoscaler.logs.poller import LogPoller
from autoscaler.metrics import Metrics
from autoscaler.profile.recorder import ProfileRecorder
from autoscaler.rescale.executor import RescaleExecutor
from autoscaler.rescale.machine import RescaleConfig
from autoscaler.settings import Settings, parse
from autoscaler.web import create_app
from optimus.interval import IntervalConfig, IntervalPlan
from optimus.interval.driver import DriverConfig
from optimus.interval.profiling import ProfilingRules
from optimus.kube.client import Client, connect
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import KubeError
from optimus.kube.events import EventWriter
from optimus.kube.live_reader import LiveReader
from optimus.kube.logs import LogReader
from optimus.kube.profiles import ProfileWriter
from optimus.kube.reflector import Reflector
from optimus.kube.writer import JobWriter
from optimus.models.forecast import forecast_job
from optimus.placement.theorem1 import Theorem1
from optimus.policies import POLICIES
from optimus.runtime.health import HealthServer
from optimus.runtime.settings import SettingsError, address

_LOG = logging.getLogger("autoscaler")
_SYNC_SECONDS = 60.0
_STUCK_TICKS = 60
"""After so many ticks' time without a tick the process says that it is not healthy, and is
restarted."""
_ROOM_TICKS = 10
"""In one-shot mode: for so many ticks after the last rescale has ended, the room of the next may
still become free."""


def main(arguments: list[str]) -> int:
    """Run; returns the process's exit status."""
    try:
        settings = parse(arguments, os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # probes every few seconds are no news
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        client = connect(settings.kubeconfig, user_agent="optimus-autoscaler")
        return _run(settings, client, stopping)
    except (KubeError, OSError) as error:
        _LOG.error("%s", error)
        return 1


def _run(settings: Settings, client: Client, stopping: threading.Event) -> int:
    rules = _job_rules(settings)
    metrics = Metrics()
    logs = LogPoller(
        LogReader(client), readers=settings.log_readers, poll_seconds=settings.log_poll_seconds
    )
    with Caches(client, rules, settings.node_selector, settings.node_kind_label) as caches:
        controller = _controller(settings, client, caches, logs, metrics)
        for cache in caches.all:
            metrics.cache_silence.labels(cache.watched.plural).set_function(
                partial(_silence, cache)
            )
        app = create_app(metrics.registry, _healthy(controller, settings), caches.missing)
        with HealthServer(app, *address(settings.listen)) as server:
            _LOG.info("serving /metrics, /healthz and /readyz on port %d", server.port)
            try:
                return _loop(settings, controller, caches, stopping)
            finally:
                logs.close()


def _loop(
    settings: Settings, controller: Controller, caches: Caches, stopping: threading.Event
) -> int:
    told_at = time.monotonic()
    while not caches.wait_synced(1.0):
        if stopping.is_set():
            return 0
        if time.monotonic() - told_at > _SYNC_SECONDS:
            told_at = time.monotonic()
            _LOG.warning("waiting for the API server: %s", caches.missing())
    if settings.once:
        return _once(settings, controller, stopping)
    controller.run(stopping.wait)
    _LOG.info("stopping; rescales under way are recorded in their profiles")
    return 0


def _once(settings: Settings, controller: Controller, stopping: threading.Event) -> int:
    """One interval: read every log once, decide, carry the decisions to their end."""
    plan = controller.tick()
    if plan is not None:
        _print(plan)
    waited = 0
    while (
        controller.is_busy or (controller.awaits_room and waited < _ROOM_TICKS)
    ) and not settings.dry_run:
        if stopping.wait(settings.tick_seconds):
            break
        controller.tick(decides=False)
        waited = 0 if controller.is_busy else waited + 1
    return 0


def _print(plan: IntervalPlan) -> None:
    for decision in plan.decisions:
        sys.stdout.write(
            f"{decision.key}\t{decision.action}\t{decision.current} -> "
            f"{decision.counts}\t{decision.reason}\n"
        )


def _controller(
    settings: Settings, client: Client, caches: Caches, logs: LogPoller, metrics: Metrics
) -> Controller:
    clock = Clock()
    reporting = ProfileRecorder(
        ProfileWriter(client),
        EventWriter(client, "optimus-autoscaler"),
        metrics,
        spacing_seconds=settings.report_seconds,
    )
    reader = LiveReader(client, _job_rules(settings))
    rescales = RescaleExecutor(
        reader, JobWriter(client), reporting, logs, _rescale_config(settings)
    )
    decider = Decider(_decision_config(settings), metrics, dry_run=settings.dry_run)
    parts = Components(caches, logs, decider, rescales, reporting, metrics)
    timing = Timing(
        tick_seconds=settings.tick_seconds, half_bound_seconds=settings.start_timeout_seconds
    )
    return Controller(parts, timing, clock, dry_run=settings.dry_run)


def _job_rules(settings: Settings) -> EligibilityConfig:
    major, minor, patch = map(int, settings.operator_version.split("."))
    return EligibilityConfig(
        scheduler_name=settings.scheduler_name, operator_version=(major, minor, patch)
    )


def _decision_config(settings: Settings) -> DecisionConfig:
    interval = IntervalConfig(
        rescale_seconds=settings.rescale_cost_seconds,
        hysteresis_fraction=settings.least_gain_percent / 100,
        cooldown_seconds=settings.rescale_spacing_seconds,
        profiling=ProfilingRules(
            # A run that only measures would be left at its counts by a process that decides once.
            runs=0 if settings.once else max(settings.profiling_samples - 1, 0),
            steady_seconds=settings.profiling_seconds,
            run_limit_seconds=5 * settings.profiling_seconds,
            trained_limit_seconds=settings.profiling_lifetime_seconds,
            least_seconds_between_rescales=settings.rescale_spacing_seconds,
        ),
    )
    return DecisionConfig(
        POLICIES[settings.policy](),
        Theorem1(),
        forecast_job,
        # Later than the user is told which line would do: after two intervals.
        stale_seconds=3 * settings.interval_seconds,
        driver=DriverConfig(
            interval=interval,
            interval_seconds=settings.interval_seconds,
            early_interval_seconds=settings.early_interval_seconds,
        ),
        hold_seconds=settings.start_timeout_seconds,
    )


def _rescale_config(settings: Settings) -> RescaleConfig:
    return RescaleConfig(
        fresh_seconds=max(3 * settings.log_poll_seconds, 3 * settings.tick_seconds),
        start_seconds=settings.start_timeout_seconds,
        checkpoint_warning_seconds=2 * settings.interval_seconds,
    )


def _silence(cache: Reflector[Any]) -> float:
    return cache.silent_seconds or 0.0


def _healthy(controller: Controller, settings: Settings) -> Callable[[], str | None]:
    def verdict() -> str | None:
        last = controller.last_tick_at
        if (
            last is None
            or time.monotonic() - last < _STUCK_TICKS * settings.tick_seconds + _SYNC_SECONDS
        ):
            return None
        return f"no tick for {time.monotonic() - last:.0f} s"

    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
