"""The settings in which the gain is measured: what is different in them."""

from dataclasses import replace

from benchmarks.simulated_gains import SETTINGS, Outcome, with_kills
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.training import Training
from optimus.simulator.workload import WORKLOADS


def test_about_three_in_ten_jobs_are_killed_and_none_trains_longer() -> None:
    usual = WORKLOADS["uniform"](40, stream(1, Purpose.WORKLOAD))
    killed = with_kills(usual, 1)
    ends = [
        [Training(each, 1).end_epochs for each in workload.jobs] for workload in (usual, killed)
    ]
    sooner = sum(end < usually for usually, end in zip(*ends, strict=True))
    assert 6 <= sooner <= 18
    assert all(end <= usually for usually, end in zip(*ends, strict=True))


def test_jobs_that_nobody_moves_are_compared_with_themselves_moved() -> None:
    setting = replace(SETTINGS["fixed 1 + 1"], jobs=2)
    untouched, moved = (setting.run(each, 1, by_image=False) for each in ("fixed", "optimus"))
    assert isinstance(moved, Outcome)
    jct, *_, worst = moved.to(untouched)
    assert jct <= worst < 1
