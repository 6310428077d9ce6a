"""The settings by which counts are decided reach the profiles, and so the command line."""

from pathlib import Path

import pytest

from autoscaler.__main__ import _decision_config
from autoscaler.settings import Settings, parse
from optimus.errors import NotReady
from optimus.kube.profile_codec import unpack
from optimus.kube.stored_settings import ClusterSettings, settings_of
from optimus.placement.per_pod import SPREAD
from optimus.placement.theorem1 import Theorem1
from optimus.policies import POLICIES, policy_named
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


@pytest.mark.parametrize("policy", ["optimus", "drf"])
def test_each_profile_stores_the_settings_of_its_decisions(policy: str) -> None:
    cluster = FakeCluster(cpus=12)
    cluster.submit(tf_job("a", 1, 2, target_loss="0.12"))
    harness = ControllerHarness(cluster, policy=policy)
    harness.run(4)
    stored = unpack(harness.status("a").state, "a", cluster.at).decided_by
    found = settings_of(stored)
    assert isinstance(found, ClusterSettings)
    assert found.decision == harness.decisions.settings
    assert found.decision.interval.rescale_seconds == 5


def test_the_options_of_the_policy_are_those_of_the_file_also_where_a_profile_is_read() -> None:
    options = {"tie": "worker"}
    decision = _decision_config(
        Settings(policy="optimus-paper", policy_options={"optimus-paper": options})
    ).settings
    assert decision.policy == policy_named("optimus-paper", options)
    stored = ClusterSettings(decision, policy_options=options).stored()
    found = settings_of(stored)
    assert isinstance(found, ClusterSettings)
    assert found.decision == decision
    assert found.stored() == stored
    unknown = settings_of({**stored, "policy_options": {"later": 1}})
    assert isinstance(unknown, NotReady)


def test_without_a_placement_rule_counts_are_planned_by_that_of_the_policy() -> None:
    assert _decision_config(Settings(policy="drf")).placement == SPREAD
    assert _decision_config(Settings(policy="drf", placement="theorem1")).placement == Theorem1()
    pausing = [name for name in POLICIES if _decision_config(Settings(policy=name)).driver.pauses]
    assert pausing == [name for name in POLICIES if policy_named(name).traits.preempts]


def test_what_the_operator_sets_is_what_is_decided_by(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("autoscaler: {rescale-cost-seconds: 2, measure-first: true}")
    given = f"--policy fifo --least-gain-percent 7 --config {path}"
    settings = _decision_config(parse(given.split(), {})).settings
    assert settings.policy.name == "fifo"
    interval = settings.interval
    assert (interval.rescale_seconds, interval.hysteresis_fraction) == (2.0, 0.07)
    assert not settings.expects
