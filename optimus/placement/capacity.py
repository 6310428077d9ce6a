"""Free resources of a cluster, with interchangeable nodes grouped into classes.

Two nodes are of one class if the same is free on both, the same is allocatable on both, and both
admit the same replicas. Most nodes of a cluster are like many others, so a question about all nodes
is answered once per class: placing jobs on 16,000 nodes takes as long as on some hundred classes.
Where all nodes differ, every node is a class, and the questions are numpy operations over
them.

Rows number the nodes in order of names. Every change is recorded and can be undone back to a mark,
so that a plan is tried without a copy.
"""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from itertools import chain
from operator import attrgetter, neg, sub
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import Counts, Job, NodeConstraints, ReplicaSpec
from optimus.nodes import Node, refusal
from optimus.resources import Resources, bounded, total

Vector = tuple[int, ...]
"""Amounts in the order of ``Capacity.resources``."""

Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]

_UNKNOWN = np.zeros(0, dtype=np.bool_)
"""Stands for constraints that no question has named yet."""

_EMPTY_CLASS = -(2**62)
"""What is free on a class without nodes: it holds nothing, not even nothing."""


class _Changes(NamedTuple):
    """What was free on nodes before they changed, oldest first: two lists of the same length, since
    a plan makes some ten thousand changes."""

    rows: list[int]
    before: list[Vector]


