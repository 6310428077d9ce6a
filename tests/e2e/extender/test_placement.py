"""The extender behind a real kube-scheduler: whole gangs, evenly, on the fewest nodes."""

import json
from collections import Counter
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.e2e.extender.scheduler import (
    REPOSITORY,
    SchedulerProcesses,
    TrainingJobs,
    nodes_of,
    reservations,
    scheduler_processes,
    unharmed,
)
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

SUSPEND = '{"spec":{"runPolicy":{"suspend":true}}}'
RESUME = (
    '{"spec":{"runPolicy":{"suspend":false},'
    '"tfReplicaSpecs":{"PS":{"replicas":4},"Worker":{"replicas":8}}}}'
)


class Profile:
    """The TrainingProfile of a TFJob, written as the autoscaler writes it."""

    def __init__(self, cluster: LocalCluster, job: str) -> None:
        self._cluster, self._job = cluster, job
        owner = cluster.get("tfjob", job)["metadata"]["uid"]
        document = {
            "apiVersion": "optimus.dl/v1alpha1",
            "kind": "TrainingProfile",
            "metadata": {
                "name": job,
                "ownerReferences": [
                    {
                        "apiVersion": "kubeflow.org/v1",
                        "kind": "TFJob",
                        "name": job,
                        "uid": owner,
                        "controller": True,
                    }
                ],
            },
            "spec": {"jobRef": {"kind": "TFJob", "name": job, "uid": owner}},
        }
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(document))

    def set_phase(self, phase: str, ps: int, workers: int) -> None:
        """Record the phase of the rescale."""
        status = {
            "status": {"phase": phase, "intervalId": "i1", "targetPs": ps, "targetWorkers": workers}
        }
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        self._cluster.kubectl("patch", "trainingprofile", self._job, *patch)


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


def test_a_job_is_bound_evenly_on_the_fewest_nodes(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with scheduler_processes(own, tmp_path):
        jobs.create("even", 2, 4)
        assert spread(jobs.wait_bound("even", 6)) == {(1, 2): 2}


@pytest.mark.parametrize(
    "nominate", [pytest.param(True, id="nominated"), pytest.param(False, id="requeued")]
)
def test_a_job_that_does_not_fit_waits_whole_and_gets_the_room_that_appears(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path, nominate: bool
) -> None:
    with scheduler_processes(own, tmp_path, config={"nominate": nominate}):
        jobs.create("first", 4, 8)
        jobs.wait_bound("first", 12)
        jobs.create("second", 4, 8)
        jobs.wait_message(
            "second-ps-0", "job default/second (4 PS + 8 workers) does not fit as a whole"
        )
        assert jobs.nodes("second") == {}
        jobs.delete("first")
        jobs.wait_bound("second", 12)


def test_two_jobs_that_fit_one_at_a_time_never_both_hold_a_part(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with scheduler_processes(own, tmp_path) as running:
        jobs.create("one", 3, 6)
        jobs.create("two", 3, 6)
        wait_until(
            "one of them is bound", lambda: 9 in (len(jobs.nodes("one")), len(jobs.nodes("two")))
        )
        bound, waiting = sorted(("one", "two"), key=lambda name: -len(jobs.nodes(name)))
        jobs.wait_message(f"{waiting}-ps-0", "does not fit as a whole")
        assert jobs.nodes(waiting) == {}
        jobs.delete(bound)
        jobs.wait_bound(waiting, 9)
        assert "invariant broken" not in running.log("extender")


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


def test_a_rescaled_job_keeps_its_place_against_a_waiting_one(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    own.apply(REPOSITORY / "manifests" / "crds/crd-trainingprofiles.yaml")
    with scheduler_processes(own, tmp_path) as running:
        jobs.create("grows", 2, 4)
        jobs.wait_bound("grows", 6)
        jobs.create("waits", 4, 10)
        jobs.wait_message("waits-ps-0", "does not fit as a whole")
        profile = Profile(own, "grows")
        profile.set_phase("Suspending", 4, 8)
        wait_until(
            "room is held", lambda: "optimus_extender_reservations 12.0" in running.get("/metrics")
        )
        own.kubectl("patch", "tfjob", "grows", "--type=merge", "-p", SUSPEND)
        wait_until("its pods are gone", lambda: nodes_of(own, "default", "grows") == {})
        profile.set_phase("Resizing", 4, 8)
        own.kubectl("patch", "tfjob", "grows", "--type=merge", "-p", RESUME)
        profile.set_phase("Starting", 4, 8)
        assert len(set(jobs.wait_bound("grows", 12).values())) == 3
        assert jobs.nodes("waits") == {}
        profile.set_phase("Training", 4, 8)
        assert "invariant broken" not in running.log("extender")


def test_a_rescale_whose_target_does_not_fit_waits_whole_and_gets_the_room_that_appears(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    own.apply(REPOSITORY / "manifests" / "crds/crd-trainingprofiles.yaml")
    with unharmed(own, tmp_path) as running:
        jobs.create("widens", 2, 4)
        jobs.create("beside", 2, 4)
        for name in ("widens", "beside"):
            jobs.wait_bound(name, 6)
        profile = Profile(own, "widens")
        profile.set_phase("Suspending", 4, 8)
        own.kubectl("patch", "tfjob", "widens", "--type=merge", "-p", SUSPEND)
        wait_until("its pods are gone", lambda: nodes_of(own, "default", "widens") == {})
        profile.set_phase("Resizing", 4, 8)
        own.kubectl("patch", "tfjob", "widens", "--type=merge", "-p", RESUME)
        profile.set_phase("Starting", 4, 8)
        jobs.wait_refused("widens", 12, "does not fit as a whole")
        assert reservations(running) == 0
        jobs.delete("beside")
        jobs.wait_bound("widens", 12)
        profile.set_phase("Training", 4, 8)


def test_by_score_alone_a_job_lands_on_its_planned_nodes(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with scheduler_processes(own, tmp_path, "advisory.yaml"):
        jobs.create("advised", 2, 4)
        assert spread(jobs.wait_bound("advised", 6)) == {(1, 2): 2}


@pytest.mark.parametrize("victim", ["extender", "kube-scheduler"])
def test_a_gang_is_completed_after_either_process_is_killed_while_it_binds(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path, victim: str
) -> None:
    with scheduler_processes(own, tmp_path) as running:
        jobs.create("cut", 4, 8)
        wait_until("its room is held", lambda: _bound_or_held(running, jobs))
        running.kill(victim)
        if victim == "extender":
            running.start_extender()
        else:
            running.start_scheduler()
        jobs.wait_bound("cut", 12)
        assert "invariant broken" not in running.log("extender")


def _bound_or_held(running: SchedulerProcesses, jobs: TrainingJobs) -> bool:
    return bool(jobs.nodes("cut")) or "optimus_extender_reservations 0.0" not in running.get(
        "/metrics"
    )
