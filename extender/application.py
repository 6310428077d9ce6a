"""The application: caches, planner, requeuer and endpoints of the one worker process, wired."""

import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from extender.bindings import PodBinder
from extender.cache_age import CacheAge
from extender.gang_binding import ANSWER_SECONDS, GangBinding
from extender.gang_report import CacheReport, Inspection
from extender.gang_states import counts_by_state, oldest_waits
from extender.http.app import (
    MAX_BODY_BYTES,
    Endpoints,
    RoutedApp,
    Verbs,
    create_app,
    create_health_app,
)
from extender.inspection import Inspector
from extender.job_events import EventReporter, JobNotice
from extender.kind_orders import READ_SECONDS, KindOrdersReader
from extender.leadership import leadership
from extender.metrics import FaultHandler, Metrics
from extender.notices import (
    half_placed_notices,
    unrecognized_notices,
    waiting_notices,
)
from extender.parts import Parts
from extender.placed_gangs import PlacedGangs
from extender.preempted_room import STEP_SECONDS, PreemptedRoom
from extender.requeuer import Requeuer
from extender.requeues import Requeues
from extender.settings import Settings
from extender.state.event_handlers import EventHandlers
from extender.state.extender_state import Callbacks
from extender.step_thread import StepThread
from optimus.jobs import JobKey
from optimus.kube.client import Client, connect
from optimus.kube.contract import EXTENDER_COMPONENT
from optimus.kube.devices import (
    watched_claim_templates,
    watched_device_claims,
    watched_device_classes,
    watched_slices,
)
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.events import EventWriter
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.leases import LeaseStore
from optimus.kube.list_watch import ListWatch
from optimus.kube.nodes import watched_nodes
from optimus.kube.pods import watched_pods
from optimus.kube.profiles import watched_profiles
from optimus.kube.reflector import Reflector, ReflectorConfig, why_not_synced
from optimus.kube.store import Observer, T
from optimus.kube.times import format_second
from optimus.kube.training_jobs import TrainingJob, watched_training_jobs
from optimus.kube.volumes import (
    watched_claims,
    watched_namespaces,
    watched_storage_classes,
    watched_volumes,
)
from optimus.kube.writer import PodWriter
from optimus.placement.queue.order import Instant
from optimus.runtime.health import HealthServer, InTurns
from optimus.runtime.settings import address, names_in

_WRITERS: Final = 8
"""Patches to pods at the same time: a gang of 40 is requeued in some tens of milliseconds."""

SWITCH_SECONDS: Final = 0.0005
"""How long one thread of the process runs while others want to."""


def clocks_of(client: Client) -> Callable[[], Instant]:
    """The time now; since the epoch it is the API server's, as the creation times of pods are."""
    return lambda: Instant(time.monotonic(), client.server_clock.now())


