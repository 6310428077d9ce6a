"""``optimus balance``: how evenly PSs share a checkpoint's model, by default and balanced.

By default TensorFlow deals variables in turn, and MXNet cuts arrays of a million values over all
PSs and leaves the others to a hash of their keys. Balanced is ``optimus_trainer.parameters``. The
largest part bounds a step: a number of PSs is worth having where it is smaller than with fewer.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from optimus.cli.checkpoint_sizes import Checkpoint, Parameter, read_checkpoint
from optimus.cli.command import Answer, Implementation, Progress
from optimus.cli.table import table
from optimus_trainer.parameters import assign, assign_rows

_MOST_PS: Final = 64
_CUT_FROM: Final = 1_000_000
"""MXNet's default of MXNET_KVSTORE_BIGARRAY_BOUND."""
_HASH: Final = 9973
"""KVStoreDist sends key k to server 9973 k mod n."""
_ANNOTATION: Final = "optimus.dl/ps-unevenness"
_WORTH: Final = 0.98
"""A number of PSs is worth having where the largest part is at most so much of that with fewer."""
_DEFAULTS: Final = {
    "TensorFlow": "whole variables in turn, here in the order of their names",
    "MXNet": "arrays of a million values over all PSs, others by the hash of their keys",
}

_LEGEND: Final = """\
DEFAULT, BALANCED: the largest part of the model on one PS, divided by the mean. MB: its size.
REQUESTS: for one push or pull of all, and the most of one PS. Worth having: the largest part is
at least 2 % smaller than with fewer PSs. Balanced: optimus_trainer.parameters."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """What each PS holds, in bytes, and how many requests it gets for a pull or push of all."""

    held: tuple[int, ...]
    requests: tuple[int, ...]

    @property
    def unevenness(self) -> float:
        """The largest part divided by the mean."""
        return max(self.held) * len(self.held) / sum(self.held)

    @property
    def value(self) -> Mapping[str, object]:
        return {
            "largest_bytes": max(self.held),
            "largest_over_mean": self.unevenness,
            "requests": sum(self.requests),
            "most_requests": max(self.requests),
        }


_Parts = Iterable[tuple[int, int]]
"""Bytes of a part, and its PS."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    checkpoint = "of TensorFlow (PREFIX or PREFIX.index) or MXNet (.params)"
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help=checkpoint)
    numbers = "numbers of PSs (default 2..16)"
    parser.add_argument("--ps", type=_range, default=range(2, 17), metavar="N..N", help=numbers)


def _range(text: str) -> range:
    match = re.fullmatch(r"(\d{1,3})(?:\.\.(\d{1,3}))?", text, re.ASCII)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= low <= high <= _MOST_PS:
        expected = f"numbers from 1 to {_MOST_PS} are expected, such as 4 or 2..16"
        raise argparse.ArgumentTypeError(f"{expected}, not {text!a}")
    return range(low, high + 1)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    checkpoint = read_checkpoint(options.checkpoint)
    default, balanced = _RULES[checkpoint.framework]
    parameters = checkpoint.parameters
    rows = [
        (ps, _shares(ps, default(parameters, ps)), _shares(ps, balanced(parameters, ps)))
        for ps in progress(options.ps, "Assigning parameters")
    ]
    default_unevenness = ", ".join(
        f"{_shares(ps, default(parameters, ps)).unevenness:.3g}"
        for ps in range(1, options.ps[-1] + 1)
    )
    worth_by_default = _worth((ps, shares) for ps, shares, _ in rows)
    worth_balanced = _worth((ps, shares) for ps, _, shares in rows)
    value = {
        "framework": checkpoint.framework,
        "parameters": sum(parameter.size for parameter in parameters),
        "arrays": len(parameters),
        "default": _DEFAULTS[checkpoint.framework],
        "ps": [
            {"ps": ps, "default": before.value, "balanced": after.value}
            for ps, before, after in rows
        ],
        "worth_having": {"default": worth_by_default, "balanced": worth_balanced},
        "ps_unevenness": default_unevenness,
    }
    headings = "PS", "DEFAULT", "MB", "REQUESTS", "BALANCED", "MB", "REQUESTS"
    cells = [(ps, *_cells(before), *_cells(after)) for ps, before, after in rows]
    lines = (
        _about(checkpoint),
        "",
        table(">>>>>>>", headings, cells),
        "",
        f"{_LEGEND}\nDefault: {_DEFAULTS[checkpoint.framework]}.",
        f"Worth having by default: {_listed(worth_by_default)} PSs.",
        f"Worth having balanced: {_listed(worth_balanced)} PSs.",
        f'A job that keeps the default: {_ANNOTATION}: "{default_unevenness}"',
    )
    return Answer(value, "\n".join(lines))


def _about(checkpoint: Checkpoint) -> str:
    parameters = checkpoint.parameters
    values = sum(parameter.size for parameter in parameters)
    largest = max(parameters, key=lambda parameter: parameter.size)
    return (
        f"{checkpoint.framework}: {len(parameters)} arrays of {values:,} values; the largest,"
        f" {ascii(largest.name)[1:-1]}, has {largest.size / values:.0%} of them"
    )


def _cells(shares: _Shares) -> tuple[str, str, str]:
    requests = f"{sum(shares.requests)} ({max(shares.requests)})"
    return f"{shares.unevenness:.2f}", f"{max(shares.held) / 1e6:.2f}", requests


def _worth(rows: Iterable[tuple[int, _Shares]]) -> list[int]:
    chosen, smallest = list[int](), float("inf")
    for ps, shares in rows:
        if max(shares.held) <= _WORTH * smallest:
            chosen.append(ps)
            smallest = max(shares.held)
    return chosen


def _listed(numbers: Sequence[int]) -> str:
    """2, 3, 4, 6 as 2 to 4, 6."""
    runs = list[list[int]]()
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(texts)


def _shares(ps: int, parts: _Parts) -> _Shares:
    held, requests = [0] * ps, [0] * ps
    for size, server in parts:
        held[server] += size
        requests[server] += 1
    return _Shares(tuple(held), tuple(requests))


def _in_turn(parameters: Sequence[Parameter], ps: int) -> _Parts:
    for number, parameter in enumerate(parameters):
        yield parameter.size * parameter.value_bytes, number % ps


def _by_hash(parameters: Sequence[Parameter], ps: int) -> _Parts:
    for key, parameter in enumerate(parameters):
        if parameter.size < _CUT_FROM:
            yield parameter.size * parameter.value_bytes, _HASH * key % ps
            continue
        ends = [round(parameter.size / ps * server) for server in range(ps + 1)]
        for server in range(ps):
            yield (ends[server + 1] - ends[server]) * parameter.value_bytes, server


def _cut_by_rows(parameters: Sequence[Parameter], ps: int) -> _Parts:
    chosen = assign_rows([parameter.shape for parameter in parameters], ps)
    for parameter, servers in zip(parameters, chosen, strict=True):
        row = parameter.size // max(1, parameter.shape[0]) * parameter.value_bytes
        for number, server in enumerate(servers):
            yield len(range(number, parameter.shape[0], len(servers))) * row, server


def _cut_anywhere(parameters: Sequence[Parameter], ps: int) -> _Parts:
    for part in assign([parameter.size for parameter in parameters], ps):
        yield part.size * parameters[part.block].value_bytes, part.ps


_Rule = Callable[[Sequence[Parameter], int], _Parts]
_RULES: Final[Mapping[str, tuple[_Rule, _Rule]]] = {
    "TensorFlow": (_in_turn, _cut_by_rows),
    "MXNet": (_by_hash, _cut_anywhere),
}

IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
