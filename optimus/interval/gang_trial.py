"""Whether a waiting gang would fit if others were gone: the placement rule on hypothetical
capacity."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from optimus.interval.capacity_plan import CapacityPlan
from optimus.jobs import Job
from optimus.placement.gang import Gang, Placement
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

ByNode = Mapping[str, Resources]


class GangTrial:
    """A gang, and the capacity that it may use. The plan is this trial's own."""

    def __init__(self, plan: CapacityPlan, job: Job, nodes: Mapping[ReplicaId, str]) -> None:
        """``nodes`` are those of its replicas that are placed."""
        gang = Gang.of(job)
        members = (replace(each, node=nodes.get(gang.replica(each))) for each in gang.members)
        self._plan, self._gang = plan, replace(gang, members=tuple(members))

    def take(self, amounts: ByNode) -> None:
        """Let something else take so much, as long as the trial lasts."""
        for node, amount in amounts.items():
            if node in self._plan.capacity.row_of:
                self._plan.take(node, amount)

    def give(self, amounts: ByNode) -> None:
        """Give back what takes so much now."""
        capacity = self._plan.capacity
        for node, amount in amounts.items():
            row, vector = capacity.row_of.get(node), capacity.vector(amount)
            if row is not None and vector is not None:
                capacity.give_back(row, vector)

    def fits(self, given: Iterable[ByNode] = ()) -> bool:
        """Whether the gang fits once so much has been given back, too."""
        mark = self._plan.capacity.mark()
        for amounts in given:
            self.give(amounts)
        answer = self._plan.rule.place(self._gang, self._plan.capacity)
        self._plan.capacity.undo_to(mark)
        return isinstance(answer, Placement)
