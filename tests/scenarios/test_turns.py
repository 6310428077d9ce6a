"""Jobs take turns on two kinds of nodes under a policy that shares time: each is paused and resumed
by its share, and trains on from its last checkpoint."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from localcluster.specs import Backend
from localcluster.testing.clusters import Shown
from optimus.kube.profile_codec import unpack
from optimus.lifecycle import JobRecord, received_until
from tests.harness.api import Json
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import (
    AUTOSCALER,
    QUICK_TUNING,
    OptimusCluster,
    optimus_cluster,
)
from tests.harness.scenario import Scenario, scenario_namespace
from tests.harness.two_kinds import KINDS, nodes_of_two_kinds, one_kind_job

TUNING = replace(
    QUICK_TUNING,
    autoscaler={**QUICK_TUNING.autoscaler, "policy": "gavel-las", "profiling_samples": "1"},
)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/optimus-system/leases/optimus-autoscaler"


@pytest.fixture(
    params=[
        pytest.param(Backend.EMBEDDED, id="embedded", marks=pytest.mark.release),
        pytest.param(Backend.REAL, id="real", marks=pytest.mark.e2e),
    ]
)
def optimus_of_two_kinds(request: pytest.FixtureRequest, shown: Shown) -> Iterator[OptimusCluster]:
    backend: Backend = request.param
    with (
        optimus_cluster(
            f"turns-{backend}", tuple(nodes_of_two_kinds()), TUNING, backend=backend
        ) as optimus,
        shown(optimus.cluster),
    ):
        optimus.deploy()
        yield optimus


def record_of(scenario: Scenario, job: LightJob) -> JobRecord:
    status: Json = (scenario.profile(job) or {}).get("status") or {}
    return unpack(status.get("state"), job.name, 1e12).record


def runs_on_its_kind(scenario: Scenario, jobs: list[LightJob]) -> bool:
    """Whether some job trains with its worker on a node of the kind that its profile says."""
    for job in jobs:
        status = (scenario.profile(job) or {}).get("status") or {}
        kind = (status.get("nodeKind") or {}).get("value")
        nodes = [node for node, roles in scenario.placement(job).items() if "worker" in roles]
        if status.get("phase") == "Training" and kind and nodes:
            return nodes == [f"train-{KINDS.index(kind) + 1}"]
    return False


def received(scenario: Scenario, jobs: list[LightJob]) -> dict[str, float]:
    """The seconds of each job, with those of the turn that it has now."""
    records = {job.name: record_of(scenario, job) for job in jobs}
    return {name: received_until(each, time.time()).seconds for name, each in records.items()}


def has_announced_shares(scenario: Scenario, jobs: list[LightJob], since: dict[str, float]) -> bool:
    """Whether each job has had its share of the time since then, within 15 %; shares are equal."""
    now = received(scenario, jobs)
    seconds = [now[name] - since[name] for name in now]
    return all(abs(each - fmean(seconds)) <= 0.15 * fmean(seconds) for each in seconds)


def test_jobs_take_turns_by_their_shares(
    optimus_of_two_kinds: OptimusCluster, tmp_path: Path
) -> None:
    jobs = [one_kind_job(f"job-{number}") for number in range(4)]
    with scenario_namespace(optimus_of_two_kinds, "turns", tmp_path / "checkpoints") as scenario:
        scenario.submit(*jobs)
        for job in jobs:
            scenario.wait_events(job.name, "Paused", "Resumed")
        scenario.wait(lambda: runs_on_its_kind(scenario, jobs), "a job runs on its kind of nodes")
        # The next leader goes on with what is remembered.
        remembered = scenario.api.get(LEASE)["metadata"]["annotations"]
        assert '"policy": "gavel-las"' in remembered["optimus.dl/policy-memory"]
        leader = optimus_of_two_kinds.pod_of(AUTOSCALER)["metadata"]["name"]
        scenario.api.delete(f"/api/v1/namespaces/optimus-system/pods/{leader}")
        turns = {job.name: len(record_of(scenario, job).turns) for job in jobs}
        scenario.wait(
            lambda: all(len(record_of(scenario, each).turns) > turns[each.name] for each in jobs),
            "each job has had another turn",
        )
        rounds = set[str]()

        def have_passed() -> bool:
            lease = scenario.api.get(LEASE)["metadata"]["annotations"]
            rounds.add(lease["optimus.dl/policy-memory"])
            return len(rounds) > 10

        since = received(scenario, jobs)
        scenario.wait(have_passed, "ten rounds have passed")
        scenario.wait(
            lambda: has_announced_shares(scenario, jobs, since), "each job has had its share"
        )
        records = {job.name: record_of(scenario, job) for job in jobs}
        assert {kind for record in records.values() for kind in record.received} == set(KINDS)
        assert all(record.redone_seconds < 5 * record.pauses for record in records.values())
