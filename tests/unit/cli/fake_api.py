"""An API server for the commands that ask a cluster: it holds objects and notes patches."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.job_kinds import JOBSET_NAME
from optimus.kube.profile_codec import SavedState, pack
from optimus.kube.server_clock import ServerClock
from optimus.kube.stored_settings import ClusterSettings
from optimus.lifecycle import JobRecord
from optimus.progress.state import LogState
from tests.unit.autoscaler.web.sample_cluster import training
from tests.unit.kube.job_json import job_json

NOW = 1_767_225_900.0  # 2026-01-01T00:05:00Z


def refusal(what: str, verb: str, path: str) -> KubeError:
    """The error of a user who lacks a right, as an API server words it; to read is the verb get or
    list."""
    parts = path.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    where = "at the cluster scope"
    if rest[0] == "namespaces" and len(rest) > 2:
        where, rest = f'in the namespace "{rest[1]}"', rest[2:]
    plural = rest[0]
    name = f' "{rest[1]}"' if len(rest) > 1 else ""
    if verb == "read":
        verb = "get" if name else "list"
    said = (
        f'{plural}{group and "."}{group}{name} is forbidden: User "u" cannot {verb} resource'
        f' "{plural}" in API group "{group}" {where}'
    )
    return KubeError(ErrorKind.FORBIDDEN, f"cannot {what}: {said} (HTTP 403)")


_OTHERS = ("PyTorchJob", "JobSet")


def _labels(metadata: Any) -> Mapping[str, str]:
    return metadata.get("labels", {}) if isinstance(metadata, dict) else {}


def _selected(
    plural: str, items: Sequence[dict[str, Any]], selector: str
) -> Sequence[dict[str, Any]]:
    """The objects with a label; of pods, those of JobSets or all others."""
    key, _, value = selector.partition("=")
    labels = [(each, _labels(each["metadata"])) for each in items]
    if plural == "nodes" and selector:
        return [each for each, found in labels if found.get(key) == value]
    if plural == "pods" and selector:
        of_jobsets = key == JOBSET_NAME
        return [each for each, found in labels if (JOBSET_NAME in found) is of_jobsets]
    return items


@dataclass
class FakeApi:
    """Answers GETs of lists and of single objects, by plural."""

    jobs: Sequence[dict[str, Any]] = field(default_factory=lambda: [job_json(target_loss="0.2")])
    profiles: Sequence[dict[str, Any]] | None = ()
    """``None``: their CRD is not installed."""
    pods: Sequence[dict[str, Any]] = ()
    nodes: Sequence[dict[str, Any]] = ()
    quotas: Sequence[dict[str, Any]] = ()
    forbidden: Sequence[str] = ()
    missing: Sequence[str] = ("mxjobs", "pytorchjobs", "jobsets")
    others: Mapping[str, Any] = field(default_factory=dict)
    """Further objects by path."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """By the name of the pod, with timestamps."""
    gone: Sequence[str] = ()
    """Paths of those that are not there."""
    server_clock: ServerClock = field(default_factory=lambda: ServerClock(now=lambda: NOW))

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        read_seconds: float | None = None,
    ) -> bytes:
        del read_seconds
        if path.endswith("/log"):
            return self._log(what, path, dict(query))
        lists = {
            "tfjobs": [each for each in self.jobs if each.get("kind") not in _OTHERS],
            "mxjobs": (),
            "pytorchjobs": [each for each in self.jobs if each.get("kind") == "PyTorchJob"],
            "jobsets": [each for each in self.jobs if each.get("kind") == "JobSet"],
            "trainingprofiles": self.profiles,
            "pods": self.pods,
            "events": (),
            "nodes": self.nodes,
            "resourcequotas": self.quotas,
            "priorityclasses": (),
        }
        parts = path.strip("/").split("/")
        plural = next((each for each in reversed(parts) if each in lists), parts[-1])
        if plural in self.forbidden:
            raise refusal(what, "read", path)
        if path in self.others and path not in self.gone:
            return json.dumps(self.others[path]).encode()
        items = None if path.startswith("/apis/metrics.k8s.io") else lists.get(plural)
        if path in self.gone or items is None or plural in self.missing:
            raise KubeError(ErrorKind.NOT_FOUND, f"cannot {what}: not found (HTTP 404)")
        if parts[-1] == plural:
            items = _selected(plural, items, dict(query).get("labelSelector", ""))
            return json.dumps({"metadata": {"resourceVersion": "1"}, "items": list(items)}).encode()
        for item in items:
            if item["metadata"]["name"] == parts[-1]:
                return json.dumps(item).encode()
        raise KubeError(ErrorKind.NOT_FOUND, f"cannot {what}: not found (HTTP 404)")

    def _log(self, what: str, path: str, query: Mapping[str, str]) -> bytes:
        if "pods/log" in self.forbidden:
            verb = refusal(what, "get", path).sentence.replace(
                'resource "pods"', 'resource "pods/log"'
            )
            raise KubeError(ErrorKind.FORBIDDEN, verb)
        lines = self.logs[path.split("/")[-2]].splitlines(keepends=True)
        last = "".join(lines[-int(query.get("tailLines", len(lines))) :])
        return last.encode()[: int(query["limitBytes"])]


def stored_state(
    epochs: int = 14, kind: int = 0, settings: ClusterSettings | None = None, **record: Any
) -> str:
    """What the autoscaler stores of a job that has trained so many epochs, and by what ``settings``
    its counts are decided."""
    seen = training(kind, epochs)
    samples = [
        type(each)(each.counts, each.steps_per_second, each.seconds, NOW - 200 + 10 * n)
        for n, each in enumerate(seen.samples)
    ]
    log = LogState(
        losses=list(seen.losses),
        samples=samples,
        epoch=seen.epoch,
        step=seen.step,
        steps_per_epoch=seen.steps_per_epoch,
        trained_seconds=seen.trained_seconds,
    )
    decided_by = None if settings is None else settings.stored()
    return pack(SavedState(log, JobRecord(**record), decided_by))


def profile(name: str = "j", uid: str = "u", **status: Any) -> dict[str, Any]:
    """A profile as it is stored."""
    return {
        "metadata": {"name": name, "uid": f"profile-{name}", "namespace": "ns"},
        "spec": {"jobRef": {"kind": "TFJob", "name": name, "uid": uid}},
        "status": {"phase": "Training", "decidedAt": "2026-01-01T00:04:00Z", **status},
    }


def pod(index: int, node: str | None = "n", uid: str = "u") -> dict[str, Any]:
    """A pod of the job that requests two and a half cores."""
    requests = {"cpu": "2500m", "memory": "1Gi"}
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": uid}
    return {
        "metadata": {
            "name": f"j-worker-{index}",
            "uid": f"{uid}-{index}",
            "namespace": "ns",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": spec | ({} if node is None else {"nodeName": node}),
        "status": {"phase": "Running" if node else "Pending"},
    }
