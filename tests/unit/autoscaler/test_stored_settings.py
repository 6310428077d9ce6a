"""The settings by which counts are decided reach the profiles, and so the command line."""

from autoscaler.__main__ import _decision_config
from autoscaler.settings import parse
from optimus.kube.profile_codec import unpack
from optimus.kube.stored_settings import ClusterSettings, settings_of
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


def test_each_profile_stores_the_settings_of_its_decisions() -> None:
    cluster = FakeCluster(cpus=12)
    cluster.submit(tf_job("a", 1, 2, target_loss="0.12"))
    harness = ControllerHarness(cluster)
    harness.run(4)
    stored = unpack(harness.status("a").state, "a", cluster.at).decided_by
    found = settings_of(stored, "ns")
    assert isinstance(found, ClusterSettings)
    assert found.decision == harness.decisions.settings
    assert found.decision.interval.rescale_seconds == 5


def test_what_the_operator_sets_is_what_is_decided_by() -> None:
    given = "--policy fifo --rescale-cost-seconds 2 --least-gain-percent 7 --expected-gain-percent"
    settings = _decision_config(parse([*given.split(), "100"], {})).settings
    assert settings.policy.name == "fifo"
    interval = settings.interval
    assert (interval.rescale_seconds, interval.hysteresis_fraction) == (2.0, 0.07)
    assert not settings.expects
