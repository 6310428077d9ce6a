"""What is installed of Optimus and beside it, read from the API server: for ``optimus doctor``."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
import yaml

from optimus.kube.client import path_of
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.job_facts import read_list
from optimus.kube.job_kinds import OPERATOR_GROUP
from optimus.kube.metadata import ApiObject, decoder_of
from optimus.kube.nodes import ClusterNode, decode_node
from optimus.kube.rights import Poster
from optimus.kube.server_clock import ServerClock
from optimus.kube.times import parse_instant

_NOT_READY: Final = "node.kubernetes.io/not-ready"


class InstallationSource(Poster, Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""

    server_clock: ServerClock

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        """The body of a GET."""


class _Named(msgspec.Struct):
    name: str = ""


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _EnvSource(msgspec.Struct, rename="camel"):
    config_map_ref: _Named | None = None


class _ControllerContainer(msgspec.Struct, rename="camel"):
    name: str = ""
    image: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    env_from: list[_EnvSource] | None = None


class _ControllerVolume(msgspec.Struct, rename="camel"):
    config_map: _Named | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: list[_ControllerContainer] | None = None
    init_containers: list[_ControllerContainer] | None = None
    volumes: list[_ControllerVolume] | None = None


class _ControllerTemplate(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _ControllerSpec(msgspec.Struct):
    replicas: int | None = None
    template: _ControllerTemplate = msgspec.field(default_factory=_ControllerTemplate)


class _ControllerStatus(msgspec.Struct, rename="camel"):
    ready_replicas: int | None = None
    desired_number_scheduled: int | None = None
    number_ready: int | None = None


_deployment = decoder_of(ApiObject[_ControllerSpec, _ControllerStatus], "a Deployment")


@dataclass(frozen=True, slots=True)
class PodController:
    """A Deployment or DaemonSet."""

    namespace: str
    name: str
    wanted: int
    ready: int
    images: Mapping[str, str]
    """By the container's name."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """The environment of all its containers, as written in its template."""

    flags: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    """Those that its volumes name."""

    settings_maps: tuple[str, ...] = ()
    """Those that its environment is taken from."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """Who holds a Lease."""

    holder: str
    duration_seconds: float
    renewed_at: float | None
    """By the holder's clock, seconds since the epoch."""


def server_version(client: InstallationSource) -> tuple[str, tuple[int, int]]:
    """The version, such as ``v1.36.3``, and its first two numbers.

    Raises:
        KubeError: the API server does not say."""
    found = _json(client, "read the API server's version", "/version")
    text = str(found.get("gitVersion", ""))
    return text, version_numbers(text) or (0, 0)


