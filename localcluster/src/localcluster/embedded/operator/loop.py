"""The operator's thread: reconciles a job whenever it, a pod or a service of it changes.

It acts on caches that lag behind, as the real operator does: what it creates may be there already,
and a write may be refused because the job has changed. Such a job is reconciled again later."""

import logging
import threading
import time
from functools import partial
from typing import Any
from urllib.parse import quote

from localcluster.api_calls import ApiCalls, object_path
from localcluster.embedded.operator.jobs import OPERATOR_KINDS, Job, read_job
from localcluster.embedded.operator.pod_factory import LABELS
from localcluster.embedded.operator.reconcile import (
    Action,
    Create,
    Delete,
    EmitEvent,
    WriteStatus,
    reconcile,
)
from localcluster.embedded.operator.status_rules import is_true
from localcluster.embedded.raw_objects import Json, RawObject, raw_objects
from optimus.kube.client import Client, path_of
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.events import EventType, EventWriter
from optimus.kube.job_kinds import API_VERSION, OPERATOR_GROUP, OPERATOR_VERSION
from optimus.kube.reflector import Reflector, ReflectorConfig
from optimus.kube.store import Changes
from optimus.kube.times import format_second

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
_IDLE_SECONDS = 0.02

Key = tuple[str, str, str]
"""Kind, namespace and name of a job."""


