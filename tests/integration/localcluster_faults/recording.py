"""What happens to the jobs and pods of a namespace, also across a restart of the API server."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import urllib3
from kubernetes.client.exceptions import ApiException

from tests.e2e.harness.api import CORE, KUBEFLOW, OPTIMUS, Api, Json, in_namespace
from tests.e2e.loop.recording import lines_of
from tests.e2e.loop.training import LogBook

_WATCH_SECONDS = 600
GONE: Final = (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError)
"""What a call meets while the server is away."""


class Recorder:
    """Keeps jobs and profiles as they were after each change, and the trainers' logs, until `stop`."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.logs = LogBook(api, namespace)
        self.jobs: list[Json] = []
        self.profiles: list[Json] = []
        self._api, self._stopping = api, threading.Event()
        watched: tuple[tuple[str, Callable[[Json], None]], ...] = (
            (in_namespace(CORE, namespace, "pods"), self.logs.look),
            (in_namespace(KUBEFLOW, namespace, "tfjobs"), self.jobs.append),
            (in_namespace(OPTIMUS, namespace, "trainingprofiles"), self.profiles.append),
        )
        for path, take in watched:
            threading.Thread(target=self._follow, args=(path, take), daemon=True).start()

    def stop(self) -> None:
        """Open no watch again; those that are open end with the cluster."""
        self._stopping.set()

    def _follow(self, path: str, take: Callable[[Json], None]) -> None:
        # Each watch begins with what is there, so an object may come twice: nothing below counts them.
        while not self._stopping.wait(0.1):
            with suppress(*GONE), self._api.watch(path, _WATCH_SECONDS) as response:
                for event in map(json.loads, lines_of(response)):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        take(event["object"])


@contextmanager
def recorder(api: Api, namespace: str) -> Iterator[Recorder]:
    """Record for the length of the block."""
    running = Recorder(api, namespace)
    try:
        yield running
    finally:
        running.stop()
