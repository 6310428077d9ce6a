"""The TrainingProfile as users have it, on a real API server: conditions that `kubectl wait` reads,
rules, two versions, and who may do what."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from optimus.jobs import JobKey
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.live_reader import LiveReader
from optimus.kube.profiles import (
    Condition,
    ConditionType,
    ProfileStatus,
    ProfileWriter,
    TrainingProfile,
    Truth,
)
from optimus.kube.results import Written
from optimus.kube.training_jobs import TrainingJob
from tests.e2e.kube.test_real_api_server import tfjob

Json = dict[str, Any]


def goal_met(status: Truth, at: str = "2026-01-01T00:00:00Z") -> ProfileStatus:
    met = Condition(ConditionType.GOAL_MET, status, "GoalMet", "loss <= 0.3", at)
    return ProfileStatus(ps=1, workers=2, conditions=(met,))


@pytest.fixture
def profile(granted: LocalCluster, namespace: str, autoscaler: Client) -> TrainingProfile:
    """The profile of a job that never starts, made by the autoscaler's account."""
    granted.kubectl("apply", "-n", namespace, "-f", "-", stdin=tfjob("j", scheduler="nobody"))
    job = LiveReader(autoscaler, EligibilityConfig()).job("TFJob", JobKey(namespace, "j"))
    assert isinstance(job, TrainingJob)
    made = ProfileWriter(autoscaler).create(job)
    assert isinstance(made, TrainingProfile)
    return made


def test_kubectl_waits_for_the_goal(
    granted: LocalCluster, namespace: str, autoscaler: Client, profile: TrainingProfile
) -> None:
    writer = ProfileWriter(autoscaler)
    wait = ("wait", "-n", namespace, "--for=condition=GoalMet", "trainingprofile/j")
    first = writer.write_status(profile, goal_met(Truth.FALSE))
    assert isinstance(first, Written)
    with pytest.raises(KubectlError, match="timed out waiting"):
        granted.kubectl(*wait, "--timeout=1s")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(granted.kubectl, *wait, "--timeout=180s")
        stored = writer.stored(profile)
        assert isinstance(stored, TrainingProfile)
        assert isinstance(writer.write_status(stored, goal_met(Truth.TRUE)), Written)
        assert "condition met" in waiting.result()
    (shown,) = granted.get("tprof", "-n", namespace, "j")["status"]["conditions"]
    assert shown["observedGeneration"] == 1


def test_a_profile_that_contradicts_itself_is_refused(
    granted: LocalCluster, namespace: str, profile: TrainingProfile
) -> None:
    stored = granted.get("tprof", "-n", namespace, "j")
    other = copy.deepcopy(stored)
    other["metadata"] = {"name": "other", "namespace": namespace}
    with pytest.raises(KubectlError, match="a profile has the name of its job"):
        granted.kubectl("create", "-f", "-", stdin=json.dumps(other))
    patch = ("patch", "-n", namespace, "trainingprofile/j", "--type=merge", "-p")
    with pytest.raises(KubectlError, match="jobRef is immutable"):
        granted.kubectl(*patch, '{"spec": {"jobRef": {"uid": "another"}}}')
    status = (*patch[:-1], "--subresource=status", "-p")
    for wrong, sentence in (
        ({"ps": 1}, "ps and workers belong together"),
        ({"targetWorkers": 1}, "targetPs and targetWorkers belong together"),
        ({"conditions": [{"type": "GoalMet"}]}, "lastTransitionTime"),
    ):
        with pytest.raises(KubectlError, match=sentence):
            granted.kubectl(*status, json.dumps({"status": wrong}))


def test_both_versions_serve_what_is_written_in_either(
    granted: LocalCluster, namespace: str, autoscaler: Client, profile: TrainingProfile
) -> None:
    written = ProfileWriter(autoscaler).write_status(profile, goal_met(Truth.TRUE))
    assert isinstance(written, Written)
    of = {
        version: granted.get(f"trainingprofiles.{version}.optimus.dl", "-n", namespace, "j")
        for version in ("v1alpha1", "v1beta1")
    }
    assert {name: each.pop("apiVersion") for name, each in of.items()} == {
        name: f"optimus.dl/{name}" for name in of
    }
    assert of["v1alpha1"] == of["v1beta1"]
    definition = granted.get("crd", "trainingprofiles.optimus.dl")
    assert definition["status"]["storedVersions"] == ["v1alpha1"]
