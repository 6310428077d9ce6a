"""POST /preempt: whom kube-scheduler may evict for a pod that fits nowhere.

kube-scheduler asks only where its plugin DefaultPreemption is on, that is, behind the cluster's own
scheduler. It offers nodes with the victims that it would evict there, picks one of those that are
left, and evicts its victims. A training job one of whose pods is evicted has failed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from extender.state.extender_state import ExtenderState
from optimus.kube.pods import Pod
from optimus.resources import Resources, total


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would be evicted from one node."""

    uids: tuple[str, ...]
    budget_violations: int = 0
    """How many of them a PodDisruptionBudget protects."""


def allow_preemption(
    state: ExtenderState, pod: Pod, offered: Mapping[str, Victims]
) -> dict[str, Victims]:
    """The nodes on which a pod may preempt, with their victims; none is a veto."""
    with state.locked() as now:
        state.expire(now)

        # 1. Room for one pod of a gang does not make the gang fit: no pod is evicted for it.
        if pod.replica is not None:
            return {}

        # 2. Where room is reserved, filter refuses the pod even after the victims have gone.
        useful = {
            node: victims
            for node, victims in offered.items()
            if not state.reservations.nodes_too_full(
                pod.resources - _resources(state, victims), (node,), pod.priority
            )
        }

        # 3. Of the rest, nodes where the fewest jobs lose a pod. kube-scheduler prefers nodes
        # without violations of budgets to all others, so that those come first here too.
        harm = {
            node: (victims.budget_violations, len(_jobs_hit(state, victims)))
            for node, victims in useful.items()
        }
        least = min(harm.values(), default=None)
        return {node: victims for node, victims in useful.items() if harm[node] == least}


def _resources(state: ExtenderState, victims: Victims) -> Resources:
    """Return what the victims leave, as far as they are replicas: only those are known one by
    one."""
    pods = (state.cluster.pods.get(uid) for uid in victims.uids)
    return total(pod.resources for pod in pods if pod is not None and pod.bound() is not None)


def _jobs_hit(state: ExtenderState, victims: Victims) -> set[str]:
    """The jobs that would fail. One that has ended may keep pods, which are not needed."""
    pods = (state.cluster.pods.get(uid) for uid in victims.uids)
    replicas = (pod.replica for pod in pods if pod is not None)
    return {
        replica.job_uid
        for replica in replicas
        if replica is not None and state.cluster.may_run(replica.job_uid)
    }
