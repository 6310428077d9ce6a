"""A tick without decisions, as a one-shot run makes them, only continues what was decided."""

from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


def carry_on(cluster: FakeCluster, harness: ControllerHarness, seconds: int) -> None:
    for _ in range(seconds):
        cluster.pass_time(1.0)
        harness.controller.tick(decides=False)


def under_way(harness: ControllerHarness) -> tuple[bool, bool]:
    return harness.controller.is_busy, harness.controller.awaits_capacity


def test_a_job_that_grows_gets_the_room_of_one_that_shrinks_although_nothing_new_is_decided() -> (
    None
):
    cluster = FakeCluster(cpus=8)
    harness = ControllerHarness(cluster, expects=False)
    for name, workers in (("a", 5), ("b", 1)):
        bounds = {
            "min_workers": str(workers),
            "max_workers": str(workers),
            "min_ps": "1",
            "max_ps": "1",
        }
        cluster.submit(
            tf_job(
                name, 1, workers, target_loss="0.06", training_mode="sync", rescale="any", **bounds
            )
        )
    harness.run(10)
    for name, wanted in (("a", "1"), ("b", "5")):
        cluster.jobs[name].annotate(min_workers=wanted, max_workers=wanted)
    harness.restart()
    harness.run(1)
    assert under_way(harness) == (True, True)
    carry_on(cluster, harness, 30)
    assert [cluster.jobs[name].counts for name in ("a", "b")] == [(1, 1), (1, 5)]
    assert under_way(harness) == (False, False)


def test_no_job_is_measured() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    job = cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    carry_on(cluster, harness, 60)
    assert job.runs == 1
    assert not harness.controller.is_busy
