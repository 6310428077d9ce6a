"""Core/v1 Events of the stand-ins, one object each."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from optimus.kube.client import Client
from optimus.kube.errors import KubeError

_MAX_MESSAGE = 1024
"""Characters that the API server takes of a message."""


def emit_event(
    client: Client, component: str, about: Mapping[str, str], event: tuple[str, str, str]
) -> None:
    """Create an Event about an object; one that is refused is dropped.

    Args:
        client: calls as the component.
        component: the reporting component.
        about: the object: apiVersion, kind, name, namespace, uid.
        event: type (Normal or Warning), reason and message.
    """
    kind, reason, message = event
    if len(message) > _MAX_MESSAGE:
        message = f"{message[: _MAX_MESSAGE - 4]} ..."
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name, namespace = f"{about['name']}.{secrets.token_hex(8)}", about["namespace"]
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": dict(about),
        "type": kind,
        "reason": reason,
        "message": message
        if len(message) <= _MAX_MESSAGE
        else f"{message[: _MAX_MESSAGE - 4]} ...",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": component},
        "reportingComponent": component,
    }
    create = client.core.create_namespaced_event
    with suppress(KubeError):
        client.call("create an Event", create, namespace=namespace, body=body)
