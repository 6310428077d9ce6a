"""DefaultPreemption: which pods are evicted so that a pod of higher priority fits on their node.

Of kube-scheduler's `framework/preemption`: on every node that evictions could help, all pods of
lower priority are taken away; if the pod fits then, they are given back, the most important ones
first, while it still fits. What cannot be given back are the node's victims. Extenders with a
preemptVerb strike out nodes; of the rest the one whose victims matter least is taken.
PodDisruptionBudgets are not read, and every node is tried, as kube-scheduler does up to 100."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TypeAlias

from localcluster.embedded.raw_objects import Json
from localcluster.embedded.scheduler.configuration import ExtenderConfiguration
from localcluster.embedded.scheduler.extenders import ExtenderFailed
from localcluster.embedded.scheduler.fit import NodeState, Refusal, Requests, refusal_of
from optimus.kube.times import parse_instant

Victims: TypeAlias = Mapping[str, Sequence[Json]]
"""The victims on each node, the most important first."""

_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = Refusal(("No preemption victims found for incoming pod",))
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
_VETOED: Final = "no candidate node for preemption"
_BY_SCHEDULER: Final = "PreemptionByScheduler"


class PreemptionExtender(Protocol):
    """What a preemption asks of an extender; `extenders.HttpExtender` is one."""

    configuration: ExtenderConfiguration

    def preempt(self, pod: Json, victims: Victims) -> Mapping[str, Sequence[str]]:
        """The UIDs of the victims on each node that may be preempted. Raises ExtenderFailed."""


@dataclass(frozen=True)
class Preempted:
    """These pods of a node are to be evicted, and the pod is nominated to it."""

    node: str
    victims: Sequence[Json]


@dataclass(frozen=True)
class NotPreempted:
    """Nobody is evicted."""

    message: str
    clears: bool = False
    """Whether the pod loses its nomination."""
    is_error: bool = False
    """Whether the attempt to preempt has failed, so that nothing else is said."""


def priority_of(pod: Json) -> int:
    """A pod's priority; 0 where it has none."""
    return int(pod["spec"].get("priority") or 0)


def preempt(
    pod: Json,
    nodes: Mapping[str, NodeState],
    refusals: Mapping[str, Refusal],
    extenders: Sequence[PreemptionExtender],
    requests: Requests,
    random: Random,
) -> Preempted | NotPreempted:
    """Find the victims for a pod that ``refusals`` keep from every node."""
    # 1. May it preempt at all? Not while those that it has preempted are still leaving.
    ineligible = _ineligible(pod, nodes, refusals)
    if ineligible:
        return NotPreempted(ineligible)

    # 2. The victims on each node that evictions may help.
    found: dict[str, Sequence[Json]] = {}
    failed: dict[str, Refusal] = {}
    for name, state in nodes.items():
        if name in refusals and not refusals[name].unresolvable:
            victims = victims_on(pod, state, requests)
            if isinstance(victims, Refusal):
                failed[name] = victims
            else:
                found[name] = victims
    victims_by_node = {name: victims for name, victims in found.items() if victims}
    if not victims_by_node:
        return _without_candidates(nodes, found, failed)

    # 3. Extenders may strike out nodes, and change who is evicted.
    try:
        for extender in extenders:
            if victims_by_node and extender.configuration.preempt_verb:
                victims_by_node = _after_extender(extender, pod, victims_by_node, nodes)
    except ExtenderFailed as error:
        return NotPreempted(str(error), is_error=True)
    if not victims_by_node:
        return NotPreempted(_VETOED)

    # 4. The node whose victims matter least.
    node = random.choice(_least_harm(victims_by_node))
    return Preempted(node, victims_by_node[node])


def _ineligible(
    pod: Json, nodes: Mapping[str, NodeState], refusals: Mapping[str, Refusal]
) -> str | None:
    if pod["spec"].get("preemptionPolicy") == "Never":
        return _NEVER
    nominated = (pod.get("status") or {}).get("nominatedNodeName") or ""
    if nominated not in nodes or nominated not in refusals or refusals[nominated].unresolvable:
        return None
    leaving = (
        other
        for other in nodes[nominated].pods
        if priority_of(other) < priority_of(pod) and _is_leaving_by_preemption(other)
    )
    return _TERMINATING if any(leaving) else None


