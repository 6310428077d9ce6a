"""What the API server does to pods: defaults, admission, validation, binding.

The defaults and admission plugins (ServiceAccount, Priority, DefaultTolerationSeconds) of a real
server as far as a scheduler, an operator or a node agent sees them. Validation covers what the
template of a job gets wrong easily: such a template must not run here either."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from localcluster.embedded.apiserver.errors import (
    FieldError,
    conflict,
    duplicate,
    forbidden,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from localcluster.embedded.apiserver.kinds import PODS, Json
from optimus.kube.quantity import parse_quantity

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, not a secret
ENDED: Final = frozenset({"Succeeded", "Failed"})
_LISTS: Final = ("initContainers", "containers")
_TOKEN_SECONDS: Final = 3607
_UNREADY_SECONDS: Final = 300
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_MUTABLE: Final = (
    *("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates"),
)
_IMMUTABLE_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
    "was previously negative)"
)


def with_defaults(pod: Json) -> Json:
    """Return a pod with the defaults of its fields, Pending."""
    return {
        **pod,
        "spec": spec_with_defaults(pod.get("spec") or {}),
        "status": {"phase": "Pending"},
    }


def spec_with_defaults(spec: Json) -> Json:
    """Return a pod's spec, also one of a template, with its defaults."""
    filled: Json = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **{key: value for key, value in spec.items() if value is not None},
    }
    for containers in _LISTS:
        if filled.get(containers):
            filled[containers] = [_container(each) for each in filled[containers]]
    if filled.get("volumes"):
        volumes = filled["volumes"]
        filled["volumes"] = [
            each if len(each) > 1 else {**each, "emptyDir": {}} for each in volumes
        ]
    return filled


