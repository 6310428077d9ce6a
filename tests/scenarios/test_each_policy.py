"""Each policy decides on a cluster: the autoscaler is started with one after the other, while three
jobs compete for two nodes of two kinds."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from localcluster.specs import Backend
from localcluster.testing.clusters import Shown
from optimus.policies import POLICIES, policy_named
from tests.harness.api import Json
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import QUICK_TUNING, optimus_cluster
from tests.harness.scenario import Scenario, scenario_namespace
from tests.harness.two_kinds import nodes_of_two_kinds, one_kind_job

JOBS = [one_kind_job(f"job-{number}") for number in range(3)]
FAMILIES = {"optimus", "drf", "srtf", "gavel-las", "smd", "dl2"}
"""One policy of each family; the others are run before a release."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Backend.EMBEDDED, id="embedded"),
        pytest.param(Backend.REAL, id="real", marks=[pytest.mark.e2e, pytest.mark.release]),
    ],
)
def competition(
    request: pytest.FixtureRequest, shown: Shown, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenario]:
    """The three jobs, submitted at once."""
    backend: Backend = request.param
    folder = tmp_path_factory.mktemp("checkpoints")
    nodes = tuple(nodes_of_two_kinds())
    with (
        optimus_cluster(f"policies-{backend}", nodes, backend=backend) as optimus,
        shown(optimus.cluster),
    ):
        optimus.deploy()
        with scenario_namespace(optimus, "policies", folder) as scenario:
            scenario.submit(*JOBS)
            yield scenario


@pytest.mark.parametrize(
    "policy",
    [pytest.param(name, marks=[pytest.mark.release][name in FAMILIES :]) for name in POLICIES],
)
def test_jobs_train_under(competition: Scenario, policy: str) -> None:
    before = {job.name: status(competition, job).get("trainedSeconds", 0) for job in JOBS}
    since = datetime.now(UTC).isoformat()
    optimus = competition.optimus
    optimus.tuning = replace(QUICK_TUNING, autoscaler={**QUICK_TUNING.autoscaler, "policy": policy})
    optimus.deploy()

    def decided() -> bool:
        return all(status(competition, job).get("decidedAt", "") > since for job in JOBS)

    competition.wait(decided, f"{policy} has decided on each job")
    competition.wait(
        lambda: any(
            status(competition, job)["trainedSeconds"] > before[job.name] + 1 for job in JOBS
        ),
        "a job trains on",
    )
    if not policy_named(policy).traits.preempts:
        competition.wait(
            lambda: all(status(competition, job)["phase"] != "Paused" for job in JOBS),
            "nobody is paused",
        )
    assert not optimus.defects(since)


def status(scenario: Scenario, job: LightJob) -> Json:
    """What the job's profile says now."""
    return (scenario.profile(job) or {}).get("status") or {}