class Operator:
    """Reconciles every TFJob, MXJob and PyTorchJob; ``run`` returns after ``stop``."""

    def __init__(self, client: Client, config: ReflectorConfig | None = None) -> None:
        self._api = ApiCalls(client)
        self._changes = Changes()
        self._lock = threading.Lock()
        self._due: dict[Key, float] = {}
        self._stopping = threading.Event()
        self._reported: set[tuple[str, str]] = set()
        self._events = {
            name: EventWriter(client, kind.controller) for name, kind in OPERATOR_KINDS.items()
        }
        controllers = ", ".join(each.controller for each in OPERATOR_KINDS.values())
        selector = f"{LABELS}/operator-name in ({controllers})"

        cache = partial(Reflector[RawObject], client, config=config, changes=self._changes)
        job = partial(raw_objects, OPERATOR_GROUP, OPERATOR_VERSION)
        child = partial(raw_objects, "", "v1", label_selector=selector)
        self._jobs = {
            name: cache(job(each.kind.plural, name), observer=self._job_changed)
            for name, each in OPERATOR_KINDS.items()
        }
        self._pods = cache(child("pods", "Pod"), observer=self._child_changed)
        self._services = cache(child("services", "Service"), observer=self._child_changed)
        self._caches = (*self._jobs.values(), self._pods, self._services)

    def stop(self) -> None:
        """Make ``run`` return."""
        self._stopping.set()
        self._changes.notify()

    def run(self) -> None:
        """Print `ready` once it knows all jobs, and reconcile what is due until stopped."""
        for cache in self._caches:
            cache.start()
        while not self._stopping.is_set() and not all(each.synced for each in self._caches):
            self._changes.wait(self._changes.count, _IDLE_SECONDS)
        print("ready", flush=True)
        seen = -1
        while not self._stopping.is_set():
            seen = self._changes.wait(seen, _RETRY_SECONDS)
            for key in self._take_due(time.monotonic()):
                self._reconcile_safely(key)
        for cache in self._caches:
            cache.stop()

    # --- what is due

    def _job_changed(self, before: RawObject | None, after: RawObject | None) -> None:
        job = after or before
        if job is not None:
            self._mark_due((job.kind, job.namespace, job.name), 0.0)

    def _child_changed(self, before: RawObject | None, after: RawObject | None) -> None:
        for child in filter(None, (before, after)):
            owner = _controller(child.body)
            if owner is not None:
                self._mark_due((owner["kind"], child.namespace, owner["name"]), 0.0)

    def _mark_due(self, key: Key, at: float) -> None:
        with self._lock:
            self._due[key] = min(at, self._due.get(key, at))

    def _take_due(self, now: float) -> list[Key]:
        with self._lock:
            due = [key for key, at in self._due.items() if at <= now]
            for key in due:
                del self._due[key]
        return due

    # --- one job

    def _reconcile_safely(self, key: Key) -> None:
        try:
            self._reconcile(*key)
        except KubeError as error:
            expected = error.kind in (ErrorKind.CONFLICT, ErrorKind.EXISTS)
            _LOG.log(logging.DEBUG if expected else logging.WARNING, "%s", error.sentence)
            self._mark_due(key, time.monotonic() + _RETRY_SECONDS)
        except Exception:  # noqa: BLE001 -- one bad job must not stop the others
            _LOG.exception("%s %s/%s cannot be reconciled", *key)

    def _reconcile(self, kind: str, namespace: str, name: str) -> None:
        found = self._jobs[kind].find(namespace, name) if kind in self._jobs else None
        if found is None or "deletionTimestamp" in found.body["metadata"]:
            return
        job = read_job(OPERATOR_KINDS[kind], found.body)
        if isinstance(job, str):
            # The real operator calls an invalid MXJob by the name of a third kind.
            reason = f"{'MPIJob' if kind == 'MXJob' else kind}FailedValidation"
            self._warn_once(found, reason, f"{kind} failed validation because {job}")
            return
        pods = [body for body in self._pods_of(job) if _controls(job, body)]
        services = [each.body for each in self._services.items() if _controls(job, each.body)]
        for action in reconcile(job, pods, services, format_second(time.time())):
            self._do(job, action)

    def _pods_of(self, job: Job) -> list[Json]:
        if job.policy.get("suspend") or not is_true(job.body.get("status") or {}, "Suspended"):
            return [each.body for each in self._pods.items()]
        # A pod that is gone, and still in a lagging cache, would fail the resumed job for good.
        # The real operator's caches lag by less than the time that anybody needs to resume a job.
        selector = quote(f"{LABELS}/job-name={job.name}")
        path = object_path("pods", job.namespace)
        pods: list[Json] = self._api.get(f"{path}?labelSelector={selector}")["items"]
        return pods

    def _do(self, job: Job, action: Action) -> None:
        match action:
            case Create(body):
                self._create(job, body)
            case Delete(kind, name, uid):
                self._delete(job, kind, name, {"preconditions": {"uid": uid}} if uid else {})
            case WriteStatus(status):
                path = path_of(
                    OPERATOR_GROUP, OPERATOR_VERSION, job.kind.kind.plural, job.namespace
                )
                self._api.replace(f"{path}/{job.name}/status", {**job.body, "status": status})
            case EmitEvent(kind, reason, message):
                self._emit(RawObject(job.body), kind, reason, message)

    def _create(self, job: Job, body: Json) -> None:
        kind: str = body["kind"]
        path = object_path(f"{kind.lower()}s", job.namespace)
        try:
            self._api.create(path, body)
        except KubeError as error:
            if error.kind is not ErrorKind.EXISTS:
                why = error.sentence.removeprefix(f"cannot POST {path}: ").rpartition(" (HTTP ")[0]
                message = f"Error creating: {why or error.sentence}"
                self._warn_once(RawObject(job.body), f"FailedCreate{kind}", message)
            raise
        created = f"Created {kind.lower()}: {body['metadata']['name']}"
        self._emit(RawObject(job.body), "Normal", f"SuccessfulCreate{kind}", created)

    def _delete(self, job: Job, kind: str, name: str, options: Json) -> None:
        try:
            self._api.delete(object_path(f"{kind.lower()}s", job.namespace, name), options)
        except KubeError as error:
            if error.kind not in (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT):
                raise
            return
        deleted = f"Deleted {kind.lower()}: {name}"
        self._emit(RawObject(job.body), "Normal", f"SuccessfulDelete{kind}", deleted)

    def _warn_once(self, job: RawObject, reason: str, message: str) -> None:
        if (job.uid, message) not in self._reported:
            self._reported.add((job.uid, message))
            self._emit(job, "Warning", reason, message)

    def _emit(self, job: RawObject, kind: str, reason: str, message: str) -> None:
        self._events[job.kind].emit(job, EventType(kind), reason, message)


def _controller(body: Json) -> dict[str, Any] | None:
    owners = body["metadata"].get("ownerReferences") or ()
    return next(
        (each for each in owners if each.get("controller") and each["apiVersion"] == API_VERSION),
        None,
    )


def _controls(job: Job, body: Json) -> bool:
    owner = _controller(body)
    labels = body["metadata"].get("labels") or {}
    created = labels.get(f"{LABELS}/operator-name") == job.kind.controller
    return created and owner is not None and owner["uid"] == job.uid
