"""A test's own kube-scheduler and extender, with all that is written to pods."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster.cluster import LocalCluster
from localcluster.faults.cluster import proxy_for
from localcluster.faults.proxy import FaultProxy
from localcluster.faults.traffic import ServedCall
from tests.e2e.extender.scheduler import SchedulerProcesses, scheduler_processes
from tests.harness.api import CORE, Api
from tests.harness.watch_recorder import WatchRecorder

PODS = f"{CORE}/pods"


@dataclass
class Watched:
    """The two processes, what the extender asks the API server, and every change of a pod."""

    processes: SchedulerProcesses
    traffic: FaultProxy
    changes: WatchRecorder

    def write_calls(self) -> list[ServedCall]:
        """The extender's writes to pods since faults were last injected."""
        return [
            each
            for each in self.traffic.calls
            if each.call.method == "PATCH" and "/pods/" in each.call.target
        ]

    def writes(self) -> int:
        """How often the extender has written to pods."""
        return len(self.write_calls())

    def changes_by_pod(self) -> Counter[str]:
        """By name, how often a pod was changed, by anybody."""
        changes = [each for each in list(self.changes.changes) if each.type == "MODIFIED"]
        return Counter(each.object["metadata"]["name"] for each in changes)

    def refused(self, job: str) -> set[str]:
        """The pods of a job in the default namespace that kube-scheduler could not place."""
        found = set()
        for pod in self.changes.objects:
            conditions = pod["status"].get("conditions") or ()
            if pod["metadata"]["name"].startswith(f"{job}-") and any(
                each.get("reason") == "Unschedulable" for each in conditions
            ):
                found.add(pod["metadata"]["name"])
        return found


@contextmanager
def watched(cluster: LocalCluster, folder: Path, **options: Any) -> Iterator[Watched]:
    """The two processes, the extender behind a proxy."""
    with cluster.api_client() as client, proxy_for(cluster) as traffic:
        kubeconfig = folder / "kubeconfig"
        traffic.write_kubeconfig(kubeconfig)
        with (
            scheduler_processes(cluster, folder, kubeconfig=kubeconfig, **options) as processes,
            WatchRecorder(Api(client), PODS) as changes,
        ):
            yield Watched(processes, traffic, changes)
