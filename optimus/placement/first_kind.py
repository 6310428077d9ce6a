"""Places a gang with its workers on the kind of nodes on which its job is expected to be fastest.

It is a preference: the workers go to the first of the gang's kinds that holds them all, the PSs
anywhere; without PSs all that trains does. Where none holds them, the gang goes where it would go
without a preference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from optimus.jobs import Binding, Job, Manage, RescaleRule, Role
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, GangRule, Placement

Kinds = tuple[str, ...]
"""Values of the label that tells the kind of a node, the fastest first."""


@dataclass(frozen=True, slots=True)
class KindOrders:
    """In which order the kinds of nodes are preferred for the first start of jobs."""

    label: str = ""
    """The nodes' label that tells their kind."""

    usual: Kinds = ()
    """Empty where kinds do not differ by more than chance."""

    workloads: Mapping[tuple[str, str], Kinds] = field(default_factory=lambda: MappingProxyType({}))
    """Of workloads whose jobs have another order, by namespace and name; the newest last."""

    def of_job(self, job: Job) -> tuple[Binding, ...]:
        """The kinds for a job, the fastest first; none where it has no order, or is not to stay
        where it starts."""
        if not _stays(job):
            return ()
        kinds = self.workloads.get((job.key.namespace, job.workload or ""), self.usual)
        return tuple(Binding(self.label, kind) for kind in kinds)


NO_ORDERS = KindOrders()


@dataclass(frozen=True, slots=True)
class FirstKindRule:
    """Places as ``rule`` does, where a gang's kinds leave it a choice on the first that fits."""

    rule: GangRule

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; takes nothing."""
        anywhere = self.rule.place(gang, capacity)
        if isinstance(anywhere, DoesNotFit):
            return anywhere
        for kind in gang.kinds if _may_be_bound(gang) else ():
            found = self.rule.place(gang.bound_to(kind), capacity)
            if isinstance(found, Placement):
                return found
        return anywhere


def _stays(job: Job) -> bool:
    """Return whether a job trains where it starts: nobody changes its counts. Where somebody does,
    its kind is decided with them, within a minute, and on a full kind it could not grow."""
    changes = job.managed and job.manage is Manage.AUTO and job.rescale is not RescaleRule.NEVER
    return not changes or has_fixed_counts(job)


def has_fixed_counts(job: Job) -> bool:
    """Return whether its bounds leave a job one pair of counts."""
    return job.bounds.minimum == (job.bounds.max_ps, job.bounds.max_workers)


def _may_be_bound(gang: Gang) -> bool:
    """Return whether workers need nodes. Without PSs all replicas train: none of them may have one
    yet, as a part of them on nodes of one kind would be no faster."""
    if any(member.role is Role.PS for member in gang.members):
        return any(member.role is Role.WORKER for member in gang.unbound)
    return not gang.is_in_part
