"""The rights that a user lacks, as the API server says so, in sentences."""

import re
from typing import Final, NamedTuple

from optimus.kube.errors import ErrorKind, KubeError

_REFUSED: Final = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)
"""The words of the API server to somebody who lacks a right."""

MAY_NOT: Final = "you may not "


class Right(NamedTuple):
    """One verb on one resource; ``namespace`` empty: everywhere."""

    verb: str
    group: str
    resource: str
    """The resource with its subresource: ``pods/log``."""

    namespace: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        group = f".{self.group}" if self.group else ""
        resource, _, subresource = self.resource.partition("/")
        return f"{self.verb} {resource}{group}{subresource and f'/{subresource}'}{where}"


def refused_right(error: KubeError) -> Right | None:
    """The right that the API server says the user lacks; ``None`` for any other error."""
    match = _REFUSED.search(error.sentence) if error.kind is ErrorKind.FORBIDDEN else None
    if match is None:
        return None
    verb, resource, group, namespace = match.group("verb", "resource", "group", "namespace")
    return Right(verb, group or "", resource, namespace or "")


def explained(error: KubeError) -> str:
    """The error as a sentence to the user: ``you may not list pods in namespace ns``."""
    right = refused_right(error)
    if right is None:
        return error.sentence
    return f"{MAY_NOT}{right}{'' if right.namespace else ' at the cluster scope'}"
