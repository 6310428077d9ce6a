"""The extender behind a real kube-scheduler: whole gangs, evenly, on the fewest nodes."""

from collections import Counter
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.e2e.extender.scheduler import (
    TrainingJobs,
    scheduler_processes,
)
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e


def spread(nodes: dict[str, str]) -> Counter[tuple[int, int]]:
    """How many nodes hold how many (PSs, workers)."""
    by_node = {
        node: (
            sum(1 for pod, where in nodes.items() if where == node and "-ps-" in pod),
            sum(1 for pod, where in nodes.items() if where == node and "-worker-" in pod),
        )
        for node in set(nodes.values())
    }
    return Counter(by_node.values())


def test_jobs_that_came_while_kube_scheduler_was_away_are_bound_when_it_is_back(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with scheduler_processes(
        own, tmp_path, "kube-scheduler-config.yaml", "--leader-lease="
    ) as running:
        running.kill("kube-scheduler")
        jobs.create("gone", 4, 8)
        wait_until(
            "its room is held",
            lambda: "optimus_extender_reservations 12.0" in running.get("/metrics"),
        )
        jobs.delete("gone")
        jobs.create("next", 4, 8)
        running.start_scheduler()
        jobs.wait_bound("next", 12)


def test_by_score_alone_a_job_lands_on_its_planned_nodes(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with scheduler_processes(own, tmp_path, "advisory.yaml"):
        jobs.create("advised", 2, 4)
        assert spread(jobs.wait_bound("advised", 6)) == {(1, 2): 2}
