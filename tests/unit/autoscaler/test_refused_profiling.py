"""A profiling run that cannot begin is none: the job is measured once the API server lets it."""

from optimus.jobs import Counts
from optimus.kube.errors import ErrorKind
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def a_job() -> FakeJob:
    """A job that can be measured at one other pair of counts only, which its user allows."""
    one_ps = {"min_ps": "1", "max_ps": "1"}
    workers = {"min_workers": "1", "max_workers": "2", "global_batch_size": "64"}
    return tf_job("a", 1, 2, target_loss="0.01", training_mode="sync", **one_ps, **workers)


def run_until_refused(harness: ControllerHarness) -> None:
    harness.run_till(lambda: "RescaleEnded" in harness.cluster.reasons("a"))


def profiled(harness: ControllerHarness) -> list[Counts]:
    return list(harness.state().record.profiled)


def test_a_refused_suspension_is_no_profiling_run(
    cluster: FakeCluster, profiling: ControllerHarness
) -> None:
    cluster.submit(a_job())
    cluster.refuse = ErrorKind.INVALID
    run_until_refused(profiling)
    assert profiled(profiling) == []
    cluster.refuse = None
    profiling.run_until("a", "Profiling")
    assert profiled(profiling) == [Counts(1, 1)]


def test_a_run_that_waited_too_long_is_none(
    cluster: FakeCluster, profiling: ControllerHarness
) -> None:
    job = cluster.submit(a_job())
    profiling.run_until("a", "Training")
    state = profiling.state()
    profiling.run_till(lambda: state.rescale)
    state.withdraw_rescale(cluster.at)
    assert state.rescale is None
    assert profiled(profiling) == []
    assert job.counts == Counts(1, 2)


def test_what_is_refused_is_tried_again_after_two_minutes(
    cluster: FakeCluster, profiling: ControllerHarness
) -> None:
    cluster.submit(a_job())
    cluster.refuse = ErrorKind.INVALID
    run_until_refused(profiling)
    state = profiling.state()
    attempts: list[float] = []
    for _ in range(300):
        before = state.measured_again_at
        profiling.run(1, tick=1)
        if state.measured_again_at != before:
            attempts.append(state.measured_again_at - cluster.at)
    assert attempts == [120.0] * len(attempts)
    assert len(attempts) >= 2
    assert state.rescale is None
