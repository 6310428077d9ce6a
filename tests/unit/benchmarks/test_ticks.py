"""Benchmarks of caches wait for states: on a busy machine lists take as long as they take."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import pytest
import urllib3

from benchmarks.first_list import wait_filled
from benchmarks.ticks import StoredCluster, figures
from optimus.kube.reflector import Reflector


class SlowList:
    """A cache that is filled when it has been waited for a number of times, or never."""

    def __init__(self, looks: int, failure: str | None = None) -> None:
        self.looks, self.failure, self.synced = looks, failure, False

    def wait_synced(self, _: float) -> bool:
        self.looks -= 1
        self.synced = self.looks <= 0
        return self.synced


def wait_for(*caches: SlowList) -> None:
    wait_filled(*cast("Sequence[Reflector[Any]]", caches))


def test_a_list_is_waited_for_however_long_it_takes() -> None:
    slow, slower = SlowList(1_000), SlowList(100_000)
    wait_for(slow, slower)
    assert slow.synced
    assert slower.synced


def test_a_list_that_cannot_be_read_ends_the_benchmark() -> None:
    with pytest.raises(RuntimeError, match="the server is gone"):
        wait_for(SlowList(10, "the server is gone"))


def test_changes_are_there_once_the_watch_has_taken_them_in() -> None:
    cluster, seen, go = StoredCluster(2, 2, 5), list[bytes](), threading.Event()

    def read() -> None:
        go.wait(180)
        with suppress(urllib3.exceptions.ProtocolError):  # as a watch ends
            seen.extend(each for each in cluster.watched(shows=True) if b"MODIFIED" in each)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    go.set()
    cluster.change_pods(3, 0)
    cluster.end()
    reader.join(180)
    assert len(seen) == 3


def test_every_kind_of_tick_is_measured() -> None:
    found = figures(jobs=2, nodes=4, pods=1000)
    assert found["jobs"] == 2
    assert found["first_tick"]["planned"]  # type: ignore[index]
    assert found["idle_tick"]["calls"] == 0  # type: ignore[index]
