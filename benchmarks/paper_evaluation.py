"""The paper's evaluation, simulated:
``python -m benchmarks.paper_evaluation [--seeds 10] [--settings reproduced]``.

DRF and Tetris to the paper's own policy in the five settings of Optimus (EuroSys 2018), sections
6.2 and 6.3, and in the one that reproduces the ratios of the first, beside the published ratios.
JSON on the standard output. What ``optimus`` itself gains is ``benchmarks.simulated_gains``."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from benchmarks.paper_setups import (
    EVALUATION,
    SETTINGS,
    Task,
    absolute,
    compare,
    evaluation_setups,
    ratios_to_first,
)
from optimus.simulator.results import Simulation


def main() -> None:
    """Run the settings asked for and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 1 on")
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    options = parser.parse_args()
    answer: dict[str, object] = {"seeds": options.seeds}
    for name in options.settings:
        forecasts = SETTINGS[name].forecasts
        setups = evaluation_setups(forecasts)
        found = compare(SETTINGS[name], setups, range(1, options.seeds + 1), with_dots)
        answer[name] = {
            "forecasts": str(forecasts),
            "optimus-paper": absolute(found[0]),
            **ratios_to_first(found, EVALUATION[name]),
        }
    print(json.dumps(answer, indent=1, allow_nan=False))


def with_dots(tasks: Sequence[Task]) -> Iterator[Simulation]:
    """Run one simulation after another, a dot on the standard error for each."""
    for task in tasks:
        yield task.run()
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


if __name__ == "__main__":
    main()
