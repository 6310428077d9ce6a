"""A cluster whose API server obeys ResourceQuotas: pods are created one by one, and those beyond a
quota are refused. The operator tries a refused job again once something of the job changes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autoscaler.cluster import Observation
from optimus.kube.admission import Priorities, quotas_of
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.quotas import PriorityClass, decode_quota
from optimus.kube.times import format_second
from optimus.resources import Resources
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import START_AT, FakeJob, pod_of, tf_job

GIB = 2**30
AMOUNTS = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
OF_A_POD = {"pods": 1, "nvidia.com/gpu": 1, "cpu": 1000, "memory": GIB}
GOAL = {"target_loss": "0.01", "training_mode": "sync", "global_batch_size": "64"}


@dataclass
class QuotaCluster(FakeCluster):
    """Quotas of the namespace ``team``, by their names: what each allows."""

    hard: dict[str, dict[str, str]] = field(default_factory=dict)
    other_pods: int = 0
    """So many pods of other software are in the namespace."""

    never: set[str] = field(default_factory=set)
    """Jobs of which something else than a quota refuses every pod."""

    tried: dict[str, int] = field(default_factory=dict)
    """By job, its version when a pod of it was refused last."""

    def _operate(self, fake: FakeJob) -> None:
        if fake.suspended:
            super()._operate(fake)
            return
        fake.manifest["status"]["conditions"] = []
        if not fake.pods:
            fake.runs, fake.lines = fake.runs + 1, []
        known = {pod["metadata"]["name"] for pod in fake.pods}
        wanted = {role.lower(): each["replicas"] for role, each in fake.replicas.items()}
        for role, count in wanted.items():
            for index in range(count):
                if f"{fake.name}-{role}-{index}" not in known:
                    self._create(fake, role, index)
        if len(fake.pods) == sum(wanted.values()):
            for pod in fake.pods:
                pod["spec"]["nodeName"], pod["status"]["phase"] = "n", "Running"

    def _train(self, fake: FakeJob, seconds: float) -> None:
        if fake.kind == "TFJob":
            super()._train(fake, seconds)

    def _create(self, fake: FakeJob, role: str, index: int) -> None:
        if fake.name in self.never or self.tried.get(fake.name) == fake.version:
            return
        if any(not _fits(quota) for quota in self.quotas(more=1)):
            self.tried[fake.name] = fake.version
            return
        spec = {"ps": ["h"] * fake.counts.ps, "worker": ["h"] * fake.counts.workers}
        pod = pod_of(fake, role, index, json.dumps({"cluster": spec}), self.at)
        pod["spec"]["containers"][0]["resources"] = {"requests": AMOUNTS, "limits": AMOUNTS}
        del pod["spec"]["nodeName"]
        pod["status"]["phase"] = "Pending"
        fake.pods.append(pod)

    def quotas(self, more: int = 0) -> list[Any]:
        """As stored, with so many pods more."""
        count = sum(len(fake.pods) for fake in self.jobs.values()) + self.other_pods + more
        return [
            decode_quota(
                json.dumps(
                    {
                        "metadata": {"name": name, "namespace": "team"},
                        "spec": {"hard": hard},
                        "status": {"used": {each: _used(each, count) for each in hard}},
                    }
                ).encode()
            )
            for name, hard in self.hard.items()
        ]

    def _capacity(self) -> Resources:
        return Resources({"cpu": 64_000, "memory": 640 * GIB, "nvidia.com/gpu": 64, "pods": 110})

    def observe(self, at: float) -> Observation:
        found = super().observe(at)
        none = tuple[PriorityClass, ...]()
        jobs = Priorities().set_on(found.jobs.values(), none)
        quotas = quotas_of(jobs, found.pods, self.quotas())
        return replace(found, snapshot=replace(found.snapshot, quotas=quotas))


def _used(name: str, pods: int) -> str:
    plain = name.removeprefix("requests.").removeprefix("limits.").removeprefix("count/")
    amount = OF_A_POD[plain] * pods
    return f"{amount}m" if plain == "cpu" else str(amount)


def _fits(quota: Any) -> bool:
    return all(quota.used[name] <= quota.hard[name] for name in quota.limited)


class QuotaScene:
    """Such a cluster with its autoscaler."""

    def __init__(self, **hard: str) -> None:
        self.cluster = QuotaCluster(hard={"training": dict(hard)})
        self.harness = ControllerHarness(self.cluster, measures=False)

    def allow(self, amount: str, name: str = "pods") -> None:
        self.cluster.hard = {"training": {name: amount}}

    def submit(
        self, name: str, ps: int, workers: int, kind: str = "TFJob", **annotations: str
    ) -> FakeJob:
        """A job that never changes its counts by itself; later ones are younger. A PyTorchJob has
        as many Masters as PSs are named, and no batch that they share: it is not managed."""
        counts = {"min_ps": ps, "max_ps": ps, "min_workers": workers, "max_workers": workers}
        bounds = {key: str(count) for key, count in counts.items()} if annotations else {}
        job = tf_job(name, ps, workers, **annotations, **bounds)
        if kind != "TFJob":
            roles, job.kind = job.manifest["spec"].pop("tfReplicaSpecs"), kind
            names = {"MXJob": "Server"}.get(kind, "Master"), "Worker"
            specs = dict(zip(names, (roles["PS"], roles["Worker"]), strict=True))
            job.manifest["spec"][JOB_KINDS[kind].replica_specs] = specs
        if kind == "PyTorchJob":
            job.manifest["metadata"]["annotations"].pop("optimus.dl/global-batch-size", None)
        resources = {"requests": AMOUNTS, "limits": AMOUNTS}
        for role in job.replicas.values():
            role["template"]["spec"]["containers"][0]["resources"] = resources
        created_at = format_second(START_AT - 1000 + len(self.cluster.jobs))
        job.manifest["metadata"]["creationTimestamp"] = created_at
        self.cluster.submit(job)
        self.cluster.pass_time(1)
        return job

    def two_halves(
        self,
        name: str = "pods",
        kinds: tuple[str, str] = ("TFJob", "TFJob"),
        later: Mapping[str, str] = GOAL,
    ) -> None:
        """Two jobs of four pods, each with two, where four are allowed."""
        unit = "Gi" if "memory" in name else ""
        self.allow(f"2{unit}", name)
        self.submit("qa", 1, 3, kinds[0], **GOAL)
        self.allow(f"4{unit}", name)
        self.submit("qb", 1, 3, kinds[1], **later)
        assert [self.pods("qa"), self.pods("qb")] == [2, 2]

    def pods(self, name: str) -> int:
        return len(self.cluster.jobs[name].pods)

    def whole(self) -> set[str]:
        jobs = self.cluster.jobs.values()
        return {
            job.name for job in jobs if any(each["spec"].get("nodeName") for each in job.pods)
        } - self.paused()

    def paused(self) -> set[str]:
        return {job.name for job in self.cluster.jobs.values() if job.suspended}

    def end(self, name: str) -> None:
        del self.cluster.jobs[name]

    def message(self, name: str, reason: str) -> str:
        return next(text for job, why, text in self.cluster.events if (job, why) == (name, reason))
