"""What the API server does to pods: defaults, admission, binding.

The defaults and admission plugins (ServiceAccount, Priority, DefaultTolerationSeconds) of a real
server as far as a scheduler, an operator or a node agent sees them. Fields are not validated."""

from collections.abc import Iterable, Iterator
from typing import Final

from localcluster.embedded.apiserver.errors import conflict, forbidden
from localcluster.embedded.apiserver.kinds import PODS, Json

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, not a secret
ENDED: Final = frozenset({"Succeeded", "Failed"})
_LISTS: Final = ("initContainers", "containers")
_TOKEN_SECONDS: Final = 3607
_UNREADY_SECONDS: Final = 300


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


def nomination_errors(pod: Json, old: Json) -> Iterator[str]:
    """Yield what is wrong with a pod that is nominated though it is bound: a write that is late."""
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    before = (old.get("status") or {}).get("nominatedNodeName")
    if nominated and nominated != before and pod["spec"].get("nodeName"):
        why = "may not be set on pods that are already bound to a node"
        yield f"status.nominatedNodeName: Forbidden: {why}"


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
