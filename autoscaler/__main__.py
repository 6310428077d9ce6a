"""``python -m autoscaler``: reads its settings, connects and runs until it is stopped."""

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from operator import attrgetter

from autoscaler.cluster import Caches
from autoscaler.controller import (
    Clock,
    ClusterAccess,
    Controller,
    ControllerConfig,
    Process,
    Timing,
)
from autoscaler.decide import DecisionConfig
from autoscaler.jobs.managed import Holds
from autoscaler.jobs.state import JobLimits
from autoscaler.leadership import (
    RENEWAL,
    Election,
    Fence,
    Leadership,
    LeadershipState,
    instance_name,
    readiness_text,
)
from autoscaler.logs.last_words import LastWords
from autoscaler.logs.poller import LogPoller
from autoscaler.logs.rotation import READ_BYTES, WorkerRotation
from autoscaler.metrics import Metrics
from autoscaler.preemption import PreemptionConfig
from autoscaler.settings import Settings, fairness_of, parse
from autoscaler.stragglers import ReplacementConfig
from autoscaler.web import create_app
from autoscaler.web.copies import copy_of_profiles
from autoscaler.web.feed import PageFeed
from autoscaler.web.page import create_page
from optimus.interval import IntervalConfig, ProfilingConfig
from optimus.interval.driver import STALE_INTERVALS, DriverConfig
from optimus.kube.client import Client, connect
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import KubeError
from optimus.kube.events import EventWriter
from optimus.kube.leases import LeaseStore
from optimus.kube.live_reader import LiveReader
from optimus.kube.logs import LogReader
from optimus.kube.profiles import ProfileWriter
from optimus.kube.reflector import ReflectorConfig
from optimus.kube.stored_settings import ClusterSettings
from optimus.kube.workload_profiles import WorkloadProfileWriter
from optimus.kube.write_guard import Guard
from optimus.kube.writer import JobWriter, PodWriter
from optimus.models.forecast import forecast_job
from optimus.placement import PLACEMENT_RULES
from optimus.policies import policy_named
from optimus.progress.stragglers import StragglerConfig
from optimus.rescale.disruption import NO_LIMIT, DisruptionLimits, Limit
from optimus.rescale.machine import RescaleConfig
from optimus.rescale.words import PauseReason
from optimus.runtime.health import HealthServer, InTurns
from optimus.runtime.logs import log_to_stderr
from optimus.runtime.settings import SettingsError, address, names_in

_LOG = logging.getLogger("autoscaler")
_SYNC_SECONDS = 60.0
_ONCE_LOG_SECONDS = 120.0
"""What a single interval waits for logs: 4,000 of them take 30 s."""
_STUCK_TICKS = 60
"""Without a tick for the time of this many ticks the process is unhealthy, and is restarted."""

_STANDBY_SECONDS = 0.5
_STUCK_ELECTION_SECONDS = 60.0
"""A few times the time-outs of the requests of one step."""

_CAPACITY_TICKS = 10
"""The number of ticks, with --once, in which a rescale may get the room of the one before."""


