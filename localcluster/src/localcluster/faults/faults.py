"""Faults between a client and an API server as values, and which call meets which fault.

A fault is where (`Calls`: method, address, body), when (`nth`, `times`) and what. A `Freeze`
happens to all calls, an `EndStream` to the watch that a call opens, every other effect to one call.

Every fault counts every call that it is about, also those that another fault takes: "the third
patch" means the same whatever else is injected. The first fault in order that is due has the call.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias


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
        """Tell whether the call is one of them."""
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
class EndStream:
    """After this many events the watch is cut, or ends with an ERROR event of `code`."""

    after_lines: int
    code: int | None = None


Effect: TypeAlias = ErrorResponse | Hang | Cut | Freeze | Restart | Kill | EndStream


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


class Plan:
    """Faults, how many calls each has counted so far, and which have begun to count."""

    def __init__(self, *faults: Fault) -> None:
        self._faults = faults
        self._counted = [0] * len(faults)
        self._begun = [fault.after is None for fault in faults]

    def meet(self, call: Call) -> Fault | None:
        """Count a call; return the fault that it meets."""
        met: Fault | None = None
        for index, fault in enumerate(self._faults):
            if not self._begun[index]:
                self._begun[index] = fault.after is not None and fault.after.match(call)
            elif fault.where.match(call):
                self._counted[index] += 1
                if met is None and 0 <= self._counted[index] - fault.nth < fault.times:
                    met = fault
        return met

    @property
    def is_spent(self) -> bool:
        """Whether every fault has happened as often as planned."""
        pairs = zip(self._faults, self._counted, strict=True)
        return all(count >= fault.nth + fault.times - 1 for fault, count in pairs)