def version_numbers(text: str) -> tuple[int, int] | None:
    """The first two numbers of ``v1.36.3``."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})", text)
    return None if match is None else (int(match[1]), int(match[2]))


def resources_of(client: InstallationSource, group: str, version: str) -> frozenset[str]:
    """The plurals that the API server has of a group's version; none without the group.

    Raises:
        KubeError: the API server does not say."""
    try:
        found = _json(client, f"ask for the kinds of {group}/{version}", f"/apis/{group}/{version}")
    except KubeError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return frozenset()
        raise
    return frozenset(str(each.get("name", "")) for each in found.get("resources") or ())


def controller(
    client: InstallationSource, plural: str, namespace: str, name: str
) -> PodController | None:
    """A Deployment or DaemonSet; ``None``: there is none of that name.

    Raises:
        KubeError: it may not be read."""
    path = f"{path_of('apps', 'v1', plural, namespace)}/{name}"
    body = _or_none(client, f"read {plural} {namespace}/{name}", path)
    return None if body is None else _controller(body)


def training_operators(client: InstallationSource) -> list[PodController]:
    """The Deployments of the Kubeflow training operator, by their image.

    Raises:
        KubeError: Deployments of all namespaces may not be listed."""
    raws = read_list(client, "list deployments", path_of("apps", "v1", "deployments"))
    found = [_controller(raw) for raw in raws]
    return [each for each in found if any("training-operator" in i for i in each.images.values())]


def config_map(client: InstallationSource, namespace: str, name: str) -> Mapping[str, str]:
    """The data of a ConfigMap.

    Raises:
        KubeError: there is none, or it may not be read."""
    path = f"{path_of('', 'v1', 'configmaps', namespace)}/{name}"
    data = _json(client, f"read ConfigMap {namespace}/{name}", path).get("data") or {}
    return {str(key): str(value) for key, value in data.items()}


def scheduler_configuration(
    client: InstallationSource, found: PodController
) -> Mapping[str, Any] | None:
    """The KubeSchedulerConfiguration that a Deployment mounts; ``None``: it mounts none.

    Raises:
        KubeError: the ConfigMap may not be read."""
    for name in found.config_maps:
        for text in config_map(client, found.namespace, name).values():
            try:
                document = yaml.safe_load(text)
            except yaml.YAMLError:
                continue
            if isinstance(document, dict) and document.get("kind") == "KubeSchedulerConfiguration":
                return document
    return None


def held_lease(client: InstallationSource, lease: str) -> HeldLease | None:
    """The Lease NAMESPACE/NAME; ``None``: there is none.

    Raises:
        KubeError: it may not be read."""
    namespace, _, name = lease.partition("/")
    path = f"{path_of('coordination.k8s.io', 'v1', 'leases', namespace)}/{name}"
    body = _or_none(client, f"read Lease {lease}", path)
    if body is None:
        return None
    spec = _object(body, f"Lease {lease}").get("spec") or {}
    renewed = spec.get("renewTime")
    try:
        renewed_at = parse_instant(str(renewed)) if renewed else None
    except Malformed:
        renewed_at = None
    duration = float(spec.get("leaseDurationSeconds") or 0)
    return HeldLease(str(spec.get("holderIdentity") or ""), duration, renewed_at)


def nodes_of(client: InstallationSource, selector: str) -> tuple[list[ClusterNode], int]:
    """The nodes with these labels, and how many of them take no pods now.

    Raises:
        KubeError: nodes may not be listed."""
    query = [("labelSelector", selector)] if selector else []
    raws = read_list(client, "list nodes", path_of("", "v1", "nodes"), query)
    nodes = [decode_node(raw) for raw in raws]
    closed = [
        node.node.cordoned or any(taint.key == _NOT_READY for taint in node.node.taints)
        for node in nodes
    ]
    return nodes, sum(closed)


def operator_webhooks(client: InstallationSource) -> list[tuple[str, str, bool]]:
    """Webhooks that training jobs go through: configuration, service, and whether it has an
    endpoint that is ready.

    Raises:
        KubeError: one of these may not be read."""
    group = "admissionregistration.k8s.io"
    path = path_of(group, "v1", "validatingwebhookconfigurations")
    try:
        raws = read_list(client, "list validatingwebhookconfigurations", path)
    except KubeError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return []
        raise
    found = []
    for raw in raws:
        configuration = _object(raw, "a ValidatingWebhookConfiguration")
        name = configuration["metadata"]["name"]
        for webhook in configuration.get("webhooks") or ():
            service = (webhook.get("clientConfig") or {}).get("service")
            groups = {g for rule in webhook.get("rules") or () for g in rule.get("apiGroups") or ()}
            if service and OPERATOR_GROUP in groups:
                where = service["namespace"], service["name"]
                found.append((name, "/".join(where), _has_endpoint(client, *where)))
    return sorted(set(found))


def _has_endpoint(client: InstallationSource, namespace: str, service: str) -> bool:
    path = path_of("discovery.k8s.io", "v1", "endpointslices", namespace)
    query = [("labelSelector", f"kubernetes.io/service-name={service}")]
    raws = read_list(client, f"list endpointslices of namespace {namespace}", path, query)
    endpoints = [
        endpoint
        for raw in raws
        for endpoint in _object(raw, "an EndpointSlice").get("endpoints") or ()
    ]
    return any((each.get("conditions") or {}).get("ready") is not False for each in endpoints)


def _controller(body: bytes | msgspec.Raw) -> PodController:
    try:
        raw = _deployment(body)
    except Malformed as error:
        raise KubeError(ErrorKind.INVALID, str(error)) from error
    spec, status = raw.spec or _ControllerSpec(), raw.status or _ControllerStatus()
    pod = spec.template.spec
    containers = [*(pod.init_containers or ()), *(pod.containers or ())]
    wanted = status.desired_number_scheduled
    if wanted is None:
        wanted = 1 if spec.replicas is None else spec.replicas
    sources = [source for container in containers for source in container.env_from or ()]
    return PodController(
        raw.metadata.namespace,
        raw.metadata.name,
        wanted,
        status.ready_replicas or status.number_ready or 0,
        {each.name: each.image for each in containers},
        {item.name: item.value for each in containers for item in each.env or ()},
        tuple(flag for each in containers for flag in each.args or ()),
        tuple(
            volume.config_map.name for volume in pod.volumes or () if volume.config_map is not None
        ),
        tuple(each.config_map_ref.name for each in sources if each.config_map_ref is not None),
    )


def _or_none(client: InstallationSource, what: str, path: str) -> bytes | None:
    try:
        return client.get(what, path)
    except KubeError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return None
        raise


def _json(client: InstallationSource, what: str, path: str) -> dict[str, Any]:
    return _object(client.get(what, path), what)


def _object(body: bytes | msgspec.Raw, what: str) -> dict[str, Any]:
    try:
        found = json.loads(bytes(body))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise KubeError(ErrorKind.INVALID, f"{what}: the answer is no JSON object")
    return found
