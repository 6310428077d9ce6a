"""Follows the whole logs of a job's pods: they are deleted with the pod."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import urllib3
from kubernetes.client.exceptions import ApiException

from tests.harness.api import CORE, Api, Json, in_namespace

_LOOK_SECONDS = 0.5
_SILENCE_SECONDS = 300.0
_STARTED = ("Running", "Succeeded", "Failed")


@dataclass
class FollowedLog:
    """One pod's log, as far as it has come, with the kubelet's timestamps."""

    pod: str
    uid: str
    pieces: list[bytes] = field(default_factory=list)
    error: str = ""

    @property
    def text(self) -> str:
        """What has been printed so far; the last line may not be complete yet."""
        return b"".join(list(self.pieces)).decode(errors="replace")


class LogFollower:
    """Follows every pod that `pods` returns, from entering to leaving the `with` block, in threads
    of its own."""

    def __init__(self, api: Api, pods: Callable[[], Sequence[Json]]) -> None:
        self._api, self._pods = api, pods
        self._logs: dict[str, FollowedLog] = {}
        self._readers: list[threading.Thread] = []
        self._stop = threading.Event()
        self._looker = threading.Thread(target=self._look, name="log-follower", daemon=True)

    def __enter__(self) -> Self:
        """Begin to poll for pods."""
        self._looker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Look for no more; logs under way end with their pods."""
        self._stop.set()
        self._looker.join(60)

    @property
    def logs(self) -> tuple[FollowedLog, ...]:
        """The logs so far, in the order in which their pods were seen to run."""
        return tuple(self._logs.values())

    def wait_read(self, seconds: float) -> None:
        """Wait until every log under way has been read to its end."""
        for reader in tuple(self._readers):
            reader.join(seconds)
            assert not reader.is_alive(), f"{reader.name} has no end"

    def _look(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            with suppress(
                ApiException, urllib3.exceptions.HTTPError, OSError
            ):  # polled again in a moment
                for pod in self._pods():
                    if (
                        pod["metadata"]["uid"] not in self._logs
                        and pod["status"].get("phase") in _STARTED
                    ):
                        self._follow(pod["metadata"])

    def _follow(self, meta: Json) -> None:
        log = self._logs[meta["uid"]] = FollowedLog(meta["name"], meta["uid"])
        path = in_namespace(CORE, meta["namespace"], "pods", meta["name"]) + "/log"
        reader = threading.Thread(
            target=self._read, args=(path, log), name=f"log of {log.pod}", daemon=True
        )
        self._readers.append(reader)
        reader.start()

    def _read(self, path: str, log: FollowedLog) -> None:
        try:
            with self._api.stream(
                path, _SILENCE_SECONDS, follow="true", timestamps="true"
            ) as response:
                for piece in response.stream():
                    log.pieces.append(piece)
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            log.error = str(error)
