"""The way from a log line to a patch runs through few files.

Counted are the product's files of which a function is called in consecutive ticks: one that plans
an interval with a fitted forecast, those after it that read log lines, up to the one that suspends
the job for what was decided. API objects are decoded outside the count: in the process the threads
of the watches do that.
"""

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from optimus.jobs import JobKey
from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from optimus.models.forecast import Forecast
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job

ROOT = Path(__file__).parents[3]
PRODUCT = tuple(f"{ROOT / name}/" for name in ("autoscaler", "optimus"))
MOST = {"autoscaler": 12, "optimus/kube": 3}


class CalledFiles:
    """The product's files of which functions are called, on all threads, and those functions."""

    def __init__(self) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)
        self._counts = False

    @contextmanager
    def counting(self, counts: bool = True) -> Iterator[None]:
        before, self._counts = self._counts, counts
        try:
            yield
        finally:
            self._counts = before

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_call = self._counts and event == "call" and code.co_name != "<module>"
        if is_call and code.co_filename.startswith(PRODUCT):
            path = Path(code.co_filename).relative_to(ROOT)
            self.functions[str(path)].add(code.co_name)

    def per_package(self) -> Counter[str]:
        parents = (Path(path).parts[:-1] for path in self.functions)
        return Counter("/".join(parts[: 1 if parts[0] == "autoscaler" else 2]) for parts in parents)


class DecodedCluster(FakeCluster):
    """A fake cluster whose API objects are decoded outside the count."""

    def __init__(self, called: CalledFiles) -> None:
        super().__init__()
        self.called = called

    def decoded(self) -> tuple[list[TrainingJob], list[ClusterNode], list[Pod]]:
        with self.called.counting(counts=False):
            return super().decoded()

    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        with self.called.counting(counts=False):
            return super().job(kind, key)

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        with self.called.counting(counts=False):
            return super().pods_of(job)

    def suspend(
        self,
        job: TrainingJob,
        interval_id: str,
        limits: Mapping[str, int],
        pause: PauseReason | None = None,
    ) -> Written | Refused:
        with self.called.counting(counts=False):  # the fake makes its mark as the writer does
            return super().suspend(job, interval_id, limits, pause)


@contextmanager
def profile_function(called: CalledFiles) -> Iterator[None]:
    """Set for threads that start from now on, and for this one."""
    before = sys.getprofile()
    threading.setprofile(called.note)
    sys.setprofile(called.note)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def files_from_log_line_to_patch() -> CalledFiles:
    called = CalledFiles()
    with profile_function(called):
        cluster = DecodedCluster(called)
        harness = ControllerHarness(cluster, expects=False)
        # What is kept for later jobs is no part of the way.
        components = harness.controller._components
        harness.controller._components = replace(components, workloads=None)
        goal = {"target_loss": "0.12", "training_mode": "sync", "global_batch_size": "64"}
        job = cluster.submit(tf_job("a", 1, 1, **goal))
        for _ in range(200):
            cluster.pass_time(1.0)
            intervals, was_suspended = harness.intervals, job.suspended
            with called.counting():
                harness.controller.tick()
            state = harness.controller.managed.states["uid-a"]
            rescale = state.rescale
            if rescale is None or rescale.record.purpose is not RescalePurpose.INTERVAL:
                called.functions.clear()
            elif job.suspended and not was_suspended:
                return called
            elif harness.intervals > intervals:
                assert isinstance(state.forecasts.current, Forecast)
    raise AssertionError("no interval's decision was begun")


def test_the_way_from_a_log_line_to_a_patch_runs_through_few_files() -> None:
    called = files_from_log_line_to_patch()
    packages = called.per_package()
    report = [f"{packages.total()} files"]
    for package, count in sorted(packages.items()):
        report.append(f"{package}: {count}")
        report += [f"  {path}" for path in sorted(called.functions) if path.startswith(package)]
    print("\n".join(report))
    assert packages.total() <= 65, "\n".join(report)
    for package, most in MOST.items():
        assert packages[package] <= most, package
    assert "_lines_of" in called.functions["autoscaler/logs/poller.py"], "log lines were read"
