"""How much later rescales end beside jobs that print too much:
``python -m benchmarks.rescales_beside_logs [--large 20] [--megabytes 50] [--rescales 6]``.

On an embedded cluster an ordinary job is rescaled again and again, first alone, then beside large
jobs of four workers that print so many megabytes a minute and worker, then alone again. The logs of
the large jobs are answered by a proxy between the autoscaler and the API server: their processes
sleep. A rescale is timed from the change of the job's bounds until it trains at the new counts and
has saved a checkpoint there. Polls, ticks and budgets are the product's own. The result is one JSON
object."""

import argparse
import json
import math
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from localcluster.cluster import LocalCluster
from localcluster.faults.faults import Call
from localcluster.specs import Backend
from optimus.kube.times import format_instant, parse_instant
from tests.harness.faults.fault_scenario import FaultScenario
from tests.harness.faults.processes import AUTOSCALER, EXTENDER
from tests.harness.faults.setup import fault_scenario
from tests.harness.light_jobs import SLEEP, LightJob
from tests.harness.optimus_cluster import QUICK_TUNING, Tuning, training_nodes
from tests.harness.small_jobs import small_job

_WORKERS: Final = 4
_TEXT: Final = "step={} loss={:.6f} accuracy=0.5123 lr=0.001 grad_norm=1.25"
_LINE_BYTES: Final = 31 + len(_TEXT.format(1_000_000, 1.0))
_SETTLE_SECONDS: Final = 30.0
"""Logs that have just appeared are read from their start."""

_TUNING: Final = Tuning(
    {
        "interval_seconds": "10",
        "early_interval_seconds": "1",
        "rescale_spacing_seconds": "1",
        "rescale_cost_seconds": "1",
        "node_selector": QUICK_TUNING.autoscaler["node_selector"],
    },
    {**QUICK_TUNING.extender, "leader_lease": ""},
)


def main() -> None:
    """Run once and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=20)
    parser.add_argument("--megabytes", type=float, default=50.0, help="a minute and worker")
    parser.add_argument("--rescales", type=int, default=6, help="in each of the three parts")
    given = parser.parse_args()
    rate = given.megabytes * 1e6 / 60 / _LINE_BYTES
    nodes = training_nodes(*["16"] * 4)
    with (
        LocalCluster("large-logs", nodes, backend=Backend.EMBEDDED) as cluster,
        tempfile.TemporaryDirectory() as folder,
        fault_scenario(cluster, Path(folder), (EXTENDER, AUTOSCALER), _TUNING) as scenario,
    ):
        scenario.proxy(AUTOSCALER).respond = LargeLogs(rate)
        before = rescales(scenario, given.rescales)
        with large_jobs(scenario, given.large):
            beside = rescales(scenario, given.rescales)
        after = rescales(scenario, given.rescales)
    alone = statistics.median([*before, *after])
    print(
        json.dumps(
            {
                "alone, seconds": [*map(_rounded, (before, after))],
                f"beside {given.large} large jobs, seconds": _rounded(beside),
                "ratio of medians": round(statistics.median(beside) / alone, 3),
            },
            indent=1,
        )
    )


def rescales(scenario: FaultScenario, number: int) -> list[float]:
    """Seconds from asking for other counts until the job trains at them, so many times."""
    job = scenario.training_job()
    seconds = list[float]()
    for _ in range(number):
        began = time.monotonic()
        job = scenario.rescale(job)
        scenario.wait_training(job)
        seconds.append(time.monotonic() - began)
    return seconds


@contextmanager
def large_jobs(scenario: FaultScenario, number: int) -> Iterator[None]:
    """So many jobs whose pods sleep while their logs are long."""
    jobs = [_large(f"large-{index:02}") for index in range(number)]
    scenario.submit(*jobs)
    for job in jobs:
        scenario.wait(partial(_is_bound, scenario, job), f"{job.name} runs")
    time.sleep(_SETTLE_SECONDS)
    try:
        yield
    finally:
        for job in jobs:
            scenario.delete(job)
        scenario.wait(lambda: not any(map(scenario.pods, jobs)), "the large jobs are gone")


def _is_bound(scenario: FaultScenario, job: LightJob) -> bool:
    return len(scenario.bound(job)) == job.pods


def _large(name: str) -> LightJob:
    tiny = {"cpu": "10m", "memory": "16Mi"}
    job = small_job(name, (1, _WORKERS), requests={"PS": tiny, "Worker": tiny})
    return replace(job, script=SLEEP.replace("600", "36000"))


class LargeLogs:
    """Answers for the logs of the large jobs."""

    def __init__(self, rate: float) -> None:
        """``rate``: lines a second."""
        self._began_at, self._rate = math.floor(time.time()), rate
        self._second = lru_cache(maxsize=1024)(self._written_in)

    def __call__(self, call: Call) -> bytes | None:
        """Returns a log, or ``None`` where the call asks for something else."""
        url = urlsplit(call.target)
        if not re.search(r"/pods/large-[^/]*/log$", url.path):
            return None
        query, now = parse_qs(url.query), math.floor(time.time())
        limit = int(query["limitBytes"][0])
        lines = int(query.get("tailLines", ["0"])[0])
        since = parse_instant(query["sinceTime"][0]) if "sinceTime" in query else self._began_at
        if lines:
            since = max(since, now - math.ceil(lines / self._rate))
        body, second = bytearray(), math.floor(since)
        while second < now and len(body) < limit:
            body += self._second(second)
            second += 1
        return bytes(body[:limit])

    def _written_in(self, second: int) -> bytes:
        first = int((second - self._began_at) * self._rate)
        last = int((second + 1 - self._began_at) * self._rate)
        return "".join(
            f"{format_instant(second + (at - first) / self._rate)} "
            f"{_TEXT.format(at, 2 / (1 + max(at, 0)))}\n"
            for at in range(first, last)
        ).encode()


def _rounded(seconds: Sequence[float]) -> list[float]:
    return [round(each, 1) for each in seconds]


if __name__ == "__main__":
    main()
