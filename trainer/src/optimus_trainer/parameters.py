"""Give each parameter server (PS) the same share of the model.

A step takes as long as its busiest PS. By default TensorFlow gives whole variables to the PSs in
turn, and MXNet cuts arrays of a million values over all PSs and leaves the others to a hash. This
is the parameter assignment (PAA) of Optimus (Peng et al., EuroSys 2018, section 5.3): blocks by
size descending, each to the PS that holds least; what is larger than the average per PS is cut.

TensorFlow 1, of which ``v1`` is ``tf.compat.v1``:

    plan = VariablePlan(shapes, ps)                     # the shapes of all variables
    setter = v1.train.replica_device_setter(cluster=cluster, ps_strategy=plan.ps_strategy)
    with v1.device(setter), v1.variable_scope("", partitioner=plan.partitioner):

TensorFlow 2:

    strategy = ParameterServerStrategy(resolver, variable_partitioner=plan.partitioner)
    with tf.variable_creator_scope(plan.place), strategy.scope():

MXNet, Module (keys are names) or Gluon's Trainer (keys are 0, 1, ...):

    kvstore = balanced_kvstore("dist_sync", {key: array.shape for key, array in arrays.items()})
"""

from __future__ import annotations

import copy
import os
from typing import Any, Callable, Hashable, Mapping, NamedTuple, Sequence

TOLERANCE = 0.05
"""By so much of the average a PS may hold more, where that saves a cut."""

_TINY = 0.01
"""Blocks of less than so much of the average are dealt by requests instead of by size."""

_NEVER_CUT = str(2**31 - 1)


class Part(NamedTuple):
    """A part of a block, all of it where it is not cut, and the PS that holds it."""

    block: int
    begin: int
    size: int
    ps: int


def assign(sizes: Sequence[int], ps: int) -> list[Part]:
    """Assign blocks that may be cut anywhere; the parts by descending size of their blocks.

    1. A block of less than 1 % of the average per PS goes to the PS with the fewest requests.
    2. Another goes to the PS that holds least. (The paper takes the one that it fills best, by
       which PSs differ more, in size and in requests.)
    3. One that exceeds the average by more than ``TOLERANCE`` is cut in averages and a rest.

    What would lift a PS over the average by more than ``TOLERANCE`` is cut, which the paper leaves
    whole. So no PS exceeds the average by more, there are fewer than ``ps`` parts more than blocks
    that are not empty, and nothing is cut where whole blocks, the largest first, are that even.
    """
    servers = _Servers(ps, sum(sizes))
    parts = []
    for block in sorted(range(len(sizes)), key=lambda block: -sizes[block]):
        begin, rest = 0, sizes[block]
        while rest > 0:
            size, server = servers.take(rest if rest <= servers.limit else servers.average)
            parts.append(Part(block, begin, size, server))
            begin, rest = begin + size, rest - size
    return parts


def assign_rows(shapes: Sequence[Sequence[int]], ps: int) -> list[list[int]]:
    """Assign variables that may be cut in equal parts along their first axis alone.

    The k largest are cut in ``ps`` parts, one for each PS; others over the average in as few as
    are below it, each to the PS that holds least. k is the smallest with which no PS exceeds the
    average by more than ``TOLERANCE``. Where the rows are too few for that, the assignment with
    the smallest excess is taken. Per variable the result has the PS of each of its parts.
    """
    order = sorted(range(len(shapes)), key=lambda block: -_elements(shapes[block]))
    least = TOLERANCE * sum(map(_elements, shapes)) / ps
    best, chosen = _assign_rows(shapes, ps, (), order)
    for cut in range(1, 1 + sum(_elements(shape) > least for shape in shapes)):
        if not best.excess:
            break
        tried, parts = _assign_rows(shapes, ps, order[:cut], order[cut:])
        if tried.excess < best.excess:
            best, chosen = tried, parts
    return chosen


