"""A job as the operator sees it: validated, with defaults applied in memory."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from localcluster.embedded.raw_objects import Json
from optimus.kube import job_kinds
from optimus.kube.job_kinds import JobKind


@dataclass(frozen=True)
class OperatorKind:
    """What the operator knows of a job kind beyond `job_kinds`."""

    kind: JobKind
    port_name: str
    port: int
    roles: tuple[str, ...]
    restart_policy: str = "Never"
    """That of a role that names none."""

    @property
    def controller(self) -> str:
        """The value of the label that says who created a pod."""
        return f"{self.kind.name.lower()}-controller"


TFJOB: Final = OperatorKind(
    job_kinds.TFJOB, "tfjob-port", 2222, ("PS", "Worker", "Chief", "Master", "Evaluator")
)
MXJOB: Final = OperatorKind(job_kinds.MXJOB, "mxjob-port", 9091, ("Scheduler", "Server", "Worker"))
PYTORCHJOB: Final = OperatorKind(
    job_kinds.PYTORCHJOB, "pytorchjob-port", 23456, ("Master", "Worker"), "OnFailure"
)
OPERATOR_KINDS: Final = {each.kind.name: each for each in (TFJOB, MXJOB, PYTORCHJOB)}


@dataclass(frozen=True)
class Role:
    """One entry of a job's replica specs, with defaults; ``name`` is in camel case."""

    name: str
    replicas: int
    restart_policy: str
    template: Json

    @property
    def label(self) -> str:
        """The role as names and labels have it."""
        return self.name.lower()


@dataclass(frozen=True)
class Job:
    """One job. ``body`` is the stored object; everything else is read from it."""

    kind: OperatorKind
    body: Json
    roles: Mapping[str, Role]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.body["metadata"]["uid"])

    @property
    def policy(self) -> Json:
        """Its run policy as written."""
        policy: Json = self.body["spec"].get("runPolicy") or {}
        return policy

    def has_chief(self) -> bool:
        """Tell whether a chief or master decides its outcome."""
        return "Chief" in self.roles or "Master" in self.roles


def read_job(kind: OperatorKind, body: Json) -> Job | str:
    """Return the job with its defaults, or the sentence why it is not valid."""
    specs: Json = body["spec"].get(kind.kind.replica_specs) or {}
    if wrong := _specs_fault(kind, specs):
        return wrong
    roles = [_role(kind, key, spec) for key, spec in specs.items()]
    return Job(kind, body, {role.name: role for role in roles})


def _role(kind: OperatorKind, key: str, spec: Json) -> Role:
    name = next((role for role in kind.roles if role.lower() == key.lower()), key)
    template = copy.deepcopy(spec["template"])
    containers = template["spec"]["containers"]
    main = next(
        (each for each in containers if each.get("name") == kind.kind.container), containers[0]
    )
    ports = main.get("ports") or []
    if not any(port.get("name") == kind.port_name for port in ports):
        main["ports"] = [*ports, {"name": kind.port_name, "containerPort": kind.port}]
    replicas = spec.get("replicas")
    policy = spec.get("restartPolicy") or kind.restart_policy
    return Role(name, 1 if replicas is None else replicas, policy, template)


def _specs_fault(kind: OperatorKind, specs: Json) -> str:
    faults = [fault for role, spec in specs.items() if (fault := _spec_fault(kind, role, spec))]
    return f"{kind.kind.name}Spec is not valid{''.join(faults[:1])}" if faults or not specs else ""


def _spec_fault(kind: OperatorKind, role: str, spec: Json | None) -> str:
    containers = ((spec or {}).get("template") or {}).get("spec", {}).get("containers") or []
    if not containers:
        return f": containers definition expected in {role}"
    if not any(each.get("name") == kind.kind.container for each in containers):
        return f": There is no container named {kind.kind.container} in {role}"
    return ""
