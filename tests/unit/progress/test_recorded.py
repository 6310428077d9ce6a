"""Logs of real runs: of the light examples and of the frameworks, through rescales."""

from datetime import datetime

import pytest

from optimus.jobs import Batch, BatchScope, Counts, Role, TrainingMode
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogLine
from tests.cases import cases
from tests.unit.progress.jobs import START, stamped
from tests.unit.progress.reads import DATA, LATER


def recorded(name: str) -> list[LogLine]:
    """A log whose lines begin with the time, which is taken as the kubelet's."""
    texts = (DATA / "light" / name).read_text().splitlines()
    stamps = (datetime.fromisoformat(text.split(" ", 1)[0]).timestamp() for text in texts)
    return [LogLine(at, text) for at, text in zip(stamps, texts, strict=True)]


def test_a_real_job_through_five_runs() -> None:
    log = ProgressLog(LogFormatOptions(mode=TrainingMode.SYNC, batch=Batch(64, BatchScope.JOB)))
    speeds = {
        Counts(1, 2): 2.42,
        Counts(1, 1): 2.04,
        Counts(3, 1): 2.25,
        Counts(1, 4): 1.99,
        Counts(4, 4): 3.64,
    }
    for run, counts in enumerate(speeds):
        lines = recorded(f"sync-r{run}-p{counts.ps}w{counts.workers}.log")
        log.observe("light-worker-0", Role.WORKER, 0, counts, lines, f"run-{run}")
    progress = log.progress(LATER)
    assert {sample.counts: sample.steps_per_second for sample in progress.samples} == pytest.approx(
        speeds, rel=0.02
    )
    assert progress.steps_per_epoch == pytest.approx(20, rel=0.05)
    steps = [point.step for point in progress.losses]
    assert steps == sorted(set(steps), key=lambda step: step or 0)
    assert progress.diagnostic is None


@cases(
    ("kind", "lead", "mode", "restored", "last", "per_epoch"),
    {
        "MXNet, dist_sync": ("mxnet-sync", "worker-0", TrainingMode.SYNC, 160, 260, 50),
        "MXNet, dist_async": ("mxnet-async", "worker-0", TrainingMode.ASYNC, 160, 398, 100),
        "TensorFlow, parameter servers": (
            "tensorflow",
            "chief-0",
            TrainingMode.ASYNC,
            120,
            260,
            100,
        ),
    },
)
def test_a_real_framework_through_a_rescale(
    kind: str, lead: str, mode: TrainingMode, restored: int, last: int, per_epoch: int
) -> None:
    role = Role.CHIEF if lead.startswith("chief") else Role.WORKER
    log = ProgressLog(LogFormatOptions(mode=mode))
    before = (DATA / f"{kind}-before-{lead}.log").read_text().splitlines()
    resumed = (DATA / f"{kind}-resumed-{lead}.log").read_text().splitlines()
    log.observe(lead, role, 0, Counts(1, 2), stamped(before, every=0.1), "before")
    assert log.progress(LATER).checkpoint_step == restored
    ended = log.progress(LATER).step or 0
    assert ended > restored
    log.observe(
        lead, role, 0, Counts(2, 3), stamped(resumed[:6], start=START + 300, every=0.1), "resumed"
    )
    assert max(point.step or 0 for point in log.progress(LATER).losses) < ended
    log.observe(
        lead, role, 0, Counts(2, 3), stamped(resumed, start=START + 300, every=0.1), "resumed"
    )
    progress = log.progress(LATER)
    steps = [point.step or 0 for point in progress.losses]
    assert steps == sorted(set(steps))
    assert restored + 1 in steps
    assert progress.step == last
    assert progress.steps_per_epoch == pytest.approx(per_epoch, rel=0.03)
    assert {sample.counts for sample in progress.samples} == {(1, 2), (2, 3)}
