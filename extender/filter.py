"""POST /filter: the nodes that a pod may go to.

kube-scheduler asks about one pod at a time; the answer is always a part of a plan for the pod's
whole gang, or a refusal. ``filter_nodes`` is the decision, in numbered phases.

A refusal is a constant sentence. kube-scheduler writes a changed sentence into the pod's status,
and that write requeues the pod: a text that varied would requeue it in a loop. Refused nodes are
reported as unresolvable (``extender.http.wire``): otherwise kube-scheduler would evict pods for one
replica, which does not make its gang fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.gang_queue import Instant, QueuedGang
from extender.planner import Planner
from optimus.kube.pods import Pod
from optimus.placement.ledger import Reservation
from optimus.snapshot import ReplicaId


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The nodes that a pod may go to, and the reason for each other one."""

    kept: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    cause: str = ""
    """The refusal in one or two words, for a metric."""


def refuse(names: Sequence[str], reason: str, cause: str) -> FilterResult:
    """No node, for one reason."""
    return FilterResult((), dict.fromkeys(names, reason), cause)


def filter_nodes(planner: Planner, pod: Pod, names: Sequence[str]) -> FilterResult:
    """Exactly one of the offered nodes for a planned pod, none for a pod that has to wait."""
    result = _decide(planner, pod, names)
    if result is None:
        assert pod.replica is not None
        planner.wait_for_plan(pod.replica.job_uid)
        result = _decide(planner, pod, names)
    if result is None:
        reason = f"job {_job(pod)} has not been planned yet"
        result = refuse(names, reason, "not planned")
    return result


def _decide(planner: Planner, pod: Pod, names: Sequence[str]) -> FilterResult | None:
    """The answer; ``None`` where the pod's gang is yet to be planned."""
    with planner.locked() as now:
        # 1. Release what has expired, so that no answer depends on it.
        planner.expire(now)

        # 2. A pod of no training job passes, except on nodes whose free capacity is reserved.
        replica = pod.replica
        if replica is None or not planner.cluster.controls(pod):
            planner.questions.record(pod, now.monotonic)
            return _pass_through(planner, pod, names, now)

        # Pods that must not be placed: kube-scheduler's cache or the job's counts are out of date.
        planner.asked(pod, replica, now)
        known = planner.cluster.pods.get(pod.uid)
        if known is not None and known.node is not None:
            return refuse(names, "the pod has been bound already", "bound")
        rescaling = replica.job_uid in planner.cluster.rescales
        if rescaling and planner.rescales.is_leaving(replica.job_uid, now.monotonic):
            reason = f"job {_job(pod)} is being suspended, to resume with other counts"
            return refuse(names, reason, "rescaling")
        future = planner.future_room
        if replica.job_uid in future.awaited and future.awaits(replica.job_uid) is not None:
            reason = f"waiting for the pods of preempted jobs to make room for job {_job(pod)}"
            return refuse(names, reason, "preempting")
        if planner.reservations.may_be_taken(replica.job_uid, now.monotonic):
            reason = f"waiting for a pod of a higher priority that may take room of job {_job(pod)}"
            return refuse(names, reason, "passed")

        planner.compare_offer(pod, names, now)

        # 3. The pod has a reservation: its node, where that is offered.
        held = planner.reservation_for(pod, replica)
        if held is not None and held.node in names:
            return _accept(planner, pod, held, now)

        # 4. A probe offers the nominated node alone. It is refused and causes no new plan: the
        # other nodes are missing from the list although they may suit the pod. kube-scheduler
        # offers all nodes next, in the same attempt.
        if list(names) == [pod.nominated_node]:
            reason = f"the plan of job {_job(pod)} has changed since the pod was nominated"
            result: FilterResult | None = refuse(names, reason, "probe")
        elif held is not None and planner.depends_on_own_gang(pod, replica):
            # Its node is offered once the others are bound that it must be beside or balance.
            reason = f"waiting for other pods of job {_job(pod)} to be bound first"
            result = refuse(names, reason, "order")
        else:
            if held is not None:
                planner.rule_out(pod, held, names, now)
            result = _refuse_unplanned(planner, pod, replica, names, now)
    planner.changes.notify()
    return result


