"""Jobs with rare checkpoints, or none, are left no worse and delay no other job."""

import pytest

from autoscaler.logs.poller import JobRun
from optimus.errors import NotReady
from optimus.jobs import Counts
from optimus.progress.log import ProgressLog
from optimus.progress.types import PodRun
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


@pytest.mark.parametrize("counts", [(4, 12), (2, 6)])
@pytest.mark.parametrize(("goal", "has_forecast"), [("0.0501", True), ("1e-30", False)])
def test_a_job_that_never_prints_a_checkpoint_is_left_no_worse_than_submitted(
    harness: ControllerHarness,
    cluster: FakeCluster,
    counts: tuple[int, int],
    goal: str,
    has_forecast: bool,
) -> None:
    cluster.checkpoints = False
    job = tf_job("a", *counts, target_loss=goal, training_mode="sync", global_batch_size="64")
    cluster.submit(job).annotate(min_ps="1", min_workers="1")
    harness.run(300)
    state = harness.state()
    assert 1 <= len(state.record.profiled) <= 4
    if not has_forecast:
        assert isinstance(state.forecasts.current, NotReady)
        assert job.counts == Counts(*counts)
    assert job.speed() >= tf_job("as-submitted", *counts).speed()
    assert job.runs <= 7, "four runs, a return between them, and the last move"


def test_room_is_not_held_for_long_for_a_job_that_never_prints_a_checkpoint(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.checkpoints_of = {"b"}
    for name in ("a", "b"):
        cluster.submit(
            tf_job(name, 1, 2, target_loss="0.0501", training_mode="sync", global_batch_size="64")
        )
    harness.run(600)
    runs, waited = cluster.jobs["a"].runs, 0
    for _ in range(100):
        harness.run(2)
        waited += harness.status("a").phase == "WaitingForCheckpoint"
    assert (cluster.jobs["a"].runs, waited) == (runs, 0)
    assert sum(len(fake.pods) for fake in cluster.jobs.values()) >= cluster.cpus - 1
    assert cluster.reasons("a").count("WaitingForCheckpoint") <= 2


def test_a_job_whose_checkpoints_are_rare_is_moved_at_one(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.checkpoints = False
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="1e-4", training_mode="sync", max_workers="1", max_ps="1")
    )
    harness.run_until("a", "Training")
    job.annotate(min_workers="2", max_workers="2")
    harness.run(300)
    assert (job.runs, harness.status("a").phase) == (1, "Training")
    assert "expired waiting for a checkpoint" in harness.status("a").reason
    harness.restart()
    harness.run(30)
    assert job.runs == 1
    cluster.checkpoints = True
    harness.run(40)
    assert job.counts == Counts(1, 2)
    assert job.saved > 0


def until_waiting(cluster: FakeCluster, harness: ControllerHarness) -> FakeJob:
    """A job that is to grow at its next checkpoint, which does not come yet."""
    goal = {"target_loss": "0.0501", "training_mode": "sync"}
    job = cluster.submit(tf_job("a", 1, 2, **goal, max_ps="1", max_workers="2"))
    harness.run_until("a", "Training")
    cluster.checkpoints = False
    job.annotate(min_workers="3", max_workers="3")
    harness.run_until("a", "WaitingForCheckpoint")
    return job


@cases(
    ("written", "allowed"),
    {
        "never": ({"rescale": "never"}, []),
        "paused": ({"pause": "true"}, []),
        "recommendations only": ({"manage": "recommend"}, []),
        "to be managed no longer": ({"target_loss": None}, []),
        "what cannot be read": ({"target_loss": "low"}, []),
        "less": ({"min_workers": "1", "max_workers": "1"}, [Counts(1, 1)]),
    },
)
def test_annotations_changed_while_a_rescale_waits_take_effect(
    cluster: FakeCluster,
    harness: ControllerHarness,
    written: dict[str, str | None],
    allowed: list[Counts],
) -> None:
    job = until_waiting(cluster, harness)
    before = job.counts
    job.annotate(**written)
    harness.run(2)
    cluster.checkpoints = True
    for _ in range(60):
        harness.run(1)
        assert job.counts in [before, *allowed]


def test_a_stale_checkpoint_does_not_count_while_the_log_is_read_late(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="1e-4", training_mode="sync", max_workers="1", max_ps="1")
    )
    for _ in range(600):
        cluster.pass_time(1)
    cluster.checkpoints, saved = False, job.saved
    job.annotate(min_workers="2", max_workers="2")
    for _ in range(3600):
        cluster.pass_time(1)
    # A read brings little: the checkpoints of an hour ago are seen one by one, as if just made.
    cluster.most_lines = 20
    harness.run(100)
    assert (job.runs, job.saved) == (1, saved)
    cluster.most_lines = 1_000_000
    harness.run(20)
    assert (job.runs, job.saved) == (1, saved)
    cluster.checkpoints = True
    harness.run(40)
    assert job.counts == Counts(1, 2)
    assert job.saved > saved


class _LateReads:
    """The last lines of a run show that its log goes on after them."""

    def read_now(self, log: ProgressLog, run: JobRun) -> bool:
        look = PodRun(run.name, truncated=True)
        for pod in run.pods:
            assert pod.replica is not None
            log.observe(pod.name, pod.replica.role, pod.replica.index, run.counts, [], look)
        return True


def test_lines_read_right_before_a_suspension_may_show_that_the_checkpoint_is_old(
    cluster: FakeCluster,
) -> None:
    harness = ControllerHarness(cluster, last_reads=_LateReads())
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="1e-4", training_mode="sync", max_workers="1", max_ps="1")
    )
    harness.run(20)
    job.annotate(min_workers="2", max_workers="2")
    harness.run_until("a", "Suspending")
    harness.run(60)
    assert (job.runs, job.counts) == (1, Counts(1, 1))
