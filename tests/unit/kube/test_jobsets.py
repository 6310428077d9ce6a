"""JobSets: which of their pods form a gang, by the spec, and which pod of it one is, by its
labels."""

from typing import Any

import pytest

from optimus.jobs import Counts, Role
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import TRAINER_GROUP
from optimus.kube.jobsets import member_of, set_uid
from optimus.kube.pods import Owner, decode_pod, in_set
from optimus.kube.training_jobs import watched_training_jobs
from optimus.snapshot import ReplicaId
from tests.cases import cases
from tests.harness.jobsets import jobset, pod_of, replicated_job, train_steps

READY = [{"name": "a", "status": "Ready"}]
COMPLETE = [{"name": "a", "status": "Complete"}]
TRAINS = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
BY_SELECTOR = {**EXCLUSIVE, "alpha.jobset.sigs.k8s.io/node-selector": "true"}


@cases(
    ("jobs", "fields", "gangs"),
    {
        "one Job": ([replicated_job("a", 1, 4)], {}, {"uid-s": 4}),
        "several Jobs of several pods": ([replicated_job("a", 3, 4)], {}, {"uid-s": 12}),
        "several replicated jobs are one gang": (
            [replicated_job("a", 1, 1), replicated_job("b", 2, 3)],
            {},
            {"uid-s": 7},
        ),
        "those that wait for the same others are one gang": (
            [
                replicated_job("a"),
                replicated_job("b", 1, 2, dependsOn=READY),
                replicated_job("c", 1, 3, dependsOn=COMPLETE),
                replicated_job("d", 1, 4, dependsOn=READY),
                replicated_job("e"),
            ],
            {},
            {"uid-s": 2, "uid-s/c": 3, "uid-s/b": 6},
        ),
        "in order, each is a gang of its own": (
            [replicated_job("a", 1, 2), replicated_job("b", 1, 3)],
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
            {"uid-s": 2, "uid-s/b": 3},
        ),
        "in any order, all are one": (
            [replicated_job("a", 1, 2), replicated_job("b", 1, 3)],
            {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}},
            {"uid-s": 5},
        ),
        "a Job that does not number its pods has one": (
            [replicated_job("a", completionMode="NonIndexed", completions=None)],
            {},
            {"uid-s": 1},
        ),
        "pods without numbers": (
            [replicated_job("a", 1, 2, completionMode="NonIndexed"), replicated_job("b")],
            {},
            {},
        ),
        "more completions than pods at a time": (
            [replicated_job("a", 1, 2, completions=5)],
            {},
            {},
        ),
        "pods that come only once another has its node": (
            [replicated_job("a", 1, 2, annotations=EXCLUSIVE)],
            {},
            {},
        ),
        "of a JobSet that says so": (
            [replicated_job("a", 1, 2)],
            {"annotations": EXCLUSIVE},
            {},
        ),
        "but not by node selectors": (
            [replicated_job("a", 1, 2, annotations=BY_SELECTOR)],
            {},
            {"uid-s": 2},
        ),
        "one part only is placed one by one": (
            [
                replicated_job("a", 1, 2, completionMode="NonIndexed"),
                replicated_job("b", 1, 3, dependsOn=READY),
            ],
            {},
            {"uid-s/b": 3},
        ),
        "no Jobs": ([replicated_job("a", 0, 4)], {}, {"uid-s": 0}),
        "more pods than any gang has": ([replicated_job("a", 9, 9_000)], {}, {}),
    },
)
def test_a_gang_is_what_is_created_together(
    jobs: list[dict[str, Any]], fields: dict[str, Any], gangs: dict[str, int]
) -> None:
    found = jobset("s", *jobs, **fields)
    assert {uid: job and job.counts for uid, job in found.gangs().items()} == {
        uid: Counts(0, size) for uid, size in gangs.items()
    }
    assert {set_uid(uid) for uid in found.gangs()} <= {"uid-s"}


@cases(
    ("jobs", "workers", "command"),
    {
        "those of the step that trains": (train_steps(1), 1, "node"),
        "however many other pods there are": (train_steps(5), 5, "node"),
        "with what is created with them": (
            [
                replicated_job("launcher", labels=TRAINS),
                replicated_job("node", 1, 3),
            ],
            4,
            "launcher",
        ),
        "elsewhere the largest part": (
            [replicated_job("a", 1, 2), replicated_job("b", 1, 3, dependsOn=READY)],
            3,
            "b",
        ),
        "also where its pods are no gang": (
            [replicated_job("a", 1, 3, completionMode="NonIndexed")],
            3,
            "a",
        ),
    },
)
def test_the_workers_of_a_jobset_are_the_pods_that_train(
    jobs: list[dict[str, Any]], workers: int, command: str
) -> None:
    for each in jobs:
        (container,) = each["template"]["spec"]["template"]["spec"]["containers"]
        container["command"] = [each["name"]]
    found = jobset("s", *jobs).job
    assert found is not None
    assert (found.counts, found.command) == (Counts(0, workers), command)


