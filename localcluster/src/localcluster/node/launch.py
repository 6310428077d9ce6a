"""From a container of a pod to a command line: program, arguments, variables, folder."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from localcluster.images import Environment
from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.peer_addresses import PeerAddresses
from localcluster.node.pod_spec import ContainerSpec, Json, Unresolved, field_value
from localcluster.node.process_table import POD_VARIABLE, Launch
from localcluster.node.rewriting import Rewriting
from localcluster.node.volumes import PodVolumes

_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TEMPORARY: Final = "/tmp"  # noqa: S108 -- a mount path of a pod, not a folder of this machine
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


class CannotStart(Exception):
    """A container's command cannot become a process; the message is for the pod's user."""


@dataclass(frozen=True)
class LaunchContext:
    """What all containers of a pod share: `scratch` for HOME and TMPDIR, `marker` of processes."""

    peers: PeerAddresses
    volumes: PodVolumes
    scratch: Path
    marker: str
    api_host: str
    api_port: int
    ports: Mapping[int, int]
    objects: ClusterObjects


def prepare_launch(
    pod: Json, spec: ContainerSpec, image: Environment, context: LaunchContext
) -> Launch:
    """Work out what to run. Raises Unresolved (may pass) or CannotStart (a run that fails)."""
    base = _base_variables(pod, image, context)
    shared = _from_config_maps(pod, spec.raw, context.objects)
    resolved = _resolve(pod, spec.raw, {**base, **shared}, context.peers)
    raw = {**resolved, POD_VARIABLE: context.marker}
    folders = context.volumes.folders(spec.raw)
    rewriting = Rewriting(folders, context.ports)
    # The base variables name folders of this machine already: one under a mount path is not meant.
    given = {**base, POD_VARIABLE: context.marker}
    env = {
        name: value if given.get(name) == value else rewriting.variable(name, value)
        for name, value in raw.items()
    }
    if _TEMPORARY in folders:
        env["TMPDIR"] = folders[_TEMPORARY]
    command = list(spec.raw.get("command") or image.command)
    if not command:
        raise CannotStart(
            f'image "{spec.image}" has no entry point here: the container must name its command'
        )
    command += spec.raw.get("args") or ()
    argv = rewriting.arguments([expand(each, raw) for each in command])
    folder = image.working_dir or str(context.scratch)
    program = _find_program(argv[0], image, env["PATH"], folder)
    # Python finds its virtual environment by argv[0], so there it is the interpreter's full path.
    name = program if program == image.interpreter else argv[0]
    return Launch(program, (name, *argv[1:]), env, folder)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: an unknown name stays as written, `$$` becomes `$`."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else variables.get(name, match.group(0))

    return _REFERENCE.sub(replace, text)


def _base_variables(pod: Json, image: Environment, context: LaunchContext) -> dict[str, str]:
    """Return a clean set of variables and the image's own, before those of the container."""
    return {
        "PATH": ":".join([*image.path, _SYSTEM_PATH]),
        "HOME": str(context.scratch),
        "TMPDIR": str(context.scratch),
        "LANG": "C.UTF-8",
        "HOSTNAME": pod["metadata"]["name"],
        **image.env,
        "KUBERNETES_SERVICE_HOST": context.api_host,
        "KUBERNETES_SERVICE_PORT": str(context.api_port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(context.api_port),
    }


def _from_config_maps(pod: Json, container: Json, objects: ClusterObjects) -> dict[str, str]:
    """Return the variables of `envFrom`; of two with one name the later wins. Raises Unresolved."""
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        reference, prefix = source["configMapRef"], source.get("prefix") or ""
        try:
            found = objects.config_map(pod["metadata"]["namespace"], reference.get("name") or "")
        except Unresolved:
            if not reference.get("optional"):
                raise
            found = {}
        values |= {prefix + key: text for key, text in found.items()}
    return values


def _resolve(
    pod: Json, container: Json, base: Mapping[str, str], peers: PeerAddresses
) -> dict[str, str]:
    """Return all variables of a container, in order: a value may refer to those before it."""
    entries = container.get("env") or ()
    literals = {
        each["name"]: each.get("value") or "" for each in entries if "valueFrom" not in each
    }
    rewritten = peers.rewrite(pod, literals)
    values = dict(base)
    if "DMLC_NODE_HOST" in rewritten:
        values["DMLC_NODE_HOST"] = rewritten["DMLC_NODE_HOST"]
    for entry in entries:
        name = entry["name"]
        if "=" in name or "\0" in name:
            raise Unresolved(f'"{name}" is not the name of an environment variable')
        if "valueFrom" in entry:
            values[name] = field_value(pod, entry["valueFrom"]["fieldRef"]["fieldPath"])
        else:
            values[name] = expand(rewritten.get(name, literals[name]), values)
    return values


def _find_program(name: str, image: Environment, path: str, folder: str) -> str:
    """The file of a program as a container of this image would find it. Raises CannotStart."""
    if name in ("python", "python3") and image.interpreter:
        return image.interpreter
    if "/" not in name:
        found = shutil.which(name, path=path)
    else:
        # A path inside the image, such as /usr/local/bin/kube-scheduler, goes by its last part.
        inside = PurePosixPath(name).name if name.startswith("/") else name
        here = str(Path(folder) / name)
        found = shutil.which(here) or shutil.which(inside, path=":".join(image.path) or path)
    if found is None:
        raise CannotStart(
            f'exec: "{name}": executable file not found in the environment of the image'
        )
    return found
