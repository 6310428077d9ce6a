"""JobSets: placed as gangs, by labels of their pods and the JobSet's spec."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import holds_for
from optimus.kube.job_kinds import JOBSET, JOBSET_NAME
from tests.e2e.extender.controllers import JOBSET_CONTROLLER, pod_until, running
from tests.e2e.extender.scheduler import TrainingJobs, unharmed
from tests.harness.api import Api, in_namespace
from tests.harness.waiting import wait_until

# The first test waits until the controller is built.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

JOBSETS = in_namespace(f"/apis/{JOBSET.api_version}", "default", JOBSET.plural)


@pytest.fixture(scope="module")
def controller(own: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with running(JOBSET_CONTROLLER, own, tmp_path_factory.mktemp("jobset")):
        yield


@pytest.fixture
def jobsets(own: LocalCluster, controller: None) -> Iterator[TrainingJobs]:
    with TrainingJobs(own, "jobset", JOBSET_NAME) as made:
        yield made


def replicated_job(name: str, jobs: int, pods: int, file: Path) -> dict[str, Any]:
    """So many Jobs of so many pods of one CPU each, that end once the file is there."""
    template = {"spec": pod_until(file, "main")}
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}
    return {"name": name, "replicas": jobs, "template": {"spec": job}}


def jobset(name: str, *jobs: dict[str, Any], **fields: Any) -> str:
    metadata, spec = {"name": name}, {"replicatedJobs": jobs, **fields}
    body = {"apiVersion": JOBSET.api_version, "kind": JOBSET.name, "metadata": metadata}
    return json.dumps({**body, "spec": spec})


def completed(api: Api, name: str) -> bool:
    conditions = api.get(f"{JOBSETS}/{name}").get("status", {}).get("conditions") or ()
    return any(each["type"] == "Completed" and each["status"] == "True" for each in conditions)


def test_a_jobset_is_bound_whole_on_the_fewest_nodes_and_the_next_one_waits_whole(
    own: LocalCluster, jobsets: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "end"

    def two_kinds(workers: int) -> list[dict[str, Any]]:
        return [replicated_job("head", 1, 1, file), replicated_job("worker", 2, workers, file)]

    with unharmed(own, tmp_path):
        jobsets.submit("first", jobset("first", *two_kinds(3)))
        assert len({*jobsets.wait_bound("first", 7).values()}) == 2
        jobsets.submit("next", jobset("next", *two_kinds(5)))
        jobsets.wait_refused("next", 11, "default/next")
        holds_for(lambda: not jobsets.nodes("next"), "no part of the gang is bound", 5.0)
        file.touch()
        wait_until("the first one has ended", lambda: completed(api, "first"))
        jobsets.wait_bound("next", 11)  # as soon as there is room, on any nodes
        wait_until("the next one, too", lambda: completed(api, "next"))


def test_a_part_that_waits_for_another_is_a_gang_of_its_own(
    own: LocalCluster, jobsets: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "end"
    server, clients = replicated_job("server", 1, 3, file), replicated_job("client", 2, 2, file)
    clients["dependsOn"] = [{"name": "server", "status": "Ready"}]
    with unharmed(own, tmp_path):
        jobsets.submit("both", jobset("both", server, clients))
        jobsets.wait_bound("both", 7)
        file.touch()
        wait_until("it has ended", lambda: completed(api, "both"))