def main(arguments: list[str]) -> int:
    """Run; returns the process's exit status."""
    try:
        settings = parse(arguments, os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    log_to_stderr(settings.log_level)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a probe every few seconds
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        return _run(settings, stopping)
    except (KubeError, OSError) as error:
        _LOG.error("%s", error)
        return 1


def _run(settings: Settings, stopping: threading.Event) -> int:
    instance, fence = instance_name(), Fence()
    agent = f"optimus-autoscaler/{instance}"
    guard = _guard(settings, fence)
    client = connect(settings.kubeconfig, user_agent=agent, guard=guard)
    leadership = _leadership(settings, instance, fence)
    eligibility, metrics = _eligibility_config(settings), Metrics()
    metrics.set_instance(
        leads=lambda: leadership.state is LeadershipState.LEADER,
        dry_run=settings.dry_run,
        interval_seconds=settings.interval_seconds,
    )
    poll_seconds = settings.log_poll_seconds
    poller = LogPoller(LogReader(client), readers=settings.log_readers, poll_seconds=poll_seconds)
    windows = StragglerConfig(window_seconds=settings.straggler_window_seconds)
    rotation = WorkerRotation(LogReader(client, READ_BYTES), windows, poller.pool)
    with (
        closing(poller),
        _caches(settings, client, eligibility) as caches,
        _page(settings, leadership, client) as page,
    ):
        logs = poller, rotation, LastWords(LogReader(client), poller.pool), poller
        process = Process(metrics, Clock(), *logs, page, instance, settings.dry_run)
        controller = _controller(settings, client, caches, process)
        for cache in caches.all:
            gauge = metrics.cache_silence.labels(cache.watched.plural)
            gauge.set_function(partial(attrgetter("silent_seconds"), cache))
        unhealthy = partial(_why_unhealthy, controller, leadership, settings)
        app = create_app(
            metrics.registry, unhealthy, caches.missing, partial(readiness_text, leadership)
        )
        with HealthServer(InTurns(app), *address(settings.listen)) as server:
            _LOG.info("serving /metrics, /healthz and /readyz on port %d", server.port)
            if not _wait_synced(caches, stopping):
                return 0
            leadership.start()  # not before: an instance with cold caches could not act
            try:
                standby = _Standby(caches, page, settings.tick_seconds)
                return _act(settings, controller, standby, leadership, stopping)
            finally:
                leadership.stop()


@contextmanager
def _page(settings: Settings, leadership: Leadership, client: Client) -> Iterator[PageFeed | None]:
    """Serve the page where its address is set."""
    if settings.once or not settings.page_listen:
        yield None
        return
    limit = settings.cache_age_limit_seconds
    decisions = _decision_config(settings)
    feed = PageFeed(
        lambda: leadership.holder, silent_limit_seconds=limit, hold_seconds=decisions.hold_seconds
    )
    app = create_page(feed, decisions.settings, client)
    with feed, HealthServer(app, *address(settings.page_listen)) as server:
        _LOG.info("serving the page on port %d", server.port)
        yield feed


class _Standby:
    """Shows on the page what the profiles have, while another instance acts."""

    def __init__(self, caches: Caches, page: PageFeed | None, tick_seconds: float) -> None:
        self._caches, self._page, self._tick_seconds = caches, page, tick_seconds
        self._shown_at = -math.inf

    def show(self) -> None:
        """Every tick while somebody looks, else once a minute, for the history."""
        if self._page is None:
            return
        seconds = self._tick_seconds if self._page.is_watched else _SYNC_SECONDS
        if time.monotonic() - self._shown_at < seconds:
            return
        self._shown_at = time.monotonic()
        try:
            self._page.take(copy_of_profiles(self._caches.observe(time.time())))
        except Exception:  # noqa: BLE001 - a fault of the page must not end a standby
            _LOG.exception("the page was not brought up to date")


def _caches(settings: Settings, client: Client, eligibility: EligibilityConfig) -> Caches:
    labels = settings.node_selector, settings.node_kind_label
    config = ReflectorConfig.within(settings.cache_age_limit_seconds)
    return Caches(client, eligibility, *labels, config)


def _guard(settings: Settings, fence: Fence) -> Guard | None:
    if settings.dry_run:
        return lambda: "this is a dry run"
    return fence.why_not if settings.leader_lease else None


def _leadership(settings: Settings, instance: str, fence: Fence) -> Leadership:
    if settings.dry_run or not settings.leader_lease:
        return Leadership()
    # A client of its own: no other request holds up a renewal, and the fence does not ask for one.
    # Two requests fit into the time for which a renewal is valid.
    seconds = RENEWAL * settings.lease_seconds / 2
    own = connect(
        settings.kubeconfig,
        user_agent=f"optimus-autoscaler/{instance}",
        read_seconds=seconds,
        connect_seconds=seconds,
    )
    store = LeaseStore(own, settings.leader_lease)
    return Leadership(Election(store, instance, fence, duration_seconds=settings.lease_seconds))


def _wait_synced(caches: Caches, stopping: threading.Event) -> bool:
    logged_at = time.monotonic()
    while not caches.wait_synced(1.0):
        if stopping.is_set():
            return False
        if time.monotonic() - logged_at > _SYNC_SECONDS:
            logged_at = time.monotonic()
            _LOG.warning("waiting for the API server: %s", caches.missing())
    return True


def _act(
    settings: Settings,
    controller: Controller,
    standby: _Standby,
    leadership: Leadership,
    stopping: threading.Event,
) -> int:
    began = time.monotonic()
    while leadership.wait(_STANDBY_SECONDS) is not LeadershipState.LEADER:
        if stopping.is_set():
            return 0
        if settings.once and time.monotonic() - began > 3 * settings.lease_seconds:
            message = "%s leads: --once would act beside it; stop it, or add --dry-run"
            _LOG.error(message, leadership.holder or "nobody answers for the Lease, or another")
            return 1
        standby.show()
    if settings.once:
        _once(settings, controller, stopping)
        return 0

    def has_ended(seconds: float) -> bool:
        return stopping.wait(seconds) or leadership.state is LeadershipState.LOST

    controller.run(has_ended, lambda: leadership.state is LeadershipState.LEADER)
    if stopping.is_set():
        _LOG.info("stopping; rescales in progress are recorded in their profiles")
        return 0
    _LOG.warning("ending, to be started again as a standby: %s leads", leadership.holder)
    return 1


def _once(settings: Settings, controller: Controller, stopping: threading.Event) -> None:
    """One interval: read every log once, decide, carry the decisions to their end."""
    plan = controller.tick(log_seconds=_ONCE_LOG_SECONDS)
    for each in plan.decisions if plan is not None else ():
        what = each.recommended or each
        change = f"{each.current} -> {what.counts}"
        sys.stdout.write(f"{each.key}\t{what.action}\t{change}\t{what.reason}\n")
    waited_ticks = 0
    while not settings.dry_run and (
        controller.is_busy or (controller.awaits_capacity and waited_ticks < _CAPACITY_TICKS)
    ):
        if stopping.wait(settings.tick_seconds):
            break
        controller.tick(decides=False)
        waited_ticks = 0 if controller.is_busy else waited_ticks + 1


def _controller(settings: Settings, client: Client, caches: Caches, process: Process) -> Controller:
    decisions = _decision_config(settings)
    decides_by = ClusterSettings(
        decisions.settings,
        settings.node_selector,
        names_in(settings.ignored_resources),
        settings.policy_options.get(settings.policy, {}),
    )
    access = ClusterAccess(
        caches,
        LiveReader(client, _eligibility_config(settings)),
        JobWriter(client, process.instance),
        ProfileWriter(client),
        EventWriter(client, "optimus-autoscaler"),
        PodWriter(client),
        WorkloadProfileWriter(client),
        LeaseStore(client, settings.leader_lease) if settings.leader_lease else None,
    )
    replacement = None
    if settings.replacements_per_day and not settings.once:
        replacement = ReplacementConfig(
            detection=process.rotation.config,
            interval=decisions.driver.interval,
            per_day=settings.replacements_per_day,
        )
    timing = Timing(
        tick_seconds=settings.tick_seconds,
        half_bound_seconds=settings.start_timeout_seconds,
        cache_age_limit_seconds=settings.cache_age_limit_seconds,
        limits=JobLimits(assumed_price_seconds=settings.rescale_cost_seconds),
        disruption=DisruptionLimits(
            Limit.parse(settings.max_stopped) or NO_LIMIT,
            Limit.parse(settings.max_stopped_per_namespace) or NO_LIMIT,
        ),
        holds=Holds(
            settings.recommend or settings.dry_run,
            frozenset({PauseReason.POLICY} if decisions.policy.traits.preempts else ()),
        ),
    )
    config = ControllerConfig(
        decisions,
        _rescale_config(settings),
        timing,
        decides_by,
        settings.report_seconds,
        _preemption_config(settings),
        replacement,
    )
    return Controller(access, config, process)


def _eligibility_config(settings: Settings) -> EligibilityConfig:
    ignored = names_in(settings.ignored_resources)
    return EligibilityConfig.of(settings.scheduler_name, settings.operator_version, ignored)


def _decision_config(settings: Settings) -> DecisionConfig:
    interval = IntervalConfig(
        rescale_seconds=settings.rescale_cost_seconds,
        hysteresis_fraction=settings.least_gain_percent / 100,
        cooldown_seconds=settings.rescale_spacing_seconds,
        moves_per_hour=settings.moves_per_hour,
        own_counts_first=not settings.keep_own_counts,
        fairness=fairness_of(settings),
        profiling=ProfilingConfig(
            # A process that decides once would leave a job at the counts of its profiling run.
            runs=0 if settings.once else max(settings.profiling_samples - 1, 0),
            steady_seconds=settings.profiling_seconds,
            first_steady_seconds=settings.profiling_seconds / 2,
            run_limit_seconds=5 * settings.profiling_seconds,
        ),
    )
    policy = policy_named(settings.policy, settings.policy_options.get(settings.policy, {}))
    return DecisionConfig(
        policy,
        PLACEMENT_RULES[settings.placement or policy.traits.placed_by],
        forecast_job,
        # Later than the Event that names a checkpoint line: after two intervals.
        stale_seconds=STALE_INTERVALS * settings.interval_seconds,
        driver=DriverConfig(
            interval=interval,
            interval_seconds=settings.interval_seconds,
            early_interval_seconds=settings.early_interval_seconds,
            expects=not (settings.measure_first or settings.once),
            pauses=policy.traits.preempts,
            kind_label=settings.node_kind_label,
        ),
        hold_seconds=settings.start_timeout_seconds,
    )


def _rescale_config(settings: Settings) -> RescaleConfig:
    return RescaleConfig(
        fresh_seconds=max(3 * settings.log_poll_seconds, 3 * settings.tick_seconds),
        break_grace_seconds=settings.resume_grace_after_break_seconds,
        start_seconds=settings.start_timeout_seconds,
        verify_seconds=min(5 * settings.profiling_seconds, settings.start_timeout_seconds / 2),
        quiet_seconds=settings.profiling_seconds / 2,
        checkpoint_warning_seconds=2 * settings.interval_seconds,
    )


def _preemption_config(settings: Settings) -> PreemptionConfig | None:
    only_says = settings.recommend or settings.dry_run or settings.once
    return PreemptionConfig(settings.scheduler_name) if settings.preempt and not only_says else None


def _why_unhealthy(
    controller: Controller, leadership: Leadership, settings: Settings
) -> str | None:
    if leadership.silent_seconds > _STUCK_ELECTION_SECONDS:
        return f"leader election has not come round for {leadership.silent_seconds:.0f} s"
    last, limit_seconds = controller.last_tick_at, _STUCK_TICKS * settings.tick_seconds
    if last is None or time.monotonic() - last < limit_seconds + _SYNC_SECONDS:
        return None
    return f"no tick for {time.monotonic() - last:.0f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
