"""How much wrong forecasts cost: ``python -m benchmarks.error_sensitivity [--seeds 10]``.

The paper's policy told a convergence or a speed that is off by 10 to 50 %, to itself told the truth (Optimus, EuroSys
2018, section 6.4 and figure 15). JSON on the standard output.
"""

import argparse
import json

from benchmarks.paper_evaluation import with_dots
from simulator.paper.evaluation import SETTINGS, compare, sensitivity_ways
from simulator.paper.published import CONVERGENCE_SENSITIVITY, ERRORS, SPEED_SENSITIVITY
from simulator.paper.telling import absolute, ratio


def main() -> None:
    """Run all errors and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 1 on")
    options = parser.parse_args()
    found = compare(SETTINGS["testbed"], sensitivity_ways(), range(1, options.seeds + 1), with_dots)
    published = (*CONVERGENCE_SENSITIVITY, *SPEED_SENSITIVITY)
    rows = {
        each.policy: ratio(each.ratios["average_jct_seconds"], there)
        for each, there in zip(found[1:], published, strict=True)
    }
    answer = {"seeds": options.seeds, "errors": ERRORS, "truth": absolute(found[0]), "jct": rows}
    print(json.dumps(answer, indent=1, allow_nan=False))


if __name__ == "__main__":
    main()
