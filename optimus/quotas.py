"""Quotas: the room of a namespace for its training jobs, and which of them uses how much of it.

The amounts are by the quota's own resource names (``requests.cpu``, ``limits.memory``, ``pods``,
``requests.nvidia.com/gpu``): CPU in millicores, memory in bytes, others in units.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from optimus.jobs import Counts
from optimus.resources import NONE, Resources

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class QuotaCharge:
    """What one PS, one worker and all fixed roles of a job take of a quota.

    ``held`` is what its pods take now; ``leaving`` what those take that are being deleted."""

    ps: Resources
    worker: Resources
    fixed: Resources = NONE
    held: Resources = NONE
    leaving: Resources = NONE

    def at(self, counts: Counts) -> Resources:
        """Return what the whole job takes at these counts."""
        return self.ps * counts.ps + self.worker * counts.workers + self.fixed


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota or budget of one namespace.

    ``name`` is for sentences ("quota compute"). ``limited`` are the resources that it limits, and
    ``room`` is what it has of them for the jobs of ``charges`` (by UID): without what others use,
    with what the pods of these jobs take. It may be negative."""

    namespace: str
    name: str
    limited: tuple[str, ...]
    room: Resources
    charges: Mapping[str, QuotaCharge]
    hard: Resources = NONE
    """What it allows to all that it counts."""

    def why_not(self, asked: Resources, left: Resources, what: object) -> str | None:
        """A sentence on why ``what``, which takes ``asked``, is too much where this is left."""
        for name in self.limited:
            if 0 < asked[name] > left[name]:
                return self.sentence(name, asked[name], left[name], what)
        return None

    def sentence(self, name: str, asked: int, left: int, what: object) -> str:
        """Says that ``what`` takes more of a resource than is left."""
        has, takes = (format_amount(name, each) for each in (left, asked))
        return f"{self.label} leaves {has} of {name}, and {what} would take {takes}"

    @property
    def label(self) -> str:
        """How sentences name it."""
        return f"{self.name} of namespace {self.namespace}"


def format_amount(name: str, amount: int) -> str:
    """An amount as people write it: cores, GiB, units."""
    if name.endswith("cpu"):
        return f"{amount / 1000:g}"
    in_bytes = ("memory", "storage")
    if name.endswith(in_bytes) or "hugepages-" in name:
        return f"{amount / _GIB:.4g}Gi"
    return str(amount)
