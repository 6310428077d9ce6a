"""A gang of 500 pods through a real kube-scheduler, on nodes that are API objects."""

from pathlib import Path

import pytest

from benchmarks.scheduler_throughput import cluster_of, with_extender

pytestmark = pytest.mark.e2e

PODS = 500
NODES = 80
"""Of 16 CPUs; each pod takes two."""


@pytest.mark.timeout(600)
def test_a_gang_of_500_pods_is_bound_whole_on_the_fewest_nodes(tmp_path: Path) -> None:
    with cluster_of(NODES) as api:
        found = with_extender(api, tmp_path, [PODS], limit_seconds=400.0)
    assert found["gangs_whole"] == 1
    assert found["servers_per_gang"] == -(-PODS // 8)
    log = (tmp_path / "extender.log").read_text()
    assert " ERROR " not in log
    assert "Traceback" not in log
