"""From a container of a pod to a command line: program, arguments, variables and folder on this
machine."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from localcluster.images import Environment
from localcluster.node.containers import Launch
from localcluster.node.environment import (
    EnvironmentContext,
    ObjectSource,
    literal_values,
    resolve_environment,
)
from localcluster.node.expansion import expand
from localcluster.node.rewriting import Rewriting
from localcluster.node.services import RunTable
from localcluster.node.spec import ContainerPlan, Json
from localcluster.node.volumes import PodVolumes

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TEMPORARY = "/tmp"  # noqa: S108 -- a mount path of a pod, not a folder of this machine
_PYTHONS = ("python", "python3")

# Every process of a container carries this variable, so that what outlives an agent can be found
# and ended.
MARKER = "LOCALCLUSTER_POD"


class CannotStart(Exception):
    """A container's command cannot become a process; the message is for the pod's user."""


@dataclass(frozen=True)
class LaunchContext:
    """What every container of one pod is started with. `scratch` is the folder for HOME and
    TMPDIR."""

    objects: ObjectSource
    services: RunTable
    volumes: PodVolumes
    scratch: Path
    marker: str
    api_host: str
    api_port: int
    node_capacity: Mapping[str, str]
    ports: Mapping[int, int]


@dataclass(frozen=True)
class Prepared:
    """A container ready to be started, and the rewriting that its probes and hooks need too."""

    launch: Launch
    rewriting: Rewriting


def prepare_launch(
    pod: Json, plan: ContainerPlan, image: Environment, context: LaunchContext
) -> Prepared:
    """Work out what to run. Raises Unresolved (may pass) or CannotStart (a run that fails at
    once)."""
    raw = variables_of(pod, plan, image, context)
    folders = context.volumes.folders(plan.raw, raw)
    rewriting = Rewriting(folders, context.ports)
    # What the container starts with names folders of this machine: one that lies under a mount path
    # is not meant.
    given = {**base_variables(pod, image, context), MARKER: context.marker}
    env = {
        name: value if given.get(name) == value else rewriting.variable(name, value)
        for name, value in raw.items()
    }
    if _TEMPORARY in folders:
        env["TMPDIR"] = folders[_TEMPORARY]
    command = [expand(each, raw) for each in _command(plan, image)]
    argv = rewriting.arguments(command)
    folder = _working_dir(plan.raw, image, rewriting, context.scratch)
    program = find_program(argv[0], image, env["PATH"], folder)
    return Prepared(
        Launch(program, (_name(argv[0], program, image), *argv[1:]), env, folder), rewriting
    )


def exec_launch(base: Prepared, command: list[str], image: Environment) -> Launch:
    """Work out how to run a probe's or hook's command in a running container. Raises
    CannotStart."""
    if not command:
        raise CannotStart("the command is empty")
    argv = base.rewriting.arguments(command)
    program = find_program(argv[0], image, base.launch.env["PATH"], base.launch.folder)
    return Launch(
        program, (_name(argv[0], program, image), *argv[1:]), base.launch.env, base.launch.folder
    )


def variables_of(
    pod: Json, plan: ContainerPlan, image: Environment, context: LaunchContext
) -> dict[str, str]:
    """Return a container's variables before paths and ports are rewritten: a clean set, the
    image's, its own."""
    base = base_variables(pod, image, context)
    literals = context.services.rewrite(pod, literal_values(plan.raw))
    if "DMLC_NODE_HOST" in literals:
        base["DMLC_NODE_HOST"] = literals["DMLC_NODE_HOST"]
    source = EnvironmentContext(pod, context.objects, base, context.node_capacity, literals)
    return {**resolve_environment(plan.raw, source), MARKER: context.marker}


def base_variables(pod: Json, image: Environment, context: LaunchContext) -> dict[str, str]:
    """Return the clean set of variables that every container of an image starts with, before its
    own."""
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


def find_program(name: str, image: Environment, path: str, folder: str) -> str:
    """Return the file of a program as a container of this image would find it. Raises
    CannotStart."""
    if name in _PYTHONS and image.interpreter:
        return image.interpreter
    if "/" not in name:
        found = shutil.which(name, path=path)
    else:
        # A path inside the image, such as /usr/local/bin/kube-scheduler, is looked up by its last
        # part.
        inside = PurePosixPath(name).name if name.startswith("/") else name
        here = str(Path(folder) / name)
        found = shutil.which(here) or shutil.which(inside, path=":".join(image.path) or path)
    if found is None:
        raise CannotStart(
            f'exec: "{name}": executable file not found in the environment of the image'
        )
    return found


def _command(plan: ContainerPlan, image: Environment) -> list[str]:
    command = list(plan.raw.get("command") or image.command)
    if not command:
        raise CannotStart(
            f'image "{plan.image}" has no entry point here: the container must name its command'
        )
    return command + list(plan.raw.get("args") or ())


def _name(argv0: str, program: str, image: Environment) -> str:
    """Return argv[0]: Python finds its virtual environment by it, so there it is the interpreter's
    full path."""
    return program if program == image.interpreter else argv0


def _working_dir(container: Json, image: Environment, rewriting: Rewriting, scratch: Path) -> str:
    wanted = container.get("workingDir")
    if wanted:
        local = rewriting.path(wanted)
        if Path(local).is_dir():
            return local
    return image.working_dir or str(scratch)
