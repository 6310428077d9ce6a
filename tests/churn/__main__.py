"""``python -m tests.churn``: a run of any length; its figures as JSON. Exit status 1 where
something did not hold."""

import argparse
import json
import random
import secrets
import sys
import tempfile
from pathlib import Path

from localcluster.binaries.modules import DEFAULT_OPERATOR, OPERATORS
from localcluster.specs import Backend
from tests.churn.run import Length, run
from tests.harness.optimus_cluster import optimus_cluster, training_nodes
from tests.harness.scenario import scenario_namespace
from tests.scenarios.conftest import AGENT, TUNING


def main() -> int:
    """Run, print the figures, and fail where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cluster", type=Backend, choices=list(Backend), default=Backend.EMBEDDED)
    parser.add_argument("--operator", choices=list(OPERATORS), default=DEFAULT_OPERATOR)
    parser.add_argument("--action-every", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--kill-every", type=float, default=0.0, metavar="SECONDS", help="0: never")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    how = {"backend": options.cluster, "training_operator": options.operator}
    length = Length(60 * options.minutes, options.action_every, options.kill_every)
    nodes = training_nodes("4", "4", "4", "4")
    with (
        tempfile.TemporaryDirectory() as folder,
        optimus_cluster("churn", nodes, TUNING, agent=AGENT, **how) as optimus,
    ):
        optimus.deploy()
        namespace = f"churn-{secrets.token_hex(4)}"
        with scenario_namespace(optimus, namespace, Path(folder)) as scenario:
            found = run(scenario, seed, length)
            if found["faults"]:
                print(scenario.describe(), file=sys.stderr)
    print(
        json.dumps(
            {"cluster": str(options.cluster), "operator": options.operator, **found}, indent=1
        )
    )
    return 1 if found["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
