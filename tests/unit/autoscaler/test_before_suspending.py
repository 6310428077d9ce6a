"""Before a job is suspended: its checkpoint is young, whenever its log was read, and its last lines
are in."""

from collections.abc import Callable

import pytest

from autoscaler.job_state import JobState
from autoscaler.rescale.executor import Hooks, RescaleExecutor
from autoscaler.rescale.types import RescaleRecord, RescaleRules, Step
from optimus.jobs import Counts, Role
from optimus.progress.types import LogLine, RunLook
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import BEGINNING, tf_job


def moving(rescale: str) -> tuple[FakeCluster, JobState]:
    """A job that trains, and is to be moved."""
    cluster = FakeCluster()
    cluster.submit(tf_job("a", 1, 1, target_loss="0.1", rescale=rescale))
    cluster.pass_time(1.0)
    observation = cluster.observe(cluster.at)
    seen = observation.jobs["uid-a"]
    assert seen.active is not None
    state = JobState.first_seen(seen, seen.active, None, cluster.at)
    state.look(observation)
    state.begin(
        RescaleRecord(
            "i", cluster.at, Counts(1, 1), Counts(1, 2), "why", Step.CHECKPOINT, cluster.at
        )
    )
    return cluster, state


def move(cluster: FakeCluster, state: JobState, read_logs: Callable[[JobState], bool]) -> bool:
    """Take the rescale on; whether the job is suspended by then."""
    hooks = Hooks(lambda _: True, lambda *_: None, read_logs, lambda *_: None)
    rescaling = RescaleExecutor(cluster, cluster, hooks, RescaleRules(fresh_seconds=30))
    rescaling.move(state, cluster.observe(cluster.at), cluster.at)
    return cluster.jobs["a"].suspended


def test_a_suspension_waits_until_the_last_lines_are_in() -> None:
    cluster, state = moving("any")
    answers = [False, False, True]
    coming = iter(answers)
    seen = []
    for _ in answers:
        seen.append(move(cluster, state, lambda _: next(coming)))
        cluster.at += 2
    assert seen == answers


@pytest.mark.parametrize(
    ("reads", "suspended"),
    [
        pytest.param([(0, 1), (10, 2)], False, id="no checkpoint"),
        pytest.param(
            [(0, 1), (10, 9), (990, 2), (1000, 999)], True, id="one between the last two reads"
        ),
        pytest.param(
            [(0, 1), (10, 2), (1000, 399)], False, id="one that was read ten minutes late"
        ),
        pytest.param(
            [(0, 1), (10, 2), (1000, 999)], False, id="one that may be as old as the read before"
        ),
        pytest.param([(1000, 999)], True, id="a young one on the first read"),
        pytest.param([(1000, 399)], False, id="an old one on the first read"),
    ],
)
def test_only_a_checkpoint_that_is_known_to_be_young_lets_a_job_be_suspended(
    reads: list[tuple[int, int]], suspended: bool
) -> None:
    """Reads of the log and the newest line of each; odd ones tell of a checkpoint."""
    cluster, state = moving("checkpoint")
    assert state.run is not None
    for read_at, at in reads:
        text = f"step={at + 1} loss=1" + (f" checkpoint={at + 1}" if at % 2 and at > 1 else "")
        look = RunLook(state.run.name, "", BEGINNING + read_at)
        state.log.observe(
            "a-worker-0", Role.WORKER, 0, Counts(1, 1), [LogLine(BEGINNING + at, text)], look
        )
    for tick in range(5):  # the log is not read any more: what was old does not become young
        cluster.at = BEGINNING + 1000 + 2 * tick
        is_suspended = move(cluster, state, lambda _: True)
    assert is_suspended is suspended
