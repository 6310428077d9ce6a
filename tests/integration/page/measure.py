"""``python -m tests.integration.page.measure [--jobs 1000]``: what the page costs, on both sides.

Prints the browser's time until the rows are there and for an update, the server's for the same, the
time that the loop gives to a copy, and the memory of full timelines.
"""

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from autoscaler.web.copies import JobCopy, copy_of
from autoscaler.web.feed import PageFeed
from autoscaler.web.history import JobTimeline
from autoscaler.web.page import create_page
from optimus.interval import Action, Decision
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import Counts
from optimus.rescale.words import RescaleRecord, Step
from optimus.runtime.health import HealthServer
from tests.integration.page.browser import Browser, find_chromium
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job
from tests.unit.autoscaler.web.sample_cluster import SampleCluster, sample_display

_LOADS = 7
_UPDATES = 20
_EVENTS = 200


def main() -> int:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    jobs = parser.parse_args().jobs
    program = find_chromium()
    if program is None:
        sys.stderr.write("no Chromium is installed\n")
        return 1
    _say("copy in the loop", 1000 * _copy_seconds(jobs), "ms")
    before = _memory()
    cluster, feed = SampleCluster(jobs), PageFeed()
    _say("memory of the jobs themselves", _memory() - before, "MB")
    with (
        feed,
        HealthServer(
            create_page(feed, DecisionSettings(), sample_display()), "127.0.0.1", 0
        ) as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        Browser(program, Path(profile)) as browser,
    ):
        feed.take(cluster.copy())
        _say("rows of all jobs, first time", 1000 * _seconds(feed.update), "ms")
        address = f"http://127.0.0.1:{server.port}/"
        _measure_browser(browser, address, lambda tick: feed.take(cluster.copy(tick)))
    before, shown = _memory(), cluster.copy().jobs.values()
    timelines = [_full_timeline(each, number) for number, each in enumerate(shown)]
    _say(f"memory of {len(timelines)} full timelines", _memory() - before, "MB")
    return 0


def _full_timeline(job: JobCopy, number: int) -> JobTimeline:
    """The timeline of a job about which something new was decided in every interval."""
    timeline = JobTimeline()
    for event in range(_EVENTS):
        counts = Counts(1 + event % 3, 1 + event % 7)
        reason = f"job {number}, event {event}: {'a reason of usual length; ' * 5}"
        decision = Decision(job.key, job.uid, counts, counts, Action.KEEP, reason)
        record = RescaleRecord(f"r{event}", event, counts, counts, reason, Step.START, event)
        status = msgspec.structs.replace(job.status, ps=counts.ps, workers=counts.workers)
        timeline.note(job._replace(status=status, decision=decision, rescale=record), event)
    timeline.last = None
    return timeline


def _copy_seconds(jobs: int) -> float:
    """The loop's part: references to what is known of each managed job."""
    cluster = FakeCluster(cpus=10 * jobs)
    for number in range(jobs):
        cluster.submit(tf_job(f"job-{number}", 1, 2, target_loss="0.12"))
    harness = ControllerHarness(cluster)
    harness.run(4)
    seen = cluster.observe(cluster.at)
    return median(
        _seconds(lambda: copy_of(harness.controller.managed, seen, cluster.at, 600.0))
        for _ in range(9)
    )


def _measure_browser(browser: Browser, address: str, publish: Callable[[int], None]) -> None:
    paints, rows = [], []
    browser.look()
    for _ in range(_LOADS):
        browser.open("about:blank")
        browser.open(address)
        browser.wait("document.querySelectorAll('.line').length >= 50")
        browser.wait("performance.getEntriesByName('first-contentful-paint').length")
        entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        paints.append(browser.value(entry))
        rows.append(browser.value("Number(document.documentElement.dataset.rowsMs)"))
    _say("first contentful paint, median", median(paints), "ms")
    _say("all jobs known and the first drawn, median", median(rows), "ms")
    drawn, arrived = [], []
    for tick in range(1, _UPDATES + 1):
        before = browser.value("document.documentElement.dataset.version")
        began = time.perf_counter()
        publish(tick)
        browser.wait(f"document.documentElement.dataset.version !== {before!r}")
        arrived.append(1000 * (time.perf_counter() - began))
        drawn.append(float(browser.value("document.documentElement.dataset.updateMs")))
    _say("an update's work in the browser, median", median(drawn), "ms")
    _say("the same, largest", max(drawn), "ms")
    _say("from the end of a tick until it is drawn, median", median(arrived), "ms")


def _seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _memory() -> float:
    """MB in memory now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _say(what: str, value: float, unit: str) -> None:
    print(f"{what}: {value:.1f} {unit}")


if __name__ == "__main__":
    sys.exit(main())
