"""The TrainingProfile as users have it, on a real API server: conditions that `kubectl wait` reads,
rules, two versions, and who may do what."""

import copy
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import yaml

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
from tests.e2e.kube.conftest import MANIFESTS, is_answered
from tests.e2e.kube.test_real_api_server import tfjob
from tests.harness.waiting import wait_until

Json = dict[str, Any]
CRD = MANIFESTS / "crds" / "crd-trainingprofiles.yaml"
STATE = {"state": "x"}


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


class Upgrade:
    """A copy of the CRD in a group of its own, and one object of it."""

    name = "trainingprofiles.upgrade.optimus.dl"

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace

    def install(self, *served: str, stored: str) -> None:
        (crd,) = yaml.safe_load_all(CRD.read_text())
        crd["metadata"]["name"], crd["spec"]["group"] = self.name, "upgrade.optimus.dl"
        crd["spec"]["names"]["shortNames"] = []
        kept = [each for each in crd["spec"]["versions"] if each["name"] in served]
        crd["spec"]["versions"] = [{**each, "storage": each["name"] == stored} for each in kept]
        self._cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(crd))
        for version in served:
            get = ("get", f"trainingprofiles.{version}.upgrade.optimus.dl", "-A")
            wait_until(f"{version} is served", partial(is_answered, self._cluster, *get))

    def create(self, version: str) -> None:
        body = {
            "apiVersion": f"upgrade.optimus.dl/{version}",
            "kind": "TrainingProfile",
            "metadata": {"name": "j"},
            "spec": {"jobRef": {"kind": "TFJob", "name": "j", "uid": "u"}},
        }
        self._kubectl("create", "-f", "-", stdin=json.dumps(body))
        status = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": STATE}))
        self._kubectl("patch", f"trainingprofiles.{version}.upgrade.optimus.dl", "j", *status)

    def read(self, version: str) -> Json:
        text = self._kubectl("get", f"trainingprofiles.{version}.upgrade.optimus.dl", "j", "-ojson")
        found: Json = json.loads(text)
        return found

    def rewrite(self, version: str) -> None:
        """Write the object as it is: so it is stored in the version that is stored now."""
        self._kubectl("replace", "-f", "-", stdin=json.dumps(self.read(version)))

    def stored_versions(self) -> list[str]:
        found: list[str] = self._cluster.get("crd", self.name)["status"]["storedVersions"]
        return found

    def forget(self, *kept: str) -> None:
        patch = json.dumps({"status": {"storedVersions": list(kept)}})
        how = ("--subresource=status", "--type=merge", "-p", patch)
        self._cluster.kubectl("patch", "crd", self.name, *how)

    def remove(self) -> None:
        self._cluster.kubectl("delete", "crd", self.name, "--ignore-not-found")

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl("-n", self._namespace, *arguments, stdin=stdin)


@pytest.fixture
def upgrade(granted: LocalCluster, namespace: str) -> Iterator[Upgrade]:
    made = Upgrade(granted, namespace)
    yield made
    made.remove()


def test_the_stated_upgrade_keeps_every_profile(upgrade: Upgrade) -> None:
    """v1alpha1 alone; both, the older stored; both, the newer stored; v1beta1 alone. The second
    step can be taken back."""
    old, new = "v1alpha1", "v1beta1"
    upgrade.install(old, stored=old)
    upgrade.create(old)
    upgrade.install(old, new, stored=old)
    assert upgrade.read(new)["status"]["state"] == "x"
    upgrade.install(old, stored=old)
    upgrade.install(old, new, stored=new)
    upgrade.rewrite(new)
    assert sorted(upgrade.stored_versions()) == [old, new]
    upgrade.forget(new)
    upgrade.install(new, stored=new)
    assert upgrade.read(new)["status"]["state"] == "x"
