"""The extender binds the rest of a gang, on a real control plane: whole by one call, whole after a
kill at each binding, and no node is over-committed beside pods of others."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.faults.faults import (
    Calls,
    Cut,
    Effect,
    ErrorResponse,
    Fault,
    Hang,
    Kill,
)
from tests.e2e.extender.scheduler import (
    SchedulerProcesses,
    TrainingJobs,
    reservations,
    scheduler_processes,
    single_pod,
    unharmed,
)
from tests.e2e.extender.watched import watched
from tests.harness.api import CORE, Api, in_namespace
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

PODS = in_namespace(CORE, "default", "pods")
BINDING = Calls("POST", r"/binding$")
CPUS = 4
"""Of each of the four nodes."""


def outcomes(processes: SchedulerProcesses) -> Counter[str]:
    """What became of gangs, as the extender counts."""
    wanted = r'^optimus_extender_gangs_bound_total\{outcome="(.*)"\} (\S+)$'
    found = re.findall(wanted, processes.get("/metrics"), re.MULTILINE)
    return Counter({outcome: int(float(count)) for outcome, count in found})


def over_committed(api: Api) -> dict[str, int]:
    """Nodes whose pods request more CPUs than they have, and how many."""
    used: Counter[str] = Counter()
    for pod in api.items(PODS):
        request = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
            used[pod["spec"]["nodeName"]] += int(request)
    return {node: cpus for node, cpus in used.items() if cpus > CPUS}


def test_a_gang_is_bound_whole_by_one_call(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    with unharmed(own, tmp_path) as processes:
        jobs.create("whole", 2, 6)
        nodes = jobs.wait_bound("whole", 8)
        assert len({*nodes.values()}) == 2
        assert outcomes(processes) == {"bound": 1}
        wait_until(
            "its user reads of it",
            lambda: [
                each
                for each in api.items("/apis/events.k8s.io/v1/namespaces/default/events")
                if each["reason"] == "GangBound" and each["regarding"]["name"] == "whole"
            ],
        )


@pytest.mark.parametrize("position", [1, 2, 5, 11])
def test_a_gang_is_bound_whole_though_the_extender_is_killed_at_any_binding(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path, position: int
) -> None:
    singles = [f"single-{number}" for number in range(8)]
    with watched(own, tmp_path) as seen:
        processes = seen.processes
        seen.traffic.kill_client = lambda: processes.kill_with_children("extender")
        after_effect = position % 2 == 0
        seen.traffic.inject(Fault(BINDING, Kill(after_effect=after_effect), nth=position))
        jobs.create("killed", 2, 10)
        wait_until("it is killed", lambda: seen.traffic.is_spent and not processes.get("/healthz"))
        for name in singles:
            api.create(PODS, single_pod(name, "1"))  # they want the room of the rest
        assert len(jobs.nodes("killed")) < 12
        seen.traffic.inject()
        processes.start_extender()
        jobs.wait_bound("killed", 12)
        assert over_committed(api) == {}
        wait_until("nothing is reserved", lambda: reservations(processes) == 0)
        for name in singles:
            api.delete(f"{PODS}/{name}")


@pytest.mark.parametrize(
    "effect",
    [
        Cut(),
        Cut(after_effect=True),
        ErrorResponse(429, 1),
        ErrorResponse(403),
        Hang(9.0),
    ],
    ids=str,
)
def test_a_gang_is_bound_whole_whatever_becomes_of_a_binding(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path, effect: Effect
) -> None:
    with watched(own, tmp_path) as seen:
        seen.traffic.inject(Fault(BINDING, effect, nth=3))
        jobs.create("faulty", 2, 10)
        wait_until("it has happened", lambda: seen.traffic.is_spent)
        jobs.wait_bound("faulty", 12)
        assert over_committed(api) == {}
        wait_until("nothing is reserved", lambda: reservations(seen.processes) == 0)


def test_a_gang_is_bound_whole_though_kube_scheduler_is_killed_meanwhile(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    with watched(own, tmp_path) as seen:
        seen.traffic.kill_client = lambda: seen.processes.kill("kube-scheduler")
        seen.traffic.inject(Fault(BINDING, Kill(), nth=5))
        jobs.create("killed", 2, 10)
        wait_until("it is killed", lambda: seen.traffic.is_spent)
        seen.processes.start_scheduler()
        jobs.wait_bound("killed", 12)
        assert over_committed(api) == {}
        wait_until("nothing is reserved", lambda: reservations(seen.processes) == 0)


def test_gangs_beside_single_pods_are_bound_whole_and_no_node_is_over_committed(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    singles, gangs = [f"single-{number}" for number in range(9)], ("one", "two", "three")
    with scheduler_processes(own, tmp_path) as processes:
        for number, name in enumerate(singles):
            if number % 3 == 0:
                jobs.create(gangs[number // 3], 1, 3)
            api.create(PODS, single_pod(name, "1"))
        wait_until("gangs are whole or wait", lambda: are_whole_or_wait(jobs, gangs))
        assert over_committed(api) == {}
        for name in singles:
            api.delete(f"{PODS}/{name}")
        for name in gangs:
            jobs.wait_bound(name, 4)
        assert over_committed(api) == {}
        assert "Traceback" not in processes.log("extender")


def are_whole_or_wait(jobs: TrainingJobs, gangs: Sequence[str]) -> bool:
    """Whether none of these gangs of four is bound in part, and one is bound."""
    found = {len(jobs.nodes(name)) for name in gangs}
    return found <= {0, 4} and 4 in found


def test_beside_another_scheduler_kube_scheduler_binds_every_pod(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    with unharmed(own, tmp_path) as processes:
        api.create(PODS, single_pod("other", "1", schedulerName="default-scheduler"))
        wait_until("it is bound", lambda: api.get(f"{PODS}/other")["spec"].get("nodeName"))
        jobs.create("gang", 1, 3)
        jobs.wait_bound("gang", 4)
        assert outcomes(processes)["bound"] == 0
        assert outcomes(processes)["other scheduler"] > 0
        assert over_committed(api) == {}
        api.delete(f"{PODS}/other")
