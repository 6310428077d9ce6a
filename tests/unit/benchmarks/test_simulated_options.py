"""What policies do under assumptions that the command line does not offer."""

from benchmarks.simulated_options import compared


def seconds(name: str, policy: str, jobs: int = 3, workloads: int = 0) -> float:
    found = compared(name, jobs, workloads).run((policy, 1)).jobs
    return sum(each.completion_seconds for each in found) / len(found)


def profiling_runs(name: str) -> int:
    return sum(each.profiling_runs for each in compared(name, 2).run(("optimus", 1)).jobs)


def test_with_a_pre_run_and_with_the_truth_no_job_is_profiled() -> None:
    assert profiling_runs("usual") > 0
    assert {profiling_runs(name) for name in ("pre-run", "equal-terms", "truth")} == {0}


def test_recurring_jobs_learn_from_one_another_unless_they_may_not() -> None:
    assert seconds("usual", "optimus", 6, 1) != seconds("alone", "optimus", 6, 1)


def test_stops_that_cost_nothing_are_faster() -> None:
    assert seconds("costless", "drf") < seconds("usual", "drf")
