"""What the API server itself does to pods: defaults, admission, what may change, binding.

The defaults and the admission plugins (ServiceAccount, Priority, DefaultTolerationSeconds) of a
real server, as far as a scheduler, an operator or a node agent can see them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import PODS, Json
from localcluster.embedded.apiserver.podchecks import added_gates, spec_problems
from localcluster.embedded.apiserver.refusals import Problem, conflict, forbidden, forbidden_field
from localcluster.node.quantity import canonical

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, not a secret
_LISTS: Final = ("initContainers", "containers")
_TOKEN_SECONDS: Final = 3607
_UNREADY_SECONDS: Final = 300
_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_MAY_CHANGE: Final = (
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "tolerations",
    "schedulingGates",
)
_UNCHANGED: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing"
    " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def with_defaults(pod: Json) -> Json:
    """Return a new pod with the defaults of its fields, Pending."""
    spec = template_spec(pod.get("spec") or {})
    status: Json = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": _GATED,
        }
        moment = {
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
        }
        status["conditions"] = [{**gated, **moment}]
    return {**pod, "spec": spec, "status": status}


def template_spec(spec: Json) -> Json:
    """Return a pod's spec, also one in a template, with its defaults."""
    filled: Json = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **{key: value for key, value in spec.items() if value is not None},
    }
    if filled["terminationGracePeriodSeconds"] < 0:
        filled["terminationGracePeriodSeconds"] = 1
    for containers in _LISTS:
        if isinstance(filled.get(containers), list):
            filled[containers] = [_container(each) for each in filled[containers]]
    if filled.get("volumes"):
        filled["volumes"] = [
            each if len(each) > 1 else {**each, "emptyDir": {}} for each in filled["volumes"]
        ]
    return filled


def _container(container: Json) -> Json:
    image = container.get("image") or ""
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    filled = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if latest and "@" not in image else "IfNotPresent",
        **container,
    }
    if filled.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    filled["resources"] = _amounts(filled["resources"] or {})
    return filled


def _amounts(resources: Json) -> Json:
    """Return amounts as they are written by the server, what is limited also as asked for."""
    spelled = dict(resources)
    for which in ("limits", "requests"):
        if resources.get(which):
            spelled[which] = {name: canonical(amount) for name, amount in resources[which].items()}
    if spelled.get("limits"):
        spelled["requests"] = {**spelled["limits"], **(spelled.get("requests") or {})}
    return spelled


def qos_class(spec: Json) -> str:
    """Return the quality of service class that a pod's requests and limits make."""
    resources = [each.get("resources") or {} for name in _LISTS for each in spec.get(name) or ()]
    asked = [_computes(each, "requests") for each in resources]
    limits = [_computes(each, "limits") for each in resources]
    if not any(asked) and not any(limits):
        return "BestEffort"
    guaranteed = all(
        set(limit) == {"cpu", "memory"} and limit == ask
        for ask, limit in zip(asked, limits, strict=True)
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _computes(resources: Json, which: str) -> Json:
    return {
        name: value
        for name, value in (resources.get(which) or {}).items()
        if name in {"cpu", "memory"}
    }


def admitted(pod: Json, account: Json | None, priority: int, suffix: str) -> Json:
    """Return a pod with what admission adds: account, token volume, priority, tolerations. Raises
    Refusal.

    `account` is the ServiceAccount that the pod names, None where there is none.
    """
    spec = {**pod["spec"], "enableServiceLinks": pod["spec"].get("enableServiceLinks", True)}
    name = account_name(pod)
    namespace = pod["metadata"]["namespace"]
    if account is None:
        why = (
            f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not '
            "found"
        )
        raise forbidden(PODS, pod["metadata"].get("name", ""), why)
    spec.update({"serviceAccountName": name, "serviceAccount": name, "priority": priority})
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec["tolerations"] = [
        *(spec.get("tolerations") or ()),
        *_missing_tolerations(spec.get("tolerations") or ()),
    ]
    wanted = spec.get(
        "automountServiceAccountToken", account.get("automountServiceAccountToken", True)
    )
    return {**pod, "spec": _with_token(spec, f"kube-api-access-{suffix}") if wanted else spec}


def agreed_priority(pod: Json, computed: int) -> int:
    """Return the priority of a pod's class, which a pod may repeat and not change. Raises
    Refusal."""
    given = pod["spec"].get("priority")
    if given not in {None, computed}:
        said = (
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            "priority admission"
        )
        why = f"{said} controller computed {computed} from the given PriorityClass name"
        raise forbidden(PODS, pod["metadata"]["name"], why)
    return computed


def account_name(pod: Json) -> str:
    """Return the ServiceAccount that a pod runs as."""
    spec = pod.get("spec") or {}
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def _missing_tolerations(present: Iterable[Json]) -> Iterator[Json]:
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(each, key) for each in present):
            yield {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _UNREADY_SECONDS,
            }


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in {key, None, ""} and toleration.get("effect") in {
        "NoExecute",
        None,
        "",
    }


