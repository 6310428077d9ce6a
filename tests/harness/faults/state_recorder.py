"""What happens to the jobs and pods of a namespace, also across a restart of the API server."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import urllib3
from kubernetes.client.exceptions import ApiException

from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, Api, Json, in_namespace
from tests.harness.training_runs import TrainingLogs
from tests.harness.waiting import wait_until
from tests.harness.watch_recorder import RecordedVersions, lines_of

_WATCH_SECONDS = 600
GONE: Final = (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError)
"""What a call meets while the server is away."""


class Recorder:
    """Keeps jobs and profiles as they were after each change, and the trainers' logs, until
    `stop`."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.logs = TrainingLogs(api, namespace)
        self.jobs: list[Json] = []
        self.profiles: list[Json] = []
        self._api, self._stopping = api, threading.Event()
        self._open: dict[str, urllib3.BaseHTTPResponse] = {}
        watched: tuple[tuple[str, Callable[[Json], None]], ...] = (
            (in_namespace(CORE, namespace, "pods"), self.logs.update),
            (in_namespace(KUBEFLOW, namespace, "tfjobs"), self.jobs.append),
            (in_namespace(OPTIMUS, namespace, "trainingprofiles"), self.profiles.append),
        )
        self._recorded = {path: RecordedVersions() for path, _ in watched}
        self._threads = [
            threading.Thread(target=self._follow, args=each, daemon=True) for each in watched
        ]
        for thread in self._threads:
            thread.start()

    def catch_up(self) -> None:
        """Wait until all that is stored now has been recorded. Raises what `GONE` holds where the
        server does not answer."""
        listed = {path: self._api.get(path) for path in self._recorded}
        wait_until(
            "the watches have shown all that is stored",
            lambda: all(self._recorded[path].has_all(each) for path, each in listed.items()),
        )

    def stop(self) -> None:
        """End every watch: an API server that is stopped waits for them."""
        self._stopping.set()
        for response in list(self._open.values()):
            with suppress(*GONE, AttributeError, RuntimeError):  # it has just ended by itself
                response.shutdown()
        for thread in self._threads:
            thread.join(10)
        self.logs.finish()

    def _follow(self, path: str, take: Callable[[Json], None]) -> None:
        # Each watch begins with what is there, so an object may come twice: nothing below counts
        # them.
        while not self._stopping.wait(0.1):
            with suppress(*GONE), self._api.watch(path, _WATCH_SECONDS) as response:
                self._open[path] = response
                self._recorded[path] = RecordedVersions()
                if self._stopping.is_set():  # in between
                    return
                for event in map(json.loads, lines_of(response)):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        take(event["object"])
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        self._recorded[path].note(event)


@contextmanager
def recorder(api: Api, namespace: str) -> Iterator[Recorder]:
    """Record for the length of the block."""
    running = Recorder(api, namespace)
    try:
        yield running
    finally:
        running.stop()
