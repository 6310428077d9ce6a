"""What can go wrong between a client and an API server, as values.

A fault is where (`Calls`: method, address, body), when (`nth`, `times`) and what. What happens to
one call is an `Answer`, a `Hang`, a `Cut`, a `Restart` or a `Compact`; a `Freeze` happens to all of
them; a `Stall`, a `Drop`, an `EndStream` happen to what a watch that was opened by the call brings.
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
    """Which calls: of this method, and with these patterns somewhere in their target and their
    body.

    Raises ValueError where a pattern is no regular expression.
    """

    method: str
    target: str
    body: str = ""

    def __post_init__(self) -> None:
        for pattern in (self.target, self.body):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None

    def match(self, call: Call) -> bool:
        """Whether the call is one of them."""
        return (
            call.method == self.method
            and re.search(self.target, call.target) is not None
            and re.search(self.body, call.body.decode(errors="replace")) is not None
        )


@dataclass(frozen=True)
class Answer:
    """An error instead of the answer; `after_effect`: the server has done what was asked all the
    same."""

    code: int
    retry_after_seconds: int | None = None
    after_effect: bool = False


@dataclass(frozen=True)
class Hang:
    """Nothing comes for so long, then the connection is cut; the server never hears of the call."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection is cut; `after_effect`: after the server has done what was asked."""

    after_effect: bool = False


@dataclass(frozen=True)
class Freeze:
    """For so long neither a call nor an open stream gets a byte through; then all goes on."""

    seconds: float


@dataclass(frozen=True)
class Restart:
    """The server is killed before it hears of the call; whoever keeps it alive starts it again."""


@dataclass(frozen=True)
class Compact:
    """The call is held for so long, in which objects change; then the server forgets its history
    and hears of it.

    For the opening of a watch: the version that it names is too old by then.
    """

    after_seconds: float


@dataclass(frozen=True)
class Stall:
    """What the watch has to tell comes so much later, from its first line on; all of it and in
    order."""

    seconds: float


@dataclass(frozen=True)
class Drop:
    """So many lines of the watch, the first ones, never come."""

    lines: int


@dataclass(frozen=True)
class EndStream:
    """After so many lines the watch ends: cut in the middle, or with `code` an ERROR event of that
    code."""

    after_lines: int
    code: int | None = None


StreamFault: TypeAlias = Stall | Drop | EndStream
Effect: TypeAlias = Answer | Hang | Cut | Freeze | Restart | Compact | StreamFault


@dataclass(frozen=True)
class Fault:
    """The `nth` call of these, and the `times - 1` after it, meet this. Raises ValueError below
    1."""

    where: Calls
    effect: Effect
    nth: int = 1
    times: int = 1

    def __post_init__(self) -> None:
        if self.nth < 1 or self.times < 1:
            raise ValueError(f"calls are counted from 1, not nth={self.nth}, times={self.times}")
