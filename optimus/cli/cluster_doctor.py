"""``optimus doctor``: whether Optimus is installed and works on the cluster; of a log see
``log_doctor``.

Ten checks, each with one finding and the command that remedies it. What the user has no right to
see makes the answer incomplete; it says which rights are lacking."""

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from optimus.cli.cluster import add_arguments, connected
from optimus.cli.command import INCOMPLETE, Answer, BadInput, Implementation, Progress
from optimus.cli.table import table

if TYPE_CHECKING:  # loaded by the check that needs them
    from optimus.cli.job_facts import JobSource
    from optimus.cli.rights import Right

_LOG: Final = (
    "a log as the trainer prints it, also packed (.gz, .xz, .bz2), or - for standard input: what is"
    " read in it, as what, and which line of code is missing; without it the cluster is examined"
)
_OLDEST: Final = (1, 32)
_SKEW_SECONDS: Final = 5.0
_APPLY: Final = "kubectl apply --server-side -k manifests"
_APPLY_CRDS: Final = "kubectl apply --server-side -k manifests/crds"
_OPERATOR: Final = (
    "kubectl apply --server-side -k"
    " 'github.com/kubeflow/training-operator/manifests/overlays/standalone?ref=v1.9.3'"
)
_RESUME: Final = (
    '{"metadata":{"annotations":{"optimus.dl/suspended-by":null}},'
    '"spec":{"runPolicy":{"suspend":false}}}'
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found."""

    state: str
    """``ok``, ``warning``, ``problem``, or ``unknown`` where it could not be read."""
    text: str
    remedy: str = ""
    """The command, or the commands by line, that mend it."""
    lacks: "Right | None" = None
    """The missing right that leaves it unknown."""


@dataclass(slots=True)
class Installation:
    """What the checks read, each object once."""

    client: "JobSource"
    system: str
    """The namespace that Optimus is installed in."""
    _read: dict[str, Any] = field(default_factory=dict)

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        """The JSON of a GET; ``None``: it is not there.

        Raises:
            KubeError: it may not be read, or the server does not answer."""
        from optimus.kube.errors import ErrorKind, KubeError

        if path not in self._read:
            try:
                self._read[path] = json.loads(self.client.get(what, path, query))
            except KubeError as error:
                if error.kind is not ErrorKind.NOT_FOUND:
                    raise
                self._read[path] = None
        return self._read[path]

    def controller(self, name: str) -> dict[str, Any] | None:
        """The Deployment of this name; that of the extender is a DaemonSet."""
        plural = "daemonsets" if name == "optimus-extender" else "deployments"
        path = f"/apis/apps/v1/namespaces/{self.system}/{plural}/{name}"
        found: dict[str, Any] | None = self.get(f"read {plural} {self.system}/{name}", path)
        return found

    def scheduler(self) -> tuple[str, dict[str, Any] | None]:
        """The name and object of the own kube-scheduler, or of what runs beside the cluster's."""
        found = self.controller("optimus-scheduler")
        beside = None if found else self.controller("optimus-extender")
        return ("optimus-extender", beside) if beside else ("optimus-scheduler", found)

    def config_map(self, name: str) -> Mapping[str, str]:
        """The data of a ConfigMap of the system namespace."""
        path = f"/api/v1/namespaces/{self.system}/configmaps/{name}"
        body = self.get(f"read ConfigMap {self.system}/{name}", path)
        return (body or {}).get("data") or {}

    def setting(self, controller: dict[str, Any] | None, name: str, default: str = "") -> str:
        """The value of an environment variable of a controller's containers."""
        found = default
        for each in _containers(controller):
            for source in each.get("envFrom") or ():
                named = (source.get("configMapRef") or {}).get("name")
                found = (self.config_map(named) if named else {}).get(name, found)
            for item in each.get("env") or ():
                found = item.get("value", found) if item.get("name") == name else found
        return found


def _containers(controller: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    pod = ((controller or {}).get("spec") or {}).get("template", {}).get("spec", {})
    for kind in ("initContainers", "containers"):
        yield from pod.get(kind) or ()


def _version(found: Installation) -> Finding:
    text = str((found.get("read the API server's version", "/version") or {}).get("gitVersion", ""))
    numbers = re.match(r"v?(\d{1,4})\.(\d{1,4})", text)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _OLDEST:
        least = ".".join(map(str, _OLDEST))
        mend = "upgrade the control plane (kubeadm upgrade plan, or your provider's console)"
        return Finding("problem", f"{text}; {least} or newer is needed", mend)
    return Finding("ok", text)


def _kinds(found: Installation) -> Finding:
    from optimus.kube.contract import GROUP, PROFILES, VERSION, WORKLOAD_PROFILES

    served = _resources(found, GROUP, VERSION)
    wanted = [
        f"{plural}{sub}" for plural in (PROFILES, WORKLOAD_PROFILES) for sub in ("", "/status")
    ]
    lacking = [each for each in wanted if each not in served]
    if lacking:
        said = f"the API server does not serve {', '.join(lacking)} of {GROUP}/{VERSION}"
        return Finding("problem", said, _APPLY_CRDS)
    return Finding("ok", f"{PROFILES} and {WORKLOAD_PROFILES} are served as {VERSION}")


def _resources(found: Installation, group: str, version: str) -> set[str]:
    body = found.get(f"ask for the kinds of {group}/{version}", f"/apis/{group}/{version}") or {}
    return {str(each.get("name", "")) for each in body.get("resources") or ()}


def _operator(found: Installation) -> Finding:
    from optimus.kube.job_kinds import JOB_KINDS

    kinds = [
        kind.name
        for kind in JOB_KINDS.values()
        if kind.plural in _resources(found, kind.group, kind.version)
    ]
    if not kinds:
        text = "the API server has neither TFJobs nor MXJobs: the operator is not installed"
        return Finding("problem", text, _OPERATOR)
    operators = [
        each
        for each in _listed(found, "deployments", "/apis/apps/v1/deployments")
        if any("training-operator" in one.get("image", "") for one in _containers(each))
    ]
    for each in operators:
        if (state := _readiness(each)).state == "problem":
            return Finding("problem", f"{state.text}: no pod of a job is made", state.remedy)
    if not operators:
        text = "no Deployment has its image: is it installed under another name?"
        return Finding("warning", text, "kubectl get deployments -A | grep -i operator")
    return Finding("ok", ", ".join(kinds))


def _listed(
    found: Installation, what: str, path: str, query: Sequence[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (found.get(f"list {what}", path, query) or {}).get("items") or []
    return items


def _readiness(controller: dict[str, Any]) -> Finding:
    """Whether a controller's pods are ready. Pods are described only where there are some."""
    spec, status = controller.get("spec") or {}, controller.get("status") or {}
    name, namespace = controller["metadata"]["name"], controller["metadata"].get("namespace", "")
    kubectl, kind, ready = f"kubectl -n {namespace}", "deployment", status.get("readyReplicas", 0)
    wanted, exist = spec.get("replicas", 1), status.get("replicas", 0)
    if "desiredNumberScheduled" in status:
        kind, ready = "daemonset", status.get("numberReady", 0)
        wanted, exist = status["desiredNumberScheduled"], status.get("currentNumberScheduled", 0)
        if not wanted:
            text = f"no node has the labels that daemonset {name} selects"
            return Finding("problem", text, f"{kubectl} get daemonset {name} -o yaml")
    if not wanted:
        mend = f"{kubectl} scale deployment/{name} --replicas=2"
        return Finding("problem", f"deployment {name} is scaled to 0 replicas", mend)
    if not exist:
        text = f"none of the {wanted} pods of {kind} {name} is there"
        return Finding("problem", text, f"{kubectl} get events --sort-by=.lastTimestamp")
    state = "ok" if ready >= wanted else "warning" if ready else "problem"
    mend = "" if state == "ok" else f"{kubectl} describe {kind} {name}; {kubectl} get pods"
    return Finding(state, f"{ready} of {wanted} pods of {kind} {name} are ready", mend)


def _installed(found: Installation, name: str, controller: dict[str, Any] | None) -> Finding:
    text = f"there is no deployment {name} in namespace {found.system}"
    return Finding("problem", text, _APPLY) if controller is None else _readiness(controller)


def _autoscaler(found: Installation) -> Finding:
    return _installed(found, "optimus-autoscaler", found.controller("optimus-autoscaler"))


def _scheduler(found: Installation) -> Finding:
    return _installed(found, *found.scheduler())


def _lease(found: Installation, *, of: str) -> Finding:
    """Return whether the Lease of one of the two processes is held."""
    from optimus.kube.errors import Malformed
    from optimus.kube.times import parse_instant

    if of == "autoscaler":
        name, controller = "optimus-autoscaler", found.controller("optimus-autoscaler")
        setting, default = "OPTIMUS_LEADER_LEASE", f"{found.system}/optimus-autoscaler"
    else:
        name, controller = found.scheduler()
        setting, default = "OPTIMUS_EXTENDER_LEADER_LEASE", "kube-system/optimus-scheduler"
    lease, holders = (
        found.setting(controller, setting, default),
        _installed(found, name, controller),
    )
    namespace, _, named = lease.partition("/")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{named}"
    spec = (found.get(f"read Lease {lease}", path) or {}).get("spec") or {}
    holder = spec.get("holderIdentity")
    logs = f"kubectl -n {found.system} logs -l app.kubernetes.io/name={name} --all-containers"
    # There are logs only where there are pods.
    mend = holders.remedy if holders.state == "problem" else logs
    try:
        renewed_at = parse_instant(str(spec.get("renewTime")))
    except Malformed:
        renewed_at = 0.0
    age = found.client.server_clock.now() - renewed_at
    if not holder:
        return Finding("problem", f"nobody holds {lease}: nothing leads", mend)
    if age > float(spec.get("leaseDurationSeconds") or 0) + _SKEW_SECONDS:
        text = f"{holder} has not renewed {lease} for {age:.0f} s: nothing leads"
        return Finding("problem", text, mend)
    return Finding("ok", f"{holder} leads ({lease})")


def _stopped(found: Installation) -> Finding:
    """The jobs that an autoscaler has stopped and that none resumes, as none leads."""
    from optimus.cli.job_list import read_jobs

    is_led = _lease(found, of="autoscaler").state == "ok"
    jobs = [] if is_led else read_jobs(found.client, None, [])
    left = [job for job in jobs if job.awaits_resume]
    if not left:
        return Finding("ok", "none waits for an autoscaler that is gone")
    names = ", ".join(f"{job.kind} {job.key}" for job in left)
    mend = [
        f"kubectl -n {job.namespace} patch {job.kind.lower()} {job.name}"
        f" --type=merge -p '{_RESUME}'"
        for job in left
    ]
    return Finding("problem", f"no autoscaler leads that resumes {names}", "\n".join(mend))


def _configuration(found: Installation) -> Finding:
    import yaml

    name, controller = found.scheduler()
    if name == "optimus-extender":
        return Finding("ok", "a file on the hosts of the cluster's own kube-scheduler, not read")
    pod = ((controller or {}).get("spec") or {}).get("template", {}).get("spec", {})
    maps = [each["configMap"]["name"] for each in pod.get("volumes") or () if "configMap" in each]
    for text in (text for named in maps for text in found.config_map(named).values()):
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        if isinstance(document, dict) and document.get("kind") == "KubeSchedulerConfiguration":
            profile = found.setting(controller, "OPTIMUS_SCHEDULER_NAME", "optimus-scheduler")
            wrong = list(_wrong_in(document, profile))
            mend = f"correct scheduler-config/kube-scheduler-config.yaml, then {_APPLY}"
            if wrong:
                return Finding("problem", "; ".join(wrong), mend)
            return Finding("ok", f"profile {profile}, with the extender")
    return Finding("problem", "no ConfigMap holds a KubeSchedulerConfiguration", _APPLY)


def _wrong_in(configuration: Mapping[str, Any], name: str) -> Iterator[str]:
    """Return what is wrong with a KubeSchedulerConfiguration; the operator guide says why."""
    profiles = {each.get("schedulerName"): each for each in configuration.get("profiles") or ()}
    extenders = configuration.get("extenders") or ()
    if name not in profiles:
        yield f"no profile has the schedulerName {name}"
    if not extenders:
        yield "it names no extender, so that gangs are not placed as a whole"
    if any(each.get("filterVerb") and each.get("ignorable") for each in extenders):
        yield "ignorable is true: gangs are split while the extender is away"
    if configuration.get("percentageOfNodesToScore") != 100:
        yield "percentageOfNodesToScore is not 100: the planned node may be left out"


def _nodes(found: Installation) -> Finding:
    selector = found.setting(found.controller("optimus-autoscaler"), "OPTIMUS_NODE_SELECTOR")
    query = [("labelSelector", selector)] if selector else []
    nodes = _listed(found, "nodes", "/api/v1/nodes", query)
    closed = sum(bool((each.get("spec") or {}).get("unschedulable")) for each in nodes)
    where = f"with the labels {selector}" if selector else "in the cluster"
    if not nodes:
        mend = f"kubectl label node NODE {selector}" if selector else "kubectl get nodes"
        return Finding("problem", f"there is no node {where}", mend)
    if closed:
        state = "problem" if closed == len(nodes) else "warning"
        text = f"{closed} of {len(nodes)} nodes {where} are cordoned"
        return Finding(state, text, "kubectl get nodes; kubectl uncordon NODE")
    return Finding("ok", f"{_number(len(nodes), 'node')} {where}")


CHECKS: Final[Mapping[str, Callable[[Installation], Finding]]] = MappingProxyType(
    {
        "Kubernetes": _version,
        "CRDs": _kinds,
        "training operator": _operator,
        "autoscaler": _autoscaler,
        "autoscaler's Lease": partial(_lease, of="autoscaler"),
        "paused jobs": _stopped,
        "scheduler": _scheduler,
        "scheduler's configuration": _configuration,
        "scheduler's Lease": partial(_lease, of="scheduler"),
        "nodes": _nodes,
    }
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, metavar="LOG", nargs="?", help=_LOG)
    metric = "name of the training loss in the log (default: the usual)"
    parser.add_argument("--metric", metavar="NAME", help=metric)
    system = "the namespace of Optimus (default: optimus-system)"
    parser.add_argument("--system-namespace", default="optimus-system", metavar="NAME", help=system)
    add_arguments(parser)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    if options.log is not None:
        from optimus.cli.log_doctor import diagnose

        if str(options.log) != "-" and not options.log.exists():
            why = f"the doctor looks at a log, or at the cluster; `optimus why {options.log}`"
            raise BadInput(options.log, f"there is no such file: {why} explains a job")
        return diagnose(options.log, options.metric, progress)
    with connected(options, "doctor") as cluster:
        installation = Installation(cluster.client, options.system_namespace)
        return answer_of(findings(installation), options.system_namespace)


def findings(installation: Installation) -> dict[str, Finding]:
    """The finding of each check; what cannot be read costs that one alone.

    Raises:
        KubeError: the API server does not say its version."""
    from optimus.cli.rights import explained, refused_right
    from optimus.kube.errors import KubeError

    found = {}
    for what, check in CHECKS.items():
        try:
            found[what] = check(installation)
        except KubeError as error:
            if not found:
                raise
            found[what] = Finding("unknown", explained(error), lacks=refused_right(error))
    return found


def answer_of(found: Mapping[str, Finding], system: str = "optimus-system") -> Answer:
    """The findings; the exit status is 1 where one is a problem, else ``INCOMPLETE`` where one
    could not be made."""
    lacking = {what: each for what, each in found.items() if each.lacks is not None}
    shown = [(e.state, what, e.text) for what, e in found.items() if what not in lacking]
    parts = [table("<<<", ("state", "what", "found"), shown)]
    remedies = dict.fromkeys(each.remedy for each in found.values() if each.remedy)
    if remedies:
        who = " (with the rights of an administrator)" if lacking else ""
        lines = (line for each in remedies for line in each.splitlines())
        parts.append("\n".join([f"To fix it{who}:", *(f"- {line}" for line in lines)]))
    if lacking:
        parts.append("\n".join(_lacking(lacking, system)))
    count = Counter(each.state for each in found.values())
    said = f"{_number(len(found) - count['unknown'], 'check')}: "
    said += f"{_number(count['problem'], 'problem')}, {_number(count['warning'], 'warning')}"
    parts.append(f"Incomplete: {said}; {count['unknown']} not made" if count["unknown"] else said)
    value = {
        "problems": count["problem"],
        "complete": not count["unknown"],
        "lacking": list(dict.fromkeys(str(each.lacks) for each in lacking.values())),
        "findings": [
            {"what": what, "state": e.state, "text": e.text, "mend": e.remedy or None}
            for what, e in found.items()
        ],
    }
    status = 1 if count["problem"] else INCOMPLETE if count["unknown"] else 0
    return Answer(value, "\n\n".join(parts), status=status)


def _lacking(found: Mapping[str, Finding], system: str) -> Iterator[str]:
    """Which checks the user has no right to make, what to ask for, and what can be done without."""
    rights = "; ".join(dict.fromkeys(str(each.lacks) for each in found.values()))
    yield f"Not checked: {', '.join(found)}, since you may not {rights}."
    yield "Ask an administrator to run this command, or for its rights:"
    everywhere = "clusterrolebinding optimus-doctor --clusterrole=optimus-doctor"
    yield f"- kubectl create {everywhere} --user=USER"
    yield f"- kubectl -n {system} create rolebinding optimus-doctor --clusterrole=view --user=USER"
    yield "Neither is needed for your own jobs: kubectl optimus status, kubectl optimus why JOB."


def _number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
