"""Two kube-schedulers with an extender each, of which the leader's are killed, -9, at random.

The short form of ``python -m benchmarks.scheduler_kills``, with a shorter Lease."""

import json
import random
import subprocess
from pathlib import Path

import pytest

from benchmarks.scheduler_kills import NODES, Length, in_host, run
from benchmarks.scheduler_throughput import cluster_of

pytestmark = pytest.mark.e2e

LENGTH = Length(kills=10, gangs=50, take_over_seconds=60.0)
"""The benchmark measures take-overs on a machine that is not busy with other tests."""

LEASE = {"leaseDuration": "8s", "renewDeadline": "6s", "retryPeriod": "1s"}


@pytest.fixture(autouse=True)
def _hosts() -> None:
    """The two replicas need host names of their own, which not every kernel allows a user."""
    tried = subprocess.run(in_host("tried", ["true"]), capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(tried.stderr.strip())


@pytest.mark.timeout(600)
def test_every_gang_is_bound_whole_while_leaders_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    with cluster_of(NODES) as api:
        found = run(api, tmp_path, seed, LENGTH, LEASE)
    assert not found["faults"], json.dumps(found, indent=1)
    assert sum(found["kills"].values()) == LENGTH.kills
    assert found["gangs"] >= LENGTH.gangs
