"""A job that claims an absurd amount of work, and is no faster with more, does not keep more."""

from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario

TINY = {"cpu": "100m", "memory": "16Mi"}
SLEEPS = 'i=0; while true; do i=$((i+1)); echo "step=$i loss=0.5"; sleep 0.25; done'
"""Four steps a second, whatever the counts."""


def test_it_tries_more_and_ends_within_twice_its_own_counts(scenario: Scenario) -> None:
    job = LightJob(
        "TFJob",
        "endless",
        1,
        1,
        annotations={
            "optimus.dl/target-steps": "1000000000000",
            "optimus.dl/training-mode": "sync",
            "optimus.dl/global-batch-size": "64",
            "optimus.dl/rescale": "any",
        },
        requests={"PS": TINY, "Worker": TINY},
        script=SLEEPS,
    )
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        scenario.wait(lambda: recorder.rescales(job), "it is moved")
        within = tuple((ps, workers) for ps in (1, 2) for workers in (1, 2))

        def gave_back() -> bool:
            larger = any(max(each.target) > 2 for each in recorder.rescales(job))
            return larger and recorder.is_quiet_at(job, *within)

        scenario.wait(gave_back, "it has given back what brings nothing")
        targets = [each.target for each in recorder.rescales(job)]
        assert all(max(each) <= 8 for each in targets), str(recorder)
        moves = len(targets)
        scenario.holds(
            lambda: all(max(each.target) <= 2 for each in recorder.rescales(job)[moves:]),
            "it does not grow again",
            15.0,
        )
        assert not recorder.ever_failed(job)
