"""One attempt to place one pod, by kube-scheduler's own rules and with its messages.

The nominated node alone first; if that is refused, every node: the rules here, then the extenders
on what is left. The rules of a node are checked in order, and the first that refuses is the reason:
cordoned, taints, selector and affinity, resources (of pods on the node and nominated to it)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Protocol

import msgspec

from localcluster.embedded.raw_objects import Json
from localcluster.embedded.scheduler.extenders import ExtenderFailed, Filtered
from optimus.jobs import NodeConstraints
from optimus.kube.podspec import PodSpec, constraints_of, requests_of
from optimus.kube.quantity import offered
from optimus.nodes import Node, Taint, refusal
from optimus.resources import PODS, Resources, total


class Extender(Protocol):
    """What an attempt asks of an extender; `extenders.HttpExtender` is one."""

    ignorable: bool

    def filter(self, pod: Json, nodes: Sequence[str]) -> Filtered:
        """Return which of the nodes the pod may go to. Raises ExtenderFailed."""

    def prioritize(self, pod: Json, nodes: Sequence[str]) -> Mapping[str, int]:
        """Return scores of nodes. Raises ExtenderFailed."""


@dataclass(frozen=True)
class NodeState:
    """A node, the pods on it, and those that wait with a nomination to it."""

    node: Json
    pods: list[Json] = field(default_factory=list)
    nominated: list[Json] = field(default_factory=list)


class UnschedulableError(Exception):
    """No node is left; the message counts the reasons."""


def place(
    pod: Json, nodes: Mapping[str, NodeState], extenders: Sequence[Extender], random: Random
) -> str:
    """Return the node for a pod. Raises UnschedulableError, or ExtenderFailed."""
    nominated = str((pod.get("status") or {}).get("nominatedNodeName"))
    kept: Sequence[str] = ()
    refused: dict[str, Sequence[str]] = {}
    if nominated in nodes:
        try:
            kept = _kept(pod, {nominated: nodes[nominated]}, extenders, {})
        except ExtenderFailed:
            kept = ()  # kube-scheduler goes on with all nodes
    kept = kept or _kept(pod, nodes, extenders, refused)
    if not kept:
        counts = Counter(reason for reasons in refused.values() for reason in reasons)
        shown = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        why = f"0/{len(nodes)} nodes are available:{f' {shown}.' if shown else ''}"
        raise UnschedulableError(why if nodes else "no nodes available to schedule pods")
    return (
        kept[0]
        if len(kept) == 1
        else _best(pod, {name: nodes[name] for name in kept}, extenders, random)
    )


def _kept(
    pod: Json,
    nodes: Mapping[str, NodeState],
    extenders: Sequence[Extender],
    refused: dict[str, Sequence[str]],
) -> Sequence[str]:
    """Return the nodes that nobody refuses; adds the reasons of the others to `refused`."""
    refused.update({name: why for name, state in nodes.items() if (why := refusals_of(pod, state))})
    kept: Sequence[str] = [name for name in nodes if name not in refused]
    for extender in extenders:
        try:
            answer = extender.filter(pod, kept) if kept else Filtered(())
        except ExtenderFailed:
            if extender.ignorable:
                continue
            raise
        refused.update({name: (why,) for name, why in answer.refused.items()})
        kept = answer.kept
    return kept


def _best(
    pod: Json, nodes: Mapping[str, NodeState], extenders: Sequence[Extender], random: Random
) -> str:
    scores = {name: _free_share(pod, state) for name, state in nodes.items()}
    for extender in extenders:
        try:
            added = extender.prioritize(pod, list(nodes))
        except ExtenderFailed:
            continue  # scores are advice: without them the others decide
        for name in scores.keys() & added.keys():
            scores[name] += added[name]
    best = max(scores.values())
    return random.choice([name for name, score in scores.items() if score == best])


def refusals_of(pod: Json, state: NodeState) -> tuple[str, ...]:
    """Return why a pod cannot go to a node; nothing where it can."""
    asked, constraints = _parsed(msgspec.json.encode(pod["spec"]))
    node = _node_of(state.node)
    tolerations = NodeConstraints(tolerations=constraints.tolerations)
    if node.cordoned and refusal(replace(node, taints=()), tolerations):
        return ("node(s) were unschedulable",)
    if refusal(replace(node, cordoned=False), tolerations):
        return ("node(s) had untolerated taint(s)",)
    if refusal(replace(node, cordoned=False), constraints):
        return ("node(s) didn't match Pod's node affinity/selector",)
    there = (*state.pods, *state.nominated)
    has, used = _allocatable(state.node), _requests(there)
    full = ("Too many pods",) if len(there) + 1 > has[PODS] else ()
    lacking = (
        f"Insufficient {name}"
        for name in sorted(asked)
        if name != PODS and asked[name] > 0 and asked[name] > has[name] - used[name]
    )
    return (*full, *lacking)


def _free_share(pod: Json, state: NodeState) -> int:
    """Return the CPU and memory left with the pod on the node, 0 to 100 (NodeResourcesFit)."""
    has, used = _allocatable(state.node), _requests((*state.pods, pod))
    shares = [
        100 * max(0, has[name] - used[name]) // has[name] for name in ("cpu", "memory") if has[name]
    ]
    return sum(shares) // len(shares) if shares else 0


def _node_of(body: Json) -> Node:
    metadata, spec = body["metadata"], body.get("spec") or {}
    taints = (
        Taint(each["key"], each.get("value") or "", each["effect"])
        for each in spec.get("taints") or ()
    )
    labels = metadata.get("labels") or {}
    cordoned = bool(spec.get("unschedulable"))
    return Node(metadata["name"], labels=labels, taints=tuple(taints), cordoned=cordoned)


def _allocatable(node: Json) -> Resources:
    return offered((node.get("status") or {}).get("allocatable"))


def _requests(pods: Iterable[Json]) -> Resources:
    return total(_parsed(msgspec.json.encode(each["spec"]))[0] for each in pods)


@lru_cache(maxsize=20_000)
def _parsed(spec: bytes) -> tuple[Resources, NodeConstraints]:
    parsed = msgspec.json.decode(spec, type=PodSpec, strict=False)
    return requests_of(parsed), constraints_of(parsed)