def _is_leaving_by_preemption(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return bool(pod["metadata"].get("deletionTimestamp")) and any(
        (each["type"], each["status"], each.get("reason"))
        == ("DisruptionTarget", "True", _BY_SCHEDULER)
        for each in conditions
    )


def victims_on(pod: Json, state: NodeState, requests: Requests) -> Sequence[Json] | Refusal:
    """The fewest pods, the least important ones, without which the pod fits on a node."""
    lower = [other for other in state.pods if priority_of(other) < priority_of(pod)]
    if not lower:
        return _NO_VICTIMS
    kept = [other for other in state.pods if other not in lower]
    refused = _refusal(pod, state, kept, requests)
    if refused is not None:
        return refused
    victims = []
    for other in sorted(lower, key=_importance):
        if _refusal(pod, state, [*kept, other], requests) is None:
            kept.append(other)
        else:
            victims.append(other)
    return victims


def _refusal(
    pod: Json, state: NodeState, there: Sequence[Json], requests: Requests
) -> Refusal | None:
    return refusal_of(pod, NodeState(state.node, there, state.nominated), requests)


def _importance(pod: Json) -> tuple[int, float]:
    """Sorts the most important pod first: the highest priority, then the oldest."""
    return -priority_of(pod), _started_at(pod)


def _started_at(pod: Json) -> float:
    started = (pod.get("status") or {}).get("startTime")
    return parse_instant(started) if started else time.time()


def _without_candidates(
    nodes: Mapping[str, NodeState],
    found: Mapping[str, Sequence[Json]],
    failed: Mapping[str, Refusal],
) -> NotPreempted:
    if found:
        # Only an extender has refused the node: nobody's leaving changes that.
        why = [f'expected at least one victim pod on node "{name}"' for name in found]
        message = why[0] if len(why) == 1 else f"[{', '.join(why)}]"
        return NotPreempted(message, is_error=True)
    reasons = [
        reason
        for name in nodes
        for reason in (failed[name].reasons if name in failed else (_NOT_HELPFUL,))
    ]
    return NotPreempted(f"0/{len(nodes)} nodes are available:{count_reasons(reasons)}", clears=True)


def _after_extender(
    extender: PreemptionExtender, pod: Json, victims: Victims, nodes: Mapping[str, NodeState]
) -> dict[str, Sequence[Json]]:
    ignorable = extender.configuration.ignorable
    try:
        answer = extender.preempt(pod, victims)
        kept = {name: _pods_on(nodes, name, uids, extender) for name, uids in answer.items()}
    except ExtenderFailed:
        if ignorable:
            return dict(victims)
        raise
    empty = [name for name, pods in kept.items() if not pods]
    if empty and not ignorable:
        raise ExtenderFailed(f'expected at least one victim pod on node "{empty[0]}"')
    return {name: pods for name, pods in kept.items() if pods}


def _pods_on(
    nodes: Mapping[str, NodeState], name: str, uids: Sequence[str], extender: PreemptionExtender
) -> list[Json]:
    if name not in nodes:
        raise ExtenderFailed(f'nodeinfo not found for node name "{name}"')
    there = {pod["metadata"]["uid"]: pod for pod in nodes[name].pods}
    for uid in uids:
        if uid not in there:
            url = extender.configuration.url
            claim = f"extender: {url} claims to preempt pod (UID: &{{{uid}}}) on node: {name}"
            raise ExtenderFailed(f"{claim}, but the pod is not found on that node")
    return [there[uid] for uid in uids]


def _least_harm(victims: Victims) -> list[str]:
    """The nodes that no other one beats; the first rule on which two differ decides."""
    rules: tuple[Callable[[Sequence[Json]], float], ...] = (
        lambda pods: priority_of(pods[0]),
        # Moved above zero, as kube-scheduler does, so that fewer pods are always less.
        lambda pods: sum(priority_of(pod) + 2**31 for pod in pods),
        len,
        lambda pods: (
            -min(
                _started_at(pod)
                for pod in pods
                if priority_of(pod) == max(priority_of(each) for each in pods)
            )
        ),
    )
    names = list(victims)
    for rule in rules:
        harm = {name: rule(victims[name]) for name in names}
        names = [name for name in names if harm[name] == min(harm.values())]
    return names


def count_reasons(reasons: Iterable[str]) -> str:
    """Reasons with how many nodes have each, as kube-scheduler lists them; "" for none."""
    shown = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f" {', '.join(shown)}." if shown else ""
