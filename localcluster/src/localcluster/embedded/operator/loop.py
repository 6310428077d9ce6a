"""The operator's thread: whenever something of a job changes, look at that job once and do what
follows.

It acts on copies that lag behind, as the real operator does: what it creates may be there already,
and what it writes may be refused because the job has changed. Both are looked at again when the
copies have caught up."""

import json
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from localcluster.embedded.events import emit_event
from localcluster.embedded.operator.actions import (
    Action,
    CreatePod,
    CreateService,
    DeletePod,
    DeleteService,
    Tell,
    WriteStatus,
)
from localcluster.embedded.operator.conditions import is_true
from localcluster.embedded.operator.jobs import ALL_RULES, Job, Json, Rules, read_job
from localcluster.embedded.operator.pod_factory import LABELS
from localcluster.embedded.operator.reconcile import reconcile
from localcluster.embedded.raw_objects import RawObject, raw_objects
from optimus.kube.client import Client, path_of
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.reflector import Reflector, ReflectorConfig
from optimus.kube.store import Changes

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS = 0.5
"""After a refusal, a job is looked at again so much later, changes or not."""

Key = tuple[str, str, str]
"""Kind, namespace and name of a job."""


class Operator:
    """Reconciles every TFJob and MXJob; ``run`` returns after ``stop``."""

    def __init__(self, client: Client, rules: ReflectorConfig | None = None) -> None:
        self._client = client
        self._changes = Changes()
        self._lock = threading.Lock()
        self._due: dict[Key, float] = {}
        self._stopping = threading.Event()
        self._told_wrong: set[tuple[Key, str]] = set()
        kinds = ", ".join(each.controller for each in ALL_RULES)
        selector = f"{LABELS}/operator-name in ({kinds})"
        self._jobs = {
            each.kind: Reflector(
                client,
                raw_objects("kubeflow.org", "v1", each.plural, each.kind),
                config=rules,
                changes=self._changes,
                observer=self._saw_job,
            )
            for each in ALL_RULES
        }
        self._pods, self._services = (
            Reflector(
                client,
                raw_objects("", "v1", plural, kind, label_selector=selector),
                config=rules,
                changes=self._changes,
                observer=self._saw_child,
            )
            for plural, kind in (("pods", "Pod"), ("services", "Service"))
        )

    @property
    def _copies(self) -> tuple[Reflector[RawObject], ...]:
        return (*self._jobs.values(), self._pods, self._services)

    @property
    def ready(self) -> bool:
        """Whether every copy has been filled once."""
        return all(copy.synced for copy in self._copies)

    def stop(self) -> None:
        """Make ``run`` return."""
        self._stopping.set()
        self._changes.notify()

    def run(self) -> None:
        """Look at what is due until stopped."""
        for copy in self._copies:
            copy.start()
        seen = -1
        while not self._stopping.is_set():
            seen = self._changes.wait(seen, _AGAIN_SECONDS)
            if self.ready:
                self._look_at_all(self._take_due(time.monotonic()))
        for copy in self._copies:
            copy.stop()

    # --- what is due

    def _saw_job(self, before: RawObject | None, after: RawObject | None) -> None:
        seen = after or before
        if seen is not None:
            self._mark((str(seen.body["kind"]), seen.namespace, seen.name), 0.0)

    def _saw_child(self, before: RawObject | None, after: RawObject | None) -> None:
        for seen in filter(None, (before, after)):
            owner = _controller(seen.body)
            if owner is not None:
                self._mark((owner["kind"], seen.namespace, owner["name"]), 0.0)

    def _mark(self, key: Key, at: float) -> None:
        with self._lock:
            self._due[key] = min(at, self._due.get(key, at))

    def _take_due(self, now: float) -> list[Key]:
        with self._lock:
            due = [key for key, at in self._due.items() if at <= now]
            for key in due:
                del self._due[key]
        return due

    # --- one job

    def _look_at_all(self, keys: Iterable[Key]) -> None:
        for key in keys:
            try:
                self._look_at(key)
            except KubeError as error:
                level = (
                    logging.DEBUG
                    if error.kind in (ErrorKind.CONFLICT, ErrorKind.EXISTS)
                    else logging.WARNING
                )
                _LOG.log(level, "%s", error.sentence)
                self._mark(key, time.monotonic() + _AGAIN_SECONDS)
            except Exception:  # noqa: BLE001 -- one bad job must not stop the others
                _LOG.exception("%s %s/%s cannot be reconciled", *key)

    def _look_at(self, key: Key) -> None:
        kind, namespace, name = key
        rules = next((each for each in ALL_RULES if each.kind == kind), None)
        found = self._jobs[kind].find(namespace, name) if rules else None
        if rules is None or found is None or "deletionTimestamp" in found.body["metadata"]:
            return
        job = read_job(rules, found.body)
        if isinstance(job, str):
            self._tell_wrong(key, rules, found.body, job)
            return
        pods = [body for body in self._pods_of(job) if _controls(job, body)]
        services = [each.body for each in self._services.items() if _controls(job, each.body)]
        for action in reconcile(
            job, pods, services, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ):
            self._do(job, action)

    def _pods_of(self, job: Job) -> list[Json]:
        if job.policy.get("suspend") or not is_true(job.body.get("status") or {}, "Suspended"):
            return [each.body for each in self._pods.items()]
        # A pod that is gone, and still in a copy that lags, would fail the resumed job for good.
        # The real operator's copies lag by less than the time that anybody needs to resume a job.
        query = [("labelSelector", f"{LABELS}/job-name={job.name}")]
        body = self._client.get(
            f"list the pods of {job.name}", path_of("", "v1", "pods", job.namespace), query
        )
        found: list[Json] = json.loads(body)["items"]
        return found

    def _tell_wrong(self, key: Key, rules: Rules, body: Json, why: str) -> None:
        if (key, why) in self._told_wrong:
            return
        self._told_wrong.add((key, why))
        # The real operator calls an invalid MXJob by the name of a third kind.
        reason = f"{'MPIJob' if rules.kind == 'MXJob' else rules.kind}FailedValidation"
        self._emit(body, rules, "Warning", reason, f"{rules.kind} failed validation because {why}")

    def _tell_once(self, job: Job, reason: str, message: str) -> None:
        """Say what is wrong with a job's template; the real operator counts the same Event up
        instead."""
        key = (job.rules.kind, job.namespace, job.uid)
        if (key, message) not in self._told_wrong:
            self._told_wrong.add((key, message))
            self._emit(job.body, job.rules, "Warning", reason, message)

    # --- acting

    def _do(self, job: Job, action: Action) -> None:
        core: Any = self._client.core
        match action:
            case CreatePod(body):
                self._create(job, "Pod", core.create_namespaced_pod, body)
            case CreateService(body):
                self._create(job, "Service", core.create_namespaced_service, body)
            case DeletePod(name, uid):
                self._delete(
                    job, "Pod", core.delete_namespaced_pod, name, {"preconditions": {"uid": uid}}
                )
            case DeleteService(name):
                self._delete(job, "Service", core.delete_namespaced_service, name, None)
            case WriteStatus(status):
                self._write_status(job, status)
            case Tell(kind, reason, message):
                self._emit(job.body, job.rules, kind, reason, message)

    def _create(self, job: Job, kind: str, method: Any, body: Json) -> None:
        name = body["metadata"]["name"]
        what = f"create {kind.lower()} {name} of {job.namespace}/{job.name}"
        try:
            self._client.call(what, method, namespace=job.namespace, body=body)
        except KubeError as error:
            if error.kind is not ErrorKind.EXISTS:
                why = error.sentence.removeprefix(f"cannot {what}: ").rpartition(" (HTTP ")[0]
                self._tell_once(
                    job, f"FailedCreate{kind}", f"Error creating: {why or error.sentence}"
                )
            raise
        self._emit(
            job.body,
            job.rules,
            "Normal",
            f"SuccessfulCreate{kind}",
            f"Created {kind.lower()}: {name}",
        )

    def _delete(self, job: Job, kind: str, method: Any, name: str, options: Json | None) -> None:
        try:
            what = f"delete {kind.lower()} {name} of {job.namespace}/{job.name}"
            self._client.call(what, method, name=name, namespace=job.namespace, body=options)
        except KubeError as error:
            if error.kind not in (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT):
                raise
            return
        self._emit(
            job.body,
            job.rules,
            "Normal",
            f"SuccessfulDelete{kind}",
            f"Deleted {kind.lower()}: {name}",
        )

    def _write_status(self, job: Job, status: Json) -> None:
        self._client.call(
            f"write the status of {job.rules.kind} {job.namespace}/{job.name}",
            self._client.custom.replace_namespaced_custom_object_status,
            group="kubeflow.org",
            version="v1",
            namespace=job.namespace,
            plural=job.rules.plural,
            name=job.name,
            body={**job.body, "status": status},
        )

    def _emit(self, body: Json, rules: Rules, kind: str, reason: str, message: str) -> None:
        about: Mapping[str, str] = {
            "apiVersion": "kubeflow.org/v1",
            "kind": rules.kind,
            "name": body["metadata"]["name"],
            "namespace": body["metadata"]["namespace"],
            "uid": body["metadata"]["uid"],
        }
        emit_event(self._client, rules.controller, about, (kind, reason, message))


def _controller(body: Json) -> Json | None:
    owners = body["metadata"].get("ownerReferences") or ()
    return next(
        (
            each
            for each in owners
            if each.get("controller") and each["apiVersion"] == "kubeflow.org/v1"
        ),
        None,
    )


def _controls(job: Job, body: Json) -> bool:
    owner = _controller(body)
    labels = body["metadata"].get("labels") or {}
    mine = labels.get(f"{LABELS}/operator-name") == job.rules.controller
    return mine and owner is not None and owner["uid"] == job.uid
