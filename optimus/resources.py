"""Amounts of resources: what a replica requests, what a node offers.

CPU counts in integer millicores, memory in integer bytes, ``pods`` and extended resources such as
``nvidia.com/gpu`` in units. A resource that is absent is zero, and zeros are not stored, so that
two amounts which mean the same compare and hash the same.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Self

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

LARGEST_TASK, LARGEST_AMOUNT, LARGEST_TOTAL = 2**48, 2**53, 2**62
"""What ``bounded`` makes of more: of a task, so that ten thousand of each role fit in 64 bits; of
what is asked for or free on one node; of sums."""


class Resources(Mapping[str, int]):
    """An immutable vector of resource amounts, by resource name.

    Reading a resource that is not there gives 0. Subtraction may go below zero: a node can be
    overcommitted by pods that this software did not place, and the arithmetic must say so.
    """

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | None = None, /, **named: int) -> None:
        merged = {**(amounts or {}), **named}
        self._amounts = {name: merged[name] for name in sorted(merged) if merged[name] != 0}
        self._hash: int | None = None

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resources):
            return NotImplemented
        return self._amounts == other._amounts

    def without(self, names: Collection[str]) -> "Resources":
        """The same amounts but for these resources."""
        if not any(name in self._amounts for name in names):
            return self
        return Resources({name: each for name, each in self._amounts.items() if name not in names})

    def __add__(self, other: Self) -> "Resources":
        mine, theirs = self._amounts, other._amounts
        if not theirs:
            return self
        if not mine:
            return other
        if mine.keys() != theirs.keys():
            return Resources({name: self[name] + other[name] for name in {*mine, *theirs}})
        return _sorted({name: amount + theirs[name] for name, amount in mine.items()})

    def __sub__(self, other: Self) -> "Resources":
        mine, theirs = self._amounts, other._amounts
        if not theirs:
            return self
        if mine.keys() != theirs.keys():
            return Resources({name: self[name] - other[name] for name in {*mine, *theirs}})
        return _sorted({name: amount - theirs[name] for name, amount in mine.items()})

    def __mul__(self, count: int) -> "Resources":
        return Resources({name: amount * count for name, amount in self._amounts.items()})

    __rmul__ = __mul__

    def fits_in(self, free: "Resources") -> bool:
        """Return whether every amount asked for is there; what is not asked for does not matter."""
        there = free._amounts  # noqa: SLF001 - of the same class
        return all(amount <= there.get(name, 0) for name, amount in self._amounts.items())

    def lacking_in(self, free: "Resources") -> tuple[str, ...]:
        """The names of the resources of which ``free`` has too little."""
        return tuple(name for name, amount in self._amounts.items() if amount > free[name])

    def beyond(self, free: "Resources") -> "Resources":
        """Return what of it ``free`` lacks."""
        return Resources({name: max(amount - free[name], 0) for name, amount in self.items()})

    def dominant(self, capacity: "Resources") -> tuple[str, float]:
        """The resource with the largest share of ``capacity``, and that share (section 4.1).

        A resource of which the capacity is zero has an infinite share. Nothing asked for gives ("",
        0.0)."""
        shares = ((self._share(name, capacity), name) for name in self._amounts)
        share, name = max(shares, default=(0.0, ""), key=lambda pair: (pair[0], pair[1]))
        return name, share

    def _share(self, name: str, capacity: "Resources") -> float:
        return self[name] / capacity[name] if capacity[name] > 0 else float("inf")

    def __repr__(self) -> str:
        amounts = ", ".join(f"{name}={amount}" for name, amount in self._amounts.items())
        return f"Resources({amounts})"


def _sorted(amounts: dict[str, int]) -> Resources:
    """Amounts in order of their names: with most resources of a node there is nothing to sort."""
    found = Resources.__new__(Resources)
    if 0 in amounts.values():
        amounts = {name: amount for name, amount in amounts.items() if amount}
    found._amounts, found._hash = amounts, None  # noqa: SLF001 - it is made here
    return found


NONE = Resources()


def bounded(amount: int, most: int = LARGEST_AMOUNT) -> int:
    """The amount as arrays of 64 bits hold it: a larger one, of either sign, counts as ``most``.

    No node has so much, but the containers of a pod may ask for any sum."""
    return max(-most, min(amount, most))


def total(amounts: Iterable[Resources]) -> Resources:
    """The sum of all amounts."""
    sums: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            sums[name] = sums.get(name, 0) + value
    return Resources(sums)


def larger(one: Resources, other: Resources) -> Resources:
    """The larger amount of each."""
    return Resources({name: max(one[name], other[name]) for name in {*one, *other}})


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Amounts for people."""
    named = [
        _amount_text(name, amount) for name, amount in amounts.items() if amount and name != PODS
    ]
    return ", ".join(named) or "nothing"


def _amount_text(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount / 1000:g} cpu"
    if name == MEMORY:
        return f"{amount / 2**30:.3g} Gi memory"
    return f"{amount} {name}"
