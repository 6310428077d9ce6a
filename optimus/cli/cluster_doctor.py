"""``optimus doctor`` without a log: whether Optimus is installed and works on the cluster.

Each check gives findings: what is right, and what is wrong with the command that fixes it. What the
user has no right to see makes the answer incomplete; it says which rights are lacking."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from optimus.cli.cluster import connected
from optimus.cli.command import INCOMPLETE, Answer
from optimus.cli.table import table

if TYPE_CHECKING:  # these need the packages of the extra "cluster"
    from optimus.kube.errors import KubeError
    from optimus.kube.installation import InstallationSource, PodController
    from optimus.kube.rights import Right

OLDEST: Final = (1, 32)
OPERATORS: Final = ((1, 7), (1, 9))
"""The oldest and the newest training operator, by its first two numbers."""

_SKEW_SECONDS: Final = 5.0
_APPLY: Final = "kubectl apply --server-side -k manifests"
_APPLY_CRDS: Final = "kubectl apply --server-side -k manifests/crds"
_NTP: Final = "timedatectl set-ntp true"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked."""

    what: str
    state: str
    """``ok``, ``warning``, ``problem``, or ``unknown`` where it could not be read."""

    text: str
    mend: str = ""
    """The command that fixes it."""

    lacks: "Right | None" = None
    """The missing right that leaves it unknown."""


@dataclass(slots=True)
class Examined:
    """The cluster, and what earlier checks have found of it."""

    client: "InstallationSource"
    namespace: str
    system: str
    """The namespace that Optimus is installed in."""

    local_clock: Callable[[], float] = time.time
    version: tuple[int, int] = (0, 0)
    settings: dict[str, str] = field(default_factory=dict)
    autoscaler_leads: bool = False


Check = Callable[[Examined], Iterator[Finding]]


def examine(options: argparse.Namespace) -> Answer:
    """The checks on the cluster of the options."""
    with connected(options, "doctor") as cluster:
        examined = Examined(cluster.client, cluster.namespace, options.system_namespace)
        return answer_of(list(findings(examined)), options.system_namespace)


def answer_of(found: list[Finding], system: str = "optimus-system") -> Answer:
    """The findings; the exit status is 1 where one is a problem, else ``INCOMPLETE`` where one
    could not be made."""
    wrong = [each for each in found if each.state in ("problem", "warning")]
    lacking = [each for each in found if each.lacks is not None]
    shown = [(each.state, each.what, each.text) for each in found if each.lacks is None]
    parts = [table("<<<", ("state", "what", "found"), shown)]
    mends = [each for each in wrong if each.mend]
    if mends:
        lines = [f"- {mend.what}: {mend.mend}" for mend in mends]
        who = " (with the rights of an administrator)" if lacking else ""
        parts.append("\n".join([f"To fix it{who}:", *lines]))
    if lacking:
        parts.append("\n".join(_lacking(lacking, system)))
    problems = sum(each.state == "problem" for each in found)
    unknown = sum(each.state == "unknown" for each in found)
    counts = f"{_number(len(found) - unknown, 'check')}: {_number(problems, 'problem')}"
    counts += f", {_number(len(wrong) - problems, 'warning')}"
    parts.append(f"Incomplete: {counts}; {unknown} not made" if unknown else counts)
    value = {
        "problems": problems,
        "complete": not unknown,
        "lacking": list(dict.fromkeys(str(each.lacks) for each in lacking)),
        "findings": [
            {"what": e.what, "state": e.state, "text": e.text, "mend": e.mend or None}
            for e in found
        ],
    }
    status = 1 if problems else INCOMPLETE if unknown else 0
    return Answer(value, "\n\n".join(parts), status=status)


def _lacking(found: list[Finding], system: str) -> Iterator[str]:
    """Which checks the user has no right to make, what to ask for, and what can be done without."""
    names = ", ".join(dict.fromkeys(each.what for each in found))
    rights = "; ".join(dict.fromkeys(str(each.lacks) for each in found))
    yield f"Not checked: {names}, since you may not {rights}."
    yield "Ask an administrator to run this command, or for its rights:"
    everywhere = "clusterrolebinding optimus-doctor --clusterrole=optimus-doctor"
    yield f"- kubectl create {everywhere} --user=USER"
    yield f"- kubectl -n {system} create rolebinding optimus-doctor --clusterrole=view --user=USER"
    yield "Neither is needed for your own jobs: kubectl optimus status, kubectl optimus why JOB."


