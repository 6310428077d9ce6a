"""Users and administrators change everything at once; ``python -m tests.churn`` for a while."""

import json
import random

from tests.churn.run import Length, run
from tests.harness.scenario import Scenario

LENGTH = Length(seconds=45, action_seconds=1.5, actions=12)


def test_every_invariant_holds_while_jobs_and_nodes_come_and_go(scenario: Scenario) -> None:
    found = run(scenario, random.SystemRandom().randrange(10**6), LENGTH)
    assert not found["faults"], json.dumps(found, indent=1)
    assert found["checks"] > 10
