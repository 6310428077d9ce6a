"""The short form of ``benchmarks.extender_fuzz``."""

from benchmarks.extender_fuzz import fuzz


def test_some_thousand_bodies_get_right_answers_and_leave_nothing_behind() -> None:
    found = fuzz(2500, seed=1)
    assert all(decided > 150 for decided in found["decided"].values())
    assert max(found["remembered"].values()) < 150
