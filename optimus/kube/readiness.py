"""Whether copies of the cluster can be decided on."""

from collections.abc import Iterable
from typing import Any

from optimus.kube.reflector import Reflector


def missing(copies: Iterable[Reflector[Any]]) -> str | None:
    """A sentence on what was not read yet, and why; ``None`` from then on: a copy that ages still
    serves."""
    waiting = [copy for copy in copies if not copy.synced]
    if not waiting:
        return None
    why = next((f" ({copy.failure})" for copy in waiting if copy.failure is not None), "")
    return f"{', '.join(copy.kind.plural for copy in waiting)} not read yet{why}"
