"""A job is suspended only after a recent checkpoint, and with its last lines read."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from autoscaler.executor import RescaleAccess, Rescales
from autoscaler.jobs.state import TrackedJob
from autoscaler.logs.poller import JobRun
from autoscaler.metrics import Metrics
from autoscaler.profile.events import EventRecorder
from autoscaler.profile.writer import ProfileRecorder
from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogLine, PodRun
from optimus.rescale.machine import RescaleConfig
from optimus.rescale.purpose import RescalePurpose
from tests.cases import cases
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import START_AT, tf_job
from tests.unit.rescale.test_executor import everything_fits


def moving(rescale: str) -> tuple[FakeCluster, TrackedJob]:
    """A job that trains, and is to be moved."""
    cluster = FakeCluster()
    cluster.submit(tf_job("a", 1, 1, target_loss="0.1", rescale=rescale))
    cluster.pass_time(1.0)
    observation = cluster.observe(cluster.at)
    seen = observation.jobs["uid-a"]
    assert seen.active is not None
    state = TrackedJob.first_seen(seen, seen.active, None, cluster.at)
    state.update(observation, nodes_changed=False)
    state.begin("i", cluster.at, Counts(1, 2), "why", RescalePurpose.INTERVAL)
    return cluster, state


@dataclass
class Reads:
    """Answers of the last reads, one for each tick."""

    answers: Iterator[bool]

    def read_now(self, log: ProgressLog, run: JobRun) -> bool:
        del log, run
        return next(self.answers)


def is_suspended_after_advance(cluster: FakeCluster, state: TrackedJob, reads: Reads) -> bool:
    events = EventRecorder(cluster, Metrics())
    recorder = ProfileRecorder(cluster, events, spacing_seconds=0)
    access = RescaleAccess(cluster, cluster, recorder, events, reads)
    executor = Rescales(access, RescaleConfig(fresh_seconds=30))
    executor.advance(state, cluster.observe(cluster.at), everything_fits, cluster.at)
    return cluster.jobs["a"].suspended


@cases(
    ("reads", "suspended"),
    {
        "no checkpoint": ([(0, 1), (10, 2)], False),
        "one between the last two reads": ([(0, 1), (10, 9), (990, 2), (1000, 999)], True),
        "one that was read ten minutes late": ([(0, 1), (10, 2), (1000, 399)], False),
        "one that may be as old as the read before": ([(0, 1), (10, 2), (1000, 999)], False),
        "a young one on the first read": ([(1000, 999)], True),
        "an old one on the first read": ([(1000, 399)], False),
    },
)
def test_only_a_checkpoint_that_is_known_to_be_young_lets_a_job_be_suspended(
    reads: list[tuple[int, int]], suspended: bool
) -> None:
    """Reads of the log and the newest line of each; odd ones show a checkpoint."""
    cluster, state = moving("checkpoint")
    assert state.gang.run is not None
    for read_at, at in reads:
        text = f"step={at + 1} loss=1" + (f" checkpoint={at + 1}" if at % 2 and at > 1 else "")
        look = PodRun(state.gang.run.name, "", START_AT + read_at)
        state.log.observe(
            "a-worker-0", Role.WORKER, 0, Counts(1, 1), [LogLine(START_AT + at, text)], look
        )
    for tick in range(5):  # the log is not read any more: what was old does not become young
        cluster.at = START_AT + 1000 + 2 * tick
        is_suspended = is_suspended_after_advance(cluster, state, Reads(repeat(True)))
    assert is_suspended is suspended