def _container(container: Json) -> Json:
    image = container.get("image") or ""
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    filled = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if latest and "@" not in image else "IfNotPresent",
        **container,
    }
    if filled.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    resources = dict(filled.get("resources") or {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return {**filled, "resources": resources}


def admitted(pod: Json, account: Json | None, priority_class: Json, suffix: str) -> Json:
    """Return a pod with what admission adds: account, token volume, priority, tolerations.

    `account` is the ServiceAccount that the pod names, None where there is none;
    `priority_class` is empty where it names no class. Raises StatusError."""
    name, namespace = account_name(pod), pod["metadata"]["namespace"]
    if account is None:
        found = f'serviceaccount "{name}" not found'
        why = f"error looking up service account {namespace}/{name}: {found}"
        raise forbidden(PODS, pod["metadata"]["name"], why)
    spec = {"enableServiceLinks": True, **pod["spec"], **_priority(pod, priority_class)}
    spec.update({"serviceAccountName": name, "serviceAccount": name})
    given = spec.get("tolerations") or []
    spec["tolerations"] = [*given, *_missing_tolerations(given)]
    default = account.get("automountServiceAccountToken", True)
    wanted = spec.get("automountServiceAccountToken", default)
    return {**pod, "spec": _with_token(spec, f"kube-api-access-{suffix}") if wanted else spec}


def _priority(pod: Json, priority_class: Json) -> Json:
    policy = priority_class.get("preemptionPolicy") or "PreemptLowerPriority"
    given = pod["spec"].get("preemptionPolicy")
    if given not in {None, policy}:
        why = (
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden(PODS, pod["metadata"]["name"], why)
    return {"priority": int(priority_class.get("value") or 0), "preemptionPolicy": policy}


def account_name(pod: Json) -> str:
    """Return the ServiceAccount that a pod runs as."""
    spec = pod.get("spec") or {}
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def _missing_tolerations(present: Iterable[Json]) -> Iterator[Json]:
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            each.get("key") in {key, None, ""} and each.get("effect") in {"NoExecute", None, ""}
            for each in present
        ):
            head = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            yield {**head, "tolerationSeconds": _UNREADY_SECONDS}


def _with_token(spec: Json, volume: str) -> Json:
    changed = {name: [_mount(each, volume) for each in spec.get(name) or ()] for name in _LISTS}
    if all(changed[name] == (spec.get(name) or []) for name in _LISTS):
        return spec
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": authority},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    token = {"name": volume, "projected": {"sources": sources, "defaultMode": 0o644}}
    kept = {name: containers for name, containers in changed.items() if containers}
    return {**spec, **kept, "volumes": [*(spec.get("volumes") or ()), token]}


def _mount(container: Json, volume: str) -> Json:
    mounts = container.get("volumeMounts") or []
    if any(each.get("mountPath") == TOKEN_PATH for each in mounts):
        return container
    mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}
    return {**container, "volumeMounts": [*mounts, mount]}


def field_errors(pod: Json, old: Json | None) -> Iterator[FieldError]:
    """Yield what is wrong with a pod and with how it changed."""
    if old is None or pod["spec"] != old["spec"]:
        yield from spec_errors(pod["spec"], "spec")
    if old is None:
        return
    if _immutable(pod["spec"]) != _immutable(old["spec"]):
        yield forbidden_field("spec", _IMMUTABLE_RULE)
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    before = (old.get("status") or {}).get("nominatedNodeName")
    if nominated and nominated != before and pod["spec"].get("nodeName"):
        why = "may not be set on pods that are already bound to a node"
        yield forbidden_field("status.nominatedNodeName", why)


def _immutable(spec: Json) -> Json:
    rest = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for containers in _LISTS:
        rest[containers] = [{**each, "image": ""} for each in spec.get(containers) or ()]
    return rest


def spec_errors(spec: Json, field: str) -> Iterator[FieldError]:
    """Yield what is wrong with a pod's spec, also one of a template."""
    volumes: set[Any] = set()
    for index, each in enumerate(spec.get("volumes") or ()):
        yield from _name_errors(each.get("name"), f"{field}.volumes[{index}].name", volumes)
    if not spec.get("containers"):
        yield required(f"{field}.containers")
    names: set[Any] = set()
    for which in ("containers", "initContainers"):
        for index, each in enumerate(spec.get(which) or ()):
            place = f"{field}.{which}[{index}]"
            yield from _name_errors(each.get("name"), f"{place}.name", names)
            yield from _container_errors(each, place, volumes)
    policy = spec.get("restartPolicy")
    if policy and policy not in _RESTART_POLICIES:
        yield unsupported(f"{field}.restartPolicy", policy, _RESTART_POLICIES)


def _name_errors(name: str | None, field: str, names: set[Any]) -> Iterator[FieldError]:
    if not name:
        yield required(field)
    elif name in names:
        yield duplicate(field, name)
    names.add(name)


def _container_errors(container: Json, field: str, volumes: set[Any]) -> Iterator[FieldError]:
    if not container.get("image"):
        yield required(f"{field}.image")
    for index, each in enumerate(container.get("volumeMounts") or ()):
        if each["name"] not in volumes:
            place = f"{field}.volumeMounts[{index}].name"
            yield FieldError("FieldValueNotFound", place, f'Not found: "{each["name"]}"')
    yield from _resource_errors(container.get("resources") or {}, f"{field}.resources")


def _resource_errors(resources: Json, field: str) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for which, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            amount, place = parse_quantity(text), f"{field}.{which}[{name}]"
            if amount < 0:
                yield invalid_value(place, text, "must be greater than or equal to 0")
            if "/" in name and amount % 1:
                yield invalid_value(place, text, "must be an integer")
    for name, text in requests.items():
        if name in limits and parse_quantity(text) > parse_quantity(limits[name]):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{field}.requests", text, why)
        if name not in limits and "/" in name:
            why = "Limit must be set for non overcommitable resources"
            yield required(f"{field}.limits", why)


def bound(pod: Json, binding: Json, now: str) -> Json:
    """Return a pod bound to the node that a Binding names. Raises StatusError."""
    metadata, spec = pod["metadata"], pod["spec"]
    name, uid = metadata["name"], (binding.get("metadata") or {}).get("uid")
    if uid and uid != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
        raise conflict(PODS, name, f"{why}{metadata['uid']}")
    reasons = {
        f"pod {name} is being deleted, cannot be assigned to a host": "deletionTimestamp"
        in metadata,
        f'pod {name} is already assigned to node "{spec.get("nodeName")}"': spec.get("nodeName"),
        f"pod {name} has non-empty .spec.schedulingGates": spec.get("schedulingGates"),
    }
    for reason, holds in reasons.items():
        if holds:
            raise conflict(PODS, name, reason, "binding")
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    moments = {"lastProbeTime": None, "lastTransitionTime": now}
    scheduled = {"type": "PodScheduled", "status": "True", **moments}
    status["conditions"] = with_condition(status.get("conditions") or [], scheduled)
    return {**pod, "spec": {**spec, "nodeName": binding["target"]["name"]}, "status": status}


def with_condition(conditions: Iterable[Json], condition: Json) -> list[Json]:
    """Return conditions with one set; an unchanged status keeps its transition time."""
    kept = list(conditions)
    for index, each in enumerate(kept):
        if each["type"] == condition["type"]:
            same = each["status"] == condition["status"]
            moment = each.get("lastTransitionTime") if same else condition["lastTransitionTime"]
            kept[index] = {**condition, "lastTransitionTime": moment}
            return kept
    return [*kept, condition]


def is_ready(body: Json) -> bool:
    """Tell whether the status of a pod or a node has the condition Ready."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def grace_seconds(pod: Json, asked: int | None) -> int:
    """Return the grace period of a deletion; 0 for a pod of which nothing runs."""
    spec = pod["spec"]
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ENDED:
        return 0
    own = spec.get("terminationGracePeriodSeconds")
    return max(0, int(asked if asked is not None else own if own is not None else 30))