class VariablePlan:
    """``assign_rows`` for TensorFlow.

    ``shapes`` are those of the model's variables, as of a first build of it on one process.
    Variables are told apart by shape alone, so that names and order do not matter. An optimizer's
    variables, of the same shapes, go the same ways. Others of more than one value go to the PSs in
    turn.
    """

    def __init__(self, shapes: Sequence[Sequence[int]], ps: int) -> None:
        self._ps, self._others = ps, 0
        self._planned: dict[tuple[int, ...], list[list[int]]] = {}
        for shape, servers in zip(shapes, assign_rows(shapes, ps)):
            self._planned.setdefault(_shape(shape), []).append(servers)
        self._made: dict[tuple[int, ...], int] = {}
        self._next: list[int] = []

    def partitioner(self, shape: Any, **_: Any) -> list[int]:
        """How often TensorFlow cuts a variable along each axis."""
        self._next = self._of_shape(_shape(shape))
        return [len(self._next)] + [1] * (len(_shape(shape)) - 1)

    def ps_strategy(self, op: Any) -> int:
        """The PS of a variable, or of the next part of the one that was cut last."""
        if self._next:
            return self._next.pop(0)
        try:
            shape = _shape(op.get_attr("shape"))
        except ValueError:  # a table
            shape = ()
        return self._of_shape(shape)[0]

    def place(self, next_creator: Callable[..., Any], **variable: Any) -> Any:
        """Create a variable on its PS: a creator scope around ``strategy.scope()``."""
        if not self._next:  # one value, or beside another variable: TensorFlow chooses
            return next_creator(**variable)
        import tensorflow as tf  # type: ignore[import-untyped]

        with tf.device(f"/job:ps/task:{self._next.pop(0)}/device:CPU:0"):
            return next_creator(**variable)

    def _of_shape(self, shape: tuple[int, ...]) -> list[int]:
        planned = self._planned.get(shape)
        if planned is None:
            self._others += 1
            return [self._others % self._ps]
        made = self._made.get(shape, 0)
        self._made[shape] = made + 1
        return list(planned[made % len(planned)])


def balanced_kvstore(kind: str, shapes: Mapping[Any, Sequence[int]]) -> Any:
    """MXNet's distributed KVStore of this kind, which holds each array in the parts of ``assign``.

    ``shapes`` has the keys that the trainer uses: of Module the names, of Gluon's Trainer 0, 1, ...
    All workers give the same. Other keys may follow, whole. Each part is a key of its own to the
    servers, so an optimizer that computes norms of whole arrays (LARS, LAMB) is not for it; nor
    are sparse arrays.
    """
    os.environ["MXNET_KVSTORE_BIGARRAY_BOUND"] = _NEVER_CUT
    import mxnet as mx  # type: ignore[import-not-found]

    servers = int(os.environ["DMLC_NUM_SERVER"])
    keys = _Keys({key: _elements(shape) for key, shape in shapes.items()}, servers)

    balanced = type("BalancedKVStore", (_PartsOfArrays, mx.kvstore.KVStore), {})
    return balanced(mx.kv.create(kind), keys)


class _PartsOfArrays:
    """What differs from a KVStore of MXNet: it passes on parts of the arrays, to one."""

    def __init__(self, whole: Any, keys: _Keys) -> None:
        super().__init__(whole.handle)  # type: ignore[call-arg]  # beside it is MXNet's KVStore
        self._whole, self._keys = whole, keys

    def __del__(self) -> None:
        pass  # the other one frees the handle

    def init(self, key: Any, value: Any) -> None:
        for part, arrays in self._keys.split(key, value):
            self._whole.init(part, arrays[0])

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        self.init(key, value)
        self.pull(key, out, priority)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        for part, arrays in self._keys.split(key, value):
            self._whole.push(part, self._keys.to_send(part, arrays), priority)

    def pull(
        self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True
    ) -> None:
        for part, arrays in self._keys.split(key, out):
            self._whole.pull(part, arrays, priority, ignore_sparse)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        into = self._keys.split(key, value if out is None else out)
        for (part, arrays), (_, outs) in zip(self._keys.split(key, value), into):
            self._whole.pushpull(part, self._keys.to_send(part, arrays), outs, priority)

    def set_optimizer(self, optimizer: Any) -> None:
        self._whole.set_optimizer(self._keys.for_parts(optimizer))


