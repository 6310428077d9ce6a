"""Everything that runs in the one worker process: caches, placer, nominator, endpoints."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from flask import Flask

from extender.http.app import Endpoints, create_app, create_health_app
from extender.leadership import Always, Leadership, LeaseReader
from extender.metrics import Metrics
from extender.nominator import Nominator
from extender.placer import Placer
from extender.planner import Rules
from extender.settings import Settings
from extender.state.event_handlers import EventHandlers
from optimus.kube.client import Client, connect
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.nodes import watched_nodes
from optimus.kube.pods import watched_pods
from optimus.kube.profiles import watched_profiles
from optimus.kube.reflector import Reflector, why_not_synced
from optimus.kube.training_jobs import watched_training_jobs
from optimus.kube.writer import PodWriter
from optimus.runtime.health import HealthServer
from optimus.runtime.settings import address

_WRITERS: Final = 8
"""Patches to pods at the same time: a gang of 40 is told in some tens of milliseconds."""


class Service:
    """The parts, put together. ``start`` and ``stop`` are called once each."""

    def __init__(self, settings: Settings) -> None:
        self.metrics = Metrics()
        self._client = connect(settings.kubeconfig, user_agent="optimus-extender")
        self._placer = Placer(
            rules_of(settings),
            planned=self.metrics.gang_wait.observe,
            check_invariants=settings.check_invariants,
        )
        self._caches = _caches(self._client, settings, EventHandlers(self._placer))
        self._executor = ThreadPoolExecutor(_WRITERS, thread_name_prefix="tell")
        self._nominator = Nominator(
            self._placer,
            PodWriter(self._client),
            _OnceReady(_leadership(settings, self._client), self.missing),
            nominate=settings.nominate,
            told=lambda outcome: self.metrics.nominations.labels(outcome).inc(),
            executor=self._executor,
        )
        self._endpoints = Endpoints(
            self._placer, self.missing, self.metrics, settings.max_body_bytes
        )
        self._health = None
        if settings.health_listen:
            self._health = HealthServer(
                create_health_app(self._endpoints), *address(settings.health_listen)
            )
        self.metrics.watch(
            "reservations", "Replicas that room is held for.", self._placer.reservations
        )
        self.metrics.watch(
            "cache_age_seconds",
            "Since the API server was last heard of, in the oldest cache.",
            self._cache_age,
        )

    def app(self) -> Flask:
        """The WSGI application over these parts."""
        return create_app(self._endpoints)

    def start(self) -> None:
        """Begin to watch; plans are made once all caches are filled."""
        if self._health is not None:
            self._health.start()
        for cache in self._caches:
            cache.start()
        self._nominator.start()

    def stop(self) -> None:
        """End every thread."""
        if self._health is not None:
            self._health.stop()
        self._nominator.stop()
        for cache in self._caches:
            cache.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def missing(self) -> str | None:
        """What has not been read from the API server yet, as a sentence; ``None`` once everything
        has."""
        return why_not_synced(self._caches)

    def _cache_age(self) -> float:
        return max((cache.silent_seconds or 0.0 for cache in self._caches), default=0.0)


class _OnceReady:
    """Nobody decides on caches that are half full."""

    def __init__(self, leadership: Leadership, missing: Callable[[], str | None]) -> None:
        self._leadership, self._missing = leadership, missing

    def leads(self) -> bool:
        return self._missing() is None and self._leadership.leads()


def rules_of(settings: Settings) -> Rules:
    """What the placer needs to know of the settings."""
    return Rules(
        scheduler_name=settings.scheduler_name,
        reservation_seconds=settings.reservation_seconds,
        barred_seconds=settings.barred_seconds,
        rescale_hold_seconds=settings.rescale_hold_seconds,
        age_limit_seconds=settings.age_limit_seconds,
    )


def _caches(client: Client, settings: Settings, feed: EventHandlers) -> tuple[Reflector[Any], ...]:
    jobs = EligibilityConfig(scheduler_name=settings.scheduler_name)
    return (
        Reflector(client, watched_nodes(settings.node_selector), observer=feed.node),
        Reflector(client, watched_pods(), observer=feed.pod),
        *(
            Reflector(client, watched_training_jobs(kind, jobs), observer=feed.job)
            for kind in JOB_KINDS
        ),
        Reflector(client, watched_profiles(), observer=feed.profile),
    )


def _leadership(settings: Settings, client: Client) -> Leadership:
    if not settings.leader_lease:
        return Always()
    return LeaseReader(
        client, settings.leader_lease, settings.leader_identity or socket.gethostname()
    )
