"""One attempt to place one pod, in kube-scheduler's order.

The nominated node alone first; if that is refused, every node: the scheduler's own rules, then the
extenders one after the other on what is left. One node: done. Several: scores. None: a sentence
that counts the reasons. No pod is ever preempted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TypeAlias

from localcluster.embedded.raw_objects import Json
from localcluster.embedded.scheduler.configuration import ExtenderConfiguration
from localcluster.embedded.scheduler.extenders import ExtenderFailed, Filtered
from localcluster.embedded.scheduler.fit import NodeState, Requests, refusals_of, score

_NO_NODES: Final = "no nodes available to schedule pods"


class Extender(Protocol):
    """What an attempt asks of an extender; ``extenders.HttpExtender`` is one."""

    configuration: ExtenderConfiguration

    def filter(self, pod: Json, nodes: Mapping[str, Json]) -> Filtered:
        """Which of the nodes the pod may go to. Raises ExtenderFailed."""

    def prioritize(self, pod: Json, nodes: Mapping[str, Json]) -> dict[str, int]:
        """Scores of nodes. Raises ExtenderFailed."""


@dataclass(frozen=True)
class Placed:
    """The pod goes to this node."""

    node: str


@dataclass(frozen=True)
class Unschedulable:
    """No node is left. ``by_extender``: an extender refused one, so that any change may help."""

    message: str
    by_extender: bool


@dataclass(frozen=True)
class Failed:
    """The attempt itself failed; it is tried again after a while."""

    message: str


Outcome: TypeAlias = Placed | Unschedulable | Failed


@dataclass(frozen=True)
class Snapshot:
    """What an attempt sees: every node, with its pods."""

    nodes: Mapping[str, NodeState]


@dataclass(frozen=True)
class Tools:
    """What attempts share."""

    extenders: Sequence[Extender]
    requests: Requests
    random: Random


@dataclass(frozen=True)
class _Survivors:
    kept: Mapping[str, NodeState]
    refusals: Mapping[str, Sequence[str]]
    by_extender: bool


def attempt(pod: Json, snapshot: Snapshot, tools: Tools) -> Outcome:
    """Try to place one pod."""
    if not snapshot.nodes:
        return Unschedulable(_NO_NODES, by_extender=False)
    kept = _on_nominated(pod, snapshot, tools)
    if not kept:
        try:
            found = _survivors(pod, snapshot.nodes, tools)
        except ExtenderFailed as error:
            return Failed(str(error))
        if not found.kept:
            return _unschedulable(len(snapshot.nodes), found)
        kept = found.kept
    return Placed(next(iter(kept)) if len(kept) == 1 else _best(pod, kept, tools))


def _on_nominated(pod: Json, snapshot: Snapshot, tools: Tools) -> Mapping[str, NodeState]:
    name = (pod.get("status") or {}).get("nominatedNodeName") or ""
    if name not in snapshot.nodes:
        return {}
    try:
        return _survivors(pod, {name: snapshot.nodes[name]}, tools).kept
    except ExtenderFailed:
        # kube-scheduler logs that and goes on with all nodes.
        return {}


def _survivors(pod: Json, nodes: Mapping[str, NodeState], tools: Tools) -> _Survivors:
    refusals: dict[str, Sequence[str]] = {
        name: reasons
        for name, state in nodes.items()
        if (reasons := refusals_of(pod, state, tools.requests))
    }
    fitting = {name: state for name, state in nodes.items() if name not in refusals}
    kept: Mapping[str, NodeState] = fitting
    for extender in tools.extenders:
        if kept:
            kept = _after_extender(extender, pod, kept, refusals)
    return _Survivors(kept, refusals, len(kept) != len(fitting))


def _after_extender(
    extender: Extender,
    pod: Json,
    nodes: Mapping[str, NodeState],
    refusals: dict[str, Sequence[str]],
) -> Mapping[str, NodeState]:
    try:
        answer = extender.filter(pod, {name: state.node for name, state in nodes.items()})
    except ExtenderFailed:
        if extender.configuration.ignorable:
            return nodes
        raise
    refusals.update({name: (why,) for name, why in answer.refused.items()})
    return {name: nodes[name] for name in answer.kept if name in nodes}


def _best(pod: Json, nodes: Mapping[str, NodeState], tools: Tools) -> str:
    scores = {name: score(pod, state, tools.requests) for name, state in nodes.items()}
    for extender in tools.extenders:
        for name, added in _extra(extender, pod, nodes).items():
            if name in scores:
                scores[name] += added
    best = max(scores.values())
    return tools.random.choice([name for name, reached in scores.items() if reached == best])


def _extra(extender: Extender, pod: Json, nodes: Mapping[str, NodeState]) -> dict[str, int]:
    try:
        return extender.prioritize(pod, {name: state.node for name, state in nodes.items()})
    except ExtenderFailed:
        # Scores are advice: without them the others decide.
        return {}


def _unschedulable(nodes: int, found: _Survivors) -> Unschedulable:
    counts = Counter(reason for reasons in found.refusals.values() for reason in reasons)
    shown = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    why = f" {shown}." if shown else ""
    return Unschedulable(f"0/{nodes} nodes are available:{why}", found.by_extender)
