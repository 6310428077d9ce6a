"""Nodes for a pod of no training job: all but those whose free capacity is reserved for gangs."""

from collections.abc import Sequence

from extender.answers import FilterResult, Wait
from extender.gang_states import WaitReason
from extender.state.extender_state import ExtenderState
from optimus.kube.pods import Pod
from optimus.placement.queue.order import Instant

BEGINS = Wait(WaitReason.JUST_BOUND, "the extender begins to lead: tried again soon")


def pass_pod(
    state: ExtenderState, pod: Pod, names: Sequence[str], now: Instant
) -> FilterResult | Wait:
    """Return the offered nodes that a pod of no training job may go to. Needs the lock."""
    kept, taken = state.reservations.nodes_for(pod.resources, names, pod.priority)
    if state.config.binds_gangs:
        if not state.leads and state.waits_to_lead(now):
            return BEGINS
        # kube-scheduler may not have seen what was just bound to a node, or is about to be.
        full = state.unseen.full_for(pod, kept, now.monotonic)
        left = tuple(name for name in kept if name not in full) if full else kept
        if kept and not left:
            state.unseen.not_passed(pod.uid)
            return Wait(WaitReason.JUST_BOUND)
        kept, taken = left, tuple(name for name in taken if name not in full)
        if kept:
            refused = {*names} - {*kept} if len(kept) < len(names) else ()
            state.unseen.passed(pod, refused, now.monotonic, state.config.binding_seconds)
        else:
            state.unseen.not_passed(pod.uid)
    if taken:
        until = now.monotonic + state.config.reservation_seconds
        state.reservations.let_pass(pod.uid, pod.priority, taken, until)
    full_nodes = {*names} - {*kept} if len(kept) < len(names) else ()
    refusals = dict.fromkeys(full_nodes, "reserved for a training job")
    return FilterResult(kept, refusals, "reserved" if refusals else "")
