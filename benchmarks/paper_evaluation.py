"""The paper's evaluation, simulated:
``python -m benchmarks.paper_evaluation [--seeds 10] [--settings reproduced]``.

DRF and Tetris to the paper's own policy in the five settings of Optimus (EuroSys 2018), sections
6.2 and 6.3, and in the one that reproduces the ratios of the first, beside the published ratios;
with ``--ours`` the product's policy too. JSON on the standard output."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from benchmarks.paper_setups import (
    EVALUATION,
    PUBLISHED_ERRORS,
    SETTINGS,
    Task,
    absolute,
    compare,
    evaluation_setups,
    ratios_to_first,
)
from optimus.simulator.forecasts import (
    EquationForecasts,
    FittedForecasts,
    ForecastSource,
    TrueForecasts,
)
from optimus.simulator.results import Simulation

FORECASTS: dict[str, ForecastSource] = {
    "published": PUBLISHED_ERRORS,
    "truth": TrueForecasts(),
    "fitted": FittedForecasts(),
    "equations": EquationForecasts(),
}


def main() -> None:
    """Run the settings asked for and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 1 on")
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    parser.add_argument(
        "--forecasts", choices=tuple(FORECASTS), help="of all policies (default: the setting's)"
    )
    parser.add_argument("--ours", action="store_true", help="the product's own policy, too")
    parser.add_argument(
        "--only-ours",
        action="store_true",
        help="the product's own policy and the paper's, no other",
    )
    options = parser.parse_args()
    names = (
        {"optimus-paper", "optimus"} if options.only_ours else {"optimus-paper", "drf", "tetris"}
    )
    names |= {"optimus"} if options.ours else set()
    answer: dict[str, object] = {"seeds": options.seeds}
    for name in options.settings:
        forecasts = FORECASTS.get(options.forecasts, SETTINGS[name].forecasts)
        setups = [each for each in evaluation_setups(forecasts) if each.name in names]
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
