"""Which part of the paper's system does what, and why ratios differ:
``python -m benchmarks.ablation [--seeds 10] [--settings testbed]``.

``ablation`` exchanges one part at a time: allocation, placement, the assignment of parameters
(Optimus, EuroSys 2018, section 6.3), in each of ``--settings``. ``causes`` repeats the testbed's
ratios with what the paper leaves open exchanged one at a time. JSON on the standard output.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from benchmarks.paper_evaluation import with_dots
from benchmarks.paper_setups import (
    ALLOCATION_ONLY,
    CAUSES,
    EVALUATION,
    PLACEMENT_ONLY,
    SETTINGS,
    Ratios,
    Setting,
    absolute,
    allocation_setups,
    assignment_setups,
    compare,
    evaluation_setups,
    looking_past_plateaus,
    placement_setups,
    ratios_to_first,
    with_shared_links,
)

_PLACED_BY = {"spread": "drf", "pack": "tetris"}


def main() -> None:
    """Run both parts, or the one asked for, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 1 on")
    parser.add_argument(
        "--parts", nargs="+", choices=("ablation", "causes"), default=("ablation", "causes")
    )
    causes = (*CAUSES, *_OTHER_CAUSES)
    parser.add_argument("--causes", nargs="*", choices=causes, default=causes)
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=["testbed"])
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    answer: dict[str, object] = {"seeds": options.seeds}
    if "ablation" in options.parts:
        answer["ablation"] = {name: ablation(SETTINGS[name], seeds) for name in options.settings}
    if "causes" in options.parts:
        answer["causes"] = {
            name: _OTHER_CAUSES[name](seeds) if name in _OTHER_CAUSES else cause(name, seeds)
            for name in options.causes
        }
    print(json.dumps(answer, indent=1, allow_nan=False))


def ablation(setting: Setting, seeds: range) -> dict[str, object]:
    """One part of the paper's system exchanged at a time."""
    allocation = compare(setting, allocation_setups(setting.forecasts), seeds, with_dots)
    assignment = compare(setting, assignment_setups(setting.forecasts), seeds, with_dots)
    return {
        "allocation": ratios_to_first(allocation, ALLOCATION_ONLY),
        "placement": placement(setting, seeds),
        "assignment": ratios_to_first(assignment, {}),
    }


def placement(setting: Setting, seeds: range) -> dict[str, object]:
    """The paper's allocation with the baselines' placements, by the baseline's name."""
    found = compare(setting, placement_setups(setting.forecasts), seeds, with_dots)
    published = {each.policy: _published_placement(each.policy) for each in found[1:]}
    return {
        each.policy: ratios_to_first([found[0], each], {"optimus-paper": published[each.policy]})[
            each.policy
        ]
        for each in found[1:]
    }


def _published_placement(name: str) -> Ratios:
    return PLACEMENT_ONLY[next(policy for rule, policy in _PLACED_BY.items() if rule in name)]


def cause(name: str, seeds: range) -> dict[str, object]:
    """The testbed's ratios with one thing exchanged."""
    setting = CAUSES[name]
    whole = compare(setting, evaluation_setups(setting.forecasts), seeds, with_dots)
    allocation = compare(setting, allocation_setups(setting.forecasts), seeds, with_dots)
    return {
        "optimus-paper": absolute(whole[0]),
        "whole": ratios_to_first(whole, EVALUATION["testbed"]),
        "allocation": ratios_to_first(allocation, ALLOCATION_ONLY),
        "placement": placement(setting, seeds),
    }


def shared(seeds: range) -> dict[str, object]:
    """The testbed's ratios where tasks share the links of their servers, in the mean."""
    setups = with_shared_links(
        [*evaluation_setups(), *allocation_setups()[1:], *placement_setups()[1:]],
        seeds,
        with_dots,
    )
    whole = compare(SETTINGS["testbed"], setups, seeds, with_dots)
    links = {each.name: each.hardware.sync.ps_mb_per_second for each in setups if each.hardware}
    return {
        "optimus-paper": absolute(whole[0]),
        "ps_mb_per_second": links,
        "all": ratios_to_first(whole, {}),
    }


def past_plateaus(seeds: range, name: str = "testbed") -> dict[str, object]:
    """The ratios to a reference that is not stuck where one PS or one worker more does not help."""
    setting = SETTINGS[name]
    policies, allocations = (
        make(setting.forecasts) for make in (evaluation_setups, allocation_setups)
    )
    setups = [looking_past_plateaus(setting.forecasts), *policies[:3], *allocations[1:]]
    found = compare(setting, setups, seeds, with_dots)
    return {"reference": absolute(found[0]), "all": ratios_to_first(found, {})}


_OTHER_CAUSES: Final[Mapping[str, Callable[[range], dict[str, object]]]] = MappingProxyType(
    {
        "links shared by all jobs": shared,
        "a reference that looks past plateaus": past_plateaus,
        "the same where the ratios are reproduced": partial(past_plateaus, name="reproduced"),
    }
)
"""Causes that change the setups, and not the setting."""


if __name__ == "__main__":
    main()
