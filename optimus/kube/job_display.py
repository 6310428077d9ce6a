"""What the page shows of one job from the API server: the Events on it and its pods, its YAML.

The page asks nobody who they are, so it shows only what cannot be a secret. The YAML is made of
the fields listed here: no value of an environment variable, no command, no probe, no annotation of
others. Both answers are bounded, because whoever may write an object also chooses its size.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from optimus.jobs import JobKey
from optimus.kube.contract import GROUP
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.job_events import READ_SECONDS, BoundedSource, DisplayedJob, read_job_events
from optimus.kube.job_facts import EventFacts
from optimus.kube.results import Refused, answer_of
from optimus.kube.training_jobs import job_path

MOST_JOB_BYTES: Final = 1 << 18
LONGEST_YAML: Final = 1 << 15
"""Characters of JSON: YAML of 32 KiB takes some 50 ms to write."""

_ALL: Final = None
_HIDDEN: Final = object()
_CONTAINERS: Final = {
    "name": _ALL,
    "image": _ALL,
    "imagePullPolicy": _ALL,
    "resources": _ALL,
    "ports": _ALL,
    "volumeMounts": _ALL,
    "env": {"name": _ALL},
}
_POD: Final = {
    "affinity": _ALL,
    "containers": _CONTAINERS,
    "hostNetwork": _ALL,
    "initContainers": _CONTAINERS,
    "nodeSelector": _ALL,
    "priorityClassName": _ALL,
    "resourceClaims": _ALL,
    "restartPolicy": _ALL,
    "runtimeClassName": _ALL,
    "schedulerName": _ALL,
    "serviceAccountName": _ALL,
    "terminationGracePeriodSeconds": _ALL,
    "tolerations": _ALL,
    "topologySpreadConstraints": _ALL,
    "volumes": {
        "name": _ALL,
        "configMap": {"name": _ALL},
        "emptyDir": _ALL,
        "persistentVolumeClaim": _ALL,
        "secret": {"secretName": _ALL},
    },
}
_ROLE: Final = {
    "replicas": _ALL,
    "restartPolicy": _ALL,
    "template": {"metadata": {"labels": _ALL}, "spec": _POD},
}
_REPLICATED_JOB: Final = {
    "name": _ALL,
    "replicas": _ALL,
    "dependsOn": _ALL,
    "template": {
        "spec": {
            "parallelism": _ALL,
            "completions": _ALL,
            "completionMode": _ALL,
            "backoffLimit": _ALL,
            "template": _ROLE["template"],
        }
    },
}
_SHOWN: Final[Mapping[str, Any]] = {
    "apiVersion": _ALL,
    "kind": _ALL,
    "metadata": {
        "name": _ALL,
        "namespace": _ALL,
        "uid": _ALL,
        "creationTimestamp": _ALL,
        "labels": _ALL,
        "annotations": {f"{GROUP}/*": _ALL},
    },
    "spec": {
        "runPolicy": _ALL,
        "jobMode": _ALL,
        "successPolicy": _ALL,
        "enableDynamicWorker": _ALL,
        "tfReplicaSpecs": {"*": _ROLE},
        "mxReplicaSpecs": {"*": _ROLE},
        "pytorchReplicaSpecs": {"*": _ROLE},
        "replicatedJobs": _REPLICATED_JOB,
        "suspend": _ALL,
        "startupPolicy": _ALL,
        "failurePolicy": _ALL,
    },
    "status": _ALL,
}
"""The fields that are shown; ``*`` stands for any name, ``PREFIX/*`` for those with a prefix."""


class StoredJobText(msgspec.Struct, frozen=True, kw_only=True):
    """One job as the API server has it. ``problems`` say what could not be read."""

    job: str = ""
    """Its name: Events are about it, or else about its pods."""

    events: tuple[EventFacts, ...] = ()
    """The newest first."""

    yaml: str = ""
    problems: tuple[str, ...] = ()


class JobDisplay:
    """Reads one job for the page; safe to use from several threads."""

    def __init__(self, client: BoundedSource) -> None:
        self._client = client

    def read(self, job: DisplayedJob) -> StoredJobText:
        """The Events on a job and its pods, and its YAML."""
        found = read_job_events(self._client, job)
        text = answer_of(lambda: self._yaml(job.kind, job.key))
        refused = (str(text),) if isinstance(text, Refused) else ()
        return StoredJobText(
            job=job.key.name,
            events=found.events,
            yaml="" if isinstance(text, Refused) else text,
            problems=(*found.problems, *refused),
        )

    def _yaml(self, kind: str, key: JobKey) -> str:
        what, path = f"read {kind} {key}", job_path(kind, key.namespace, key.name)
        body = self._client.get(what, path, (), READ_SECONDS, MOST_JOB_BYTES)
        try:
            stored = msgspec.json.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise KubeError(ErrorKind.INVALID, f"cannot {what}: {error}") from error
        shown = shown_fields(stored)
        if len(msgspec.json.encode(shown)) > LONGEST_YAML:
            raise KubeError(ErrorKind.INVALID, f"the YAML of {key} is too long for this page")
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)


def shown_fields(stored: Any) -> Any:
    """The part of a job that cannot hold a secret."""
    return _kept(stored, _SHOWN)


def _kept(value: Any, shown: Mapping[str, Any] | None) -> Any:
    if shown is _ALL:
        return value
    if isinstance(value, list):
        return [_kept(one, shown) for one in value]
    if not isinstance(value, dict):
        return None  # another type than a training job has here
    rules = {name: _rule(shown, name) for name in value}
    return {
        name: _kept(part, rules[name]) for name, part in value.items() if rules[name] is not _HIDDEN
    }


def _rule(shown: Mapping[str, Any], name: str) -> Any:
    prefix = name.partition("/")[0]
    return shown.get(name, shown.get(f"{prefix}/*", shown.get("*", _HIDDEN)))
