"""Faults between a client and an API server as values, and which call meets which fault.

A fault is where (`Calls`: method, address, body), when (`nth`, `times`) and what. An
`ErrorResponse`, a `Hang`, a `Cut`, a `Restart`, a `Kill` or a `Compact` happens to one call; a
`Freeze` to all of them; a `Stall`, a `Drop`, an `EndStream` to the events of a watch that the call
opens.

Every fault counts every call that it is about, also those that another fault takes: "the third
patch" means the same whatever else is injected. The first fault in order that is due has the call.
"""

import re
from dataclasses import dataclass
from typing import Self, TypeAlias


@dataclass(frozen=True)
class Call:
    """One request: its method, its path with the query, its body."""

    method: str
    target: str
    body: bytes = b""


@dataclass(frozen=True)
class Calls:
    """Calls of this method whose target and body match these patterns somewhere.

    Raises re.error where a pattern is no regular expression."""

    method: str
    target: str
    body: str = ""

    def __post_init__(self) -> None:
        re.compile(self.target)
        re.compile(self.body)

    def match(self, call: Call) -> bool:
        """Whether the call is one of them."""
        return (
            call.method == self.method
            and re.search(self.target, call.target) is not None
            and re.search(self.body, call.body.decode(errors="replace")) is not None
        )


@dataclass(frozen=True)
class ErrorResponse:
    """An error status; `after_effect`: the server has carried the call out all the same."""

    code: int
    retry_after_seconds: int | None = None
    after_effect: bool = False


@dataclass(frozen=True)
class Hang:
    """No answer for so long, then the connection is cut; the server does not get the call."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection is cut; `after_effect`: after the server has carried the call out."""

    after_effect: bool = False


@dataclass(frozen=True)
class Freeze:
    """No call and no open stream gets a byte through for this long; then all continue."""

    seconds: float


@dataclass(frozen=True)
class Restart:
    """The server is killed before it gets the call; its supervisor starts it again."""


@dataclass(frozen=True)
class Kill:
    """The client is killed at its call; `after_effect`: once the server has carried it out."""

    after_effect: bool = False


@dataclass(frozen=True)
class Compact:
    """The call is held for so long, then the server drops its history and gets it.

    For the opening of a watch: the version that it names is too old by then."""

    after_seconds: float


@dataclass(frozen=True)
class Stall:
    """All events of the watch come so much later, in order."""

    seconds: float


@dataclass(frozen=True)
class Drop:
    """The first so many events of the watch are lost."""

    lines: int


@dataclass(frozen=True)
class EndStream:
    """After this many events the watch is cut, or ends with an ERROR event of `code`."""

    after_lines: int
    code: int | None = None


StreamFault: TypeAlias = Stall | Drop | EndStream
Effect: TypeAlias = ErrorResponse | Hang | Cut | Freeze | Restart | Kill | Compact | StreamFault


@dataclass(frozen=True)
class Fault:
    """The `nth` matching call, and the `times - 1` after it, meet this.

    Calls are counted from the one on that follows the first call of `after`, where that is given.
    Raises ValueError below 1."""

    where: Calls
    effect: Effect
    nth: int = 1
    times: int = 1
    after: Calls | None = None

    def __post_init__(self) -> None:
        if self.nth < 1 or self.times < 1:
            raise ValueError(f"calls are counted from 1, not nth={self.nth}, times={self.times}")


@dataclass(frozen=True)
class Plan:
    """Faults, how many calls each has counted so far, and which have begun to count."""

    faults: tuple[Fault, ...] = ()
    counted: tuple[int, ...] = ()
    begun: tuple[bool, ...] = ()

    @classmethod
    def of(cls, *faults: Fault) -> Self:
        """Return a plan that has counted nothing yet."""
        return cls(faults, (0,) * len(faults), tuple(fault.after is None for fault in faults))

    def meet(self, call: Call) -> "tuple[Plan, Fault | None]":
        """Return the plan after this call, and the fault that the call meets."""
        matches = [
            has_begun and fault.where.match(call)
            for fault, has_begun in zip(self.faults, self.begun, strict=True)
        ]
        counted = tuple(count + match for count, match in zip(self.counted, matches, strict=True))
        due = (
            fault
            for fault, match, count in zip(self.faults, matches, counted, strict=True)
            if match and fault.nth <= count < fault.nth + fault.times
        )
        begun = tuple(
            has_begun or (fault.after is not None and fault.after.match(call))
            for fault, has_begun in zip(self.faults, self.begun, strict=True)
        )
        return Plan(self.faults, counted, begun), next(due, None)

    @property
    def is_spent(self) -> bool:
        """Whether every fault has happened as often as planned."""
        pairs = zip(self.faults, self.counted, strict=True)
        return all(count >= fault.nth + fault.times - 1 for fault, count in pairs)