def _pass_through(planner: Planner, pod: Pod, names: Sequence[str], now: Instant) -> FilterResult:
    kept, taken = planner.reservations.nodes_for(pod.resources, names, pod.priority)
    if taken:
        until = now.monotonic + planner.settings.reservation_seconds
        planner.reservations.let_pass(pod.uid, pod.priority, taken, until)
    full = {*names} - {*kept} if len(kept) < len(names) else ()
    refused = dict.fromkeys(full, "reserved for a training job")
    return FilterResult(kept, refused, "reserved" if refused else "")


def _refuse_unplanned(
    planner: Planner, pod: Pod, replica: ReplicaId, names: Sequence[str], now: Instant
) -> FilterResult | None:
    if not planner.cluster.knows_gang_of(pod):
        return refuse(names, f"job {_job(pod)} itself has not been seen yet", "unknown")
    planner.queue.ask(pod)

    # 5. On a cache that is too old no new plan is made: nodes may have been taken meanwhile.
    too_old = planner.why_too_old()
    if too_old is not None:
        planner.refused_for_now[pod.uid] = pod
        return refuse(names, f"job {_job(pod)} is not planned: {too_old}", "cache too old")

    # 6. A gang waits until all its pods exist: until then their requests are not all known. It is
    # not looked at while its namespace is over its budget.
    deferred = planner.queue.defers(replica.job_uid)
    found = None if deferred else planner.offered(pod, names, now)
    if found is None or not found.observed.complete or replica not in found.observed.pods:
        planner.refused_for_now[pod.uid] = pod
        return _not_whole(pod, found, names, deferred=deferred)

    # 7. No pod is answered before each was asked about, where kube-scheduler knows rules that a
    # plan does not (some of the gang would be bound and the others could not), or where it has not
    # asked about pods that capacity was reserved for.
    queue, offers = planner.queue, planner.offers
    if queue.pods_to_ask_about(found.observed) or offers.waits(replica.job_uid):
        return _not_offered(planner, pod, replica, names)

    # 8. The planner's thread plans it, after the gangs before it in the queue, or has refused it.
    refused = planner.refusal(replica.job_uid)
    if refused is None:
        # What was reserved for a rescale was for other counts: the thread would reserve them again.
        # A new leader reserves for rescales with the nominations that it adopts, not before.
        may_plan = planner.leads and replica.job_uid in planner.cluster.rescales
        if may_plan and planner.plan_at_once(found, now):
            held = planner.reservations.ledger.get(replica)
            if held is not None and held.node in names:
                return _accept(planner, pod, held, now)
        return None
    if planner.offers.has_refused(replica.job_uid):
        return _not_offered(planner, pod, replica, names)
    return refuse(names, refused.reason, "no room")


def _not_whole(
    pod: Pod, found: QueuedGang | None, names: Sequence[str], *, deferred: bool
) -> FilterResult:
    if deferred:
        return refuse(names, f"pods of job {_job(pod)} change too often: later", "changing")
    missing = f"waiting for all pods of job {_job(pod)}"
    waits_for = "" if found is None else found.observed.waits_for
    return refuse(names, waits_for or missing, "incomplete")


def _not_offered(
    planner: Planner, pod: Pod, replica: ReplicaId, names: Sequence[str]
) -> FilterResult:
    """One text from the first back-off on, whether the pods are asked about again or not."""
    if planner.offers.has_refused(replica.job_uid):
        reason = f"job {_job(pod)} does not fit as a whole on the nodes offered"
        return refuse(names, reason, "not offered")
    reason = f"waiting until every pod of job {_job(pod)} has been offered nodes"
    return refuse(names, reason, "asked")


def _accept(planner: Planner, pod: Pod, held: Reservation, now: Instant) -> FilterResult:
    # The planned node. kube-scheduler reads reasons only where no node is left.
    planner.assume(pod, held, now)
    return FilterResult((held.node,))


def _job(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.owner.name if pod.owner else ''}"
