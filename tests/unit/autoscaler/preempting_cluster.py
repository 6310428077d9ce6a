"""Jobs with priorities on nodes that are too few, with a scheduler, and an autoscaler that may
pause some for others."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from autoscaler.jobs.managed import Holds
from autoscaler.jobs.state import TrackedJob
from autoscaler.preemption import PreemptionConfig
from optimus.jobs import Counts
from optimus.kube.contract import Annotation
from optimus.kube.errors import ErrorKind
from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.profiles import ProfileStatus, TrainingProfile
from optimus.kube.results import Refused, Written
from optimus.kube.suspension import Preemption, read_suspension
from optimus.kube.times import format_second
from optimus.kube.training_jobs import TrainingJob
from optimus.nodes import Node
from optimus.rescale.words import PauseReason
from optimus.resources import Resources
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

CONFIG = PreemptionConfig(scheduler_name="optimus-scheduler")

_REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class ProcessEnded(BaseException):
    """The autoscaler's process has ended."""


@dataclass
class ScarceCluster(FakeCluster):
    """Nodes of so many CPUs; pods that find no room wait for it, those of a high priority first."""

    nodes: dict[str, int] = field(default_factory=dict)
    pod_specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By job, what the specs of its pods have besides."""

    patches: list[str] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    """Jobs whose patches are refused."""

    ends_before: set[str] = field(default_factory=set)
    """Jobs before whose suspension the process ends."""

    ends_at_write: int | None = None
    """At which write, successful or not, the process ends after it."""

    binds_high: bool = True
    """Whether the scheduler binds gangs with a priority."""

    def _room(self) -> int:
        return 1_000  # pods are always made

    def _make_pods(self, fake: FakeJob) -> None:
        super()._make_pods(fake)
        for pod in fake.pods:
            del pod["spec"]["nodeName"]
            pod["metadata"]["creationTimestamp"] = format_second(self.at)
            pod["spec"] |= {"schedulerName": "optimus-scheduler", **self.pod_specs[fake.name]}
            pod["metadata"]["labels"]["app"] = fake.name
            pod["status"] = {"phase": "Pending"}

    def _train(self, fake: FakeJob, seconds: float) -> None:
        if fake.counts.workers:
            super()._train(fake, seconds)

    def schedule(self) -> None:
        """Bind each gang that fits as a whole, and refuse the others."""
        self.refuse_all()
        waiting = [
            fake
            for fake in self.jobs.values()
            if any(map(_is_pending, fake.pods))
            and (self.binds_high or not self.priority_of(fake.name))
        ]
        for fake in sorted(waiting, key=lambda each: -self.priority_of(each.name)):
            pending = [pod for pod in fake.pods if _is_pending(pod)]
            free, chosen = self._free(), list[str]()
            for pod in pending:
                wanted = pod["spec"].get("nodeSelector", {}).get("pool")
                fits = (name for name in free if free[name] and wanted in (None, name))
                node = next(fits, None)
                if node is None:
                    break
                free[node] -= 1
                chosen.append(node)
            for pod, node in (
                zip(pending, chosen, strict=False) if len(chosen) == len(pending) else ()
            ):
                self._bind(pod, node)

    def refuse_all(self) -> None:
        """Every pod without a node has been tried."""
        for pod in (pod for fake in self.jobs.values() for pod in fake.pods):
            if _is_pending(pod):
                pod["status"]["conditions"] = [_REFUSED]

    def _bind(self, pod: dict[str, Any], node: str) -> None:
        started = {"running": {"startedAt": format_second(self.at)}}
        container = {"name": "tensorflow", "restartCount": 0, "state": started}
        pod["spec"]["nodeName"] = node
        pod["status"] = {
            "phase": "Running",
            "startTime": format_second(self.at),
            "containerStatuses": [container],
        }

    def _free(self) -> dict[str, int]:
        free = dict(self.nodes)
        for fake in self.jobs.values():
            for pod in fake.pods:
                if "nodeName" in pod["spec"]:
                    free[pod["spec"]["nodeName"]] -= 1
        return free

    def priority_of(self, name: str) -> int:
        return int(self.pod_specs[name].get("priority", 0))

    def decoded(self) -> tuple[list[TrainingJob], list[ClusterNode], list[Pod]]:
        jobs, _, pods = super().decoded()
        nodes = [
            ClusterNode(
                name=name,
                node=Node(name, Resources(cpu=1000 * cpus, pods=110), labels={"pool": name}),
            )
            for name, cpus in self.nodes.items()
        ]
        return jobs, nodes, pods

    def suspend(
        self, job: TrainingJob, interval_id: str, limits: Any, pause: PauseReason | None = None
    ) -> Written | Refused:
        if job.name in self.ends_before:
            raise ProcessEnded
        if job.name in self.refuses:
            return Refused(ErrorKind.INVALID, "an admission policy refuses it")
        return self._noted(f"suspend {job.name}", super().suspend(job, interval_id, limits, pause))

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        return self._noted(f"resume {job.name}", super().resize_and_resume(job, counts))

    def unmark(self, job: TrainingJob) -> Written | Refused:
        return self._noted(f"unmark {job.name}", super().unmark(job))

    def _noted(self, patch: str, outcome: Written | Refused) -> Written | Refused:
        if isinstance(outcome, Written):
            self.patches.append(patch)
        return self._or_end(outcome)

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written | Refused:
        return self._or_end(super().write_status(profile, status))

    def delete(self, profile: TrainingProfile) -> Written | Refused:
        self.writes += 1
        return self._or_end(super().delete(profile))

    def _or_end(self, outcome: Written | Refused) -> Written | Refused:
        if self.writes == self.ends_at_write:
            raise ProcessEnded
        return outcome


def _is_pending(pod: dict[str, Any]) -> bool:
    return "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]


class PreemptingCluster:
    """A cluster with its autoscaler. Jobs ask for one CPU for each replica; all are in ``team``."""

    def __init__(self, nodes: dict[str, int], config: PreemptionConfig | None = CONFIG) -> None:
        self.cluster = ScarceCluster(nodes=dict(nodes), instance="one")
        self.config, self.holds = config, Holds()
        self.restart()

    def restart(self) -> None:
        """Another process leads."""
        self.harness = ControllerHarness(
            self.cluster,
            timing=replace(TIMING, holds=self.holds, half_bound_seconds=3600),
            instance="one",
            preemption=self.config,
            measures=False,
        )

    # --- what users do

    def submit(self, name: str, ps: int = 1, workers: int = 1, **spec: Any) -> FakeJob:
        """A job that its operator makes pods for at the next step."""
        return self.submit_job(tf_job(name, ps, workers), **spec)

    def submit_job(self, job: FakeJob, **spec: Any) -> FakeJob:
        self.cluster.pod_specs[job.name] = spec
        return self.cluster.submit(job)

    def run(self, name: str, ps: int = 1, workers: int = 1, **spec: Any) -> FakeJob:
        """A job whose pods have nodes."""
        job = self.submit(name, ps, workers, **spec)
        self.settle_scheduler()
        assert name in self.running()
        return job

    def settle_scheduler(self) -> None:
        """A second passes without the autoscaler."""
        self.cluster.pass_time(1)
        self.cluster.schedule()

    def submit_on(self, node: str, name: str, **spec: Any) -> None:
        """A job whose replicas select one node."""
        job, selector = tf_job(name, 1, 1), {"pool": node}
        for role in job.replicas.values():
            role["template"]["spec"]["nodeSelector"] = selector
        self.submit_job(job, nodeSelector=selector, **spec)

    def delete_pods(self, name: str) -> None:
        """Its pods begin to end, and do not."""
        for pod in self.job(name).pods:
            pod["metadata"]["deletionTimestamp"] = format_second(self.cluster.at)

    def end(self, name: str) -> None:
        del self.cluster.jobs[name]

    # --- time

    def step(self, times: int = 1, *, lingers: Iterable[str] = ()) -> None:
        """Two seconds: the operator, the scheduler, the autoscaler."""
        for _ in range(times):
            kept = {name: list(self.cluster.jobs[name].pods) for name in lingers}
            self.cluster.pass_time(2)
            for name, pods in kept.items():
                self.cluster.jobs[name].pods[:] = pods
            self.cluster.schedule()
            self.harness.controller.tick()

    # --- what is seen

    def job(self, name: str) -> FakeJob:
        return self.cluster.jobs[name]

    def running(self) -> set[str]:
        """The jobs whose pods all have a node."""
        return {
            name
            for name, job in self.cluster.jobs.items()
            if job.pods and not job.leaving and all("nodeName" in pod["spec"] for pod in job.pods)
        }

    def mark_of(self, name: str) -> str:
        annotations = self.job(name).manifest["metadata"]["annotations"]
        return str(annotations.get(Annotation.SUSPENDED_BY, ""))

    def paused_for(self, name: str) -> Preemption | None:
        return read_suspension(self.mark_of(name)).preemption

    def preempted(self) -> set[str]:
        """The jobs that are suspended for another."""
        return {
            name
            for name, job in self.cluster.jobs.items()
            if job.suspended and self.paused_for(name)
        }

    def state(self, name: str) -> TrackedJob:
        return self.harness.controller.managed.states[f"uid-{name}"]

    @property
    def patches(self) -> list[str]:
        return self.cluster.patches

    def events(self, name: str) -> list[str]:
        """The reasons of a job's Events that tell of preemptions."""
        told = ("Preempting", "Preempted", "Resumed", "PreemptionFailed")
        return [each for each in self.cluster.reasons(name) if each in told]

    def message(self, name: str, reason: str) -> str:
        return next(text for job, why, text in self.cluster.events if (job, why) == (name, reason))

    def counted(self) -> dict[str, float]:
        """Preemptions that are over, by how they ended."""
        samples = next(iter(self.harness.metrics.preemptions.collect())).samples
        return {
            each.labels["outcome"]: each.value for each in samples if each.name.endswith("_total")
        }
