"""The real cluster behind the controller's seams: copies of what it watches."""

import logging
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from autoscaler.observation import Observation
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.nodes import watched_nodes
from optimus.kube.pods import watched_pods
from optimus.kube.profiles import watched_profiles
from optimus.kube.reflector import Reflector, why_not_synced
from optimus.kube.training_jobs import watched_training_jobs

_LOG = logging.getLogger(__name__)


class Caches:
    """Copies of jobs, nodes, pods and profiles; a ``with`` block keeps them fresh."""

    def __init__(
        self, client: Client, rules: EligibilityConfig, node_selector: str, node_kind_label: str
    ) -> None:
        self._node_kind_label = node_kind_label
        self._jobs = [Reflector(client, watched_training_jobs(kind, rules)) for kind in JOB_KINDS]
        self._nodes = Reflector(client, watched_nodes(node_selector))
        self._pods = Reflector(client, watched_pods())
        self._profiles = Reflector(client, watched_profiles())

    @property
    def all(self) -> Sequence[Reflector[Any]]:
        """Every copy."""
        return *self._jobs, self._nodes, self._pods, self._profiles

    def __enter__(self) -> Self:
        for cache in self.all:
            cache.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for cache in self.all:
            cache.stop()

    def wait_synced(self, timeout_seconds: float) -> bool:
        """Wait until every copy has been filled once."""
        end = time.monotonic() + timeout_seconds
        return all(cache.wait_synced(max(end - time.monotonic(), 0.0)) for cache in self.all)

    def missing(self) -> str | None:
        """A sentence on what was not read yet, and why; ``None`` once all was."""
        return why_not_synced(self.all)

    def observe(self, at: float) -> Observation:
        """The cluster as the copies have it."""
        jobs = tuple(job for reflector in self._jobs for job in reflector.items())
        nodes, pods, profiles = self._nodes.items(), self._pods.items(), self._profiles.items()
        return Observation.of(at, jobs, nodes, pods, profiles, self._node_kind_label)
