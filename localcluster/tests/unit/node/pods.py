"""Pods for tests, written as briefly as a test wants them and completed as the API server would."""

from datetime import UTC, datetime
from typing import Any

from localcluster.node.lifecycle import Moment

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def moment(seconds: float) -> Moment:
    """Return the instant that lies this many seconds after the start of a test's harness."""
    return Moment(START + seconds, seconds)


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    """Return a container that runs a shell command of no interest."""
    return {"name": name, "image": "busybox", "command": ["true"], **fields}


def pod(
    *containers: dict[str, Any],
    name: str = "p",
    uid: str = "u1",
    init: tuple[dict[str, Any], ...] = (),
    labels: dict[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod bound to node n1; `owner` is (kind, uid) of its controller."""
    metadata: dict[str, Any] = {"namespace": "ns", "name": name, "uid": uid, "labels": labels or {}}
    if owner is not None:
        metadata["ownerReferences"] = [
            {"kind": owner[0], "uid": owner[1], "name": "j", "controller": True}
        ]
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": "n1",
            "containers": list(containers) or [container()],
            "initContainers": list(init),
            **spec,
        },
    }
