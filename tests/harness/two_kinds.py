"""Two training nodes of two kinds, and jobs whose worker fills most of either."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from localcluster.specs import NodeSpec
from optimus.nodes import NODE_KIND_LABEL
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import training_nodes
from tests.harness.small_jobs import SMALL, small_job

KINDS: Final = ("fast", "slow")


def nodes_of_two_kinds() -> Iterator[NodeSpec]:
    """Yield a node of each kind, `train-1` and `train-2`."""
    for node, kind in zip(training_nodes("4", "4"), KINDS, strict=True):
        yield replace(node, labels={**node.labels, NODE_KIND_LABEL: kind})


def one_kind_job(name: str) -> LightJob:
    """Return a job that trains until it is deleted: its goal is out of reach."""
    job = small_job(name, (1, 1), requests={"PS": SMALL, "Worker": {"cpu": "3", "memory": "64Mi"}})
    target = {"optimus.dl/target-loss": "0.001"}
    return replace(job, annotations={**(job.annotations or {}), **target})
