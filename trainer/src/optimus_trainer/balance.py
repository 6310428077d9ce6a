"""How evenly parameter servers share the model of a checkpoint, by default and balanced.

``python -m optimus_trainer.balance CHECKPOINT [--ps 2..16]``, where TensorFlow or MXNet is
installed. TensorFlow's default deals variables in turn, here in the order of their names; MXNet's
cuts arrays of a million values over all servers and leaves the others to a hash of their keys.
Balanced is ``optimus_trainer.parameters``. The largest part bounds a step, so that a number of
servers is worth having where it is at least 2 % smaller than with fewer.
"""

import argparse
import re
from math import prod
from typing import Dict, Iterator, List, Sequence, Tuple

from optimus_trainer.parameters import assign, assign_rows

Shapes = Sequence[Sequence[int]]
Parts = Iterator[Tuple[int, int]]
"""Values of a part, and its server."""

_CUT_FROM = 1000000
"""MXNet's default of MXNET_KVSTORE_BIGARRAY_BOUND."""
_HASH = 9973
"""KVStoreDist sends key k to server 9973 k mod n."""
_WORTH = 0.98
_STATISTICS = ("running_mean", "running_var", "moving_mean", "moving_var")
"""Of batch normalisation, which no gradient changes."""


def tensorflow_shapes(checkpoint: str) -> Dict[str, Sequence[int]]:
    """Shapes of the variables by name, without those of an optimizer."""
    import tensorflow as tf  # type: ignore[import-untyped]

    shapes = dict(tf.train.list_variables(checkpoint))
    return {name: shape for name, shape in shapes.items() if not _is_of_optimizer(name, shapes)}


def _is_of_optimizer(name: str, shapes: Dict[str, Sequence[int]]) -> bool:
    """By name: ``.OPTIMIZER_SLOT``, Keras' ``optimizer/``; a slot of TensorFlow 1 is named after
    its variable and has its shape."""
    parts, shape = name.split("/"), shapes[name]
    is_slot = shapes.get(name.rpartition("/")[0]) == shape
    return not shape or is_slot or ".OPTIMIZER_SLOT" in parts or "optimizer" in parts[:2]


def mxnet_shapes(checkpoint: str) -> Dict[str, Sequence[int]]:
    """Shapes of the arrays that are pushed, by name, in the order of the file."""
    import mxnet as mx  # type: ignore[import-not-found]

    loaded = mx.nd.load(checkpoint)
    named = loaded.items() if isinstance(loaded, dict) else enumerate(loaded)
    return {
        str(name): array.shape
        for name, array in named
        if not str(name).startswith("aux:") and not str(name).endswith(_STATISTICS)
    }


def in_turn(shapes: Shapes, servers: int) -> Parts:
    """TensorFlow's default."""
    for number, shape in enumerate(shapes):
        yield prod(shape), number % servers


def by_hash(shapes: Shapes, servers: int) -> Parts:
    """MXNet's default."""
    for key, shape in enumerate(shapes):
        size = prod(shape)
        if size < _CUT_FROM:
            yield size, _HASH * key % servers
        else:
            ends = [round(size / servers * server) for server in range(servers + 1)]
            yield from ((ends[n + 1] - ends[n], n) for n in range(servers))


def cut_by_rows(shapes: Shapes, servers: int) -> Parts:
    """Balanced, as ``VariablePlan`` does it."""
    for shape, chosen in zip(shapes, assign_rows(shapes, servers)):
        row = prod(shape) // max(1, shape[0])
        for number, server in enumerate(chosen):
            yield len(range(number, shape[0], len(chosen))) * row, server


def cut_anywhere(shapes: Shapes, servers: int) -> Parts:
    """Balanced, as ``balanced_kvstore`` does it."""
    for part in assign([prod(shape) for shape in shapes], servers):
        yield part.size, part.ps


def unevenness(parts: Parts, servers: int) -> float:
    """The largest part of the model on one server, divided by the mean."""
    held = [0] * servers
    for size, server in parts:
        held[server] += size
    return max(held) * servers / sum(held)


def report(shapes: Shapes, of_mxnet: bool, numbers: Sequence[int]) -> List[str]:
    """A line for each number of servers, and the annotation of a job that keeps the default."""
    default, balanced = (by_hash, cut_anywhere) if of_mxnet else (in_turn, cut_by_rows)
    lines = ["PS  default  balanced  (the largest part of the model, divided by the mean)"]
    worth, smallest = [], float("inf")
    for servers in numbers:
        before = unevenness(default(shapes, servers), servers)
        after = unevenness(balanced(shapes, servers), servers)
        lines.append(f"{servers:2}  {before:7.2f}  {after:8.2f}")
        if before / servers <= _WORTH * smallest:
            worth.append(servers)
            smallest = before / servers
    every = range(1, max(numbers) + 1)
    annotation = ", ".join(f"{unevenness(default(shapes, n), n):.3g}" for n in every)
    lines.append(f"worth having by default: {', '.join(map(str, worth))}")
    lines.append(f'a job that keeps the default: optimus.dl/ps-unevenness: "{annotation}"')
    return lines


def _range(text: str) -> Sequence[int]:
    match = re.fullmatch(r"(\d{1,2})(?:\.\.(\d{1,2}))?", text, re.ASCII)
    low, high = (int(match.group(1)), int(match.group(2) or match.group(1))) if match else (0, 0)
    if not 1 <= low <= high:
        raise argparse.ArgumentTypeError(f"numbers such as 4 or 2..16 are expected, not {text!a}")
    return range(low, high + 1)


def main() -> None:
    """Print how the servers would share the model of a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="of TensorFlow (PREFIX) or MXNet (.params)")
    parser.add_argument("--ps", type=_range, default=range(2, 17), metavar="N..N")
    options = parser.parse_args()
    of_mxnet = options.checkpoint.endswith(".params")
    shapes = (mxnet_shapes if of_mxnet else tensorflow_shapes)(options.checkpoint)
    print("\n".join(report(list(shapes.values()), of_mxnet, options.ps)))


if __name__ == "__main__":
    main()
