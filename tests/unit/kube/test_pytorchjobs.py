"""PyTorchJobs: which are managed, within which bounds, and why others are left alone."""

import json
from typing import Any

import pytest

from optimus.jobs import CountBounds, Counts
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.training_jobs import TrainingJob, decode_job
from tests.unit.kube.job_json import job_json, replica

BATCH = "optimus.dl/global-batch-size"


def pytorch_job(
    workers: int = 3, *, master: bool = True, batch: str | None = "64", **spec: Any
) -> dict[str, Any]:
    raw = job_json(target_loss="0.2")
    raw["kind"] = "PyTorchJob"
    roles = {"Master": replica(1)} if master else {}
    raw["spec"] = {"pytorchReplicaSpecs": roles | {"Worker": replica(workers)}, **spec}
    if batch is not None:
        raw["metadata"]["annotations"][BATCH] = batch
    return raw


def read(raw: dict[str, Any]) -> TrainingJob:
    return decode_job("PyTorchJob", json.dumps(raw).encode(), config=EligibilityConfig())


def with_arguments(*arguments: str) -> dict[str, Any]:
    raw = pytorch_job()
    template = raw["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["spec"]["containers"][0]["args"] = list(arguments)
    return raw


LEFT_ALONE = {
    "no batch is declared": (pytorch_job(batch=None), f"share by {BATCH}"),
    "a HorizontalPodAutoscaler": (
        pytorch_job(elasticPolicy={"metrics": [{"type": "Resource"}]}),
        "HorizontalPodAutoscaler",
    ),
    "torchrun with so many nodes": (with_arguments("torchrun", "--nnodes", "3"), "--nnodes 3"),
    "a script with its world size": (with_arguments("--world-size=4"), "--world-size=4"),
    "within a line for a shell": (
        with_arguments("-c", "accelerate launch --num_processes 4 train.py"),
        "--num_processes 4",
    ),
    "in quotes": (with_arguments("-c", "torchrun --nnodes='3' train.py"), "--nnodes='3"),
    "over two lines": (with_arguments("-c", "torchrun --nnodes \\\n 12 a.py"), "--nnodes \\ 12"),
    "a range of one number": (with_arguments("--nnodes=3:3"), "--nnodes=3:3"),
    "for one command of a shell": (
        with_arguments("-c", "WORLD_SIZE=4 python a.py"),
        "WORLD_SIZE=4",
    ),
    "a key of a trainer": (with_arguments("fit", "--trainer.num_nodes=4"), "--trainer.num_nodes=4"),
    "counts that cannot take equal parts": (
        pytorch_job(2),
        "its 1 master + 2 workers cannot take equal parts of the batch",
    ),
    "no worker": (pytorch_job(0), "the job has no worker"),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_a_job_that_would_train_otherwise_is_left_alone_with_a_reason(case: str) -> None:
    raw, reason = LEFT_ALONE[case]
    found = read(raw)
    assert found.job is not None
    assert not found.job.managed
    assert reason in (found.left_alone or "")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pytorch_job(), id="a master and workers"),
        pytest.param(pytorch_job(4, master=False), id="workers alone"),
        pytest.param(with_arguments("--nnodes", "$(PET_NNODES)"), id="the operator's own number"),
        pytest.param(with_arguments("--nnodes-file=3"), id="another argument"),
        pytest.param(with_arguments("--nnodes", "1:4"), id="a range"),
        pytest.param(
            with_arguments("-c", "torchrun --nnodes=10:14 a.py"), id="a range for a shell"
        ),
        pytest.param(with_arguments("--nnodes=$WORLD_SIZE"), id="a variable"),
    ],
)
def test_a_job_with_a_shared_batch_is_managed(raw: dict[str, Any]) -> None:
    found = read(raw)
    assert found.left_alone is None
    assert found.job is not None
    assert found.job.managed


def bounds_of(raw: dict[str, Any]) -> CountBounds:
    job = read(raw).job
    assert job is not None
    return job.bounds


def test_all_that_train_take_equal_parts_of_the_batch() -> None:
    bounds = bounds_of(pytorch_job(batch="12"))
    allowed = [counts.workers for counts in bounds.up_to(Counts(4, 20))]
    assert allowed == [1, 2, 3, 5, 11]
    assert {counts.ps for counts in bounds.up_to(Counts(4, 20))} == {0}
    assert bounds.clamp(Counts(0, 9)) == Counts(0, 5)
    assert not bounds.allow(Counts(0, 4))


def test_processes_of_one_pod_share_its_part() -> None:
    bounds = bounds_of(pytorch_job(master=False, batch="16", nprocPerNode="4"))
    assert [counts.workers for counts in bounds.up_to(Counts(0, 20))] == [1, 2, 4]


def test_the_elastic_policy_bounds_the_workers() -> None:
    raw = pytorch_job(elasticPolicy={"minReplicas": 3, "maxReplicas": 7})
    raw["metadata"]["annotations"]["optimus.dl/max-workers"] = "15"
    bounds = bounds_of(raw)
    assert (bounds.min_workers, bounds.max_workers) == (3, 7)
    assert bounds.above(Counts(0, 7)).min_workers == 3


def test_counts_are_said_as_their_user_knows_them() -> None:
    alone, led = read(pytorch_job(4, master=False)).job, read(pytorch_job(3)).job
    assert alone is not None
    assert led is not None
    assert (alone.size, led.size) == ("4 workers", "1 master + 3 workers")
    assert str(alone.counts) == "4 workers"