@cases(
    ("owner", "kind"),
    {
        "a TrainJob": (TRAINER_GROUP, "TrainJob"),
        "a TrainJob of another group": ("example.com", "JobSet"),
        "nobody": ("", "JobSet"),
    },
)
def test_a_jobset_is_known_as_the_train_job_that_has_made_it(owner: str, kind: str) -> None:
    found = jobset("s", replicated_job("a"), owner=owner)
    assert (found.kind, found.submitted_kind) == ("JobSet", kind)
    assert f"kubectl patch {kind.lower()} s -n ns" in found.resume_line
    assert """'{"spec":{"suspend":false}}'""" in found.resume_line


def test_each_pod_has_a_number_of_its_own_in_its_gang() -> None:
    shape = jobset("s", replicated_job("a", 2, 2), replicated_job("b", 1, 3)).shape
    labelled = [("a", 0, 0), ("a", 0, 1), ("a", 1, 0), ("a", 1, 1)]
    labelled += [("b", 0, index) for index in range(3)]
    pods = [in_set(pod_of("s", *each), shape) for each in labelled]
    assert [pod.replica for pod in pods] == [
        ReplicaId("uid-s", Role.WORKER, index) for index in range(7)
    ]
    assert {pod.owner for pod in pods} == {Owner("JobSet", "s", "uid-s")}
    assert all(pod.gang == {Role.WORKER: 7} for pod in pods)


@cases(
    ("labels", "expected"),
    {
        "one Job more than the JobSet has": (("a", 2, 0), 4),
        "one pod more than a Job has": (("a", 0, 2), 4),
        "of a replicated job that it lacks": (("c", 0, 0), 4),
    },
)
def test_a_pod_that_the_jobset_does_not_have_is_beyond_its_gang(
    labels: tuple[str, int, int], expected: int
) -> None:
    shape = jobset("s", replicated_job("a", 2, 2)).shape
    assert in_set(pod_of("s", *labels), shape).replica == ReplicaId("uid-s", Role.WORKER, expected)


def test_a_pod_of_no_gang_is_no_replica() -> None:
    shape = jobset("s", replicated_job("a", 1, 2, completionMode="NonIndexed")).shape
    pod = in_set(pod_of("s", "a", 0, None), shape)
    assert pod.owner == Owner("JobSet", "s", "uid-s")
    assert pod.replica is None


def test_pods_of_another_jobset_keep_their_place() -> None:
    pod = pod_of("t", "a", 0, 1)
    assert in_set(pod, jobset("s", replicated_job("a", 1, 2)).shape) is pod
    assert in_set(pod, None) is pod


@pytest.mark.parametrize(
    ("attempt", "phase", "leaving"),
    [(0, "Running", True), (1, "Running", False), (2, "Pending", False), (1, "Failed", True)],
)
def test_pods_of_an_earlier_attempt_and_failed_ones_are_about_to_go(
    attempt: int, phase: str, leaving: bool
) -> None:
    shape = jobset("s", replicated_job("a", 1, 2), restarts=1).shape
    assert in_set(pod_of("s", "a", 0, 1, attempt, phase=phase), shape).leaving is leaving


@cases(
    "change",
    {
        "no name": {"jobset.sigs.k8s.io/jobset-name": None},
        "no UID, as before JobSet 0.9": {"jobset.sigs.k8s.io/jobset-uid": None},
        "an index that is no number": {"jobset.sigs.k8s.io/job-index": "-1"},
        "a completion index that is no number": {"batch.kubernetes.io/job-completion-index": "x"},
        "an absurd attempt": {"jobset.sigs.k8s.io/restart-attempt": "9" * 20},
    },
)
def test_other_labels_tell_of_no_member(change: dict[str, str | None]) -> None:
    labels = dict(pod_of("s", "a", 0, 1).labels)
    assert member_of(labels) is not None
    assert member_of({k: v for k, v in {**labels, **change}.items() if v is not None}) is None


def test_the_labels_count_on_pods_of_jobs_alone() -> None:
    raw = b"""{"metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {
      "jobset.sigs.k8s.io/jobset-name": "s", "jobset.sigs.k8s.io/jobset-uid": "uid-s",
      "jobset.sigs.k8s.io/job-index": "0"}}, "spec": {"containers": [{"name": "c"}]}}"""
    assert decode_pod(raw).owner is None


def test_a_jobset_is_read_as_a_job_of_workers() -> None:
    found = jobset("s", replicated_job("a"), replicated_job("b", 2, 2, "3"), suspend=True)
    assert found.job is not None
    assert (found.job.kind, found.job.counts) == ("JobSet", Counts(0, 5))
    assert found.job.worker.resources["cpu"] == 3000
    assert found.suspended
    assert found.not_suspendable
    assert found.outcome is None


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [("Completed", "Succeeded"), ("Failed", "Failed"), ("Suspended", None)],
)
def test_its_outcome(condition: str, outcome: str | None) -> None:
    found = jobset("s", replicated_job("a"), conditions=[condition])
    assert found.outcome == outcome


def test_a_cluster_without_jobsets_or_the_right_to_read_them_is_not_affected() -> None:
    config = EligibilityConfig()
    watched = {kind: watched_training_jobs(kind, config) for kind in ("TFJob", "JobSet")}
    assert all(each.optional for each in watched.values())
    assert [kind for kind, each in watched.items() if each.without] == ["JobSet"]


def test_with_a_goal_it_is_left_alone() -> None:
    found = jobset("s", replicated_job("a"), annotations={"optimus.dl/target-epochs": "3"})
    assert found.left_alone == "the job has no parameter server"
