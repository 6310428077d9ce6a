"""When a copy lists again, and how long it pauses; one round after the other, by hand."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from random import Random

import pytest
import urllib3

from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.pods import Pod, watched_pods
from optimus.kube.quotas import ResourceQuota, watched_quotas
from optimus.kube.reflector import Reflector, ReflectorConfig


@dataclass
class FailingWatches:
    """A server that lists, and of which every watch fails in one way."""

    kind: ErrorKind
    lists: int = 0

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        self.lists += 1
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": []}).encode()

    def stream(
        self, what: str, path: str, query: Sequence[tuple[str, str]], read_seconds: float
    ) -> AbstractContextManager[urllib3.BaseHTTPResponse]:
        raise KubeError(self.kind, "no watch")

    def rounds(self, count: int) -> list[float]:
        """The pauses after so many rounds of a copy."""
        copy: Reflector[Pod] = Reflector(self, watched_pods(), random=Random(1))
        return [copy._round() for _ in range(count)]


def test_a_server_on_which_every_version_has_expired_is_not_listed_in_a_loop() -> None:
    server = FailingWatches(ErrorKind.EXPIRED)
    first, *others = server.rounds(6)
    assert first == 0.0, "once is ordinary"
    assert all(pause >= 0.5 for pause in others)


def test_a_version_from_which_no_watch_begins_is_given_up() -> None:
    server = FailingWatches(ErrorKind.TRANSIENT)
    server.rounds(4)
    assert server.lists == 1
    server.lists = 0
    server.rounds(8)
    assert server.lists == 2


def test_it_is_known_for_how_long_nothing_has_failed() -> None:
    now = [100.0]
    config = ReflectorConfig(clock=lambda: now[0])
    server = FailingWatches(ErrorKind.TRANSIENT)
    copy: Reflector[Pod] = Reflector(server, watched_pods(), config=config, random=Random(1))
    assert copy.since_failure_seconds == inf
    copy._round()
    now[0] += 12.0
    assert copy.since_failure_seconds == 12.0


@dataclass
class ForbiddenLists(FailingWatches):
    """A server that does not let this identity list, until it is set to."""

    allowed: bool = False

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        if not self.allowed:
            raise KubeError(ErrorKind.FORBIDDEN, f"cannot {what}: forbidden (HTTP 403)")
        return super().get(what, path, query)


def test_without_the_right_to_list_what_it_can_do_without_it_goes_on_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ForbiddenLists(ErrorKind.TRANSIENT)
    copy: Reflector[ResourceQuota] = Reflector(server, watched_quotas(), random=Random(1))
    pauses = [copy._round() for _ in range(5)]
    assert copy.synced
    assert copy.failure is None
    assert copy.since_failure_seconds == inf, "no resume waits for it"
    assert min(pauses) >= 30
    (said,) = caplog.messages
    assert said.endswith("forbidden (HTTP 403); going on: quotas are not respected")
    server.allowed = True
    copy._round()
    assert server.lists == 1


def test_without_the_right_to_list_what_it_needs_it_is_not_synced() -> None:
    server = ForbiddenLists(ErrorKind.TRANSIENT)
    copy: Reflector[Pod] = Reflector(server, watched_pods(), random=Random(1))
    copy._round()
    assert not copy.synced
