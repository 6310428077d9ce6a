"""How much wrong forecasts cost: ``python -m benchmarks.error_sensitivity [--seeds 10]
[--setting testbed]``.

The paper's policy with a convergence or a speed that is off by 10 to 50 %, to itself with true
forecasts (Optimus, EuroSys 2018, section 6.4 and figure 15). ``--crowded`` asks the same where jobs
compete: twice the jobs with twice the work each, allocated under the published rules by a policy
that is not stuck on plateaus. JSON on the standard output."""

import argparse
import json
from dataclasses import replace

from benchmarks.paper_evaluation import with_dots
from benchmarks.paper_setups import (
    CONVERGENCE_SENSITIVITY,
    ERRORS,
    JOBS,
    SETTINGS,
    SPEED_SENSITIVITY,
    Setting,
    Setup,
    absolute,
    compare,
    ratio,
    sensitivity_setups,
)
from optimus.policies import policy_named
from optimus.simulator.workload import EPOCH_SECONDS, WorkloadConfig

CROWDED = Setting(config=WorkloadConfig(epoch_seconds=2 * EPOCH_SECONDS), jobs=2 * JOBS)


def past_plateaus() -> tuple[Setup, ...]:
    """The same errors under our allocation and the published rules."""
    policy = policy_named("optimus")
    return tuple(
        replace(each, scheduler=replace(each.scheduler, policy=policy))
        for each in sensitivity_setups()
    )


def main() -> None:
    """Run all errors and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 1 on")
    parser.add_argument("--crowded", action="store_true", help="where jobs compete for room")
    parser.add_argument("--setting", choices=tuple(SETTINGS), default="testbed")
    options = parser.parse_args()
    setting, setups = (
        (CROWDED, past_plateaus())
        if options.crowded
        else (SETTINGS[options.setting], sensitivity_setups())
    )
    found = compare(setting, setups, range(1, options.seeds + 1), with_dots)
    published = (*CONVERGENCE_SENSITIVITY, *SPEED_SENSITIVITY)
    rows = {
        each.policy: ratio(each.ratios["average_jct_seconds"], there)
        for each, there in zip(found[1:], published, strict=True)
    }
    answer = {"seeds": options.seeds, "errors": ERRORS, "truth": absolute(found[0]), "jct": rows}
    print(json.dumps(answer, indent=1, allow_nan=False))


if __name__ == "__main__":
    main()