def _with_token(spec: Json, volume: str) -> Json:
    changed = {
        name: [_mounting(each, volume) for each in spec[name]] for name in _LISTS if spec.get(name)
    }
    if all(changed[name] == spec[name] for name in changed):
        return spec
    return {**spec, **changed, "volumes": [*(spec.get("volumes") or ()), _token_volume(volume)]}


def _mounting(container: Json, volume: str) -> Json:
    mounts = container.get("volumeMounts") or []
    if any(each.get("mountPath") == TOKEN_PATH for each in mounts):
        return container
    mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}
    return {**container, "volumeMounts": [*mounts, mount]}


def _token_volume(name: str) -> Json:
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": authority},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 0o644}}


def problems(pod: Json, old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with a pod, also with how it changed."""
    if old is None or pod["spec"] != old["spec"]:
        yield from spec_problems(pod.get("spec") or {}, "spec")
    if old is None:
        return
    yield from added_gates(pod["spec"], old["spec"])
    if _fixed(pod["spec"]) != _fixed(old["spec"]):
        yield forbidden_field("spec", _UNCHANGED)
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    if (
        nominated
        and nominated != (old.get("status") or {}).get("nominatedNodeName")
        and pod["spec"].get("nodeName")
    ):
        yield forbidden_field(
            "status.nominatedNodeName", "may not be set on pods that are already bound to a node"
        )


def _fixed(spec: Json) -> Json:
    """Return the part of a spec that may not change."""
    rest = {key: value for key, value in spec.items() if key not in _MAY_CHANGE}
    for containers in _LISTS:
        rest[containers] = [{**each, "image": ""} for each in spec.get(containers) or ()]
    if spec.get("schedulingGates"):
        rest.pop("nodeSelector", None)
        rest.pop("affinity", None)
    return rest


def bound(pod: Json, binding: Json, now: str) -> Json:
    """Return a pod bound to the node that a Binding names. Raises Refusal."""
    metadata, spec = pod["metadata"], pod["spec"]
    name, node = metadata["name"], (binding.get("target") or {}).get("name")
    wanted = (binding.get("metadata") or {}).get("uid")
    if wanted and wanted != metadata["uid"]:
        place = f"Key: /registry/pods/{metadata['namespace']}/{name}, ResourceVersion: 0"
        precondition = (
            f"Precondition failed: UID in precondition: {wanted}, UID in object meta: "
            f"{metadata['uid']}"
        )
        why = f"StorageError: invalid object, Code: 4, {place}, AdditionalErrorMsg: {precondition}"
        raise conflict(PODS, name, why)
    if metadata.get("deletionTimestamp"):
        raise conflict(
            PODS, name, f"pod {name} is being deleted, cannot be assigned to a host", "binding"
        )
    if spec.get("nodeName"):
        raise conflict(
            PODS, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"', "binding"
        )
    if spec.get("schedulingGates"):
        raise conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates", "binding")
    status = {
        key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"
    }
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    status["conditions"] = with_condition(status.get("conditions") or [], scheduled)
    added = (binding.get("metadata") or {}).get("annotations")
    if added:
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **added}}
    return {**pod, "metadata": metadata, "spec": {**spec, "nodeName": node}, "status": status}


def with_condition(conditions: Iterable[Json], condition: Json) -> list[Json]:
    """Return conditions with one of them set; its transition time is kept where its status is the
    same."""
    kept = list(conditions)
    for index, each in enumerate(kept):
        if each["type"] == condition["type"]:
            same = each["status"] == condition["status"]
            moment = each.get("lastTransitionTime") if same else condition["lastTransitionTime"]
            kept[index] = {**condition, "lastTransitionTime": moment}
            return kept
    return [*kept, condition]


def grace_seconds(pod: Json, asked: int | None) -> int:
    """Return how long a pod may take to end: what is asked for, else its own; none where nothing of
    it runs."""
    spec: Mapping[str, Any] = pod["spec"]
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in {
        "Succeeded",
        "Failed",
    }:
        return 0
    own = spec.get("terminationGracePeriodSeconds")
    return max(0, int(asked if asked is not None else own if own is not None else 30))