class _Servers:
    """What the PSs hold while parts are assigned."""

    def __init__(self, ps: int, total: int) -> None:
        self.average = max(1, -(-total // ps))
        self.limit = max(self.average, int((1 + TOLERANCE) * total / ps))
        self.held, self.requests = [0] * ps, [0] * ps

    @property
    def excess(self) -> int:
        """By how much one of them exceeds what it should hold."""
        return max(0, max(self.held) - self.limit)

    def take(self, size: int, may_cut: bool = True) -> tuple[int, int]:
        """Assign a part of up to this size; its size and the PS."""
        server = least = min(range(len(self.held)), key=self.held.__getitem__)
        if size < _TINY * self.average:
            few = [ps for ps, held in enumerate(self.held) if held + size <= self.limit] or [least]
            server = min(few, key=lambda ps: (self.requests[ps], self.held[ps]))
        elif may_cut and self.held[least] + size > self.limit:
            size = self.average - self.held[least]
        self.put(size, server)
        return size, server

    def put(self, size: int, server: int) -> None:
        self.held[server] += size
        self.requests[server] += 1


def _assign_rows(
    shapes: Sequence[Sequence[int]], ps: int, cut: Sequence[int], uncut: Sequence[int]
) -> tuple[_Servers, list[list[int]]]:
    """The assignment that cuts some over all PSs. Both are in descending order of size."""
    servers = _Servers(ps, sum(map(_elements, shapes)))
    chosen: list[list[int]] = [[] for _ in shapes]
    for block in cut:
        parts = _rows(shapes[block], ps)
        emptiest = sorted(range(ps), key=servers.held.__getitem__)
        for size, server in zip(parts, emptiest):
            servers.put(size, server)
            chosen[block].append(server)
    rest = []
    for block in uncut:
        pieces = max(1, -(-_elements(shapes[block]) // servers.average))
        rest += [(size, block) for size in _rows(shapes[block], pieces)]
    for size, block in sorted(rest, key=lambda part: -part[0]):
        chosen[block].append(servers.take(size, may_cut=False)[1])
    return servers, chosen


def _rows(shape: Sequence[int], parts: int) -> list[int]:
    """Sizes of equal parts along the first axis, in TensorFlow's order."""
    rows = int(shape[0]) if len(shape) else 1
    parts = max(1, min(parts, rows))
    whole, more = divmod(rows, parts)
    row = _elements(shape[1:])
    return [(whole + (part < more)) * row for part in range(parts)]


class _Keys:
    """The integer keys of parts, by the keys of their arrays."""

    def __init__(self, sizes: Mapping[Hashable, int], ps: int) -> None:
        self._ps, self._used = ps, [0] * ps
        names = list(sizes)
        self._parts: dict[Hashable, list[tuple[int, int, int]]] = {name: [] for name in names}
        self._cut: set[int] = set()
        self._copies: dict[int, list[Any]] = {}
        for part in assign(list(sizes.values()), ps):
            self._add(names[part.block], part.begin, part.begin + part.size, part.ps)
        for parts in self._parts.values():
            if len(parts) > 1:
                self._cut.update(number for number, _, _ in parts)

    def split(self, key: Any, value: Any) -> list[tuple[int, Any]]:
        """The parts of an array, or of those of several devices, or of several keys' arrays."""
        if isinstance(key, (list, tuple)):
            return [part for each in zip(key, value) for part in self.split(*each)]
        several = isinstance(value, (list, tuple))
        flat = [array.reshape((-1,)) for array in (value if several else [value])]
        if key not in self._parts:
            self._parts[key] = []
            fewest = min(range(self._ps), key=self._used.__getitem__)
            self._add(key, 0, len(flat[0]), fewest)
        return [
            (number, [array[begin:end] for array in flat])
            for number, begin, end in self._parts[key]
        ]

    def to_send(self, number: int, arrays: list[Any]) -> list[Any]:
        """What is pushed for a part: a copy where it is cut.

        MXNet's engine keeps the pushes and pulls of a key in order by the array that is pushed:
        that of a key has to be the same in each step, and not the same as that of another key.
        """
        if number not in self._cut:
            return arrays
        if number not in self._copies:
            self._copies[number] = [array.copy() for array in arrays]
        else:
            for array, copied in zip(arrays, self._copies[number]):
                array.copyto(copied)
        return self._copies[number]

    def for_parts(self, optimizer: Any) -> Any:
        """A copy of the optimizer that knows the parts by the names of their arrays."""
        found = copy.copy(optimizer)
        for attribute in ("idx2name", "param_dict"):
            of_arrays = dict(getattr(optimizer, attribute, None) or {})
            of_arrays.update({name: name for name in of_arrays.values() if isinstance(name, str)})
            of_parts = {
                number: of_arrays[key]  # Module's keys are the names
                for key, parts in self._parts.items()
                if key in of_arrays
                for number, _, _ in parts
            }
            setattr(found, attribute, of_parts)
        return found

    def _add(self, key: Hashable, begin: int, end: int, ps: int) -> None:
        # KVStoreDist sends key k to server 9973 k mod n; 9973 is prime.
        number = ps * pow(9973, -1, self._ps) % self._ps + self._ps * self._used[ps]
        self._used[ps] += 1
        self._parts[key].append((number, begin, end))


def _shape(shape: Any) -> tuple[int, ...]:
    """The shape of an array, a TensorShape or a TensorShapeProto."""
    dimensions = getattr(shape, "dim", None)
    if dimensions is not None:
        return tuple(int(each.size) for each in dimensions)
    return tuple(int(length) for length in shape)


def _elements(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= int(length)
    return size
