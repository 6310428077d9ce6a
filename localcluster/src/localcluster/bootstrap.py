"""What a cluster needs before anything works on it: the operator's CRDs and rights, the node
agent's rights.

Written by server-side apply over plain HTTPS: it can be repeated, and the CRDs are larger than the
annotation that a client-side apply would keep them in.
"""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from localcluster.errors import ClusterError
from localcluster.identities import ADMIN, NODE_AGENT_USER, OPERATOR_ACCOUNT
from localcluster.paths import ClusterPaths
from localcluster.readiness import tls_context

_REQUEST_SECONDS = 20.0
_ESTABLISHED_SECONDS = 30.0
_CRD_FILES = ("kubeflow.org_tfjobs.yaml", "kubeflow.org_mxjobs.yaml")
_OPERATOR_ROLE = "training-operator"
_AGENT_ROLE = "localcluster-node-agent"
_RBAC = "rbac.authorization.k8s.io"

_COLLECTIONS: Mapping[str, str] = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": f"/apis/{_RBAC}/v1/clusterroles",
    "ClusterRoleBinding": f"/apis/{_RBAC}/v1/clusterrolebindings",
}

# What a kubelet may do, for all process nodes at once.
_AGENT_RULES: tuple[dict[str, list[str]], ...] = (
    {
        "apiGroups": [""],
        "resources": ["nodes"],
        "verbs": ["create", "get", "list", "watch", "update", "patch"],
    },
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["update", "patch"]},
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "list", "watch", "patch", "delete"],
    },
    {
        "apiGroups": [""],
        "resources": [
            "configmaps",
            "secrets",
            "services",
            "persistentvolumeclaims",
            "persistentvolumes",
        ],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get"]},
    {
        "apiGroups": ["", "events.k8s.io"],
        "resources": ["events"],
        "verbs": ["create", "patch", "update"],
    },
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "get", "update", "patch"],
    },
)


def prepare(paths: ClusterPaths, api_port: int, manifests: Path) -> None:
    """Apply everything and wait until the CRDs are served. Raises ClusterError."""
    api = _Api(paths, api_port)
    for body in _objects(manifests):
        api.apply(body)
    for name in ("tfjobs.kubeflow.org", "mxjobs.kubeflow.org"):
        api.wait_established(name)


def _objects(manifests: Path) -> Iterator[dict[str, Any]]:
    namespace, account = OPERATOR_ACCOUNT
    for file in _CRD_FILES:
        yield from _documents(manifests / "crds" / file, "CustomResourceDefinition")
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": namespace},
    }
    yield from _documents(manifests / "rbac" / "role.yaml", "ClusterRole")
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    yield _binding("training-operator", _OPERATOR_ROLE, subject)
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _AGENT_ROLE},
        "rules": list(_AGENT_RULES),
    }
    yield _binding(
        _AGENT_ROLE, _AGENT_ROLE, {"kind": "User", "apiGroup": _RBAC, "name": NODE_AGENT_USER}
    )


def _documents(file: Path, kind: str) -> Iterator[dict[str, Any]]:
    try:
        text = file.read_text()
    except OSError as error:
        raise ClusterError(
            f"the operator's manifest {file} cannot be read: {error.strerror}"
        ) from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from (
        body for body in yaml.load_all(text, Loader=loader) if body and body.get("kind") == kind
    )


def _binding(name: str, role: str, subject: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


class _Api:
    """A few requests as the administrator, over one connection."""

    def __init__(self, paths: ClusterPaths, port: int) -> None:
        context = tls_context(paths.pki / "ca.crt", paths.pki / ADMIN)
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=_REQUEST_SECONDS, context=context
        )

    def apply(self, body: Mapping[str, Any]) -> None:
        """Create or update one object."""
        metadata = body["metadata"]
        collection = _COLLECTIONS[body["kind"]].format(namespace=metadata.get("namespace", ""))
        path = f"{collection}/{quote(metadata['name'])}?fieldManager=localcluster&force=true"
        # JSON is YAML, and the C encoder is much quicker than a YAML one on the large CRDs.
        self._request(
            "PATCH", path, json.dumps(body), {"Content-Type": "application/apply-patch+yaml"}
        )

    def wait_established(self, name: str) -> None:
        """Wait until a custom resource is served."""
        path = f"{_COLLECTIONS['CustomResourceDefinition']}/{name}"
        deadline = time.monotonic() + _ESTABLISHED_SECONDS
        while not _established(self._request("GET", path)):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the custom resource {name} was not served within {_ESTABLISHED_SECONDS:.0f} s"
                )
            time.sleep(0.05)

    def _request(
        self, method: str, path: str, body: str | None = None, headers: Any = None
    ) -> dict[str, Any]:
        try:
            self._connection.request(method, path, body, headers or {})
            answer = self._connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"the API server did not answer {method} {path}: {error}") from error
        if answer.status >= 300:
            raise ClusterError(
                f"the API server refused {method} {path} with {answer.status}: {text[:500]}"
            )
        parsed: dict[str, Any] = json.loads(text)
        return parsed


def _established(crd: Mapping[str, Any]) -> bool:
    # Right after the creation the server says `"conditions": null`.
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
