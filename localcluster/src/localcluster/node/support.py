"""What a pod asks for that process nodes do not do, each with a sentence for its user."""

from collections.abc import Iterator

from localcluster.node.spec import Json
from localcluster.node.volumes import SUPPORTED_TYPES, volume_type


def unsupported(pod: Json) -> str | None:
    """Return why a pod cannot be run on a process node, or None when it can."""
    reasons = list(_reasons(pod["spec"]))
    return f"process nodes do not support {'; nor '.join(reasons)}" if reasons else None


def _reasons(spec: Json) -> Iterator[str]:
    if (spec.get("os") or {}).get("name", "linux") != "linux":
        yield f"pods for the operating system {spec['os']['name']}"
    if spec.get("readinessGates"):
        yield "readinessGates"
    if spec.get("resourceClaims"):
        yield "resourceClaims"
    for volume in spec.get("volumes") or ():
        kind = volume_type(volume)
        if kind not in SUPPORTED_TYPES:
            yield (
                f'volumes of type {kind} (volume "{volume["name"]}"); these are: '
                f"{', '.join(SUPPORTED_TYPES)}"
            )
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        yield from _container_reasons(container)


def _container_reasons(container: Json) -> Iterator[str]:
    where = f'container "{container["name"]}"'
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if "grpc" in (container.get(probe) or {}):
            yield f"grpc probes ({probe} of {where}); use httpGet, tcpSocket or exec"
    lifecycle = container.get("lifecycle") or {}
    if lifecycle.get("postStart"):
        yield f"postStart hooks ({where})"
    if lifecycle.get("preStop") and not {"exec", "sleep"} & set(lifecycle["preStop"]):
        yield f"preStop hooks other than exec and sleep ({where})"
    if container.get("volumeDevices"):
        yield f"block devices ({where})"
