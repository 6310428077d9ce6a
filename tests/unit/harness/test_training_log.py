"""Logs, manifests and waiting, as the scenarios use them."""

import pytest

from localcluster.testing.waiting import wait_until
from tests.harness.light_jobs import LightJob
from tests.harness.training_log import Step, parse_log

LOG = """2026-01-01T00:00:00.000Z trainer 0 of 2, 1 PSs, sync
2026-01-01T00:00:00.123Z epoch=3 step=1200 loss=0.412300 samples_per_sec=812.5 checkpoint=1180
2026-01-01T00:00:01.456Z epoch=3 step=1210 checkpoint=1210
2026-01-01T00:00:02.000Z training is over
"""


def test_a_log_becomes_records_of_its_steps() -> None:
    assert parse_log(LOG) == (Step(3, 1200, 0.4123, 1180), Step(3, 1210, None, 1210))


class TestALightJob:
    def test_counts_flags_requests_and_scheduler_are_in_its_manifest(self) -> None:
        job = LightJob(
            "TFJob",
            "j",
            3,
            5,
            requests={"PS": {"cpu": "250m"}},
            flags={"--epochs": "2"},
            scheduler="somebody",
        )
        specs = job.manifest("ns")["spec"]["tfReplicaSpecs"]
        assert (specs["PS"]["replicas"], specs["Worker"]["replicas"]) == (3, 5)
        container = specs["PS"]["template"]["spec"]["containers"][0]
        assert container["resources"] == {"requests": {"cpu": "250m"}}
        assert "--epochs=2" in container["args"]
        assert (
            container["args"][container["args"].index("--checkpoint-dir") + 1] == "/checkpoints/j"
        )
        assert specs["Worker"]["template"]["spec"]["schedulerName"] == "somebody"

    def test_an_mxjob_has_a_scheduler_as_fixed_demand(self) -> None:
        job = LightJob("MXJob", "j", 1, 2)
        assert job.pods == 4
        assert job.demand().fixed["scheduler"][0] == 1

    def test_a_chief_is_added_beside_the_workers(self) -> None:
        job = LightJob("TFJob", "j", 1, 2, fixed={"Chief": 1})
        assert job.manifest("ns")["spec"]["tfReplicaSpecs"]["Chief"]["replicas"] == 1
        assert job.pods == 4

    def test_one_manifest_does_not_change_the_next(self) -> None:
        LightJob("TFJob", "a", 7, 7).manifest("ns")
        assert (
            LightJob("TFJob", "b").manifest("ns")["spec"]["tfReplicaSpecs"]["PS"]["replicas"] == 1
        )


class TestWaiting:
    def test_it_returns_the_result(self) -> None:
        answers = iter(["", "there"])
        assert wait_until(lambda: next(answers), "it is there", 5) == "there"

    def test_it_names_what_was_not_reached_and_why(self) -> None:
        with pytest.raises(AssertionError, match=r"not within 0 s: pigs fly.*\nthey have no wings"):
            wait_until(lambda: False, "pigs fly", 0, lambda: "they have no wings")
