"""Before the autoscaler is removed, one command resumes what it has stopped."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from localcluster.specs import Backend
from localcluster.testing.clusters import Shown
from tests.harness.api import KUBEFLOW, PLURALS, in_namespace
from tests.harness.light_jobs import SLEEP, Kind, LightJob
from tests.harness.optimus_cluster import (
    QUICK_TUNING,
    OptimusCluster,
    optimus_cluster,
    training_nodes,
)

LEASE = "/apis/coordination.k8s.io/v1/namespaces/optimus-system/leases/optimus-autoscaler"
MARK = "optimus.dl/suspended-by"
MARKS = {
    "rescaled": "i-1 one",
    "waits-for-its-turn": "i-1 one paused-by-policy",
    "paused-for-a-gang": "preemption/ns/a/u/2026-01-01T00:00:00Z one paused-for-gang",
    "at-its-goal": "i-1 one for-good",
    "its-users": None,
}


@pytest.fixture
def optimus(shown: Shown) -> Iterator[OptimusCluster]:
    with (
        optimus_cluster(
            "resume-all", training_nodes("4"), QUICK_TUNING, backend=Backend.EMBEDDED
        ) as made,
        shown(made.cluster),
    ):
        yield made


def test_what_the_autoscaler_has_stopped_is_resumed_and_nothing_else(
    optimus: OptimusCluster,
) -> None:
    api = optimus.api
    for name in ("optimus-system", "team"):
        if api.find(f"/api/v1/namespaces/{name}") is None:
            api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    kinds: dict[str, Kind] = {**dict.fromkeys(MARKS, "TFJob"), "waits-for-its-turn": "MXJob"}
    for name, mark in MARKS.items():
        body = LightJob(kinds[name], name, 1, 2, requests={}, script=SLEEP).manifest("team")
        body["spec"].setdefault("runPolicy", {})["suspend"] = True
        body["metadata"].setdefault("annotations", {}).update({MARK: mark} if mark else {})
        api.create(in_namespace(KUBEFLOW, "team", PLURALS[kinds[name]]), body)
    command = [sys.executable, "-m", "autoscaler.resume_all", "--kubeconfig"]
    done = subprocess.run(
        [*command, str(optimus.cluster.kubeconfig)],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "still stopped by the autoscaler: no job\n"
    stored = {
        name: api.get(in_namespace(KUBEFLOW, "team", PLURALS[kinds[name]], name)) for name in MARKS
    }
    suspended = {name for name, job in stored.items() if job["spec"]["runPolicy"]["suspend"]}
    assert suspended == {"at-its-goal", "its-users"}
    marked = {
        name for name, job in stored.items() if MARK in job["metadata"].get("annotations", {})
    }
    assert marked == {"at-its-goal"}
    # Whoever led before writes nothing any more.
    assert api.get(LEASE)["spec"]["holderIdentity"] == "resume-all"
