"""A turn that only carries on, as one run by hand makes them: what was decided happens, and nothing
else."""

from tests.unit.autoscaler.mayor import ControllerHarness
from tests.unit.autoscaler.town import FakeCluster
from tests.unit.autoscaler.trainee import tf_job


def carry_on(town: FakeCluster, mayor: ControllerHarness, seconds: int) -> None:
    for _ in range(seconds):
        town.pass_time(1.0)
        mayor.controller.tick(decides=False)


def under_way(mayor: ControllerHarness) -> tuple[bool, bool]:
    return mayor.controller.is_busy, mayor.controller.awaits_room


def test_a_job_that_grows_gets_the_room_of_one_that_shrinks_although_nothing_new_is_decided() -> (
    None
):
    town = FakeCluster(cpus=8)
    mayor = ControllerHarness(town)
    for name, workers in (("a", 5), ("b", 1)):
        bounds = {
            "min_workers": str(workers),
            "max_workers": str(workers),
            "min_ps": "1",
            "max_ps": "1",
        }
        town.submit(
            tf_job(
                name, 1, workers, target_loss="0.06", training_mode="sync", rescale="any", **bounds
            )
        )
    mayor.rule(10)
    for name, wanted in (("a", "1"), ("b", "5")):
        town.trainees[name].annotate(min_workers=wanted, max_workers=wanted)
    mayor.restart()
    mayor.rule(1)
    assert under_way(mayor) == (True, True)
    carry_on(town, mayor, 30)
    assert [town.trainees[name].counts for name in ("a", "b")] == [(1, 1), (1, 5)]
    assert under_way(mayor) == (False, False)


def test_no_job_is_measured() -> None:
    town = FakeCluster()
    mayor = ControllerHarness(town)
    job = town.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    carry_on(town, mayor, 60)
    assert job.runs == 1
    assert not mayor.controller.is_busy
