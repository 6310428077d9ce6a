"""Results of writes: done, or refused for a reason that the caller acts on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.list_watch import identity_of

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Written:
    """The write happened; ``resource_version`` is the object's new one ("" where the answer did not
    say)."""

    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server did not do it.

    Where ``kind`` is TRANSIENT the write may have happened all the same, its answer lost.
    """

    kind: ErrorKind
    sentence: str
    retry_after_seconds: float | None = None
    """The API server asks to wait so long, where it says so."""

    def __str__(self) -> str:
        return self.sentence


def answer_of(call: Callable[[], Value]) -> Value | Refused:
    """The call's answer, or its ``KubeError`` as a value."""
    try:
        return call()
    except KubeError as error:
        return Refused(error.kind, error.sentence, error.retry_after_seconds)


def written(call: Callable[[], bytes]) -> Written | Refused:
    """Return what became of a write whose answer is the object as stored."""
    body = answer_of(call)
    if isinstance(body, Refused):
        return body
    try:
        return Written(identity_of(body).resource_version)
    except Malformed:
        return Written()
