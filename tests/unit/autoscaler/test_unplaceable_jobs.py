"""A job whose pods something else than room keeps from being placed costs no other job its room."""

from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

GOAL = {"target_epochs": "100000", "training_mode": "sync", "rescale": "any"}


class GatedCluster(FakeCluster):
    """The pods of the job ``gated`` are made and never placed, as with a scheduling gate."""

    def _room(self) -> int:
        return self.cpus - sum(
            len(fake.pods) for name, fake in self.jobs.items() if name != "gated"
        )

    def _make_pods(self, fake: FakeJob) -> None:
        super()._make_pods(fake)
        for pod in fake.pods if fake.name == "gated" else ():
            pod["spec"].pop("nodeName", None)
            pod["status"] = {"phase": "Pending"}

    def _train(self, fake: FakeJob, seconds: float) -> None:
        if fake.name != "gated":
            super()._train(fake, seconds)


@cases("goal", {"managed": GOAL, "not managed": {}})
def test_others_grow_again_beside_a_job_that_is_never_placed(goal: dict[str, str]) -> None:
    cluster = GatedCluster()
    harness = ControllerHarness(cluster)
    honest = cluster.submit(tf_job("honest", 1, 1, **GOAL))
    harness.run(160)
    gated = tf_job("gated", 1, 12, **goal)
    gated.manifest["metadata"]["namespace"] = "tenant"
    cluster.submit(gated)
    harness.run(120)
    assert sum(honest.counts) <= 3
    harness.run(520)
    assert sum(honest.counts) > 3
    assert gated.counts == (1, 12)
