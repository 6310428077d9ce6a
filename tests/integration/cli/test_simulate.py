"""``optimus simulate`` on jobs that recur."""

import pytest

from tests.unit.cli.test_simulate import output_of


def test_recurring_jobs_learn_from_one_another_unless_they_may_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recurring = ("--policies", "optimus", "--jobs", "6", "--seeds", "1", "--workloads", "1")
    learnt = output_of(capsys, *recurring)
    alone = output_of(capsys, *recurring, "--no-earlier-runs")
    assert learnt != alone
