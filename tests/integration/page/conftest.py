"""The page over a sample cluster, and a browser to look at it."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler.web.feed import PageFeed
from autoscaler.web.page import create_page
from optimus.interval.decision_settings import DecisionSettings
from optimus.runtime.health import HealthServer
from tests.integration.page.browser import Browser, find_chromium
from tests.unit.autoscaler.web.sample_cluster import SampleCluster, sample_display


class ServedPage:
    """A page that is served, and the cluster behind it."""

    def __init__(self, feed: PageFeed, cluster: SampleCluster, port: int) -> None:
        self.feed, self.cluster, self.address = feed, cluster, f"http://127.0.0.1:{port}/"
        self._ticks = 0

    def tick(self) -> None:
        """Publish the cluster somewhat later."""
        self._ticks += 1
        self.feed.take(self.cluster.copy(self._ticks))


@contextmanager
def served(cluster: SampleCluster) -> Iterator[ServedPage]:
    """Serve the page of a cluster on a free port."""
    feed = PageFeed(lambda: "autoscaler-1", timer=time.monotonic)
    feed.take(cluster.copy())
    with (
        feed,
        HealthServer(
            create_page(feed, DecisionSettings(), sample_display()), "127.0.0.1", 0
        ) as server,
    ):
        yield ServedPage(feed, cluster, server.port)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        if os.environ.get("OPTIMUS_REQUIRE_BROWSER"):
            pytest.fail("no Chromium is installed, and OPTIMUS_REQUIRE_BROWSER is set")
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    # Not pytest's folder: the browser's last processes may still write when that is removed.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        Browser(program, Path(profile)) as browser,
    ):
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser as a new visitor's, with nothing complained about yet."""
    chromium.open("about:blank")
    chromium.look()
    chromium.complaints.clear()
    return chromium
