"""A job as the operator sees it: validated, with defaults applied in memory."""

import copy
import re
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

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


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
        """Whether a chief or master decides its outcome."""
        return "Chief" in self.roles or "Master" in self.roles


def read_job(kind: OperatorKind, body: Json) -> Job | str:
    """The job with its defaults, or the sentence why it is not valid."""
    specs: Json = body["spec"].get(kind.kind.replica_specs) or {}
    wrong = _name_fault(kind, str(body["metadata"]["name"])) or _specs_fault(kind, specs)
    if wrong:
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


def _name_fault(kind: OperatorKind, name: str) -> str:
    if len(name) <= 63 and _DNS_1035.fullmatch(name):
        return ""
    return (
        f"{kind.kind.name} name is invalid: [a DNS-1035 label must consist of lower case "
        "alphanumeric characters or '-', start with an alphabetic character, and end with an "
        "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
        "'[a-z]([-a-z0-9]*[a-z0-9])?')]"
    )


def _specs_fault(kind: OperatorKind, specs: Json) -> str:
    faults = [fault for role, spec in specs.items() if (fault := _spec_fault(kind, role, spec))]
    if not specs or faults:
        # The real operator says of an MXJob no more than that.
        return f"{kind.kind.name}Spec is not valid" + ("" if kind is MXJOB else "".join(faults[:1]))
    if sum(role in ("Chief", "Master") for role in specs) > 1 and kind is TFJOB:
        return "TFJobSpec is not valid: more than 1 chief/master found"
    if kind is PYTORCHJOB and (specs.get("Master") or {}).get("replicas", 1) != 1:
        return "PyTorchJobSpec is not valid: There must be only 1 master replica"
    return ""


def _spec_fault(kind: OperatorKind, role: str, spec: Json | None) -> str:
    containers = ((spec or {}).get("template") or {}).get("spec", {}).get("containers") or []
    if not containers:
        return f": containers definition expected in {role}"
    if not all(each.get("image") for each in containers):
        return f": Image is undefined in the container of {role}"
    if not any(each.get("name") == kind.kind.container for each in containers):
        return f": There is no container named {kind.kind.container} in {role}"
    return ""
