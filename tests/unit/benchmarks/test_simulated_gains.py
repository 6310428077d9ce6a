"""The settings in which the gain is measured: what is different in them."""

from dataclasses import replace

from benchmarks.simulated_gains import SETTINGS, Outcome


def test_jobs_that_nobody_moves_are_compared_with_themselves_moved() -> None:
    setting = replace(SETTINGS["fixed 1 + 1"], jobs=2)
    untouched, moved = (setting.run(each, 1, by_image=False) for each in ("fixed", "optimus"))
    assert isinstance(moved, Outcome)
    jct, *_, worst = moved.to(untouched)
    assert jct <= worst < 1
