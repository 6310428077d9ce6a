"""Events of the stand-ins: core/v1, one object each."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

from optimus.kube.client import Client
from optimus.kube.errors import KubeError

_LONGEST = 1024
"""Characters that the API server takes of a message."""


def tell(
    client: Client, component: str, about: Mapping[str, str], said: tuple[str, str, str]
) -> None:
    """Create an Event about an object; one that is refused is nobody's loss.

    Args:
        client: calls as the component.
        component: who says it.
        about: the object: apiVersion, kind, name, namespace, uid.
        said: type (Normal or Warning), reason and message.
    """
    kind, reason, message = said
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "metadata": {
            "name": f"{about['name']}.{secrets.token_hex(8)}",
            "namespace": about["namespace"],
        },
        "involvedObject": dict(about),
        "type": kind,
        "reason": reason,
        "message": message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ...",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": component},
        "reportingComponent": component,
    }
    try:
        client.call(
            "tell of an event",
            client.core.create_namespaced_event,
            namespace=about["namespace"],
            body=body,
        )
    except KubeError:
        return
