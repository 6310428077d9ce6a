"""Two kube-schedulers with an extender each, of which the leader's are killed, -9, at random.

The short form of ``python -m benchmarks.scheduler_kills``, with a shorter Lease."""

import json
import random
from pathlib import Path

import pytest

from benchmarks.scheduler_kills import NODES, Length, run
from benchmarks.scheduler_throughput import cluster_of

pytestmark = pytest.mark.e2e

LENGTH = Length(kills=10, gangs=50, take_over_seconds=60.0)
"""The benchmark measures take-overs on a machine that is not busy with other tests."""

LEASE = {"leaseDuration": "8s", "renewDeadline": "6s", "retryPeriod": "1s"}


@pytest.mark.timeout(600)
def test_every_gang_is_bound_whole_while_leaders_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    with cluster_of(NODES) as api:
        found = run(api, tmp_path, seed, LENGTH, LEASE)
    assert not found["faults"], json.dumps(found, indent=1)
    assert sum(found["kills"].values()) == LENGTH.kills
    assert found["gangs"] >= LENGTH.gangs