class Application:
    """``start`` and ``stop`` are called once each."""

    def __init__(self, settings: Settings) -> None:
        self.metrics, self._placed = Metrics(), PlacedGangs()
        self._faults = FaultHandler(lambda where: self.metrics.faults.labels(where).inc())
        logging.getLogger().addHandler(self._faults)
        self._settings = settings
        self._client = connect(settings.kubeconfig, user_agent="optimus-extender")
        identity = settings.leader_identity or socket.gethostname()
        self._leadership = leadership(
            self._client, settings.leader_lease, identity, waits=settings.binds_gangs
        )
        callbacks = Callbacks(
            observe_wait=self.metrics.gang_wait.observe,
            gang_placed=self._placed.note,
            called_as_follower=self._leadership.called_as_follower,
            count_searches=self.metrics.searches.inc,
        )
        self._parts = parts = Parts.of(settings, clocks_of(self._client), callbacks)
        self._state = state = parts.state
        handlers, client = parts.handlers, self._client
        config = EligibilityConfig.of(
            settings.scheduler_name,
            settings.operator_version,
            names_in(settings.ignored_resources),
        )
        self._jobs, others = self._reflectors(handlers, config)
        self._caches = *others[:2], *self._jobs, *others[2:]
        self._cache_age = CacheAge(
            self._caches, settings.cache_age_limit_seconds, clocks_of(client)
        )
        state.why_too_old = self._cache_age.why_too_old
        self._executor = ThreadPoolExecutor(_WRITERS, thread_name_prefix="requeue")
        self._inspector = Inspector(parts.planner, settings.age_limit_seconds)
        self._event_thread = ThreadPoolExecutor(1, thread_name_prefix="events")
        events = EventWriter(self._client, EXTENDER_COMPONENT)
        job_events = EventReporter(self._notices, events.emit, self._event_thread)
        kept = PreemptedRoom(state, self._known_jobs, settings.rescale_hold_seconds)
        parts.leading.before_leading = kept.adopt
        self._requeuer = Requeuer(
            parts.pending,
            parts.leading,
            Requeues(
                PodWriter(client).requeue,
                count_write=lambda outcome: self.metrics.requeues.labels(outcome).inc(),
                executor=self._executor,
            ),
            self._leads,
            report=job_events.look,
        )
        self._threads = [
            StepThread("planner", parts.planner.step, changes=state.changes),
            StepThread("requeuer", self._requeuer.step, changes=state.changes),
            StepThread("preemption", kept.step, STEP_SECONDS),
        ]
        if settings.autoscaler_lease:
            reader = KindOrdersReader(LeaseStore(client, settings.autoscaler_lease).read, state)
            self._threads.append(StepThread("kinds", reader.look, READ_SECONDS))
        if state.config.binds_gangs:
            parts.gangs.bind_others = self._binding(parts).bind_rest
        verbs = Verbs.of(parts, config.ignored_resources)
        self._endpoints = Endpoints(
            verbs,
            self._why_not_synced,
            self.metrics,
            MAX_BODY_BYTES,
            self._inspect,
            self._cache_age.why_not_ready,
        )
        self._health = None
        if settings.health_listen:
            health_app = create_health_app(self._endpoints)
            self._health = HealthServer(InTurns(health_app), *address(settings.health_listen))
        self._watch_metrics()

    def _reflectors(
        self, handlers: EventHandlers, config: EligibilityConfig
    ) -> tuple[tuple[Reflector[TrainingJob], ...], tuple[Reflector[Any], ...]]:
        """The caches of jobs, and all others."""
        settings, devices = self._settings, handlers.device_events
        caching = ReflectorConfig.within(settings.cache_age_limit_seconds)

        def cache(kind: ListWatch[T], observer: Observer[T]) -> Reflector[T]:
            return Reflector(self._client, kind, config=caching, observer=observer)

        jobs = tuple(cache(watched_training_jobs(kind, config), handlers.job) for kind in JOB_KINDS)
        return jobs, (
            cache(watched_nodes(settings.node_selector), handlers.node),
            cache(watched_pods(ignored_resources=config.ignored_resources), handlers.pod),
            cache(watched_profiles(), handlers.profile),
            cache(watched_claims(), handlers.claim),
            cache(watched_volumes(), handlers.volume),
            cache(watched_storage_classes(), handlers.storage_class),
            cache(watched_namespaces(), handlers.namespace),
            cache(watched_slices(), devices.slice),
            cache(watched_device_classes(), devices.device_class),
            cache(watched_claim_templates(), devices.template),
            cache(watched_device_claims(), devices.claim),
        )

    def _binding(self, parts: Parts) -> GangBinding:
        return GangBinding(
            parts.state,
            parts.offers_check,
            PodBinder(self._client, ANSWER_SECONDS).bind,
            count=lambda outcome: self.metrics.gangs_bound.labels(outcome).inc(),
        )

    def _watch_metrics(self) -> None:
        state, leadership = self._state, self._leadership
        self.metrics.watch("reservations", "Replicas with a reservation.", state.reservation_count)
        self.metrics.watch(
            "leads",
            "1 while the kube-scheduler beside this process leads, so that plans are made.",
            lambda: float(leadership.leads()),
        )
        self.metrics.watch(
            "leader_mismatch",
            "1 while kube-scheduler asks although its Lease names another host: none is planned.",
            lambda: float(leadership.mismatch),
        )
        self.metrics.watch_by(
            "waiting_gangs",
            "Gangs with pods that wait for a node, by what they wait for.",
            "state",
            lambda: counts_by_state(state),
        )
        self.metrics.watch_by(
            "oldest_wait_seconds",
            "Seconds since the last pod of the gang was created that waits longest, by priority.",
            "priority",
            lambda: oldest_waits(state),
        )
        self.metrics.watch(
            "cache_age_seconds",
            "Seconds since the API server's last answer, in the oldest cache.",
            self._cache_age.seconds,
        )

    def wsgi(self) -> RoutedApp:
        """The WSGI application for kube-scheduler."""
        return create_app(self._endpoints)

    def start(self) -> None:
        """Begin to watch; gangs are planned once all caches are filled."""
        if self._health is not None:
            self._health.start()
        for cache in self._caches:
            cache.start()
        # A call of kube-scheduler gets the interpreter within this time, however long a search
        # takes: with Python's default, 5 ms, each call beside a search took as long.
        sys.setswitchinterval(SWITCH_SECONDS)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End every thread."""
        if self._health is not None:
            self._health.stop()
        for thread in self._threads:
            thread.stop()
        for cache in self._caches:
            cache.stop()
        for executor in (self._executor, self._event_thread):
            executor.shutdown(wait=False, cancel_futures=True)
        logging.getLogger().removeHandler(self._faults)
        self._client.close()

    def _why_not_synced(self) -> str | None:
        return why_not_synced(self._caches)

    def _known_jobs(self) -> Iterator[TrainingJob]:
        return (job for cache in self._jobs for job in cache.items())

    def _notices(self) -> Iterator[JobNotice]:
        """Return what is reported to users by Events; called on their thread."""
        half_placed = half_placed_notices(self._state, self._settings.reservation_seconds)
        yield from half_placed
        today = format_second(self._state.clock().epoch)[:10]
        told = {each.uid for each in half_placed}
        yield from waiting_notices(self._inspector.waiting(), told, today)
        yield from unrecognized_notices(self._state)
        yield from self._placed.notices()

    def _inspect(self, job: JobKey | None) -> bytes:
        gangs = self._inspector.waiting() if job is None else self._inspector.of_job(job)
        return msgspec.json.encode(
            Inspection(
                at=format_second(self._client.server_clock.now()),
                leads=self._state.leads,
                leader=self._leadership.holder,
                not_ready=self._why_not_synced() or self._cache_age.why_not_ready(),
                caches=tuple(
                    CacheReport(
                        kind=cache.watched.plural,
                        objects=len(cache),
                        synced=cache.synced,
                        silent_seconds=round(cache.silent_seconds, 1),
                        failure=cache.failure,
                    )
                    for cache in self._caches
                ),
                gangs=gangs,
            )
        )

    def _leads(self) -> bool:
        # On caches that are half full, a gang could be planned onto room that is taken.
        return self._why_not_synced() is None and self._leadership.leads()
