"""``python -m tests.integration.page.pictures docs/images``: the page, in each theme."""

import argparse
import sys
import tempfile
from dataclasses import replace
from math import cos, tau
from pathlib import Path

from autoscaler.web.copies import ClusterCopy
from optimus.snapshot import ClusterSnapshot
from tests.integration.page.browser import Browser, find_chromium
from tests.integration.page.conftest import ServedPage, served
from tests.unit.autoscaler.web.sample_cluster import SampleCluster

_JOBS = 28
_TICKS = 240
"""Of two seconds each."""
_WIDTH, _HEIGHT = 1280, 860


def main() -> int:
    """Serve a sample cluster whose use falls and rises, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    program = find_chromium()
    if program is None:
        sys.stderr.write("no Chromium is installed\n")
        return 1
    for theme in ("light", "dark"):
        with (
            served(SampleCluster(_JOBS)) as page,
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
            Browser(program, Path(profile)) as browser,
        ):
            for tick in range(1, _TICKS):
                _show(page, tick)
            browser.look(_WIDTH, _HEIGHT, theme)
            browser.open(page.address)
            browser.wait("!!document.querySelector('.jobs tbody tr')")
            _settle(browser)
            browser.screenshot(folder / f"page-{theme}.png")
    return 0


def _settle(browser: Browser) -> None:
    browser.value("new Promise((done) => setTimeout(done, 400))")


def _show(page: ServedPage, tick: int) -> None:
    """The cluster at a tick, while a part of its pods runs."""
    part = 0.8 + 0.25 * cos(tau * tick / _TICKS)
    page.feed.take(_begun(page.cluster.copy(tick), part))


def _begun(copy: ClusterCopy, part: float) -> ClusterCopy:
    """The cluster while this part of its pods runs."""
    seen = copy.observation
    pods = seen.snapshot.pods[: round(part * len(seen.snapshot.pods))]
    jobs = [each.job for each in copy.jobs.values() if each.job is not None]
    snapshot = ClusterSnapshot.of(copy.at, jobs, seen.snapshot.nodes, pods)
    return replace(copy, observation=replace(seen, snapshot=snapshot))


if __name__ == "__main__":
    sys.exit(main())