def _number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def findings(examined: Examined) -> Iterator[Finding]:
    """All checks, one after the other; what cannot be read costs one finding alone.

    Raises:
        KubeError: the API server does not answer at all."""
    from optimus.kube.errors import KubeError

    yield from _version(examined)
    checks: tuple[tuple[str, Check], ...] = (
        ("clock", _clock),
        ("CRDs", _kinds),
        ("autoscaler", _autoscaler),
        ("scheduler", _scheduler),
        ("autoscaler's Lease", partial(_lease, of="autoscaler")),
        ("scheduler's Lease", partial(_lease, of="scheduler")),
        ("paused jobs", _stopped),
        ("training operator", _operator),
        ("webhook", _webhooks),
        ("nodes", _nodes),
        ("your rights", _user_rights),
        ("autoscaler's rights", partial(_account_rights, of="autoscaler")),
        ("scheduler's rights", partial(_account_rights, of="scheduler")),
    )
    for what, check in checks:
        try:
            yield from check(examined)
        except KubeError as error:
            yield _unknown(what, error)


def _unknown(what: str, error: "KubeError") -> Finding:
    from optimus.kube.rights import explained, refused_right

    return Finding(what, "unknown", explained(error), lacks=refused_right(error))


# --- the API server


def _version(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.installation import server_version

    text, examined.version = server_version(examined.client)
    if examined.version < OLDEST:
        least = ".".join(map(str, OLDEST))
        mend = "upgrade the control plane (kubeadm upgrade plan, or your provider's console)"
        yield Finding("Kubernetes", "problem", f"{text}; {least} or newer is needed", mend)
    else:
        yield Finding("Kubernetes", "ok", text)


def _clock(examined: Examined) -> Iterator[Finding]:
    skew = examined.local_clock() - examined.client.server_clock.now()
    side = "ahead of" if skew > 0 else "behind"
    text = f"this machine is {abs(skew):.0f} s {side} the API server"
    if abs(skew) > _SKEW_SECONDS:
        mend = f"{_NTP} # here, or on the control plane, whichever is wrong"
        yield Finding("clock", "warning", text, mend)
    else:
        yield Finding("clock", "ok", "this machine and the API server agree")


def _kinds(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.contract import GROUP, PROFILES, VERSION, WORKLOAD_PROFILES
    from optimus.kube.installation import resources_of
    from optimus.kube.job_kinds import JOB_KINDS

    own = resources_of(examined.client, GROUP, VERSION)
    for plural, is_needed in ((PROFILES, True), (WORKLOAD_PROFILES, False)):
        what = f"{plural}.{GROUP}"
        if plural in own and f"{plural}/status" in own:
            yield Finding(what, "ok", f"served as {VERSION}")
        elif plural in own:
            text = "its subresource status is missing: it is an old version"
            yield Finding(what, "problem", text, _APPLY_CRDS)
        else:
            state = "problem" if is_needed else "warning"
            yield Finding(what, state, "the API server has no such kind", _APPLY_CRDS)
    served = {
        (kind.group, kind.version): resources_of(examined.client, kind.group, kind.version)
        for kind in JOB_KINDS.values()
    }
    known = [
        kind.name for kind in JOB_KINDS.values() if kind.plural in served[kind.group, kind.version]
    ]
    if known:
        yield Finding("job kinds", "ok", ", ".join(known))
    else:
        text = (
            "the API server has neither TFJobs nor MXJobs: the training operator is not installed"
        )
        mend = (
            "kubectl apply --server-side -k"
            " 'github.com/kubeflow/training-operator/manifests/overlays/standalone?ref=v1.7.0'"
        )
        yield Finding("job kinds", "problem", text, mend)


# --- the two processes


def _autoscaler(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.errors import KubeError
    from optimus.kube.installation import config_map, controller

    found = controller(examined.client, "deployments", examined.system, "optimus-autoscaler")
    if found is not None:
        for name in found.settings_maps:
            try:
                examined.settings |= config_map(examined.client, examined.system, name)
            except KubeError as error:
                yield _unknown("settings", error)
        examined.settings |= found.settings
        flags = (flag.removeprefix("--").partition("=") for flag in found.flags)
        examined.settings |= {_variable(name): text for name, _, text in flags}
    yield _readiness("autoscaler", examined.system, "optimus-autoscaler", found)


def _variable(flag: str) -> str:
    return f"OPTIMUS_{flag.upper().replace('-', '_')}"


def _readiness(
    what: str, namespace: str, name: str, found: "PodController | None", kind: str = "deployment"
) -> Finding:
    if found is None:
        text = f"there is no {kind} {name} in namespace {namespace}"
        return Finding(what, "problem", text, _APPLY)
    ready = f"{found.ready} of {found.wanted} pods are ready"
    logs = f"kubectl -n {namespace} describe pods -l app.kubernetes.io/name={name}"
    if not found.ready:
        return Finding(what, "problem", ready, logs)
    if found.ready < found.wanted:
        return Finding(what, "warning", ready, logs)
    return Finding(what, "ok", ready)


def _scheduler(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.installation import config_map, controller, scheduler_configuration

    client, system = examined.client, examined.system
    found = controller(client, "deployments", system, "optimus-scheduler")
    if found is None:
        extender = controller(client, "daemonsets", system, "optimus-extender")
        if extender is None:
            yield _readiness("scheduler", system, "optimus-scheduler", None)
            return
        yield _readiness("extender", system, "optimus-extender", extender, "daemonset")
        text = "a file on the hosts of the cluster's own kube-scheduler, to be checked there"
        yield Finding("scheduler's configuration", "ok", text)
        return
    for name in found.settings_maps:
        examined.settings |= config_map(client, system, name)
    examined.settings |= found.settings
    yield _readiness("scheduler", system, "optimus-scheduler", found)
    yield from _scheduler_image(examined, found)
    configuration = scheduler_configuration(client, found)
    if configuration is None:
        text = "no ConfigMap of its pod holds a KubeSchedulerConfiguration"
        yield Finding("scheduler's configuration", "problem", text, _APPLY)
    else:
        yield from configuration_findings(configuration, examined.settings)


def _scheduler_image(examined: Examined, found: "PodController") -> Iterator[Finding]:
    from optimus.kube.installation import version_numbers

    image = found.images.get("kube-scheduler", "")
    version = version_numbers(image.rpartition(":")[2])
    if version is None or examined.version == (0, 0):
        return
    (major, minor), server = version, examined.version
    if major != server[0] or not server[1] - 1 <= minor <= server[1]:
        expected = f"v{server[0]}.{server[1]} or one minor version less"
        text = f"{image}; the control plane needs {expected}"
        mend = (
            f"kubectl -n {examined.system} set image deployment/optimus-scheduler"
            f" kube-scheduler=registry.k8s.io/kube-scheduler:v{server[0]}.{server[1]}.0"
        )
        yield Finding("scheduler's version", "warning", text, mend)
    else:
        yield Finding("scheduler's version", "ok", image)


def configuration_findings(
    configuration: Mapping[str, Any], settings: Mapping[str, str]
) -> Iterator[Finding]:
    """What is wrong with a KubeSchedulerConfiguration; the operator guide says why."""
    name = settings.get("OPTIMUS_SCHEDULER_NAME") or "optimus-scheduler"
    wrong = list(_configuration_problems(configuration, name, settings))
    for state, text in wrong:
        mend = "correct scheduler-config/kube-scheduler-config.yaml, then " + _APPLY
        yield Finding("scheduler's configuration", state, text, mend)
    if not wrong:
        yield Finding("scheduler's configuration", "ok", f"profile {name}, with the extender")


def _configuration_problems(
    configuration: Mapping[str, Any], name: str, settings: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    profiles = {each.get("schedulerName"): each for each in configuration.get("profiles") or ()}
    if name not in profiles:
        yield "problem", f"no profile has the schedulerName {name}"
    extenders = configuration.get("extenders") or ()
    if not extenders:
        yield "problem", "it names no extender, so that gangs are not placed as a whole"
    for extender in extenders:
        if not extender.get("prioritizeVerb"):
            yield "problem", "its extender has no prioritizeVerb"
        if not extender.get("nodeCacheCapable"):
            yield "warning", "nodeCacheCapable is not true: each call carries whole nodes"
        if extender.get("filterVerb") and extender.get("ignorable"):
            yield "problem", "ignorable is true: gangs are split while the extender is away"
    if configuration.get("percentageOfNodesToScore") != 100:
        yield "warning", "percentageOfNodesToScore is not 100: the planned node may be left out"
    election = configuration.get("leaderElection") or {}
    lease = f"{election.get('resourceNamespace')}/{election.get('resourceName')}"
    expected = settings.get("OPTIMUS_EXTENDER_LEADER_LEASE") or "kube-system/optimus-scheduler"
    if lease.partition("/")[2] != expected.partition("/")[2]:
        yield "problem", f"its Lease is {lease}, and the extender reads {expected}"
    disabled = (profiles.get(name) or {}).get("plugins", {}).get("postFilter", {}).get("disabled")
    if name in profiles and {"name": "*"} not in (disabled or ()):
        yield "warning", "postFilter plugins are on: single pods of gangs may be evicted in vain"


def _lease(examined: Examined, *, of: str) -> Iterator[Finding]:
    from optimus.kube.installation import held_lease

    lease = _lease_name(examined.settings, of)
    what = f"{of}'s Lease"
    found = held_lease(examined.client, lease)
    logs = f"kubectl -n {examined.system} logs deployment/optimus-{of} --all-containers --tail=50"
    if found is None or not found.holder:
        yield Finding(what, "problem", f"nobody holds {lease}: nothing leads", logs)
        return
    age = None
    if found.renewed_at is not None:
        age = examined.client.server_clock.now() - found.renewed_at
    if age is not None and age > found.duration_seconds + _SKEW_SECONDS:
        text = f"{found.holder} has not renewed {lease} for {age:.0f} s: nothing leads"
        yield Finding(what, "problem", text, logs)
    elif age is not None and age < -_SKEW_SECONDS:
        text = f"{found.holder} leads; its clock is {-age:.0f} s ahead of the API server's"
        yield Finding(what, "warning", text, f"{_NTP} # on the node of its pod")
    else:
        examined.autoscaler_leads |= of == "autoscaler"
        yield Finding(what, "ok", f"{found.holder} leads ({lease})")


_RESUME: Final = (
    '{"metadata":{"annotations":{"optimus.dl/suspended-by":null}},'
    '"spec":{"runPolicy":{"suspend":false}}}'
)


def _stopped(examined: Examined) -> Iterator[Finding]:
    """The jobs that an autoscaler has stopped and that none resumes, as none leads."""
    from optimus.kube.job_list import stopped_jobs

    for job in () if examined.autoscaler_leads else stopped_jobs(examined.client):
        text = f"no autoscaler resumes {job.kind} {job.key}, which one has paused"
        names = f"-n {job.namespace} patch {job.kind.lower()} {job.name}"
        mend = f"kubectl {names} --type=merge -p '{_RESUME}'"
        yield Finding("paused jobs", "problem", text, mend)


def _lease_name(settings: Mapping[str, str], of: str) -> str:
    if of == "autoscaler":
        return settings.get("OPTIMUS_LEADER_LEASE") or "optimus-system/optimus-autoscaler"
    return settings.get("OPTIMUS_EXTENDER_LEADER_LEASE") or "kube-system/optimus-scheduler"


# --- beside them


def _operator(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.installation import training_operators, version_numbers

    found = training_operators(examined.client)
    if not found:
        text = "no Deployment has its image: is it installed under another name?"
        mend = "kubectl get deployments -A | grep -i operator"
        yield Finding("training operator", "warning", text, mend)
    for each in found:
        name = f"{each.namespace}/{each.name}"
        image = next(i for i in each.images.values() if "training-operator" in i)
        version = version_numbers(image.rpartition(":")[2])
        logs = f"kubectl -n {each.namespace} logs deployment/{each.name} --tail=50"
        if not each.ready:
            text = f"{name}: 0 of {each.wanted} pods are ready: no pod of a job is made"
            yield Finding("training operator", "problem", text, logs)
        elif version is None:
            text = f"{name} has the image {image}, which does not name its version"
            yield Finding("training operator", "warning", text)
        elif not OPERATORS[0] <= version <= OPERATORS[1]:
            text = f"{name} is {image}; tested are 1.7 to 1.9, and 2.x has no TFJobs"
            yield Finding("training operator", "warning", text)
        else:
            yield _operator_setting(examined, name, image)


def _operator_setting(examined: Examined, name: str, image: str) -> Finding:
    """Whether the setting that says the operator's version says the version that runs."""
    said = examined.settings.get("OPTIMUS_OPERATOR_VERSION", "")
    runs = image.rpartition(":")[2].removeprefix("v").partition("-")[0]
    if said and runs.count(".") == 2 and said != runs:
        mend = f"set OPTIMUS_OPERATOR_VERSION={runs} in optimus-settings, then {_APPLY}"
        text = f"{name} is {runs}, and OPTIMUS_OPERATOR_VERSION says {said}"
        return Finding("training operator", "warning", text, mend)
    return Finding("training operator", "ok", f"{name}, {image}")


def _webhooks(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.installation import operator_webhooks

    found = operator_webhooks(examined.client)
    for name, service, has_endpoint in found:
        if has_endpoint:
            yield Finding("webhook", "ok", f"{name} answers at service {service}")
        else:
            namespace, _, named = service.partition("/")
            text = f"{name} calls service {service}, which has no endpoint: no job can be changed"
            mend = f"kubectl -n {namespace} get pods,endpointslices # of service {named}"
            yield Finding("webhook", "problem", text, mend)


def _nodes(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.installation import nodes_of

    selector = examined.settings.get("OPTIMUS_NODE_SELECTOR", "")
    nodes, closed = nodes_of(examined.client, selector)
    where = f"with the labels {selector}" if selector else "in the cluster"
    label = f"kubectl label node NODE {selector}" if selector else "kubectl get nodes"
    if not nodes:
        yield Finding("nodes", "problem", f"there is no node {where}", label)
    elif closed == len(nodes):
        text = f"all {closed} nodes {where} are cordoned or not ready"
        yield Finding("nodes", "problem", text, "kubectl get nodes; kubectl uncordon NODE")
    elif closed:
        text = f"{closed} of {len(nodes)} nodes {where} are cordoned or not ready"
        yield Finding("nodes", "warning", text, "kubectl get nodes; kubectl uncordon NODE")
    else:
        yield Finding("nodes", "ok", f"{_number(len(nodes), 'node')} {where}")


# --- rights


def _user_rights(examined: Examined) -> Iterator[Finding]:
    from optimus.kube.rights import missing, user_rights

    lacking = missing(examined.client, user_rights(examined.namespace))
    where = f"in namespace {examined.namespace}"
    if not lacking:
        yield Finding("your rights", "ok", f"all commands work {where}")
    elif all(each.verb == "patch" for each in lacking):
        text = f"all commands but pause and resume work {where}, where you may read"
        yield Finding("your rights", "ok", text)
    else:
        mend = (
            "ask an administrator: kubectl apply --server-side -f manifests/user-roles/rbac.yaml;"
            f" kubectl -n {examined.namespace} create rolebinding optimus-users"
            " --clusterrole=edit --user=USER # or view, to read"
        )
        yield Finding("your rights", "warning", f"you may not {_listed(lacking)}", mend)


def _account_rights(examined: Examined, *, of: str) -> Iterator[Finding]:
    from optimus.kube.rights import AUTOSCALER_RIGHTS, SCHEDULER_RIGHTS, lease_rights, missing

    rights = AUTOSCALER_RIGHTS if of == "autoscaler" else SCHEDULER_RIGHTS
    account = f"{examined.system}/optimus-{of}"
    wanted = (*rights, *lease_rights(_lease_name(examined.settings, of)))
    lacking = missing(examined.client, wanted, account)
    if lacking:
        text = f"ServiceAccount {account} may not {_listed(lacking)}"
        mend = f"kubectl apply --server-side -f manifests/rbac-{of}.yaml"
        yield Finding(f"{of}'s rights", "problem", text, mend)
    else:
        yield Finding(f"{of}'s rights", "ok", f"ServiceAccount {account} has what it needs")
    if of == "autoscaler":
        yield from _rights_in_the_namespace(examined, account)
    else:
        yield from _right_to_the_autoscalers_lease(examined, account)


def _right_to_the_autoscalers_lease(examined: Examined, account: str) -> Iterator[Finding]:
    """It says on which kind of nodes new jobs are to start."""
    from optimus.kube.rights import missing, right_to_read_lease

    right = right_to_read_lease(_lease_name(examined.settings, "autoscaler"))
    if missing(examined.client, [right], account):
        text = f"new jobs start on any kind of nodes: ServiceAccount {account} may not {right}"
        mend = "kubectl apply --server-side -f manifests/rbac-scheduler.yaml"
        yield Finding("scheduler's rights", "warning", text, mend)


def _rights_in_the_namespace(examined: Examined, account: str) -> Iterator[Finding]:
    """What the autoscaler may do about the pods of jobs, everywhere or in the user's namespace."""
    from optimus.kube.rights import NAMESPACED_RIGHTS, missing

    namespace = examined.namespace
    without = {
        "pods/log": "no log is read, so no job is resized",
        "pods/status": "no job is told that its goal is met (optimus.dl/at-target: complete)",
    }
    account_name = account.replace("/", ":")
    for role, right in NAMESPACED_RIGHTS.items():
        here = right._replace(namespace=namespace)
        if missing(examined.client, [right], account) and missing(examined.client, [here], account):
            text = f"{without[right.resource]}: ServiceAccount {account} may not {here}"
            mend = (
                f"kubectl -n {namespace} create rolebinding {role}"
                f" --clusterrole={role} --serviceaccount={account_name}"
            )
            yield Finding("autoscaler's rights", "warning", text, mend)


def _listed(rights: "Iterable[Right]") -> str:
    shown = [str(right) for right in rights]
    more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
    return "; ".join(shown[:4]) + more
