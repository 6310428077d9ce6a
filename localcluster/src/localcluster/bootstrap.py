"""What a real cluster needs first: the operator's CRDs and rights, the node agent's rights.

Written by server-side apply: it can be repeated, and the CRDs are larger than the annotation that a
client-side apply would keep them in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from localcluster import webhook
from localcluster.api_calls import ApiCalls
from localcluster.embedded.manifests import apply_object
from localcluster.errors import ClusterError
from localcluster.identities import NODE_AGENT_USER, OPERATOR_ACCOUNT
from localcluster.paths import ClusterPaths
from localcluster.processes import wait_for
from localcluster.storage import read_yaml
from optimus.kube.client import connect
from optimus.kube.errors import KubeError
from optimus.kube.job_kinds import JOB_KINDS, TFJOB, JobKind

_ESTABLISHED_SECONDS: Final = 30.0
_RBAC: Final = "rbac.authorization.k8s.io"
_AGENT: Final = "localcluster-node-agent"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

# What a kubelet may do, for all process nodes at once: API groups, resources, verbs.
_AGENT_RULES: Final = (
    ("", "nodes", "create get list watch update patch"),
    ("", "nodes/status pods/status", "update patch"),
    ("", "pods", "get list watch patch delete"),
    ("", "configmaps secrets persistentvolumeclaims persistentvolumes", "get list watch"),
    ("", "serviceaccounts/token", "create"),
    ("", "serviceaccounts", "get"),
    ("", "events", "create patch update"),
    ("coordination.k8s.io", "leases", "create get update patch"),
)


def served_kinds(manifests: Path) -> list[JobKind]:
    """Return the kinds of jobs that this operator runs: MXJobs up to version 1.8.1."""
    return [k for k in JOB_KINDS.values() if k is TFJOB or _definition(manifests, k).exists()]


def prepare(paths: ClusterPaths, manifests: Path, webhook_port: int) -> None:
    """Apply everything and wait until the CRDs are served. Raises ClusterError."""
    try:
        api = ApiCalls(connect(paths.kubeconfig, user_agent="localcluster"))
        for body in (*_objects(manifests), *_webhook(paths, manifests, webhook_port)):
            apply_object(api, body)
        served = wait_for(
            lambda: all(
                _established(api.get(f"{_DEFINITIONS}/{kind.crd}"))
                for kind in served_kinds(manifests)
            ),
            _ESTABLISHED_SECONDS,
        )
    except KubeError as error:
        raise ClusterError(str(error)) from error
    if not served:
        raise ClusterError(
            f"the operator's custom resources were not served within {_ESTABLISHED_SECONDS:.0f} s"
        )


def _objects(manifests: Path) -> Iterator[dict[str, Any]]:
    namespace, account = OPERATOR_ACCOUNT
    for kind in served_kinds(manifests):
        yield from read_yaml(_definition(manifests, kind))
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    metadata = {"name": account, "namespace": namespace}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    yield from read_yaml(manifests / "rbac" / "role.yaml")
    yield _binding("training-operator", {"kind": "ServiceAccount", **metadata})
    rules = [
        {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
        for group, resources, verbs in _AGENT_RULES
    ]
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": _AGENT}}
    yield {**role, "rules": rules}
    yield _binding(_AGENT, {"kind": "User", "apiGroup": _RBAC, "name": NODE_AGENT_USER})


def _definition(manifests: Path, kind: JobKind) -> Path:
    return manifests / "crds" / f"kubeflow.org_{kind.plural}.yaml"


def _webhook(paths: ClusterPaths, manifests: Path, port: int) -> Iterator[dict[str, Any]]:
    if webhook.is_in(manifests):
        plurals = [kind.plural for kind in served_kinds(manifests)]
        yield from webhook.objects(manifests, paths.pki, port, plurals)


def _binding(name: str, subject: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }


def _established(crd: dict[str, Any]) -> bool:
    # Right after the creation the server says `"conditions": null`.
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