class Capacity:
    """What is free on each node, by node and by class of nodes.

    Classes are numbered; the number of a class whose last node has left is used again. A copy
    shares nothing that changes.
    """

    def __init__(self, nodes: Sequence[Node], free: Mapping[str, Resources]) -> None:
        """Nodes that ``free`` does not know are left out."""
        self.nodes = sorted((node for node in nodes if node.name in free), key=attrgetter("name"))
        """By row."""
        self.row_of = {node.name: row for row, node in enumerate(self.nodes)}
        # Most nodes share the objects of their amounts: these are compared before any is hashed.
        wholes, frees = [n.allocatable for n in self.nodes], [free[n.name] for n in self.nodes]
        unique = {id(amount): amount for amount in (*wholes, *frees)}
        found = Counter(map(id, wholes))
        self.allocatable = total(unique[key] * count for key, count in found.items())
        """Of all nodes together."""
        self.resources = tuple(sorted({name for amount in unique.values() for name in amount}))
        self._totals = tuple([self.allocatable[name] for name in self.resources])
        self._vectors = {amount: self._vector(amount) for amount in {*unique.values()}}
        vectors = {key: self._vectors[amount] for key, amount in unique.items()}
        self.free = [vectors[id(amount)] for amount in frees]
        """By row."""
        self._node_totals = [vectors[id(amount)] for amount in wholes]
        # Nodes of one shape have the same allocatable and admit the same replicas, as far as
        # anybody has asked: a class is a shape and what is free.
        shapes: dict[Vector, int] = {}
        self._shapes = [shapes.setdefault(each, len(shapes)) for each in self._node_totals]
        self._restricted = any(node.taints or node.cordoned for node in self.nodes)
        self._admissions: dict[NodeConstraints, Mask | None] = {}
        self._changes = _Changes([], [])
        self.derived: dict[object, object] = {}
        """What others have worked out of the nodes and keep here, each under a key of its own; a
        copy begins without."""

        self._roomiest: tuple[int, Vector] | None = None
        self._rivalled: list[bool] = []
        """By column, whether another class may have as much as the roomiest."""
        self._group()

    def copy(self) -> Self:
        """A copy to try something on; what nodes admit is shared."""
        twin = copy(self)
        twin.derived = {}
        twin.free, twin._changes = self.free.copy(), _Changes([], [])  # noqa: SLF001 - of this class
        twin._copy_classes()  # noqa: SLF001 - of this class
        return twin

    def without(self, names: Iterable[str]) -> Self:
        """A copy in which nothing is free on these nodes."""
        twin, nothing = copy(self), (0,) * len(self.resources)
        twin.derived = {}
        twin.free, twin._changes = self.free.copy(), _Changes([], [])  # noqa: SLF001 - of this class
        for name in names:
            if name in self.row_of:
                twin.free[self.row_of[name]] = nothing
        twin._group()  # noqa: SLF001 - of this class
        return twin

    def only(self, rows: Sequence[int]) -> Self:
        """A copy without any other node; shares stay those of the whole cluster."""
        twin = copy(self)
        twin.derived, twin._changes = {}, _Changes([], [])  # noqa: SLF001 - of this class
        twin.nodes = [self.nodes[row] for row in rows]
        twin.row_of = {node.name: row for row, node in enumerate(twin.nodes)}
        twin.free = [self.free[row] for row in rows]
        shapes = sorted({self._shapes[row] for row in rows})
        numbers = {shape: number for number, shape in enumerate(shapes)}
        twin._shapes = [numbers[self._shapes[row]] for row in rows]  # noqa: SLF001 - of this class
        twin._node_totals = [self._node_totals[row] for row in rows]  # noqa: SLF001 - of this class
        twin._admissions = {  # noqa: SLF001 - of this class
            constraints: None if mask is None else mask[shapes]
            for constraints, mask in self._admissions.items()
        }
        twin._group()  # noqa: SLF001 - of this class
        return twin

    # --- amounts

    def vector(self, amount: Resources) -> Vector | None:
        """The amount as a vector; ``None`` where it requests a resource that no node has."""
        known = self._vectors.get(amount)
        if known is None and all(name in self.resources for name in amount):
            known = self._vectors[amount] = self._vector(amount)
        return known

    def resources_of(self, amounts: Vector) -> Resources:
        """A vector as resources."""
        return Resources(dict(zip(self.resources, amounts, strict=True)))

    def dominant(self, amounts: Sequence[int]) -> int:
        """The column with the largest share of the cluster, as in ``Resources.dominant``; -1 for
        nothing."""
        best, column = 0.0, -1
        for at, (asked, whole) in enumerate(zip(amounts, self._totals, strict=True)):
            if asked:
                share = asked / whole if whole > 0 else float("inf")
                if share >= best:
                    best, column = share, at
        return column

    def shares(self, jobs: Sequence[Job], counts: Sequence[Counts]) -> list[float]:
        """The dominant share of the cluster that each job's PSs and workers ask for at these
        counts; infinite where it requests a resource that no node has."""
        ps, workers = np.array(counts, dtype=np.int64).reshape(len(jobs), 2).T[:, :, None]
        demands = ps * self._matrix([job.ps.resources for job in jobs])
        demands = demands + workers * self._matrix([job.worker.resources for job in jobs])
        totals = np.array(self._totals, dtype=np.float64)
        # All of a resource of which nodes have none is no share of it.
        shares = np.divide(demands, totals, out=np.zeros_like(demands), where=totals > 0)
        found = shares.max(axis=1, initial=0.0)
        return list(np.where(np.isnan(demands).any(axis=1), np.inf, found).tolist())

    def _matrix(self, amounts: Sequence[Resources]) -> NDArray[np.float64]:
        """Amounts as rows of shape (amounts, resources); rows of NaN where there is no vector."""
        keys = list(map(id, amounts))
        unique = dict(zip(keys, amounts, strict=True))
        unknown = (np.nan,) * len(self.resources)
        vectors = [self.vector(amount) or unknown for amount in unique.values()]
        numbers = dict(zip(unique, range(len(unique)), strict=True))
        rows = np.array(list(map(numbers.__getitem__, keys)), dtype=np.int64)
        matrix = np.array(vectors, dtype=np.float64).reshape(len(unique), len(self.resources))
        return np.asarray(matrix[rows])

    def free_by_name(self) -> dict[str, Resources]:
        """Free resources by node name."""
        return {node.name: self.resources_of(self.free[row]) for row, node in enumerate(self.nodes)}

    def free_of(self, resource: str) -> dict[str, int]:
        """Return what is free of one resource, by node name."""
        if resource not in self.resources:
            return dict.fromkeys(self.row_of, 0)
        column = self.resources.index(resource)
        return {name: self.free[row][column] for name, row in self.row_of.items()}

    # --- taking and giving back

    def take(self, row: int, amount: Vector) -> None:
        """Take resources from one node."""
        before = self.free[row]
        self._changes.rows.append(row)
        self._changes.before.append(before)
        # Some ten thousand times a plan: a comprehension takes twice as long as a map.
        self._move((row,), tuple(map(sub, before, amount)))

    def take_replicas(
        self, servers: Iterable[tuple[int, int, int]], ps: Vector, worker: Vector
    ) -> None:
        """Take what each server's PSs and workers request, by row, number of PSs and of workers."""
        alike, class_of = defaultdict[tuple[int, int, int], list[int]](list), self._class_of
        for row, p, w in servers:
            alike[p, w, class_of[row]].append(row)
        for (p, w, _), rows in alike.items():
            before = self.free[rows[0]]
            self._changes.rows.extend(rows)
            self._changes.before.extend([before] * len(rows))
            self._move(rows, tuple(map(sub, before, _together(p, ps, w, worker))))

    def give_back(self, row: int, amount: Vector) -> None:
        """Give resources back to one node."""
        self.take(row, tuple(map(neg, amount)))

    def set_free(self, name: str, amount: Resources) -> bool:
        """Correct what is free on one node, for good; false where the node or a resource is new
        and the index must be rebuilt."""
        row = self.row_of.get(name)
        if row is None or any(resource not in self.resources for resource in amount):
            return False
        self.set_vector(row, self._vector(amount))
        return True

    def set_vector(self, row: int, amount: Vector) -> None:
        """The same by row, in amounts of the resources that are known."""
        self._changes = _Changes([], [])
        self._move((row,), amount)

    def mark(self) -> int:
        """The present, to return to with ``undo_to``."""
        return len(self._changes.rows)

    def undo_to(self, mark: int) -> None:
        """Undo every change since the mark."""
        rows, before = self._changes
        while len(rows) > mark:
            self._move((rows.pop(),), before.pop())

    # --- classes

    @property
    def class_free(self) -> Integers:
        """Return what is free on each node of each class, of shape (classes, resources)."""
        return self._class_free[: len(self._rows)]

    @property
    def class_sizes(self) -> Integers:
        """Return how many nodes each class has; 0 for a number that is not in use."""
        return self._class_sizes[: len(self._rows)]

    def free_rows(self) -> Integers:
        """Return what is free on each node, of shape (nodes, resources)."""
        return np.asarray(self._class_free[np.array(self._class_of, dtype=np.int64)])

    def count_free(self, rows: Iterable[int] | None = None) -> Counter[Vector]:
        """Return how many nodes have so much free, of these rows or of all."""
        sizes = dict(enumerate(map(len, self._rows)))
        if rows is not None:
            sizes = Counter(map(self._class_of.__getitem__, rows))
        found: Counter[Vector] = Counter()
        for number, count in sizes.items():
            if count:
                found[self.free[-self._rows[number][-1]]] += count
        return found

    def class_of(self, row: int) -> int:
        """The class of a node."""
        return self._class_of[row]

    def holds(self, amount: Vector) -> Mask:
        """Return which classes have room for the amount; what is not asked for does not matter."""
        able = self.class_sizes > 0
        for column, asked in enumerate(amount):
            if asked > 0:
                able &= self.class_free[:, column] >= asked
        return able

    def distinguish(self, *constraints: NodeConstraints) -> None:
        """Divide classes further where nodes differ in whether they admit these; renumbers the
        classes."""
        for each in constraints:
            if each not in self._admissions:
                self._split_by(each)

    def admits(self, *constraints: NodeConstraints) -> Mask | None:
        """Which classes admit replicas with all these constraints; ``None`` means every class."""
        shapes: Mask | None = None
        for each in constraints:
            known = self._admissions.get(each, _UNKNOWN)
            if known is _UNKNOWN:
                self.distinguish(*constraints)
                return self.admits(*constraints)
            if known is not None:
                shapes = known if shapes is None else shapes & known
        return None if shapes is None else shapes[self._class_shapes[: len(self._rows)]]

    def free_for(self, choices: Collection[NodeConstraints]) -> Resources:
        """All that is free on the nodes that admit replicas with any of these constraints."""
        self.distinguish(*choices)
        admitted = np.zeros(len(self._rows), dtype=np.bool_)
        for each in choices:
            classes = self.admits(each)
            admitted |= True if classes is None else classes
        free = self.class_free[admitted] * self.class_sizes[admitted, np.newaxis]
        return self.resources_of(tuple(free.sum(axis=0).tolist()))

    def able(self, amount: Vector, constraints: NodeConstraints) -> Mask:
        """Return which classes admit a replica with these constraints and have room for it."""
        admitted = self.admits(constraints)
        able = self.holds(amount)
        return able if admitted is None else able & admitted

    def nodes_for(self, specs: Iterable[ReplicaSpec]) -> frozenset[str]:
        """The nodes that admit a replica of any of these specs and have room for it."""
        found: set[str] = set()
        for spec in specs:
            amount = self.vector(spec.resources)
            if amount is not None:
                for number in np.flatnonzero(self.able(amount, spec.constraints)).tolist():
                    found.update(self.nodes[-row].name for row in self._rows[number])
        return frozenset(found)

    def largest_free(self) -> Vector:
        """The most that any node has of each resource."""
        found = self.class_free
        return tuple(found.max(axis=0).tolist()) if len(found) else (0,) * len(self.resources)

    def roomiest_class(self) -> tuple[int, Vector] | None:
        """A class that has most of every resource, and what is free on it, if there is one."""
        if self._roomiest is None and len(self._rows):
            found, most = self.class_free, self.class_free.max(axis=0)
            alike = np.flatnonzero((found == most).all(axis=1))
            self._roomiest = None if len(alike) == 0 else (int(alike[0]), tuple(most.tolist()))
            self._rivalled = ((found == most).sum(axis=0) > 1).tolist()
        return self._roomiest

    def is_unrivalled(self, column: int) -> bool:
        """Return whether no other class has as much of this resource as the roomiest. May be false
        where that is so."""
        return not self._rivalled[column]

    def free_fractions(self, column: int) -> NDArray[np.float64]:
        """Return the free part of one resource by class; 0 where nodes have none of it."""
        whole = self._shape_totals[self._class_shapes[: len(self._rows)], column]
        left = self.class_free[:, column]
        return np.asarray(np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))

    def first_rows(self, node_class: int, most: int) -> list[int]:
        """The first nodes of a class, in order."""
        return [-row for row in self._rows[node_class][: -most - 1 : -1]]

    def first_rows_of(self, classes: Sequence[int], most: int) -> tuple[Integers, Integers]:
        """The first nodes of each of these classes, and for each its position in ``classes``."""
        found = [self._rows[each][-most:] for each in classes]
        position = np.repeat(np.arange(len(classes)), [len(rows) for rows in found])
        rows = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=len(position))
        return -rows, position

    # --- keeping the classes

    def _vector(self, amount: Resources) -> Vector:
        return tuple([bounded(amount[name]) for name in self.resources])

    def _group(self) -> None:
        """Sort all nodes into classes."""
        totals = dict(zip(self._shapes, self._node_totals, strict=True))
        width, nodes = len(self.resources), len(self.nodes)
        by_shape = np.array([totals[each] for each in sorted(totals)], dtype=np.int64)
        self._shape_totals = by_shape.reshape(len(totals), width)
        rows: dict[tuple[Vector, int], list[int]] = {}
        # From the last to the first, so that each list is ascending: see ``_rows``.
        for row in range(nodes - 1, -1, -1):
            rows.setdefault((self.free[row], self._shapes[row]), []).append(-row)
        self._rows = list(rows.values())
        """The nodes of each class, negated and ascending: its first nodes are the last of its
        list, where taking them is cheap."""
        self._class_by_key = {key: number for number, key in enumerate(rows)}
        self._unused: list[int] = []
        self._class_of = [0] * nodes
        for number, members in enumerate(self._rows):
            for row in members:
                self._class_of[-row] = number
        self._class_free = np.full((2 * len(rows) + 64, width), _EMPTY_CLASS, dtype=np.int64)
        self._class_free[: len(rows)] = np.array([free for free, _ in rows]).reshape(
            len(rows), width
        )
        self._class_sizes = np.zeros(len(self._class_free), dtype=np.int64)
        self._class_sizes[: len(rows)] = [len(members) for members in self._rows]
        self._class_shapes = np.zeros(len(self._class_free), dtype=np.int64)
        self._class_shapes[: len(rows)] = [shape for _, shape in rows]
        self._roomiest = None

    def _copy_classes(self) -> None:
        self._rows = [rows.copy() for rows in self._rows]
        self._class_by_key, self._class_of = self._class_by_key.copy(), self._class_of.copy()
        self._unused, self._rivalled = self._unused.copy(), self._rivalled.copy()
        self._class_free, self._class_sizes = self._class_free.copy(), self._class_sizes.copy()
        self._class_shapes = self._class_shapes.copy()

    def _split_by(self, constraints: NodeConstraints) -> None:
        if not (self._restricted or constraints.selector or constraints.affinity):
            self._admissions = {**self._admissions, constraints: None}
            return
        admitted = [is_admitted(node, constraints) for node in self.nodes]
        pairs = list(zip(self._shapes, admitted, strict=True))
        numbers = {pair: number for number, pair in enumerate(sorted({*pairs}))}
        if len(numbers) > len(self._shape_totals):
            olds = [shape for shape, _ in numbers]
            self._admissions = {
                known: None if mask is None else mask[olds]
                for known, mask in self._admissions.items()
            }
            self._shapes = [numbers[pair] for pair in pairs]
            self._group()
        mask = None if all(admitted) else np.array([able for _, able in numbers], dtype=np.bool_)
        self._admissions = {**self._admissions, constraints: mask}

    def _new_class(self, free: Vector, shape: int) -> int:
        """The number of a class that has no nodes yet."""
        if self._unused:
            number = self._unused.pop()
        else:
            number = len(self._rows)
            self._rows.append([])
            if number == len(self._class_sizes):
                self._enlarge()
        self._class_by_key[free, shape] = number
        self._class_free[number] = free
        self._class_shapes[number] = shape
        self._compare_with_roomiest(free)
        return number

    def _enlarge(self) -> None:
        more = len(self._class_sizes)
        empty = np.full((more, len(self.resources)), _EMPTY_CLASS, dtype=np.int64)
        zeros = np.zeros(more, dtype=np.int64)
        self._class_free = np.concatenate([self._class_free, empty])
        self._class_sizes = np.concatenate([self._class_sizes, zeros])
        self._class_shapes = np.concatenate([self._class_shapes, zeros])

    def _compare_with_roomiest(self, free: Vector) -> None:
        if self._roomiest is not None:
            for column, (here, most) in enumerate(zip(free, self._roomiest[1], strict=True)):
                if here >= most:
                    self._rivalled[column] = True
                    if here > most:
                        self._roomiest = None
                        return

    def _move(self, rows: Sequence[int], free: Vector) -> None:
        """Move nodes of one class to the class in which this is free."""
        row = rows[0]
        before, shape, old = self.free[row], self._shapes[row], self._class_of[row]
        new = self._class_by_key.get((free, shape))
        if new is None:
            new = self._new_class(free, shape)
        elif old == new:
            return
        members, others = self._rows[old], self._rows[new]
        class_of, free_on = self._class_of, self.free
        if others:
            free = free_on[-others[0]]  # nodes of a class share one vector
        for row in rows:
            if members[-1] == -row:
                members.pop()
            else:
                del members[bisect_left(members, -row)]
            insort(others, -row)
            class_of[row], free_on[row] = new, free
        self._class_sizes[old], self._class_sizes[new] = len(members), len(others)
        if not members:
            del self._class_by_key[before, shape]
            self._class_free[old] = _EMPTY_CLASS
            self._unused.append(old)
            if self._roomiest is not None and self._roomiest[0] == old:
                self._roomiest = None


@lru_cache(maxsize=4096)
def _together(ps: int, one_ps: Vector, workers: int, one_worker: Vector) -> Vector:
    """What so many PSs and workers ask for; servers ask the same thousands of times a plan."""
    return tuple([ps * a + workers * b for a, b in zip(one_ps, one_worker, strict=True)])


def is_admitted(node: Node, constraints: NodeConstraints) -> bool:
    """Whether the node admits replicas with these constraints, whatever its free resources."""
    restricted = constraints.selector or constraints.affinity or node.taints or node.cordoned
    return not restricted or refusal(node, constraints) is None
