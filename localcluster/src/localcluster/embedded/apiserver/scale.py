"""The scale subresource: the number of replicas of an object, whatever its kind."""

from collections.abc import Sequence
from typing import Any

from localcluster.embedded.apiserver.kinds import Json, Resource

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: Resource, body: Json) -> Json:
    """Return the Scale object of an object."""
    assert resource.scale is not None
    metadata = {key: body["metadata"][key] for key in _SHOWN if key in body["metadata"]}
    wanted, present = _at(body, resource.scale.spec), _at(body, resource.scale.status)
    status: Json = {"replicas": present or 0}
    labels = (body.get("spec") or {}).get("selector")
    if not resource.custom and labels:
        status["selector"] = ",".join(
            f"{key}={value}" for key, value in sorted(labels["matchLabels"].items())
        )
    spec = {} if wanted is None else {"replicas": wanted}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def scaled(resource: Resource, body: Json, scale: Json) -> Json:
    """Return an object with the replicas that a Scale object asks for; its version is the one that
    is meant."""
    assert resource.scale is not None
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    version = (scale.get("metadata") or {}).get("resourceVersion") or body["metadata"][
        "resourceVersion"
    ]
    changed: Json = _put(body, resource.scale.spec, replicas)
    return {**changed, "metadata": {**body["metadata"], "resourceVersion": version}}


def _at(body: Any, path: Sequence[str]) -> Any:
    for key in path:
        body = (body or {}).get(key)
    return body


def _put(body: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    return {**(body or {}), path[0]: _put((body or {}).get(path[0]), path[1:], value)}
