"""What users and administrators do: a random action at a time, remembered where it excuses what
the invariants would else complain about."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from kubernetes.client.exceptions import ApiException

from localcluster.specs import Backend
from tests.harness.api import CORE, KUBEFLOW, PLURALS, Json, in_namespace
from tests.harness.light_jobs import SLEEP, Kind, LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import SMALL, bounds

Fate = Literal["endless", "ends", "fails"]
PS_KEYS: Final = {"TFJob": ("tfReplicaSpecs", "PS"), "MXJob": ("mxReplicaSpecs", "Server")}
_KINDS: Final[tuple[Kind, ...]] = ("TFJob", "MXJob")
_FAILS: Final = "sleep 5; exit 1"
_MOST_JOBS: Final = 6
_FATES: Final[tuple[Fate, ...]] = ("endless", "ends", "ends", "fails")


@dataclass
class UserJob:
    """A job as its user knows it."""

    job: LightJob
    fate: Fate
    managed: bool
    """Whether its counts may change."""
    suspended: bool = False
    """Whether its user has suspended it."""
    changed_at: float = 0.0
    """When its user changed it last (monotonic)."""
    excused: str = ""
    """What was done to it for which the operator may fail it."""
    disturbed_at: float = float("-inf")
    """When something was last done to it that may cost it pods (monotonic)."""


class Users:
    """One namespace's users, and who administers the training nodes."""

    def __init__(self, scenario: Scenario, generator: random.Random, nodes: list[str]) -> None:
        self._scenario, self._random, self._nodes = scenario, generator, nodes
        self._cordoned: list[str] = []
        self.cordoned_at = float("-inf")
        """When a node was taken away last (monotonic)."""
        self._made = 0
        self.jobs: dict[str, UserJob] = {}
        self.done: Counter[str] = Counter()
        self._actions: list[tuple[int, Callable[[], str]]] = [
            (8, self._submit),
            (3, self._delete),
            (4, self._change_bounds),
            (2, self._change_goal),
            (2, self._suspend_or_resume),
            (1, self._pause),
            (2, self._apply_old_manifest),
            (2, self._cordon_or_uncordon),
            (1, self._drain),
        ]

    def act(self) -> None:
        """Do one thing, chosen at random; what cannot be done now is left."""
        weights, actions = zip(*self._actions, strict=True)
        (action,) = self._random.choices(actions, weights)
        try:
            done = action()
        except ApiException as error:
            # A user and the operator or the autoscaler may write at the same instant, and a job
            # may just have gone.
            if error.status not in (404, 409):
                raise
            done = f"{action.__name__.strip('_')}: {error.status}"
        if done:
            self.done[done] += 1

    def leave(self) -> None:
        """Nobody does anything any more: nodes are back, nothing is suspended by its user."""
        for node in list(self._cordoned):
            self._set_unschedulable(node, unschedulable=False)
        for each in self.jobs.values():
            if each.suspended:
                self._wait_for_no_pods(each)
                self._set_suspended(each, suspended=False)

    # --- users

    def _submit(self) -> str:
        if len(self.jobs) >= _MOST_JOBS:
            return self._delete()
        self._made += 1
        mine = self._new(f"job-{self._made}")
        body = mine.job.manifest(self._scenario.namespace)
        if mine.fate == "fails":
            for spec in body["spec"][PS_KEYS[mine.job.kind][0]].values():
                spec["restartPolicy"] = "Never"
        self.jobs[mine.job.name] = mine
        self._scenario.create(KUBEFLOW, PLURALS[mine.job.kind], body)
        return f"submit {mine.job.kind}"

    def _new(self, name: str) -> UserJob:
        choose = self._random
        fate = choose.choice(_FATES)
        kind = choose.choice([each for each in _KINDS if each in self._scenario.optimus.plurals])
        counts = choose.randint(1, 2), choose.randint(1, 3)
        cpu = choose.choice(("200m", "500m", "1"))
        requests = {
            role: {**SMALL, "cpu": cpu if role == "Worker" else "200m"}
            for role in ("PS", "Worker", "Scheduler")
        }
        annotations: dict[str, str] | None = {
            "optimus.dl/target-loss": choose.choice(("0.081", "0.2", "0.5")),
            "optimus.dl/rescale": choose.choice(("any", "any", "checkpoint", "never")),
            "optimus.dl/at-target": choose.choice(("continue", "suspend")),
            "optimus.dl/steps-per-epoch": "10",
            "optimus.dl/training-mode": "sync" if kind == "TFJob" else "async",
            "optimus.dl/max-ps": "3",
            "optimus.dl/max-workers": "5",
        }
        managed = choose.random() < 0.8
        if not managed:
            annotations = choose.choice(
                ({**(annotations or {}), "optimus.dl/manage": "recommend"}, None)
            )
        job = LightJob(
            kind,
            name,
            *counts,
            annotations=annotations,
            requests=requests,
            flags={
                "--epochs": str(choose.randint(5, 30)) if fate == "ends" else "0",
                "--examples-per-epoch": "640",
            },
        )
        if fate == "fails":
            job = replace(job, script=_FAILS)
        elif annotations is None:
            job, fate = replace(job, script=SLEEP), "endless"
        return UserJob(job, fate, managed, changed_at=time.monotonic())

    def _delete(self) -> str:
        mine = self._any()
        if mine is None:
            return ""
        self._scenario.delete(mine.job)
        del self.jobs[mine.job.name]
        return "delete"

    def _change_bounds(self) -> str:
        ps, workers = self._random.randint(1, 3), self._random.randint(1, 5)
        exact = self._random.random() < 0.5
        wanted = bounds((ps, workers))
        if not exact:
            wanted |= {"optimus.dl/min-ps": "1", "optimus.dl/min-workers": "1"}
        return self._annotate("change bounds", wanted)

    def _change_goal(self) -> str:
        target = self._random.choice(("0.081", "0.3", "nonsense", "1.5"))
        return self._annotate("change goal", {"optimus.dl/target-loss": target})

    def _pause(self) -> str:
        return self._annotate(
            "pause or go on", {"optimus.dl/pause": self._random.choice(("true", "false"))}
        )

    def _annotate(self, what: str, annotations: dict[str, str]) -> str:
        mine = self._any(lambda each: each.managed)
        if mine is None:
            return ""
        mine.changed_at = time.monotonic()
        self._patch(mine, {"metadata": {"annotations": annotations}})
        return what

    def _suspend_or_resume(self) -> str:
        mine = self._any(lambda each: each.fate != "fails")
        if mine is None:
            return ""
        if mine.suspended and self._scenario.pods(mine.job):
            return ""  # as the user guide says: resumed beside its old pods it would fail
        self._set_suspended(mine, suspended=not mine.suspended)
        return "suspend" if mine.suspended else "resume"

    def _wait_for_no_pods(self, mine: UserJob) -> None:
        def is_stopped() -> bool:
            """An ended job keeps its pods."""
            ended = self._scenario.conditions(mine.job) & {"Succeeded", "Failed"}
            return bool(ended) or not self._scenario.pods(mine.job)

        self._scenario.wait(is_stopped, f"{mine.job.name} has stopped")

    def _set_suspended(self, mine: UserJob, *, suspended: bool) -> None:
        mine.changed_at = time.monotonic()
        # The mark goes too, as the user guide says: the job is its user's then.
        annotations = {"optimus.dl/suspended-by": None}
        body = {"metadata": {"annotations": annotations}}
        self._patch(mine, {**body, "spec": {"runPolicy": {"suspend": suspended}}})
        mine.suspended = suspended

    def _apply_old_manifest(self) -> str:
        """What ``kubectl apply`` of the file does to the counts; a policy denies what is unsafe."""
        if self._scenario.optimus.cluster.backend is Backend.EMBEDDED:
            return ""  # it evaluates no policies, and the operator fails a job that shrinks
        mine = self._any(lambda each: each.managed)
        if mine is None:
            return ""
        specs, ps = PS_KEYS[mine.job.kind]
        mine.disturbed_at = time.monotonic()
        replicas = {
            ps: {"replicas": mine.job.ps},
            "Worker": {"replicas": mine.job.workers},
        }
        try:
            self._patch(mine, {"spec": {specs: replicas}})
        except ApiException as error:
            if error.status != 403:
                raise
            return "apply the old manifest: denied"
        return "apply the old manifest"

    def _patch(self, mine: UserJob, body: Json) -> None:
        self._scenario.api.patch(self._scenario.path(mine.job), body)

    def _any(self, which: Callable[[UserJob], bool] = lambda _: True) -> UserJob | None:
        found = [each for each in self.jobs.values() if which(each)]
        return self._random.choice(found) if found else None

    # --- administrators

    def _cordon_or_uncordon(self) -> str:
        if self._cordoned and self._random.random() < 0.6:
            self._set_unschedulable(self._random.choice(self._cordoned), unschedulable=False)
            return "uncordon"
        free = [each for each in self._nodes if each not in self._cordoned]
        if len(free) < 2:
            return ""
        self._set_unschedulable(self._random.choice(free), unschedulable=True)
        return "cordon"

    def _drain(self) -> str:
        if not self._cordoned:
            return ""
        node = self._random.choice(self._cordoned)
        for pod in self._scenario.pods():
            if pod["spec"].get("nodeName") != node:
                continue
            name, owner = pod["metadata"]["name"], pod["metadata"]["ownerReferences"][0]["name"]
            if owner in self.jobs:
                self.jobs[owner].excused = f"{name} was drained from {node}"
                self.jobs[owner].disturbed_at = time.monotonic()
            self._scenario.api.delete(in_namespace(CORE, self._scenario.namespace, "pods", name))
        return "drain"

    def _set_unschedulable(self, node: str, *, unschedulable: bool) -> None:
        body = {"spec": {"unschedulable": unschedulable or None}}
        self._scenario.api.patch(f"{CORE}/nodes/{node}", body)
        if unschedulable:
            self._cordoned.append(node)
            self.cordoned_at = time.monotonic()
        else:
            self._cordoned.remove(node)
