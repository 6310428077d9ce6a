"""Pools: nodes are shared out only among jobs that may go there.

Taints, selectors and cordons keep replicas from nodes; room there is no room for them, however much
there is.
1. Jobs that compete for room are sorted by the constraints of their roles. 2. A node goes to the
  pool of the jobs of
which it admits a replica; where it admits two kinds of jobs their pools are one. 3. A node that
admits nobody is in none.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from optimus.interval.classify import Classified, Eligibility
from optimus.jobs import Job, NodeConstraints
from optimus.nodes import Node, refusal

_Constraints = frozenset[NodeConstraints]


@dataclass(slots=True)
class Pool:
    """Nodes and the jobs that compete for their room; no other job that competes may go there."""

    nodes: list[Node] = field(default_factory=list)
    standings: list[Classified] = field(default_factory=list)


def pools_of(standings: Iterable[Classified], nodes: Sequence[Node]) -> Iterator[Pool]:
    """The pools of the jobs whose counts are to be decided, in the order of their first jobs."""
    by_constraints: dict[_Constraints, list[Classified]] = {}
    for each in standings:
        if _competes(each):
            by_constraints.setdefault(_constraints(each.job), []).append(each)
    kinds = list(by_constraints)
    admission = _Admission.of(kinds)
    leader = list(range(len(kinds)))
    nodes_of: dict[int, list[Node]] = {}
    for node in nodes:
        admitted = admission.of_node(node)
        if admitted:
            first = min(_root(leader, kind) for kind in admitted)
            for kind in admitted:
                leader[_root(leader, kind)] = first
            nodes_of.setdefault(admitted[0], []).append(node)
    pools = {_root(leader, kind): Pool() for kind in range(len(kinds))}
    for kind, its_nodes in nodes_of.items():
        pools[_root(leader, kind)].nodes += its_nodes
    for kind, constraints in enumerate(kinds):
        pools[_root(leader, kind)].standings += by_constraints[constraints]
    yield from pools.values()


def _competes(standing: Classified) -> bool:
    waits = standing.candidate is not None or standing.stance is Eligibility.WAITING
    return waits or standing.forced or standing.measure_at is not None


def _constraints(job: Job) -> _Constraints:
    return frozenset(
        {job.ps.constraints, job.worker.constraints, *(each.spec.constraints for each in job.fixed)}
    )


@dataclass(frozen=True, slots=True)
class _Admission:
    """Which kinds of jobs nodes admit, asked once of nodes that differ in nothing that matters."""

    kinds: Sequence[_Constraints]
    labels: tuple[str, ...]
    by_name: bool
    known: dict[Hashable, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, kinds: Sequence[_Constraints]) -> Self:
        """For these kinds of jobs."""
        each = {constraints for kind in kinds for constraints in kind}
        asked = [requirement for one in each for term in one.affinity for requirement in term]
        selected = {key for one in each for key, _ in one.selector}
        labels = selected | {one.key for one in asked if not one.field}
        return cls(kinds, tuple(sorted(labels)), any(one.field for one in asked))

    def of_node(self, node: Node) -> list[int]:
        """The numbers of the kinds of which the node admits a replica, ascending."""
        labels = tuple([node.labels.get(key) for key in self.labels])
        alike = node.cordoned, node.taints, labels, node.name if self.by_name else ""
        if alike not in self.known:
            self.known[alike] = [
                number
                for number, kind in enumerate(self.kinds)
                if any(refusal(node, each) is None for each in kind)
            ]
        return self.known[alike]


def _root(leader: Sequence[int], kind: int) -> int:
    while leader[kind] != kind:
        kind = leader[kind]
    return kind
